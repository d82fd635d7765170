"""The paper's tables and figures as typed, on the built-in set."""
import csv
import json
import re
import unittest
from xml.etree import ElementTree

from harness import Case

SMOKE = ["--set", "data.name=shapes", "--model", "cnn", "--rounds", "1", "--set", "data.per_class=20", "--set", "data.test_per_class=5",
         "--clients", "4", "--set", "train.local_epochs=1", "--seeds", "1", "--quiet"]
NAMES = ["table1", "table2", "table3", "fig1b", "fig2", "fig4a", "fig4b", "fig4c", "fig5a", "fig5b", "fig5c", "fig6a", "fig6b", "fig6c"]


class Reproduce(Case):
    def test_list(self):
        small = ["--model", "cnn", "--rounds", "2"]  # a network that is timed in no time
        text = self.fedgrab("reproduce", "--list", *small)
        self.assertEqual(NAMES, re.findall(r"(?m)^((?:table|fig)\w+) ", text))
        self.assertRegex(text, r"(?m)^table1 .* 369 +0 +\d+ (s|min|h|d) +timed +CIFAR-10$")
        self.assertRegex(text, r"(?m)^table2 .* and more +timed +CIFAR-100; folders")
        self.assertFalse((self.folder / "runs").exists())

    def test_table(self):
        command = ["reproduce", "table1", "--cells", "method=fedavg,fedgrab", "longtail.factor=100", "partition.alpha=1", *SMOKE]
        text = self.fedgrab(*command, "--out", "out", "--jobs", "2")
        self.assertIn("Not the paper's data", text)
        with open(self.folder / "out/table1/table.csv") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(123, len(rows))
        done = [row for row in rows if row["rounds"] != "–"]
        self.assertEqual([("FedAvg", "100", "1 of 500"), ("Fed-GraB", "100", "1 of 500")], [(r["method"], r["IF"], r["rounds"]) for r in done])
        for row in done:
            self.assertGreater(float(row["All paper"].split()[0]), 0.5)
            self.assertEqual("–", row["All diff"], "other data has no difference to the paper's")
        self.assertTrue(all(row["All"] == "–" for row in rows if row not in done))
        about = json.loads((self.folder / "out/table1/about.json").read_text())
        self.assertIn("fedgrab reproduce", about["commands"][0]["command"])
        self.assertIn("--cells", about["commands"][0]["command"])
        self.assertLessEqual({"revision", "machine"}, set(about["commands"][0]))
        summaries = {path: path.stat().st_mtime_ns for path in self.folder.glob("out/table1/runs/*/summary.json")}
        self.assertEqual(2, len(summaries))
        self.assertEqual(text, self.fedgrab(*command, "--out", "out"))
        self.assertEqual(summaries, {path: path.stat().st_mtime_ns for path in summaries}, "nothing is run again")
        self.assertEqual(about, json.loads((self.folder / "out/table1/about.json").read_text()))

    def test_figure(self):
        text = self.fedgrab("reproduce", "fig4a", *SMOKE, "--out", "out")
        self.assertIn("The paper: ", text)
        picture = ElementTree.parse(self.folder / "out/fig4a/figure.svg").getroot()
        words = "".join(picture.itertext())
        self.assertIn("EQL v2", words)
        with open(self.folder / "out/fig4a/figure.csv") as file:
            self.assertEqual({"EQL v2", "Fed-GraB"}, {row["series"] for row in csv.DictReader(file)})

    def test_rubbish(self):
        for arguments, *says in ((["reproduce"], "--list"),
                                 (["reproduce", "tabel1"], "tabel1", "did you mean table1?"),
                                 (["reproduce", "table1", "--cells", "method"], "--cells method", "key=value"),
                                 (["reproduce", "table1", "--cells", "method=nonsense"], "nonsense", "one of"),
                                 (["reproduce", "table1", "--seeds", "one"], "--seeds"),
                                 (["reproduce", "table1", "--method", "fedavg"], "method.name", "--cells"),
                                 (["reproduce", "table1", "--rounds", "0"], "train.rounds"),
                                 (["reproduce", "table1", "--jobs", "0"], "--jobs")):
            with self.subTest(arguments):
                err = self.fedgrab(*arguments, code=2)
                self.assertEqual(1, err.count("\n"), err)
                for word in says:
                    self.assertIn(word, err)
        err = self.fedgrab("reproduce", "table1", "--data-path", "nowhere", code=3)
        self.assertIn("nowhere", err)
        self.assertIn("CIFAR-10", err)
        self.assertEqual([], list(self.folder.iterdir()))


if __name__ == "__main__":
    unittest.main()
