"""Runs exported to MLflow, as its own client reads them."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"

from fedgrab.track import ExportError, RunDirectory
from harness import Case, metrics, new_folder, train

try:
    from mlflow.tracking import MlflowClient
except ModuleNotFoundError:
    MlflowClient = None


def export(*arguments, folder, code=0):
    done = subprocess.run([sys.executable, "-m", "fedgrab.track", "mlflow", *map(str, arguments)], cwd=folder, text=True, capture_output=True,
                          env={name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")})
    if done.returncode != code:
        raise AssertionError(f"exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stderr if code else done.stdout


class Reading(Case):
    """Of a run written by hand, without MLflow."""

    def setUp(self):
        super().setUp()
        self.run_folder = self.folder / "mine"
        self.run_folder.mkdir()
        self.write("config.toml", """
            [data]
            name = "folder"
            path = "/home/someone/patients"
            images = "patients"
            per_class = 30
            [model]
            init = "mine.safetensors"
            [head]
            init = "etf"
            [partition]
            file = "partition.json"
            kind = "file"
            [another.part]
            unforeseen = "C:\\\\patients"
            several = ["one", "/home/someone"]
            [train]
            lr = 0.1
            nesterov = true
            augment = ["crop", "flip"]
            """)
        self.write("classes.json", json.dumps({"class_names": ["ill/old", "well"], "class_counts": [3, 4]}))
        self.records = [{"round": n, "acc": {"all": n / 10, "per_class": [0.1, n / 5]}, "loss": 1 / n, "seconds": 2.0, "delta": [1, 2],
                         "class_counts": 7, "note": "text"} for n in (1, 2)]
        self.write("metrics.jsonl", "".join(json.dumps(record) + "\n" for record in self.records) + '{"round": 3, "los')
        self.write("summary.json", json.dumps({"last": {"all": 0.2}, "class_counts": [3, 4], "confusion": [[1, 0], [0, 1]],
                                               "class_names": ["ill/old", "well"], "where": "/home/someone/x"}))

    def write(self, name, text):
        (self.run_folder / name).write_text(text)

    def test_parameters_hold_no_path(self):
        self.assertEqual({"data.name": "folder", "data.per_class": "30", "head.init": "etf", "partition.kind": "file", "train.lr": "0.1",
                          "train.nesterov": "true", "train.augment": '["crop", "flip"]'}, RunDirectory(self.run_folder).parameters)

    def test_measures_are_the_numbers_of_whole_lines(self):
        rounds = RunDirectory(self.run_folder).rounds()
        self.assertEqual([1, 2], [line.number for line in rounds])
        self.assertEqual({"acc/all": 0.1, "acc/per_class/ill_old": 0.1, "acc/per_class/well": 0.2, "loss": 1.0, "seconds": 2.0},
                         rounds[0].measures)
        self.assertAlmostEqual(2.0, rounds[1].time - rounds[0].time)

    def test_the_summary_has_no_counts(self):
        self.assertEqual({"last": {"all": 0.2}, "class_names": ["ill/old", "well"]}, RunDirectory(self.run_folder).summary)
        (self.run_folder / "summary.json").unlink()
        self.assertIsNone(RunDirectory(self.run_folder).summary)

    def test_complains(self):
        with self.assertRaisesRegex(ExportError, "absent: not a run: there is no config.toml"):
            RunDirectory(self.folder / "absent")
        self.write("config.toml", "[data")
        with self.assertRaisesRegex(ExportError, "config.toml: "):
            RunDirectory(self.run_folder).parameters
        self.write("metrics.jsonl", "{]\n")
        with self.assertRaisesRegex(ExportError, "metrics.jsonl: "):
            RunDirectory(self.run_folder).rounds()
        said = export("absent", folder=self.folder, code=2)
        self.assertRegex(said, r"\Afedgrab: error: absent: not a run: .*\)\n\Z")


@unittest.skipUnless(MlflowClient, "SKIP: MLflow is not installed")
class Exported(Case):
    @classmethod
    def setUpClass(cls):
        cls.root = new_folder(cls)
        train(cls.root, "--out", "private-place/run", "--rounds", "3")
        cls.page = cls.root / "page.html"
        cls.page.write_text("<title>A report</title>")
        cls.said = export("private-place/run", "--store", "store", "--report", cls.page, folder=cls.root)
        cls.client = MlflowClient(tracking_uri=(cls.root / "store").as_uri())
        cls.experiment = cls.client.get_experiment_by_name("fedgrab").experiment_id
        cls.run_there, = cls.client.search_runs([cls.experiment])
        cls.records = metrics(cls.root / "private-place/run")

    def history(self, name):
        return [(one.step, one.value) for one in self.client.get_metric_history(self.run_there.info.run_id, name)]

    def test_metrics_of_every_round(self):
        for name, value in (("acc/all", lambda record: record["acc"]["all"]), ("acc/few", lambda record: record["acc"]["few"]),
                            ("loss", lambda record: record["loss"]), ("bytes_up", lambda record: record["bytes_up"])):
            self.assertEqual([(record["round"], value(record)) for record in self.records], self.history(name), name)
        self.assertEqual([(record["round"], record["acc"]["per_class"][9]) for record in self.records], self.history("acc/per_class/heart"))

    def test_parameters_name_and_state(self):
        parameters = self.run_there.data.params
        self.assertEqual(("4", "16", "shapes"), tuple(parameters[key] for key in ("partition.clients", "train.batch", "data.name")))
        self.assertEqual(("run", "FINISHED"), (self.run_there.info.run_name, self.run_there.info.status))
        self.assertIn(self.run_there.info.run_id, self.said)

    def test_artifacts(self):
        there = {file.path for file in self.client.list_artifacts(self.run_there.info.run_id)}
        self.assertEqual({"report.html", "summary.json"}, there)
        local = pathlib.Path(self.client.download_artifacts(self.run_there.info.run_id, "summary.json"))
        summary = json.loads(local.read_text())
        self.assertEqual(self.records[-1]["acc"]["all"], summary["last"]["all"])
        self.assertNotIn("class_counts", summary)

    def test_nothing_private_is_written(self):
        counts = json.dumps(json.loads((self.root / "private-place/run/summary.json").read_text())["class_counts"])
        for file in (self.root / "store").rglob("*"):
            if file.is_file():
                text = file.read_text()
                self.assertNotIn("private-place", text, file)
                self.assertNotIn(counts, text, file)

    def test_an_export_replaces_the_earlier_one(self):
        for store in ("twice", (self.root / "twice").as_uri()):
            export("private-place/run", "--store", store, "--experiment", "another", folder=self.root)
        client = MlflowClient(tracking_uri=(self.root / "twice").as_uri())
        runs = client.search_runs([client.get_experiment_by_name("another").experiment_id])
        self.assertEqual(1, len(runs))

    def test_a_report_that_names_a_folder_is_refused(self):
        page = self.root / "other.html"
        page.write_text(f"<a href='{self.root}/private-place/x'>")
        said = export("private-place/run", "--store", "refused", "--report", page, folder=self.root, code=2)
        self.assertRegex(said, "^fedgrab: error: .*other.html: names a folder of this machine")
        self.assertFalse([file for file in (self.root / "refused").rglob("*") if file.name == "summary.json"])


if __name__ == "__main__":
    unittest.main()
