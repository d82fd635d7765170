#!/usr/bin/env python3
"""The data base of published results: one folder per table below results/.

    results.py collect TABLE RUN... --command COMMAND --machine MACHINE
                                  add run directories to results/TABLE; the name of a folder is ROW-seedN, and {row} and
                                  {seed} in COMMAND stand for them. RUN/eval.json, if there, is what
                                  `fedgrab eval RUN --last --posthoc KIND,... --json` printed
    results.py write [TABLE...]   write table.csv and README.md of a table, and results/README.md
    results.py check              report what does not agree; the tests call it

about.json   title, setup, conclusion, the rows of the table in their order, and for each run its command, revision,
             machine, rounds, seconds and PFLOPs
curves.csv   every evaluation: run, round, post-hoc classifier ("deployed": the one of the run), accuracies on the test set
             and, where there is a validation split, on that
table.csv    written from the two: per row the mean over the seeds of the mean of the last ten evaluations
README.md    the same table for people; every number links to the commands of its row

A document cites a number as a link into a table whose title is row and column:
[0.735](results/cifar10-lt-paper/table.csv "fedavg All").
"""
import argparse
import csv
import io
import json
import pathlib
import re
import statistics
import sys

TREE = pathlib.Path(__file__).resolve().parents[1]
GROUPS = {"All": "all", "Many": "many", "Med": "med", "Few": "few"}
COLUMNS = ["run", "round", "posthoc", "all", "many", "med", "few", "f1", "validation_all", "validation_few", "tail_hit"]
DEPLOYED = "deployed"
NONE = "–"
CITED = re.compile(r'\[([^\]]+)\]\(([^)\s"]*results/[^)\s"]+\.csv)\s+"([^"]+)"\)')
TARGET = 0.55  # the paper's measure of communication: the first round with this accuracy in Few


def read_csv(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def csv_text(columns, rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="ignore", restval="")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


class Table:
    """One folder of results/."""

    def __init__(self, folder):
        self.folder = folder
        self.about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        self.curves = read_csv(folder / "curves.csv") if (folder / "curves.csv").exists() else []

    @property
    def runs(self):
        return self.about.setdefault("runs", {})

    def seeds_of(self, row):
        return [name for name in self.runs if re.fullmatch(re.escape(row) + r"-seed\d+", name)]

    def evaluations(self, run, posthoc=DEPLOYED):
        return [e for e in self.curves if e["run"] == run and e["posthoc"] == posthoc]

    def with_classifier(self, run, kind):
        """Evaluations with a post-hoc classifier: asked for afterwards, or the one that the run deploys."""
        own = self.runs[run].get("posthoc") == kind
        return self.evaluations(run, kind) or (self.evaluations(run) if own else [])

    def posthoc_kinds(self):
        kinds = []
        for evaluation in self.curves:
            if evaluation["posthoc"] not in (DEPLOYED, *kinds):
                kinds.append(evaluation["posthoc"])
        return kinds

    def columns(self):
        names = ["row", "method", "rounds", *GROUPS]
        names += [f"{kind}, last round: All / Few" for kind in self.posthoc_kinds()]
        names += [f"first round with Few {TARGET}", "seconds", "PFLOPs", "seeds"]
        return names

    def row(self, row, label):
        seeds = self.seeds_of(row)
        cells = {name: NONE for name in self.columns()}
        cells |= {"row": row, "method": label, "seeds": str(len(seeds))}
        if not seeds:
            return cells | {"method": f"{label} (not run)"}
        about = [self.runs[seed] for seed in seeds]
        cells["rounds"] = " / ".join(sorted({str(one["rounds"]) for one in about}, key=int))
        for title, group in GROUPS.items():
            cells[title] = over_seeds([mean_of_last(self.evaluations(seed), group) for seed in seeds])
        for kind in self.posthoc_kinds():
            last = [evaluations[-1] for seed in seeds if (evaluations := self.with_classifier(seed, kind))]
            pairs = [over_seeds([number(e[group]) for e in last]) for group in ("all", "few")]
            missing = f" ({len(last)} of {len(seeds)} seeds)" if len(last) < len(seeds) else ""
            cells[f"{kind}, last round: All / Few"] = NONE if pairs[0] == NONE else " / ".join(pairs) + missing
        reached = [first_round(self.evaluations(seed)) for seed in seeds]
        if len(self.evaluations(seeds[0])) > 1:
            cells[f"first round with Few {TARGET}"] = ", ".join(str(r) if r else "not reached" for r in reached)
        for title, key, form in (("seconds", "seconds", "{:.0f}"), ("PFLOPs", "pflops", "{:.1f}")):
            numbers = [one[key] for one in about if one.get(key)]
            if numbers:
                cells[title] = form.format(statistics.fmean(numbers))
        return cells

    def rows(self):
        return [self.row(one["row"], one["method"]) for one in self.about["rows"]]

    def page(self):
        columns = [name for name in self.columns() if name != "row"]
        rows = self.rows()
        columns = [name for name in columns if name in ("method", "seeds") or any(row[name] != NONE for row in rows)]
        lines = [f"# {self.about['title']}", "", self.about["setup"], "",
                 f"All to Few are accuracies on the test set, means of the last ten evaluations; ± is the standard deviation "
                 f"over seeds. {NONE}: not measured. Written by `scripts/results.py write` from [curves.csv](curves.csv) and "
                 "[about.json](about.json).", "",
                 "| " + " | ".join(columns) + " |", "|" + " --- |" + " --: |" * (len(columns) - 1)]
        for row in rows:
            linked = [f"[{row[name]}](#{row['row']})" if self.seeds_of(row["row"]) and row[name] != NONE else row[name]
                      for name in columns]
            lines.append("| " + " | ".join(linked) + " |")
        lines += ["", self.about["conclusion"], "", "## Commands", ""]
        for one in self.about["rows"]:
            seeds = self.seeds_of(one["row"])
            if not seeds:
                continue
            lines += [f'### <a id="{one["row"]}"></a>{one["method"]}', ""]
            for seed in seeds:
                about = self.runs[seed]
                lines += [f"    {command}" for command in about["command"].splitlines()]
                lines += ["", f"Run {seed}: revision {about['revision']}; {about['machine']}."
                          + (f" {about['note']}" if about.get("note") else ""), ""]
        return "\n".join(lines).rstrip() + "\n"

    def files(self):
        """What belongs to this table, by name."""
        return {"table.csv": csv_text(self.columns(), self.rows()), "README.md": self.page()}

    def faults(self):
        name = self.folder.name
        for key in ("title", "setup", "conclusion", "rows"):
            if not self.about.get(key):
                yield f"{name}: about.json has no {key}"
                return
        if len(self.about["conclusion"].splitlines()) > 2:
            yield f"{name}: the conclusion has more than two lines"
        known = {one["row"] for one in self.about["rows"]}
        for run, about in self.runs.items():
            for key in ("command", "revision", "machine", "rounds"):
                if not about.get(key):
                    yield f"{name}: run {run} has no {key}"
            if not self.evaluations(run):
                yield f"{name}: run {run} has no evaluation in curves.csv"
            if re.sub(r"-seed\d+$", "", run) not in known:
                yield f"{name}: run {run} belongs to no row"
        for run in sorted({e["run"] for e in self.curves} - set(self.runs)):
            yield f"{name}: curves.csv has the run {run}, about.json has not"
        for file, text in self.files().items():
            path = self.folder / file
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                yield f"{name}: {file} is not what curves.csv and about.json give; run scripts/results.py write {name}"


def number(text):
    return float(text) if text not in ("", None) else None


def mean_of_last(evaluations, group, count=10):
    numbers = [number(e[group]) for e in evaluations[-count:]]
    return statistics.fmean(numbers) if numbers and None not in numbers else None


def over_seeds(numbers):
    if not numbers or None in numbers:
        return NONE
    mean = f"{statistics.fmean(numbers):.3f}"
    return f"{mean} ± {statistics.stdev(numbers):.3f}" if len(numbers) > 1 else mean


def first_round(evaluations):
    """The first from which Few stays at the target for two evaluations: one alone may be a spike."""
    few = [(int(e["round"]), number(e["few"])) for e in evaluations]
    for (at, value), (_, following) in zip(few, few[1:] + few[-1:]):
        if value is not None and value >= TARGET and following >= TARGET:
            return at
    return None


def tables(tree):
    return [Table(path.parent) for path in sorted((tree / "results").glob("*/about.json"))]


def index(tree):
    lines = ["# Results", "", "One folder per table: `table.csv`, `curves.csv` (every evaluation), `about.json` (command, revision, "
             "machine, seconds) and a page written from them. `scripts/results.py` adds runs and writes the pages; "
             "`tests/results_test.py` checks that tables, curves and documents agree.", "",
             "| table | runs | conclusion |", "| --- | --: | --- |"]
    for table in tables(tree):
        conclusion = " ".join(table.about["conclusion"].split())
        lines.append(f"| [{table.about['title']}]({table.folder.name}/README.md) | {len(table.runs)} | {conclusion} |")
    pages = sorted(path for path in (tree / "results").glob("*.md") if path.name != "README.md")
    if pages:
        lines += ["", "| measurements | |", "| --- | --- |"]
        lines += [f"| [{path.name}]({path.name}) | {path.read_text(encoding='utf-8').splitlines()[0].lstrip('# ')} |" for path in pages]
    return "\n".join(lines) + "\n"


def collect(folder, run_directories, command, machine):
    table = Table(folder)
    for run in map(pathlib.Path, run_directories):
        named = re.fullmatch(r"(.+)-seed(\d+)", run.name)
        if not named:
            sys.exit(f"results: {run}: the name of a run is ROW-seedN, fedavg-seed1 say")
        row, seed = named.groups()
        records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        summary = json.loads((run / "summary.json").read_text()) if (run / "summary.json").exists() else {}
        table.curves = [e for e in table.curves if e["run"] != run.name]
        for record in records:
            if not record.get("acc"):
                continue
            evaluation = {"run": run.name, "round": record["round"], "posthoc": DEPLOYED, "f1": f"{record['f1']:.4f}"}
            for group in GROUPS.values():
                evaluation[group] = "" if record["acc"][group] is None else f"{record['acc'][group]:.4f}"
            for group in ("all", "few"):
                value = record.get("validation", {}).get(group)
                evaluation[f"validation_{group}"] = "" if value is None else f"{value:.4f}"
            if record.get("prior"):
                evaluation["tail_hit"] = record["prior"]["tail_hit"]
            table.curves.append(evaluation)
        for other in json.loads((run / "eval.json").read_text()) if (run / "eval.json").exists() else []:
            numbers = {group: "" if other[group] is None else f"{other[group]:.4f}" for group in (*GROUPS.values(), "f1")}
            table.curves.append({"run": run.name, "round": other["round"], "posthoc": other["posthoc"]["kind"], **numbers})
        about = {"command": command.format(row=row, seed=seed), "revision": summary.get("revision", ""), "machine": machine,
                 "rounds": records[-1]["round"], "seconds": round(sum(record["seconds"] for record in records), 1)}
        if summary.get("posthoc"):
            about["posthoc"] = summary["posthoc"]["kind"]
        if summary.get("pflops"):
            about["pflops"] = round(summary["pflops"], 1)
        table.runs[run.name] = about
        if row not in (one["row"] for one in table.about["rows"]):
            table.about["rows"].append({"row": row, "method": row})
    (folder / "curves.csv").write_text(csv_text(COLUMNS, table.curves), encoding="utf-8")
    (folder / "about.json").write_text(json.dumps(table.about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write(tree, names):
    for table in tables(tree):
        if names and table.folder.name not in names:
            continue
        for file, text in table.files().items():
            (table.folder / file).write_text(text, encoding="utf-8")
    (tree / "results" / "README.md").write_text(index(tree), encoding="utf-8")


def faults_of_citations(page, tree):
    text = re.sub(r"(?m)^    .*$", "", page.read_text(encoding="utf-8"))  # code shows how it is done, and cites nothing
    for shown, path, title in CITED.findall(text):
        file = (page.parent / path).resolve()
        row, _, column = title.partition(" ")
        if not file.is_relative_to(tree) or not file.exists():
            yield f"{page.name}: {path} is not there"
            continue
        found = [cells[column] for cells in read_csv(file) if cells["row"] == row and column in cells]
        if found != [shown]:
            yield f"{page.name}: says {shown} for {title}, {path} says {', '.join(found) or 'nothing'}"


def check(tree):
    faults = []
    for table in tables(tree):
        faults += table.faults()
    if not faults and (tree / "results" / "README.md").read_text(encoding="utf-8") != index(tree):
        faults.append("results/README.md is not what the tables give; run scripts/results.py write")
    for page in [tree / "README.md", *sorted((tree / "docs").rglob("*.md")), *sorted((tree / "results").rglob("*.md"))]:
        if page.exists():
            faults += faults_of_citations(page, tree)
    return faults


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True, metavar="collect|write|check")
    adding = commands.add_parser("collect")
    adding.add_argument("table")
    adding.add_argument("runs", nargs="+", metavar="RUN")
    adding.add_argument("--command", required=True)
    adding.add_argument("--machine", required=True)
    commands.add_parser("write").add_argument("tables", nargs="*", metavar="TABLE")
    commands.add_parser("check")
    given = parser.parse_args(arguments)
    if given.what == "check":
        return "\n".join(check(TREE)) or 0
    if given.what == "collect":
        collect(TREE / "results" / given.table, given.runs, given.command, given.machine)
    write(TREE, [given.table] if given.what == "collect" else given.tables)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
