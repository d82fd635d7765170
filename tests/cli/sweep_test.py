"""Several runs at once: whatever is killed, the same command ends with the same results."""
import os
import pathlib
import pty
import select
import signal
import subprocess
import unittest

from harness import PROGRAM, TINY, Case, half_written, result, rounds_in, start, wait_until

GRID = '[sweep]\nmethod = ["fedavg", "fedgrab", "scaffold"]\n"train.seed" = [1, 2]\n'
CELLS = [f"{method}-seed{seed}" for method in ("fedavg", "fedgrab", "scaffold") for seed in (1, 2)]


def children_of(process):
    """Ids of the processes it started, with their command lines."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent == process.pid:
                found[int(entry.name)] = (entry / "cmdline").read_text().split("\0")
        except (ValueError, OSError, IndexError):
            continue
    return found


class Jobs(Case):
    def setUp(self):
        super().setUp()
        (self.folder / "grid.toml").write_text(GRID)

    def command(self, out, rounds=6, jobs=2):
        return ["sweep", "grid.toml", *TINY, "--rounds", rounds, "--set", "checkpoint.every=1", "--out", out, "--jobs", jobs]

    def results(self, out):
        return {cell: result(self.folder / out / cell) for cell in CELLS}

    def running(self, process):
        """Workers that have recorded a round, by id."""
        def look():
            found = {pid: words[words.index("--out") + 1] for pid, words in children_of(process).items() if "--out" in words}
            return {pid: out for pid, out in found.items() if rounds_in(self.folder / out) > 0}
        return wait_until(process, look)

    def test_as_one_after_the_other(self):
        one = self.fedgrab(*self.command("one", jobs=1), "--quiet")
        two = self.fedgrab(*self.command("two"), "--quiet")
        self.assertEqual(self.results("one"), self.results("two"))
        self.assertEqual([line.split()[:10] for line in one.splitlines()[:5]], [line.split()[:10] for line in two.splitlines()[:5]])
        self.assertEqual([], list((self.folder / "two").glob("*.log")), "nothing is left of what went well")

    def test_a_dry_run_lists_what_is_left_and_trains_nothing(self):
        before = self.fedgrab(*self.command("planned"), "--dry-run")
        self.assertEqual(len(CELLS), before.count("not begun"), before)
        self.assertIn("6 of 6 runs left", before)
        self.assertFalse((self.folder / "planned").exists())
        self.fedgrab("run", "grid.toml", *TINY, "--rounds", 6, "--method", "fedavg", "--seed", 1, "--set", "checkpoint.every=1", "--out",
                     "planned/fedavg-seed1", "--quiet")
        after = self.fedgrab(*self.command("planned"), "--dry-run")
        self.assertIn("5 of 6 runs left", after)
        self.assertRegex(after, r"fedavg-seed1 +6 +done")

    def test_says_what_happens_in_plain_lines(self):
        _, err = start(*self.command("out", rounds=1), folder=self.folder).communicate()
        for cell in CELLS:
            self.assertRegex(err, rf"(?m)^\[\d/6\] {cell}: started$")
            self.assertRegex(err, rf"(?m)^\[\d/6\] {cell}: done · All 0\.\d+ Few \S+$")
        self.assertNotIn("\033", err)

    def test_a_table_on_a_terminal(self):
        try:
            screen, theirs = pty.openpty()
        except OSError as error:  # a bare root without /dev/pts
            self.skipTest(f"no terminal can be made here: {error}")
        process = subprocess.Popen([PROGRAM, *map(str, self.command("out", rounds=2))], cwd=self.folder, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=theirs)
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(screen, 65536):
                shown += chunk
        except OSError:  # how a terminal says that nobody writes to it any more
            pass
        os.close(screen)
        self.assertEqual(0, process.wait())
        text = shown.decode()
        self.assertRegex(text, r"fedavg-seed1 +running")
        self.assertRegex(text, r"scaffold-seed2 +waiting")
        last = text.rsplit("\033[J", 1)[1]
        for cell in CELLS:
            self.assertRegex(last, rf"{cell} +done +2/2 +0\.\d{{3}}")
        self.assertIn("6 of 6 done", last)

    def test_a_killed_worker_costs_its_cell_alone(self):
        process = start(*self.command("out"), folder=self.folder)
        pid, victim = next(iter(self.running(process).items()))
        os.kill(pid, signal.SIGKILL)
        out, err = process.communicate()
        self.assertEqual(1, process.returncode, err)
        self.assertIn(f"{pathlib.Path(victim).name}: its process was ended from outside (signal 9)", err)
        self.assertIn("1/2", out)
        self.check("out", self.command("out"))

    def test_a_second_one_in_the_same_folder_is_refused(self):
        process = start(*self.command("out"), folder=self.folder)
        self.running(process)
        err = self.fedgrab(*self.command("out"), code=2)
        self.assertIn("out: another process is writing it", err)
        self.assertEqual(1, err.count("\n"), err)
        _, err = process.communicate()
        self.assertEqual(0, process.returncode, err)

    def test_interrupted_all_save_and_go_on(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                process = start(*self.command(f"out{number}"), folder=self.folder)
                workers = self.running(process)
                process.send_signal(number)  # to this process alone: it tells the others
                _, err = process.communicate()
                self.assertEqual(130, process.returncode, err)
                self.assertIn("the same command continues from here", err)
                for pid in workers:
                    self.assertFalse(pathlib.Path(f"/proc/{pid}").exists())
                self.check(f"out{number}", self.command(f"out{number}"))

    def test_a_terminals_signal_reaches_the_workers_once(self):
        """Ctrl-C signals a whole process group; a worker that saw it twice would end without saving."""
        rarely = ["--set", "checkpoint.every=1000"]
        process = start(*self.command("out"), *rarely, folder=self.folder, start_new_session=True)
        self.running(process)
        os.killpg(process.pid, signal.SIGINT)
        process.communicate()
        for run in (self.folder / "out").glob("*/metrics.jsonl"):
            rounds = len(run.read_text().splitlines())
            saved = [int(path.stem.split("-")[-1]) for path in (run.parent / "checkpoints").glob("*.safetensors")]
            self.assertIn(rounds, [*saved, 0, 6], f"{run.parent.name} has {rounds} rounds, saved: {saved}")
        self.fedgrab(*self.command("out"), *rarely, "--quiet")
        self.assertEqual(6, len(list(self.folder.glob("out/*/summary.json"))))

    def test_killed_outright(self):
        process = start(*self.command("out"), folder=self.folder)
        workers = [os.pidfd_open(pid) for pid in self.running(process)]
        process.kill()
        process.communicate()
        for worker in workers:  # they notice, save and end
            select.select([worker], [], [])
            os.close(worker)
        self.check("out", self.command("out"))

    def check(self, out, command):
        self.fedgrab(*command, "--quiet")
        self.fedgrab(*self.command("whole", jobs=1), "--quiet")
        self.assertEqual(self.results("whole"), self.results(out))
        self.assertEqual([], half_written(self.folder / out))

    def test_rubbish(self):
        for jobs in ("0", "-1", "two", "1.5"):
            self.assertIn("--jobs", self.fedgrab("sweep", "grid.toml", "--jobs", jobs, code=2))
        (self.folder / "late.toml").write_text('[sweep]\n"partition.clients" = [2, 4000]\n')
        err = self.fedgrab("sweep", "late.toml", "--out", "out", code=3)
        self.assertIn("clients4000", err)
        self.assertFalse((self.folder / "out").exists(), "before the first is trained")


if __name__ == "__main__":
    unittest.main()
