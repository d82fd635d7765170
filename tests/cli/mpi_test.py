"""A run over the ranks of mpirun: the same numbers on any number of them, and nothing lost when one dies."""
import json
import os
import shutil
import signal
import subprocess
import sys
import unittest

from harness import PROGRAM, TINY, Case, rounds_in, wait_until

MPIRUN = shutil.which("mpirun")
# Root in a container, and more ranks than cores: Open MPI asks to be told that this is meant.
ENVIRONMENT = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
                            "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


def built_with_mpi():
    return b"MPI_Init" in subprocess.run(["nm", "-D", PROGRAM], capture_output=True).stdout if shutil.which("nm") else True


@unittest.skipIf(MPIRUN is None, "there is no mpirun here (Debian: openmpi-bin)")
class Ranks(Case):
    def start(self, ranks, *arguments):
        command = [PROGRAM, "run", *TINY, "--set", "engine.workers=1", *map(str, arguments)]
        return subprocess.Popen([MPIRUN, "-n", str(ranks), *command] if ranks > 1 else command, cwd=self.folder, env=ENVIRONMENT,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def train(self, ranks, *arguments):
        out, err = self.start(ranks, *arguments).communicate()
        return out + err

    def records(self, run):
        lines = [json.loads(line) for line in (self.folder / run / "metrics.jsonl").read_text().splitlines()]
        for line in lines:
            del line["seconds"], line["phase_seconds"]
        return lines

    def test_any_number_of_ranks_gives_the_same_numbers(self):
        for method in ("fedavg", "fedgrab", "scaffold"):
            for ranks in (1, 2, 3):
                self.train(ranks, "--method", method, "--rounds", 3, "--out", f"{method}-{ranks}")
            for ranks in (2, 3):
                self.assertEqual(self.records(f"{method}-1"), self.records(f"{method}-{ranks}"), (method, ranks))
                self.assertEqual((self.folder / f"{method}-1/model.safetensors").read_bytes(), (self.folder / f"{method}-{ranks}/model.safetensors").read_bytes())

    def test_what_clients_keep_comes_back_on_other_ranks(self):
        self.train(1, "--rounds", 6, "--out", "whole")
        self.train(3, "--rounds", 6, "--set", "engine.client_memory=0", "--set", "checkpoint.every=2", "--out", "parts")
        for checkpoint in (self.folder / "parts/checkpoints").glob("round-000006*"):
            shutil.rmtree(checkpoint) if checkpoint.is_dir() else checkpoint.unlink()
        self.train(2, "--rounds", 6, "--resume", "--out", "parts")
        self.assertEqual(self.records("whole"), self.records("parts"))
        self.assertEqual([], list((self.folder / "parts").glob("rank-*")))

    def test_a_rank_that_dies(self):
        self.train(1, "--rounds", 30, "--out", "whole")
        job = self.start(2, "--rounds", 30, "--set", "checkpoint.every=3", "--out", "cut")
        wait_until(job, lambda: rounds_in(self.folder / "cut") >= 5)
        ranks = subprocess.run(["pgrep", "-P", str(job.pid)], capture_output=True, text=True).stdout.split()
        os.kill(int(ranks[-1]), signal.SIGKILL)
        out, err = job.communicate()
        self.assertNotEqual(0, job.returncode)
        self.assertRegex(out + err, r"signal 9|SIGKILL|[Kk]illed")
        self.train(3, "--rounds", 30, "--resume", "--out", "cut")
        self.assertEqual(self.records("whole"), self.records("cut"))

    def test_an_error_of_all_is_told_once(self):
        text = self.train(3, "--set", "model.init=nothing.safetensors", "--out", "bad")
        self.assertEqual(1, text.count("fedgrab: "), text)
        done = subprocess.run([MPIRUN, "-n", "2", PROGRAM, "sweep", "grid.toml"], cwd=self.folder, env=ENVIRONMENT, capture_output=True, text=True)
        self.assertEqual(1, done.stderr.count("works with `fedgrab run` only"), done.stderr)
        self.assertEqual(1, self.train(3, "--help").count("--resume"))
        self.assertEqual(1, self.train(3, "--rounds", "many").count("fedgrab: "))

    def test_an_error_of_one_ends_all(self):
        """A file that only some ranks see, a folder that goes away: told once, and nobody waits."""
        (self.folder / "run.toml").write_text("")
        elsewhere = f'[ "$OMPI_COMM_WORLD_RANK" = 0 ] || cd /; exec {PROGRAM} run run.toml --out one'
        done = subprocess.run([MPIRUN, "-n", "2", "sh", "-c", elsewhere], cwd=self.folder, env=ENVIRONMENT, capture_output=True, text=True)
        self.assertNotEqual(0, done.returncode)
        self.assertRegex(done.stderr, "rank 1: run.toml")
        job = self.start(2, "--rounds", 100000, "--set", "data.validation=0.2", "--out", "gone")
        wait_until(job, (self.folder / "gone/best.safetensors").exists)
        shutil.rmtree(self.folder / "gone", ignore_errors=True)
        out, err = job.communicate()
        self.assertNotEqual(0, job.returncode)
        self.assertEqual(1, err.count("fedgrab: error: "), err)


if __name__ == "__main__":
    if not built_with_mpi():
        print("SKIP: the program was built without MPI", file=sys.stderr)
        sys.exit(0)
    unittest.main()
