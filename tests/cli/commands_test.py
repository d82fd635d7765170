"""Every command does what its help says."""
import json
import pathlib
import random
import re
import subprocess
import sys
import tomllib
import unittest
import zipfile
from xml.etree import ElementTree

from harness import (PROGRAM, TINY, Case, metrics, new_folder, start, tensors, train, without_times, write_cifar10,
                     write_image_folder, write_png, write_ppm)

TREE = pathlib.Path(__file__).resolve().parents[2]
COMMANDS = ["demo", "run", "sweep", "reproduce", "report", "watch", "table", "eval", "predict", "export", "init", "data", "bench", "params", "version", "completion"]
CLASSES = ["circle", "square", "triangle", "star", "cross", "ring", "pentagon", "diamond", "crescent", "heart"]


class Help(Case):
    def test_of_the_program(self):
        text = self.fedgrab("--help")
        for command in COMMANDS:
            self.assertRegex(text, rf"(?m)^  {command} +\w")

    def test_of_every_command(self):
        for command in [*map(str.split, COMMANDS), ["data", "info"], ["data", "partition"]]:
            with self.subTest(command):
                self.assertIn(f"Usage: fedgrab {' '.join(command)}", self.fedgrab(*command, "--help"))

    def test_lists_of_methods_and_losses(self):
        for flag in ("--method", "--objective"):
            text = self.fedgrab("run", flag, "help")
            for name in ("fedavg", "fedgrab", "fedgrab-published", "fedgrab-paper", "central", "softmax", "sgb", "dpa", "scaffold",
                         "nova", "momentum", "tau-norm"):
                self.assertRegex(text, rf"(?m)^  {name} +\S")

    def test_version(self):
        text = self.fedgrab("version")
        self.assertRegex(text, r"^fedgrab \d+\.\d+\.\d+ \(.+\)\nLibTorch \d+\.\d+")
        self.assertEqual(text, self.fedgrab("--version"))

    def test_completion(self):
        for shell in ("bash", "zsh"):
            subprocess.run(["bash", "-n"], input=self.fedgrab("completion", shell), text=True, check=True)
        self.assertEqual({"run"}, self.complete("fedgrab", "ru"))
        self.assertEqual({"--resume"}, self.complete("fedgrab", "run", "--res"))
        self.assertEqual({"train.lr=", "train.lr_decay=", "train.lr_milestones="}, self.complete("fedgrab", "run", "--set", "train.lr"))
        self.assertIn("fedavg", self.complete("fedgrab", "run", "--method", ""))

    def complete(self, *words):
        script = f"""
          compopt() {{ :; }}
          {self.fedgrab("completion", "bash")}
          COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _fedgrab; printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        done = subprocess.run(["bash", "-c", script, "test", *words], cwd=self.folder, text=True, check=True, capture_output=True)
        return set(done.stdout.split())


class Parameters(Case):
    def declared(self):
        """Key to default, from `fedgrab params`."""
        return {key: tomllib.loads(f"x = {value}")["x"]
                for key, value in re.findall(r"(?m)^([\w.-]+) = (.*)\n    \S", self.fedgrab("params"))}

    def flat(self, table, prefix=""):
        keys = {}
        for name, value in table.items():
            keys |= self.flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
        return keys

    def test_every_group(self):
        groups = {key.split(".")[0] for key in self.declared()}
        self.assertEqual({"data", "longtail", "partition", "model", "train", "method", "objective", "prior", "head", "client",
                          "server", "posthoc", "engine", "eval", "record", "checkpoint"}, groups)

    def test_values_of_a_method(self):
        text = self.fedgrab("params", "--method", "fedgrab")
        for value in ("objective.name = sgb", "prior.source = dpa", "head.init = etf"):
            self.assertIn(value, text)
        self.assertIn("defaults", self.fedgrab("params", "--method", "fedavg"))
        self.assertIn("did you mean fedgrab?", self.fedgrab("params", "--method", "fedgarb", code=2))

    def test_documentation_of_methods(self):
        rows = dict(re.findall(r"(?m)^\| `([\w-]+)` \| (.*) \|$", (TREE / "docs" / "methods.md").read_text().split("## Free combinations")[0]))
        names = re.findall(r"(?m)^  ([\w-]+) +\S", self.fedgrab("run", "--method", "help").split("A method is a preset")[0])
        self.assertEqual(names, list(rows))
        for name in names:
            values = dict(re.findall(r"(?m)^  (\S+) = (.*)$", self.fedgrab("params", "--method", name)))
            self.assertEqual(values, dict(re.findall(r"`([\w.]+)=([^`]*)`", rows[name])), name)

    def test_example_configurations(self):
        """Every key is a parameter of today, commented out or not, in [sweep] as well."""
        known = {*self.declared(), *(key.removesuffix(".name") for key in self.declared())}
        for path in sorted((TREE / "configs").rglob("*.toml")):
            text = re.sub(r"(?m)^# .*\n# (\w+ = .*)$", r"\1", path.read_text())
            values = tomllib.loads(text)
            values.pop("reproduce", None)
            grids = values.pop("sweep", [])
            for grid in grids if isinstance(grids, list) else [grids]:
                for table in (grid, *grid.pop("with", {}).values()):
                    values[f"grid {len(values)}"] = table
            keys = {re.sub(r"^grid \d+\.", "", key) for key in self.flat(values)}
            self.assertEqual(set(), keys - known, path)

    def test_filter(self):
        text = self.fedgrab("params", "checkpoint")
        self.assertIn("checkpoint.every", text)
        self.assertNotIn("train.lr", text)

    def test_documentation(self):
        text = self.fedgrab("params", "--markdown")
        self.assertEqual(list(self.declared()), re.findall(r"(?m)^\| `([\w.-]+)` \|", text))
        self.assertEqual(text, (TREE / "docs" / "parameters.md").read_text(),
                         "docs/parameters.md is out of date: fedgrab params --markdown >docs/parameters.md")

    def test_command_line_reference(self):
        text = subprocess.run([sys.executable, TREE / "scripts" / "cli_reference.py", PROGRAM], capture_output=True, text=True, check=True).stdout
        self.assertEqual(text, (TREE / "docs" / "cli.md").read_text(),
                         "docs/cli.md is out of date: scripts/cli_reference.py build/release/src/cli/fedgrab >docs/cli.md")

    def test_init_shows_the_defaults(self):
        self.fedgrab("init", "my.toml")
        text = (self.folder / "my.toml").read_text()
        suggested = {"data.validation": 0.2, "train.rounds": 100}
        self.assertEqual(suggested, self.flat(tomllib.loads(text)), "all else is commented out")
        # After each line of help comes the line to uncomment.
        uncommented = re.sub(r"(?m)^# .*\n# (.* = .*)$", r"\1", text)
        preset = dict(re.findall(r"(?m)^  (\S+) = (.*)$", self.fedgrab("params", "--method", "fedgrab+")))
        expected = self.declared()
        for key, value in tomllib.loads("\n".join(f'"{key}" = "{value}"' for key, value in preset.items())).items():
            expected[key] = type(expected[key])(value)
        self.assertEqual(expected | suggested, self.flat(tomllib.loads(uncommented)))

    def test_run_takes_the_file_of_init(self):
        self.fedgrab("init")
        self.fedgrab("run", "fedgrab.toml", *TINY, "--rounds", 1, "--out", "file")
        self.fedgrab("run", *TINY, "--rounds", 1, "--set", "data.validation=0.2", "--out", "flags")
        self.assertEqual((self.folder / "flags" / "config.toml").read_text(), (self.folder / "file" / "config.toml").read_text())
        posthoc = json.loads((self.folder / "file" / "summary.json").read_text())["posthoc"]
        self.assertEqual(("bias-calibration", "validation"), (posthoc["kind"], posthoc["fitted_on"]))

    def test_flag_before_file_before_default(self):
        (self.folder / "my.toml").write_text("[train]\nlr = 0.03\nmomentum = 0.25\n")
        small = [*TINY, "--rounds", 1]
        for out, arguments in (("after", ["my.toml", *small, "--set", "train.lr=0.02"]), ("before", [*small, "--set", "train.lr=0.02", "my.toml"])):
            self.fedgrab("run", "--out", out, *arguments)
            saved = tomllib.loads((self.folder / out / "config.toml").read_text())
            self.assertEqual((0.02, 0.25), (saved["train"]["lr"], saved["train"]["momentum"]))
            self.assertEqual(self.declared()["train.local_epochs"], saved["train"]["local_epochs"])

    def test_the_resolved_configuration_gives_the_same_run(self):
        self.fedgrab("run", *TINY, "--rounds", 1, "--out", "first")
        self.fedgrab("run", "first/config.toml", "--out", "second")
        first, second = ((self.folder / out / "model.safetensors").read_bytes() for out in ("first", "second"))
        self.assertEqual(first, second)


class Data(Case):
    def test_info(self):
        text = self.fedgrab("data", "info", *TINY)
        self.assertIn("10 classes, images 3x32x32, 82 training images of 300 available, 100 test images", text)
        for name in CLASSES:
            self.assertRegex(text, rf"(?m)^ +\d+  {name} +\d+ +30 +10$")

    def test_cifar10_long_tail_of_the_pool(self):
        """The labels of the usual pools, which hold what an imbalance factor of 10 or more takes, in no order."""
        counts = [int(5000 * 10 ** (-c / 9)) for c in range(10)]
        labels = [c for c, count in enumerate(counts) for _ in range(count)]
        random.Random(1).shuffle(labels)
        write_cifar10(self.folder / "cifar-10-lt", labels)
        flags = ["--data", "cifar10", "--data-path", ".", "--set", "longtail.factor=100", "--set", "longtail.order=file"]
        text = self.fedgrab("data", "info", *flags)
        taken = [int(n) for n in re.findall(r"(?m)^ +\d+  \w+ +(\d+) ", text)]
        self.assertEqual([5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50], taken)
        self.assertIn("12406 training images", text)

        self.fedgrab("data", "partition", *flags, "--json", "p.json")
        clients = json.loads((self.folder / "p.json").read_text())["clients"]
        places = [[i for i, label in enumerate(labels) if label == c] for c in range(10)]
        first = sorted(i for c, n in enumerate(taken) for i in places[c][:n])
        self.assertEqual(first, sorted(i for client in clients for i in client), "the first n_c of each class")

    def test_partition(self):
        text = self.fedgrab("data", "partition", *TINY, "--json", "p.json", "--svg", "p.svg")
        clients = json.loads((self.folder / "p.json").read_text())["clients"]
        rows = re.findall(r"(?m)^ +(\d+|all) +(\d+) ([ \d·]+)$", text)
        self.assertEqual(["0", "1", "2", "3", "all"], [row[0] for row in rows])
        self.assertEqual([*map(len, clients), 82], [int(row[1]) for row in rows])
        for _, total, cells in rows:
            self.assertEqual(int(total), sum(int(cell.replace("·", "0")) for cell in cells.split()))
        picture = ElementTree.parse(self.folder / "p.svg").getroot()
        self.assertEqual("{http://www.w3.org/2000/svg}svg", picture.tag)
        words = "".join(picture.itertext())
        for name in CLASSES:
            self.assertIn(name, words)

    def test_partition_of_a_run_is_reused(self):
        self.fedgrab("run", *TINY, "--rounds", 1, "--out", "first")
        for kind in ("file", "iid"):
            self.fedgrab("run", *TINY, "--rounds", 1, "--out", kind, "--set", f"partition.kind={kind}",
                         "--set", "partition.file=first/partition.json")
        first, again, iid = ((self.folder / out / "partition.json").read_text() for out in ("first", "file", "iid"))
        self.assertEqual(first, again)
        self.assertNotEqual(first, iid)
        self.assertEqual(metrics(self.folder / "first")[0]["loss"], metrics(self.folder / "file")[0]["loss"])

    def test_awkward_class_names_in_the_picture(self):
        write_image_folder(self.folder / "data", ("a<b>&\"c\"", "naïve", "x y"))
        self.fedgrab("data", "partition", "--data", "folder", "--data-path", "data", "--clients", 2)
        words = "".join(ElementTree.parse(self.folder / "partition.svg").getroot().itertext())
        self.assertIn("naïve", words)


class Run(Case):
    @classmethod
    def setUpClass(cls):
        cls.runs = new_folder(cls)
        train(cls.runs, "--method", "fedgrab", "--out", "shapes", "--set", "checkpoint.every=1", "--set", "data.validation=0.2")
        cls.run_folder = cls.runs / "shapes"

    def test_directory(self):
        names = {path.name for path in self.run_folder.iterdir()}
        self.assertLessEqual({"config.toml", "partition.json", "metrics.jsonl", "summary.json", "checkpoints",
                              "model.safetensors", "best.safetensors"}, names)
        self.assertTrue(any(name.startswith("events.out.tfevents") for name in names))
        self.assertEqual(["round-000003.safetensors", "round-000004.safetensors"],
                         sorted(path.name for path in (self.run_folder / "checkpoints").iterdir()))

    def test_metrics(self):
        records = metrics(self.run_folder)
        self.assertEqual([1, 2, 3, 4], [record["round"] for record in records])
        for record in records:
            self.assertLessEqual({"acc", "loss", "clients", "steps", "samples", "bytes_up", "bytes_down", "seconds", "f1",
                                  "delta", "beta", "prior"}, set(record))
            self.assertEqual({"all", "many", "med", "few", "per_class"}, set(record["acc"]) - {"f1"})
            self.assertEqual(10, len(record["acc"]["per_class"]))

    def test_tells_what_made_it(self):
        version, revision = re.match(r"fedgrab (\S+) \((\S+)\)", self.fedgrab("version")).groups()
        self.assertEqual(f"# fedgrab {version}, revision {revision}", (self.run_folder / "config.toml").read_text().split("\n")[0])
        summary = json.loads((self.run_folder / "summary.json").read_text())
        self.assertEqual((version, revision), (summary["version"], summary["revision"]))

    def test_summary(self):
        summary = json.loads((self.run_folder / "summary.json").read_text())
        records = metrics(self.run_folder)
        self.assertEqual(records[-1]["acc"]["per_class"], summary["last"]["per_class"])
        self.assertEqual("validation", summary["best"]["chosen_on"])
        self.assertAlmostEqual(sum(r["acc"]["all"] for r in records) / 4, summary["mean_last_10"]["all"])
        self.assertEqual(list(range(10)), sorted(c for group in summary["groups"].values() for c in group))

    def test_new_directory_under_runs(self):
        for _ in range(2):
            self.fedgrab("run", *TINY, "--rounds", 1)
        self.assertEqual(["fedgrab+-shapes-seed1", "fedgrab+-shapes-seed1-2"],
                         sorted(path.name for path in (self.folder / "runs").iterdir()))

    def test_ends_with_what_to_use_next(self):
        out = self.fedgrab("run", *TINY, "--rounds", 2, "--set", "data.validation=0.2", "--out", "out", "--quiet")
        self.assertIn("mean of the last 2 ", out)
        self.assertRegex(out.splitlines()[-1], r"^out: model\.safetensors, best\.safetensors, summary\.json .*fedgrab predict out")

    def test_progress_in_plain_lines(self):
        out, err = start("run", *TINY, "--rounds", 2, "--out", "out", folder=self.folder).communicate()
        self.assertRegex(err, r"(?m)^round 2/2 · All 0\.\d+ .*steps/s · \d+ s$")
        self.assertNotRegex(out + err, r"[\r\033]")


class Models(Case):
    @classmethod
    def setUpClass(cls):
        cls.runs = new_folder(cls)
        train(cls.runs, "--out", "shapes", "--set", "checkpoint.every=1")
        write_image_folder(cls.runs / "images")
        train(cls.runs, "--out", "resnet8", "--rounds", 1, "--model", "resnet8", "--method", "fedavg", "--clients", 2,
              "--data", "folder", "--data-path", "images", "--set", "data.size=16")

    def test_eval_gives_what_was_recorded(self):
        recorded = metrics(self.runs / "shapes")
        for model, record in (("shapes", recorded[-1]), ("shapes/model.safetensors", recorded[-1]),
                              ("shapes/checkpoints/round-000003.safetensors", recorded[-2])):
            with self.subTest(model):
                found = json.loads(self.fedgrab("eval", model, "--json", folder=self.runs))
                self.assertEqual(record["acc"], {key: found[key] for key in record["acc"]})
                self.assertEqual((record["round"], record["test_loss"], 100), (found["round"], found["loss"], found["samples"]))
        text = self.fedgrab("eval", "shapes", folder=self.runs)
        number = r"[01]\.\d{3}"
        interval = rf"{number} \({number}–{number}\)"
        for name in CLASSES:
            self.assertRegex(text, rf"(?m)^{name} +\d+ +{number} +{interval} +{interval}$")
        for name in ("accuracy", "balanced accuracy", "macro F1", "AUROC", "sensitivity at 0.9", "ECE"):
            self.assertRegex(text, rf"(?m)^{name} +{interval}$")

    def test_eval_measures_what_the_run_recorded(self):
        summary = json.loads((self.runs / "shapes" / "summary.json").read_text())
        recorded = metrics(self.runs / "shapes")[-1]
        found = json.loads(self.fedgrab("eval", "shapes", "--json", folder=self.runs))["measures"]
        self.assertEqual(summary["measures"]["last"], found)
        self.assertEqual(recorded["measures"], {name: found[name]["value"] for name in recorded["measures"]})
        self.assertEqual(recorded["f1"], found["macro_f1"]["value"])
        self.assertEqual({"balanced_accuracy", "auroc", "sensitivity", "ece"}, set(recorded["measures"]))
        strict = json.loads(self.fedgrab("eval", "shapes", "--json", "--set", "eval.specificity=0.99", "eval.resamples=0",
                                         folder=self.runs))["measures"]
        self.assertEqual(0.99, strict["specificity"])
        self.assertLess(strict["sensitivity"]["value"], found["sensitivity"]["value"])
        self.assertEqual({"value": found["auroc"]["value"]}, strict["auroc"])

    def test_table_with_further_measures(self):
        summary = json.loads((self.runs / "shapes" / "summary.json").read_text())["mean_last_10"]
        text = self.fedgrab("table", self.runs / "shapes", "--csv", "--measures", "balanced_accuracy,macro_f1,auroc")
        header, row = (line.split(",") for line in text.splitlines())
        found = dict(zip(header, row))
        for title, value in (("balanced accuracy", summary["measures"]["balanced_accuracy"]), ("macro F1", summary["f1"]),
                             ("AUROC", summary["measures"]["auroc"])):
            self.assertAlmostEqual(value, float(found[title]), delta=1e-5, msg=title)
        self.assertIn("auroc", self.fedgrab("table", self.runs / "shapes", "--measures", "aurok", code=2))

    def test_table_names_what_a_run_changed_beside_its_preset(self):
        runs = self.folder / "runs"
        train(self.folder, "--out", runs / "a", "--method", "fedavg", "--rounds", 1, "--set", "server.optimizer=momentum")
        train(self.folder, "--out", runs / "b", "--method", "fedgrab", "--rounds", 1)
        rows = [line.split(",")[:3] for line in self.fedgrab("table", runs, "--csv").splitlines()]
        self.assertEqual([["method", "server.optimizer", "All"], ["fedavg", "momentum"], ["fedgrab", "none"]], [rows[0], *(row[:2] for row in rows[1:])])

    def test_eval_of_models_with_heads_of_their_own(self):
        for method in ("fedetf", "ldam", "creff", "fedloge", "tau-norm", "dpa-shift", "fedgrab"):
            with self.subTest(method):
                train(self.folder, "--out", method, "--method", method, "--rounds", 2, "--set", "head.steps=5")
                found = json.loads(self.fedgrab("eval", method, "--json"))
                record = metrics(self.folder / method)[-1]
                self.assertEqual(record["acc"], {key: found[key] for key in record["acc"]})
                self.fedgrab("export", method, "-o", f"{method}.pt")

    def test_eval_deploys_a_checkpoint_with_another_classifier(self):
        train(self.folder, "--out", "fedavg", "--rounds", 2, "--method", "fedavg")
        for method, changes in (("tau-norm", ["posthoc.kind=tau-norm"]),
                                ("dpa-shift", ["posthoc.kind=logit-adjustment", "prior.source=dpa", "prior.dpa.head=classifier"])):
            with self.subTest(method):
                train(self.folder, "--out", method, "--rounds", 2, "--method", method)
                changed = [word for change in changes for word in ("--set", change)]
                found = json.loads(self.fedgrab("eval", "fedavg", "--json", *changed))
                record = metrics(self.folder / method)[-1]
                self.assertEqual(record["acc"], {key: found[key] for key in record["acc"]})
                self.assertEqual(record["test_loss"], found["loss"])
                self.assertNotEqual(record["test_loss"], metrics(self.folder / "fedavg")[-1]["test_loss"])
                self.fedgrab("export", "fedavg", "-o", "changed.safetensors", "--format", "safetensors", *changed)
                again = json.loads(self.fedgrab("eval", "changed.safetensors", "--json"))
                del found["posthoc"], again["posthoc"]  # what was fitted is known to whoever fitted it
                self.assertEqual(found, again)
        refused = self.fedgrab("eval", "fedavg/model.safetensors", "--set", "posthoc.kind=tau-norm", code=4)
        self.assertIn("holds the deployed model alone", refused)
        for change in ("method=tau-norm", "method.name=tau-norm", "objective.name=ldam", "server.optimizer=adam"):
            self.assertIn("cannot be changed after training", self.fedgrab("eval", "fedavg", "--set", change, code=2))
        for change in ("method=tau-norm", "data.size=8"):
            self.assertIn("posthoc.*, prior.*", self.fedgrab("export", "fedavg", "-o", "x.pt", "--set", change, code=2))
        self.assertFalse((self.folder / "x.pt").exists())

    def test_eval_from_another_folder(self):
        there = self.fedgrab("eval", "resnet8", "--json", folder=self.runs)
        self.assertEqual(there, self.fedgrab("eval", self.runs / "resnet8", "--json"))

    def test_eval_with_the_model_after_a_changed_parameter(self):
        found = self.fedgrab("eval", "--set", "engine.workers=1", "eval.every=2", "shapes", "--json", folder=self.runs)
        self.assertEqual(self.fedgrab("eval", "shapes", "--json", folder=self.runs), found)

    def test_predict(self):
        write_ppm(self.folder / "a.ppm", (255, 0, 0), size=50)
        write_png(self.folder / "b.png", (255, 0, 0), size=50)
        lines = self.fedgrab("predict", self.runs / "shapes", "a.ppm", "b.png", "--json", "--top", 10).splitlines()
        first, second = map(json.loads, lines)
        self.assertEqual(("a.ppm", "b.png"), (first["image"], second["image"]))
        self.assertEqual(first["classes"], second["classes"], "the same pixels in another format")
        self.assertEqual(sorted(CLASSES), sorted(c["name"] for c in first["classes"]))
        probabilities = [c["probability"] for c in first["classes"]]
        self.assertEqual(sorted(probabilities, reverse=True), probabilities)
        self.assertAlmostEqual(1, sum(probabilities), places=5)
        plain = self.fedgrab("predict", self.runs / "shapes", "a.ppm")
        best = first["classes"][0]
        self.assertTrue(plain.startswith(f"a.ppm\t{best['name']} {best['probability']:.3f}\t"), plain)

    def test_predict_knows_the_users_classes(self):
        line = self.fedgrab("predict", "resnet8", "images/red/1.ppm", "--json", folder=self.runs)
        self.assertEqual({"red", "green", "blue"}, {c["name"] for c in json.loads(line)["classes"]})

    def test_export_torchscript(self):
        self.assertIn("model.pt", self.fedgrab("export", self.runs / "resnet8", "-o", "model.pt"))
        with zipfile.ZipFile(self.folder / "model.pt") as archive:
            self.assertIsNone(archive.testzip())
            name = next(name for name in archive.namelist() if name.endswith("classes.json"))
            self.assertEqual(["blue", "green", "red"], json.loads(archive.read(name)))

    def test_export_safetensors(self):
        self.fedgrab("export", self.runs / "resnet8", "--format", "safetensors", "-o", "model.safetensors")
        found, _ = tensors(self.folder / "model.safetensors")
        self.assertEqual(("F32", [16, 3, 3, 3]), found["conv1.weight"][:2])
        self.assertEqual(("F32", [3, 64]), found["fc.weight"][:2])
        self.assertLessEqual({"bn1.running_mean", "layer1.0.conv1.weight", "layer2.0.downsample.0.weight", "fc.bias",
                              "layer2.0.downsample.1.running_var", "layer3.0.bn2.weight"}, set(found))
        self.assertEqual((self.runs / "resnet8" / "model.safetensors").read_bytes(), (self.folder / "model.safetensors").read_bytes())

    def test_no_model_file_names_a_path_of_this_machine(self):
        init = self.runs / "resnet8" / "model.safetensors"
        train(self.runs, "--out", "after", "--rounds", 2, "--model", "resnet8", "--method", "fedavg", "--clients", 2, "--data", "folder",
              "--data-path", "images", "--set", "data.size=16", "--set", f"model.init={init}", "--set", "data.validation=0.2")
        after = self.runs / "after"
        for form in ("torchscript", "safetensors"):
            self.fedgrab("export", after, "--format", form, "-o", form)
        self.fedgrab("export", after / "checkpoints" / "round-000002.safetensors", "-o", "changed", "--set", "posthoc.kind=tau-norm")
        files = [*self.folder.iterdir(), *after.rglob("*.safetensors")]
        self.assertEqual(9, len(files), files)
        self.assertIn(str(self.runs), (after / "config.toml").read_text(), "the run directory stays and has them")
        for file in files:
            contents = {"": file.read_bytes()}
            if zipfile.is_zipfile(file):
                with zipfile.ZipFile(file) as archive:
                    contents |= {name: archive.read(name) for name in archive.namelist()}
            for part, content in contents.items():
                for path in (self.runs, self.folder, TREE, pathlib.Path.home()):
                    self.assertNotIn(str(path).encode(), content, f"{file.name} {part}")

    def test_start_from_a_model_with_another_head(self):
        self.fedgrab("run", *TINY, "--rounds", 1, "--method", "fedavg", "--model", "resnet8", "--out", "out",
                     "--set", f"model.init={self.runs / 'resnet8' / 'model.safetensors'}")


class Sweep(Case):
    def test_table_and_folders(self):
        (self.folder / "grid.toml").write_text('[sweep]\nmethod = ["fedavg", "scaffold"]\n"train.seed" = [1, 2]\n')
        command = ["sweep", "grid.toml", *TINY, "--rounds", 1, "--out", "out", "--quiet"]
        text = self.fedgrab(*command)
        self.assertRegex(text, r"(?m)^scaffold +0\.\d{3} ± 0\.\d{3}")
        self.assertEqual({"fedavg-seed1", "fedavg-seed2", "scaffold-seed1", "scaffold-seed2", "table.md", "table.csv"},
                         {path.name for path in (self.folder / "out").iterdir()})
        self.assertEqual(text, self.fedgrab(*command), "nothing is run again")

    def test_clients_that_keep_a_model_on_disk(self):
        for method in ("scaffold", "fedgrab"):
            for out, more in (("ram", []), ("disk", ["--set", "engine.client_memory=0"])):
                train(self.folder, "--out", method + out, "--method", method, *more)
            in_ram, on_disk = (without_times(metrics(self.folder / (method + out))) for out in ("ram", "disk"))
            self.assertEqual(in_ram, on_disk)
            self.assertFalse((self.folder / f"{method}disk/clients").exists(), "the checkpoints have them")


class Bench(Case):
    def test_unknown_workload(self):
        self.fedgrab("bench", "--workload", "papr", code=2)

    def test_json(self):
        report = json.loads(self.fedgrab("bench", *TINY, "--seconds", 0.1, "--json", "--set", "engine.workers=2"))
        self.assertEqual([1, 2], [speed["workers"] for speed in report["speeds"]])
        self.assertGreater(report["speeds"][0]["client_steps_per_second"], 0)
        self.assertIn("overhead", report)
        self.assertGreater(report["run_peta_flops"], 0)
        self.assertEqual(16 * report["parameters"], report["step_bytes"])

    def test_compare(self):
        tiny = ("bench", *TINY, "--seconds", 0.1, "--set", "engine.workers=1")
        report = json.loads(self.fedgrab(*tiny, "--json"))
        report["speeds"][-1]["client_steps_per_second"] /= 1000
        report["batch"] += 1
        earlier = self.folder / "earlier.json"
        earlier.write_text(json.dumps(report))
        text = self.fedgrab(*tiny, "--compare", earlier)
        self.assertIn(f"batch: {report['batch']} earlier, {report['batch'] - 1} now", text)
        self.assertGreater(float(text.splitlines()[-1].split()[0]), 100)
        self.assertGreater(json.loads(self.fedgrab(*tiny, "--json", "--compare", earlier))["times_as_fast"], 100)

    def test_compare_with_what_is_no_measurement(self):
        file = self.folder / "other.json"
        for text in ("", "{}", "[1]", '{"speeds": [{}]}', "[" * 20000):
            file.write_text(text)
            self.fedgrab("bench", "--compare", file, code=3)


if __name__ == "__main__":
    unittest.main()
