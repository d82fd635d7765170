"""A run that is interrupted and resumed ends as if nothing had happened. tests/kill kills it."""
import json
import pathlib
import re
import shlex
import signal
import unittest

from harness import TINY, Case, change_card, half_written, metrics, new_folder, result, rounds_in, start, wait_until

TREE = pathlib.Path(__file__).resolve().parents[2]
RUN = ["run", *TINY, "--rounds", "14", "--set", "checkpoint.every=2"]


class Interrupted(Case):
    # Only the interruption itself saves anything.
    arguments = [*RUN, "--set", "checkpoint.every=0"]

    @classmethod
    def setUpClass(cls):
        folder = new_folder(cls)
        start(*cls.arguments, "--out", "whole", folder=folder).communicate()
        cls.expected = result(folder / "whole")

    def interrupt(self, number):
        out = self.folder / "out"
        process = start(*self.arguments, "--out", out.name, folder=self.folder)
        wait_until(process, lambda: rounds_in(out) >= 2)
        process.send_signal(number)
        _, err = process.communicate()
        self.assertEqual(130, process.returncode, err)
        recorded = len(metrics(out))
        self.assertEqual([f"round-{recorded:06}.safetensors"], [p.name for p in (out / "checkpoints").iterdir()])
        self.assertFalse((out / "summary.json").exists())
        self.assertEqual([], half_written(out))
        evaluation = json.loads((out / "evaluation.json").read_text())
        self.assertEqual(recorded, evaluation["round"])
        self.assertTrue(evaluation["confusion"])
        return err

    def check(self, number):
        how = re.search(r"continue with: fedgrab (.+)$", self.interrupt(number), re.M)
        self.assertTrue(how, "says how to resume")
        self.fedgrab(*shlex.split(how[1]))
        self.assertEqual(self.expected, result(self.folder / "out"))

    def test_sigint(self):
        self.check(signal.SIGINT)

    def test_sigterm(self):
        self.check(signal.SIGTERM)


class Resumed(Case):
    def test_a_run_of_version_0_1_is_refused(self):
        """As its settings say; the parts that trained it are no more. Evaluation reads it still."""
        self.fedgrab(*RUN, "--method", "fedavg", "--rounds", "4", "--set", "checkpoint.every=2", "checkpoint.keep=2", "--out", "out")
        record = (TREE / "tests" / "experiment" / "version-0.1" / "fedavg.toml").read_text()
        out = self.folder / "out"
        (out / "config.toml").write_text(record)
        for file in ("checkpoints/round-000004.safetensors", "model.safetensors"):
            change_card(out / file, config=record)
        before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        err = self.fedgrab("run", "--resume", "--out", "out", "--rounds", "6", code=4)
        self.assertEqual(1, len(err.splitlines()), err)
        for part in ("round-000004.safetensors", "version 0.1", "start a new run"):
            self.assertIn(part, err)
        self.assertNotIn("remove that file", err, "the older one is of version 0.1, too")
        self.assertEqual(before, {path: path.read_bytes() for path in out.rglob("*") if path.is_file()})
        self.assertIn("after round 4", self.fedgrab("eval", "out"))
        self.fedgrab("eval", "out", "--set", "posthoc.kind=tau-norm")

    def test_more_rounds_continue_a_finished_run(self):
        run = [*RUN, "--set", "train.schedule=constant"]  # a cosine ends with the run
        self.fedgrab(*run, "--rounds", "3", "--out", "short")
        self.fedgrab("run", "--resume", "--out", "short", "--rounds", "5")
        self.fedgrab(*run, "--rounds", "5", "--out", "long")
        short, long = result(self.folder / "short"), result(self.folder / "long")
        self.assertEqual(long, short)

    def test_a_folder_without_a_run_is_refused(self):
        (self.folder / "empty").mkdir()
        for out in ("empty", "misspelt"):
            err = self.fedgrab("run", "--resume", "--out", out, code=2)
            self.assertEqual(1, len(err.splitlines()), err)
            self.assertIn(f"fedgrab: error: {out}: holds no run to resume", err)
        self.assertEqual([], list((self.folder / "empty").iterdir()))
        self.assertFalse((self.folder / "misspelt").exists())

    def test_a_run_without_a_checkpoint_says_that_it_restarts(self):
        self.fedgrab(*RUN, "--rounds", "2", "--set", "checkpoint.every=0", "--out", "out")
        whole = result(self.folder / "out")
        for checkpoint in (self.folder / "out" / "checkpoints").iterdir():
            checkpoint.unlink()
        _, err = start("run", "--resume", "--out", "out", folder=self.folder).communicate()
        self.assertIn("out has no checkpoint: restarting from round 1", err)
        self.assertEqual(whole, result(self.folder / "out"))

    def test_checkpoints_by_time_change_nothing_else(self):
        """A time that is always over, and none."""
        rounds = {"1e-9": [1, 2, 3], "0": [3]}
        for minutes, saved in rounds.items():
            self.fedgrab(*RUN, "--rounds", "3", "--set", "checkpoint.every=0", "--set", "checkpoint.keep=9",
                         "--set", f"checkpoint.minutes={minutes}", "--out", minutes)
            found = sorted(path.name for path in (self.folder / minutes / "checkpoints").iterdir())
            self.assertEqual([f"round-{round:06}.safetensors" for round in saved], found)
        by_time, at_the_end = (result(self.folder / minutes) for minutes in rounds)
        for part in ("metrics", "summary", "partition"):
            self.assertEqual(at_the_end[part], by_time[part])

    def test_a_finished_run_stays_as_it_is(self):
        self.fedgrab(*RUN, "--rounds", "2", "--out", "done")
        before = result(self.folder / "done")
        self.fedgrab("run", "--resume", "--out", "done")
        self.assertEqual(before, result(self.folder / "done"))

    def test_other_numbers_of_workers_do_not_matter(self):
        run = [*RUN, "--set", "train.schedule=constant"]
        self.fedgrab(*run, "--rounds", "4", "--out", "whole")
        self.fedgrab(*run, "--rounds", "2", "--out", "part")
        self.fedgrab("run", "--resume", "--out", "part", "--rounds", "4", "--set", "engine.workers=2")
        self.assertEqual(result(self.folder / "whole"), result(self.folder / "part"))


if __name__ == "__main__":
    unittest.main()
