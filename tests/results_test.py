"""Every number that is published can be traced: what README and the documents cite is in results/, the tables there agree with the
curves of their runs, and each folder says which command made it.

A number is cited as a link into a table: [0.737 ± 0.001](results/table1/table.csv "fedavg-factor100-alpha1 All"), the title being the
value of the column `runs` and the name of the column."""
import csv
import json
import pathlib
import re
import statistics
import sys
import tempfile
import unittest

TREE = pathlib.Path(__file__).resolve().parents[1]
CITED = re.compile(r'\[([^\]]+)\]\(([^)\s"]*results/[^)\s"]+\.csv)\s+"([^"]+)"\)')
GROUPS = {"All": "all", "Many": "many", "Med": "med", "Few": "few"}


def read_csv(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def cells_of_markdown(text):
    """Rows of the first table of a page, as dicts."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    split = [[cell.strip().replace("\\", "") for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(split[0], row)) for row in split[2:]]


def curves_by_run(folder):
    """Evaluations of each run in the order of their rounds."""
    runs = {}
    for row in read_csv(folder / "curves.csv"):
        runs.setdefault(row["run"], []).append(row)
    return runs


def last_ten(curve, group):
    return statistics.fmean(float(row[group]) for row in curve[-10:])


def derived(curve):
    """What a table may say of one run besides its last ten evaluations: column, number, how far rounding may take it."""
    best = max(curve, key=lambda row: float(row["all"]))
    reached = [int(row["round"]) for row in curve if row["few"] and float(row["few"]) >= 0.55]
    hits = [float(row["tail_hit"]) for row in curve if int(row["round"]) > 20 and row.get("tail_hit")]
    yield "best All / Few (round)", [float(best["all"]), float(best["few"] or 0), int(best["round"])], 0.0006
    yield "first round with Few 0.55", reached[:1], 0
    yield "tail hits", [statistics.fmean(hits)] if hits else [], 0.0051


def faults_of_table(folder):
    rows, curves = read_csv(folder / "table.csv"), curves_by_run(folder)
    if cells_of_markdown((folder / "table.md").read_text()) != rows:
        yield f"{folder.name}: table.md and table.csv differ"
    for row in rows:
        own = [curve for name, curve in curves.items() if re.fullmatch(re.escape(row["runs"]) + r"-seed\d+", name)]
        done = int(row["seeds"].split("/")[0])
        if len(own) != done:
            yield f"{folder.name}: {row['runs']} says {done} seeds, the curves have {len(own)}"
        for title, group in GROUPS.items():
            if title not in row:
                continue
            if not own or not own[0][-1][group]:
                numbers = [] if own else re.findall(r"\d", row[title])
                if numbers:
                    yield f"{folder.name}: {row['runs']} {title} is {row[title]}, and no curve is there"
                continue
            mean = statistics.fmean(last_ten(curve, group) for curve in own)
            if abs(float(row[title].split()[0]) - mean) > 0.0006:  # three digits of a mean of four
                yield f"{folder.name}: {row['runs']} {title} is {row[title]}, its curves say {mean:.4f}"
        for title, numbers, within in derived(own[0]) if len(own) == 1 else ():
            shown = [float(number) for number in re.findall(r"[\d.]+", row.get(title, ""))]
            if title in row and (len(shown) != len(numbers) or any(abs(a - b) > within for a, b in zip(shown, numbers))):
                yield f"{folder.name}: {row['runs']} {title} is {row[title]}, its curve says {numbers}"


def faults_of_folder(folder):
    about = folder / "about.json"
    if not about.exists():
        return [f"{folder.name}: no about.json"]
    faults = []
    for command in json.loads(about.read_text())["commands"]:
        for key in ("command", "revision", "machine"):
            if not command.get(key):
                faults.append(f"{folder.name}: about.json has a command without its {key}")
    if (folder / "table.csv").exists():
        faults += faults_of_table(folder)
    elif not list(folder.glob("figure*.svg")) or not list(folder.glob("figure*.csv")):
        faults.append(f"{folder.name}: neither a table nor a figure with its data")
    return faults


def faults_of_citations(page, tree):
    text = re.sub(r"(?m)^    .*$", "", page.read_text())  # code shows how it is done, and cites nothing
    for shown, path, title in CITED.findall(text):
        file = (page.parent / path).resolve()
        run, _, column = title.partition(" ")
        if not file.is_relative_to(tree) or not file.exists():
            yield f"{page.name}: {path} is not there"
            continue
        found = [row[column] for row in read_csv(file) if row["runs"] == run and column in row]
        if found != [shown]:
            yield f"{page.name}: says {shown} for {title}, {path} says {', '.join(found) or 'nothing'}"


def faults_of(tree):
    folders = [path.parent for path in sorted((tree / "results").glob("*/about.json"))]
    folders += [path.parent for path in sorted((tree / "results").glob("*/table.csv")) if path.parent not in folders]
    pages = [tree / "README.md", *sorted((tree / "docs").rglob("*.md")), *sorted((tree / "results").rglob("*.md"))]
    faults = [fault for folder in folders for fault in faults_of_folder(folder)]
    return faults + [fault for page in pages if page.exists() for fault in faults_of_citations(page, tree)]


class Published(unittest.TestCase):
    def test_numbers_agree(self):
        self.assertEqual([], faults_of(TREE))


class Check(unittest.TestCase):
    """The check itself can fail."""
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name).resolve()
        self.results = self.tree / "results" / "table1"
        self.results.mkdir(parents=True)
        self.write("README.md", 'FedAvg: [0.500 ± 0.141](results/table1/table.csv "fedavg All")\n'
                   '\n    [0.9](results/none/table.csv "of an example")\n')
        self.write("results/table1/table.csv", "method,All,All paper,seeds,runs\nFedAvg,0.500 ± 0.141,0.737,2/2,fedavg\nFed-GraB,–,0.766,0/2,fedgrab\n")
        self.write("results/table1/table.md", "# Table 1\n\n| method | All | All paper | seeds | runs |\n| --- | --: | --: | --: | --- |\n"
                   "| FedAvg | 0.500 ± 0.141 | 0.737 | 2/2 | fedavg |\n| Fed-GraB | – | 0.766 | 0/2 | fedgrab |\n")
        self.write("results/table1/curves.csv", "run,round,all,many,med,few\n" + "".join(
            f"fedavg-seed{seed},{number},{0.4 + 0.2 * (seed - 1) if number > 1 else 0.1:.4f},,,\n" for seed in (1, 2) for number in range(1, 12)))
        self.write("results/table1/about.json", '{"commands": [{"command": "fedgrab reproduce table1", "revision": "x", "machine": "y"}]}')

    def write(self, name, text):
        (self.tree / name).write_text(text)

    def spoil(self, name, before, after):
        text = (self.tree / name).read_text()
        self.assertIn(before, text)
        self.write(name, text.replace(before, after))

    def test_sound(self):
        self.assertEqual([], faults_of(self.tree))

    def test_unsound(self):
        for name, before, after, says in (
                ("README.md", "[0.500", "[0.510", "says 0.510"),
                ("README.md", "fedavg All", "fedavh All", "says nothing"),
                ("README.md", "table1/table.csv", "table2/table.csv", "is not there"),
                ("results/table1/table.md", "0.500", "0.501", "table.md and table.csv differ"),
                ("results/table1/curves.csv", "fedavg-seed2,11,0.6", "fedavg-seed2,11,0.9", "its curves say"),
                ("results/table1/curves.csv", "fedavg-seed2", "fedprox-seed2", "the curves have 1"),
                ("results/table1/about.json", '"revision": "x"', '"revision": ""', "without its revision")):
            with self.subTest(f"{name}: {after}"):
                kept = (self.tree / name).read_text()
                self.spoil(name, before, after)
                faults = faults_of(self.tree)
                self.assertTrue(any(says in fault for fault in faults), faults)
                self.write(name, kept)

    def test_what_is_derived(self):
        rows = [f"fedavg-seed1,{number},0.5,,,{few},{hit}\n" for number, few, hit in ((10, 0.5, 0), (20, 0.54, 0), (30, 0.55, 1), (40, 0.56, 0.5))]
        self.write("README.md", "")
        self.write("results/table1/curves.csv", "run,round,all,many,med,few,tail_hit\n" + "".join(rows))
        for first, hits, sound in (("30", "0.75", True), ("20", "0.75", False), ("–", "0.75", False), ("30", "0.50", False)):
            with self.subTest(first=first, hits=hits):
                self.write("results/table1/table.csv", f"All,first round with Few 0.55,tail hits,seeds,runs\n0.500,{first},{hits},1/1,fedavg\n")
                self.write("results/table1/table.md", "| All | first round with Few 0.55 | tail hits | seeds | runs |\n| - | - | - | - | - |\n"
                           f"| 0.500 | {first} | {hits} | 1/1 | fedavg |\n")
                self.assertEqual(sound, not faults_of(self.tree), faults_of(self.tree))

    def test_a_number_that_nobody_measured(self):
        for name in ("results/table1/table.csv", "results/table1/table.md"):
            self.spoil(name, "–", "0.766")
        self.assertTrue(any("no curve" in fault for fault in faults_of(self.tree)))

    def test_a_table_without_its_command(self):
        (self.results / "about.json").unlink()
        self.assertEqual(["table1: no about.json"], faults_of(self.tree))


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--tree":  # the folder of another checkout, or of `fedgrab reproduce --out TREE/results`
        sys.exit("\n".join(faults_of(pathlib.Path(sys.argv[2]).resolve())) or 0)
    unittest.main()
