"""Every published number can be traced: tables follow from the curves of their runs, every run names its command, and what README
and documents cite stands in a table. The rules are in scripts/results.py."""
import importlib.util
import json
import pathlib
import re
import tempfile
import unittest

TREE = pathlib.Path(__file__).resolve().parents[1]
SPEC = importlib.util.spec_from_file_location("results", TREE / "scripts" / "results.py")
results = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(results)


class Published(unittest.TestCase):
    def test_numbers_agree(self):
        self.assertEqual([], results.check(TREE))

    def test_what_the_demo_prints_is_in_a_table(self):
        cells = {row["method"]: [row[group] for group in ("All", "Many", "Med", "Few")]
                 for row in results.read_csv(TREE / "results" / "shapes-demo" / "table.csv")}
        shown = re.findall(r"(?m)^    (FedAvg|fedgrab\+) +(.*)$", (TREE / "README.md").read_text(encoding="utf-8"))
        self.assertEqual(cells, {name: re.split(r"  +", numbers) for name, numbers in shown})


class Database(unittest.TestCase):
    """Runs become a table, and every kind of disagreement is found."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name).resolve()
        self.table = self.tree / "results" / "small"
        self.table.mkdir(parents=True)
        about = {"title": "Small", "setup": "A set.", "conclusion": "One sentence.",
                 "rows": [{"row": "fedavg", "method": "FedAvg"}, {"row": "fedgrab", "method": "Fed-GraB"}]}
        self.write("results/small/about.json", json.dumps(about))
        runs = [self.run_directory(seed) for seed in (1, 2)]
        results.collect(self.table, runs, "fedgrab run --method {row} --seed {seed}", "a CPU")
        results.write(self.tree, [])
        self.write("README.md", 'FedAvg: [0.500 ± 0.141](results/small/table.csv "fedavg All")\n'
                   '\n    [0.9](results/none/table.csv "of an example")\n')

    def run_directory(self, seed):
        run = self.tree / "runs" / f"fedavg-seed{seed}"
        run.mkdir(parents=True)
        lines = []
        for round_ in range(1, 13):
            every = 0.4 + 0.2 * (seed - 1) if round_ > 2 else 0.1
            accuracy = {"all": every, "many": 0.9, "med": None, "few": 0.6 if round_ in (1, 3, 4) else 0.2}
            lines.append(json.dumps({"round": round_, "acc": accuracy, "f1": 0.3, "seconds": 2.0}))
        lines.append(json.dumps({"round": 13, "seconds": 2.0}))  # not evaluated
        (run / "metrics.jsonl").write_text("\n".join(lines) + "\n")
        (run / "summary.json").write_text(json.dumps({"revision": "abc"}))
        return run

    def write(self, name, text):
        (self.tree / name).write_text(text, encoding="utf-8")

    def cells(self, row):
        return next(cells for cells in results.read_csv(self.table / "table.csv") if cells["row"] == row)

    def test_a_row_is_the_mean_over_seeds_of_the_last_ten_evaluations(self):
        cells = self.cells("fedavg")
        self.assertEqual(("0.500 ± 0.141", "0.900 ± 0.000", "–"), (cells["All"], cells["Many"], cells["Med"]))
        self.assertEqual(("13", "26", "2"), (cells["rounds"], cells["seconds"], cells["seeds"]))

    def test_a_single_evaluation_above_the_target_does_not_count(self):
        self.assertEqual("3, 3", self.cells("fedavg")["first round with Few 0.55"])

    def test_a_row_without_runs_is_marked(self):
        self.assertEqual(("Fed-GraB (not run)", "–"), (self.cells("fedgrab")["method"], self.cells("fedgrab")["All"]))

    def test_every_number_links_to_its_command(self):
        page = (self.table / "README.md").read_text(encoding="utf-8")
        self.assertIn("[0.500 ± 0.141](#fedavg)", page)
        self.assertIn('<a id="fedavg"></a>FedAvg', page)
        self.assertIn("    fedgrab run --method fedavg --seed 2\n", page)

    def test_collecting_again_replaces(self):
        before = (self.table / "curves.csv").read_text()
        results.collect(self.table, [self.tree / "runs" / "fedavg-seed1"], "fedgrab run --method {row} --seed {seed}", "a CPU")
        self.assertEqual(sorted(before.splitlines()), sorted((self.table / "curves.csv").read_text().splitlines()))

    def test_sound(self):
        self.assertEqual([], results.check(self.tree))

    def test_unsound(self):
        for name, before, after, says in (
                ("README.md", "[0.500", "[0.510", "says 0.510"),
                ("README.md", "fedavg All", "fedavh All", "says nothing"),
                ("README.md", "small/table.csv", "large/table.csv", "is not there"),
                ("results/small/README.md", "0.500", "0.501", "README.md is not what"),
                ("results/small/table.csv", "0.500", "0.501", "table.csv is not what"),
                ("results/small/curves.csv", "fedavg-seed2,12,deployed,0.6", "fedavg-seed2,12,deployed,0.9", "is not what"),
                ("results/small/curves.csv", "fedavg-seed2", "fedprox-seed2", "about.json has not"),
                ("results/small/about.json", '"revision": "abc"', '"revision": ""', "has no revision"),
                ("results/small/about.json", '"One sentence."', '"One.\\nTwo.\\nThree."', "more than two lines"),
                ("results/README.md", "One sentence.", "Another.", "results/README.md is not what")):
            with self.subTest(f"{name}: {after}"):
                kept = (self.tree / name).read_text(encoding="utf-8")
                self.assertIn(before, kept)
                self.write(name, kept.replace(before, after))
                faults = results.check(self.tree)
                self.assertTrue(any(says in fault for fault in faults), faults)
                self.write(name, kept)


if __name__ == "__main__":
    unittest.main()
