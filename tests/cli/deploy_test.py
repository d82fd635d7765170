"""From a finished run to what is used elsewhere: which model is taken, folders of images, exported files and cards."""
import csv
import json
import re
import shutil
import unittest
import zipfile

from harness import Case, change_card, new_folder, start, train, write_image_folder, write_ppm

COLOURS = ["--data", "folder", "--data-path", "images", "--clients", 2, "--set", "data.size=16", "--set", "train.lr=0.05"]


def write_grey(path, level, size=16):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"P5\n%d %d\n255\n" % (size, size) + bytes([level]) * (size * size))


class Deploy(Case):
    def both(self, *arguments, code=0):
        """What it printed on standard output and on standard error."""
        done = start(*arguments, folder=self.folder)
        out, err = done.communicate()
        self.assertEqual(code, done.returncode, out + err)
        return out, err


class WhichModel(Deploy):
    def setUp(self):
        super().setUp()
        train(self.folder, "--rounds", 2, "--out", "run", "--set", "data.validation=0.2", "--set", "checkpoint.every=1")
        train(self.folder, "--rounds", 1, "--seed", 2, "--out", "other")
        # A best model that is certainly not the last one.
        shutil.copy(self.folder / "other/model.safetensors", self.folder / "run/best.safetensors")
        write_ppm(self.folder / "image.ppm", (200, 40, 90))

    def test_the_best_unless_told_otherwise(self):
        for flags, file, of_file in (([], "run/best.safetensors", 1), (["--last"], "run/model.safetensors", 2)):
            out, err = self.both("eval", "run", "--json", *flags)
            self.assertIn(f"using {file} (round {of_file}, ", err)
            self.assertEqual(of_file, json.loads(out)["round"])
            named, quiet = self.both("eval", file, "--json")
            self.assertEqual((json.loads(out), ""), (json.loads(named), quiet))

            out, err = self.both("predict", "run", "image.ppm", "--json", *flags)
            self.assertIn(f"using {file} (round {of_file}, ", err)
            named, err = self.both("predict", file, "image.ppm", "--json")
            self.assertEqual(out, named)
            self.assertNotIn("using ", err)

            _, err = self.both("export", "run", "-o", "again.safetensors", *flags)
            self.assertIn(f"using {file} (round {of_file}, ", err)
            self.assertIn(f"round {of_file} of ", (self.folder / "again.safetensors.md").read_text())

    def test_another_classifier_needs_the_checkpoint_and_says_so(self):
        out, err = self.both("eval", "run", "--json", "--set", "posthoc.kind=tau-norm")
        self.assertIn("using run/checkpoints/round-000002.safetensors (round 2, the newest checkpoint)", err)
        self.assertEqual(2, json.loads(out)["round"])

    def test_a_run_without_a_best_model(self):
        (self.folder / "run/best.safetensors").unlink()
        self.assertIn("using run/model.safetensors (round 2, the last)", self.both("eval", "run")[1])
        (self.folder / "run/model.safetensors").unlink()
        self.assertIn("the newest checkpoint", self.both("eval", "run")[1])


class Folders(Deploy):
    @classmethod
    def setUpClass(cls):
        cls.runs = new_folder(cls)
        write_image_folder(cls.runs / "images")
        train(cls.runs, *COLOURS, "--out", "run", "--method", "fedavg")

    def predict(self, *arguments, code=0):
        return self.both("predict", self.runs / "run", *arguments, code=code)

    def rows(self):
        with open(self.folder / "out.csv", newline="") as file:
            return list(csv.DictReader(file))

    def test_a_table_of_a_folder(self):
        new = self.folder / "new"
        write_image_folder(new / "ward")
        write_ppm(new / "no class" / "a.ppm", (250, 0, 0), size=16)
        write_ppm(new / "=1+1.ppm", (250, 0, 0), size=16)
        (new / "ward" / "red" / "broken.png").write_bytes(b"\x89PNG broken")
        (new / "notes.txt").write_text("no image")
        (new / "ward" / "again").symlink_to(new)
        out, err = self.predict("new", "--csv", "out.csv", "--top", 2)
        rows = self.rows()
        self.assertEqual(["file", "truth", "class", "probability", "class 2", "probability 2"], list(rows[0]))
        files = [row["file"] for row in rows]
        self.assertEqual(["'=1+1.ppm", "no class/a.ppm"], files[:2])
        self.assertEqual(20, len(files))
        self.assertIn("ward/blue/3.ppm", files)
        for row in rows:
            folder = row["file"].split("/")[-2] if row["file"].startswith("ward") else ""
            self.assertEqual(folder, row["truth"])
            self.assertGreaterEqual(float(row["probability"]), float(row["probability 2"]))
            self.assertLessEqual(float(row["probability"]) + float(row["probability 2"]), 1.00001)
        self.assertRegex(err, r"skipped .*ward/red/broken\.png: ")
        self.assertIn("1 skipped in all", err)

        known = [row for row in rows if row["truth"]]
        right = sum(row["truth"] == row["class"] for row in known) / len(known)
        self.assertIn("out.csv: 20 images", out)
        self.assertIn(f"accuracy {right:.3f}, balanced accuracy {right:.3f} over 3 classes, 18 images", out)
        self.assertIn("2 images lie in no folder with the name of a class", out)
        for number, name in enumerate(("blue", "green", "red")):
            answers = [sum(row["class"] == other for row in known if row["truth"] == name) for other in ("blue", "green", "red")]
            cells = " +".join("·" if count == 0 else str(count) for count in answers)
            self.assertRegex(out, rf"(?m)^ +{number}  {name} +6  [01]\.\d{{3}} +{cells}$")

    def test_says_that_a_score_is_of_training_images(self):
        said = "These images include those of the training: `fedgrab eval"
        self.assertIn(said, self.predict(self.runs / "images")[0])
        self.assertIn(said, self.predict(self.runs / "images" / "red" / ".." / "blue" / "..")[0])
        shutil.copytree(self.runs / "images", self.folder / "images of others")
        self.assertNotIn(said, self.predict("images of others")[0])
        self.assertNotIn("These images", self.predict(self.runs / "images", "--json")[0])

    def test_balanced_accuracy_weighs_classes_alike(self):
        """Ten images of one class and one of another."""
        for number in range(10):
            write_ppm(self.folder / "new" / "red" / f"{number}.ppm", (255, 0, 0), size=16)
        write_ppm(self.folder / "new" / "blue" / "0.ppm", (0, 0, 255), size=16)
        out, _ = self.predict("new", "--csv", "out.csv")
        share = {name: sum(row["class"] == name for row in self.rows() if row["truth"] == name) / count
                 for name, count in (("red", 10), ("blue", 1))}
        self.assertIn(f"accuracy {(10 * share['red'] + share['blue']) / 11:.3f}, "
                      f"balanced accuracy {sum(share.values()) / 2:.3f} over 2 classes, 11 images", out)

    def test_many_at_once_give_what_each_gives(self):
        for number in range(520):
            write_ppm(self.folder / "new" / f"{number:03}.ppm", (number % 256, number * 7 % 256, number * 13 % 256), size=16)
        self.predict("new", "--csv", "out.csv")
        rows = self.rows()
        self.assertEqual([f"{number:03}.ppm" for number in range(520)], [row["file"] for row in rows])
        for number in (0, 249, 250, 519):
            found = json.loads(self.predict(f"new/{number:03}.ppm", "--json", "--top", 1)[0])["classes"][0]
            self.assertEqual(rows[number]["class"], found["name"])
            self.assertAlmostEqual(float(rows[number]["probability"]), found["probability"], places=4)

    def test_nothing_to_classify(self):
        (self.folder / "empty").mkdir()
        self.assertIn("empty: holds no images", self.predict("empty", code=3)[1])
        (self.folder / "empty" / "x.png").write_bytes(b"nothing")
        err = self.predict("empty", code=3)[1]
        self.assertIn("none of its 1 images could be classified", err)
        self.assertEqual(1, len(err.splitlines()))

    def test_images_of_another_size(self):
        write_ppm(self.folder / "large.ppm", (255, 0, 0), size=200)
        write_ppm(self.folder / "alike.ppm", (255, 0, 0), size=20)
        self.assertRegex(self.predict("large.ppm")[1], r"1 of 1 images have another size .*\(16x16 pixels, .* 200x200\)")
        self.assertNotIn("size", self.predict("alike.ppm")[1])

    def test_says_when_probabilities_are_not_calibrated(self):
        write_ppm(self.folder / "a.ppm", (255, 0, 0), size=16)
        self.assertIn("not calibrated", self.predict("a.ppm")[1])
        shutil.copytree(self.runs / "images", self.folder / "images")
        train(self.folder, *COLOURS, "--rounds", 1, "--out", "run", "--set", "data.validation=0.4", "--set", "posthoc.temperature=true")
        self.assertNotIn("calibrated", self.both("predict", "run", "a.ppm")[1])


class GreyModels(Deploy):
    def test_colour_images_are_refused_unless_converted(self):
        for name, level in (("dark", 20), ("light", 220)):
            for number in range(6):
                write_grey(self.folder / "images" / name / f"{number}.pgm", level + number)
        train(self.folder, *COLOURS, "--rounds", 1, "--out", "run")
        write_ppm(self.folder / "new" / "colour.ppm", (250, 10, 10), size=16)
        write_ppm(self.folder / "new" / "stored in colour.ppm", (90, 95, 92), size=16)
        _, err = self.both("predict", "run", "new/colour.ppm", code=3)
        self.assertEqual(1, len(err.splitlines()), err)
        self.assertRegex(err, r"new/colour\.ppm: is a colour image, and the model was trained on grey ones .*--convert")
        self.both("predict", "run", "new/colour.ppm", "--convert")
        self.both("predict", "run", "new/stored in colour.ppm")
        out, err = self.both("predict", "run", "new")
        self.assertEqual(["stored in colour.ppm"], [line.split("\t")[0] for line in out.splitlines()])
        self.assertIn("skipped new/colour.ppm: is a colour image", err)


class Exports(Deploy):
    @classmethod
    def setUpClass(cls):
        cls.runs = new_folder(cls)
        write_image_folder(cls.runs / "images", each=8)
        train(cls.runs, *COLOURS, "--rounds", 1, "--out", "first", "--model", "resnet8")
        start("data", "partition", *COLOURS, "--set", "data.validation=0.2", "--json", "split.json", folder=cls.runs).communicate()
        train(cls.runs, *COLOURS, "--data-path", cls.runs / "images", "--out", "run", "--model", "resnet8", "--set",
              "data.validation=0.2", "--set", "partition.kind=file", "--set",
              f"partition.file={cls.runs}/split.json", "--set", f"model.init={cls.runs}/first/model.safetensors")

    def test_onnx_unless_the_ending_says_otherwise(self):
        for name, begins in (("model.onnx", b"\x08"), ("model", b"\x08"), ("model.pt", b"PK"), ("model.safetensors", None)):
            out, _ = self.both("export", self.runs / "run", "-o", name)
            data = (self.folder / name).read_bytes()
            self.assertTrue(data.startswith(begins) if begins else json.loads(data[8:8 + int.from_bytes(data[:8], "little")]))
            self.assertIn(f"{name}.md: its model card", out)
        self.both("export", self.runs / "run", "-o", "model.any", "--format", "torchscript")
        self.assertTrue(zipfile.is_zipfile(self.folder / "model.any"))

    def test_no_path_of_this_machine_leaves_it(self):
        """Neither of the run, nor of a model file that another program gave paths."""
        shutil.copy(self.runs / "run/model.safetensors", self.folder / "foreign.safetensors")
        config = (self.runs / "run/config.toml").read_text()
        self.assertIn(f'path = "{self.runs}/images"', config)
        change_card(self.folder / "foreign.safetensors", config=config)
        for model in (self.runs / "run", self.folder / "foreign.safetensors"):
            for form in ("onnx", "torchscript", "safetensors"):
                self.both("export", model, "-o", f"model.{form}", "--format", form)
                for file in (f"model.{form}", f"model.{form}.md"):
                    data = (self.folder / file).read_bytes()
                    if zipfile.is_zipfile(self.folder / file):
                        with zipfile.ZipFile(self.folder / file) as archive:
                            data = b"".join(archive.read(name) for name in archive.namelist())
                    for place in (self.runs, self.folder):
                        self.assertNotIn(str(place).encode(), data, file)
        for file in ("model.safetensors", "best.safetensors", *(f"checkpoints/{p.name}" for p in (self.runs / "run/checkpoints").iterdir())):
            self.assertNotIn(str(self.runs).encode(), (self.runs / "run" / file).read_bytes(), file)

    def test_the_model_card(self):
        self.both("export", self.runs / "run", "-o", "model.onnx", "--last")
        page = (self.folder / "model.onnx.md").read_text()
        summary = json.loads((self.runs / "run/summary.json").read_text())
        version = self.fedgrab("version").split()[1]
        for part in ("# Model card: model.onnx", "resnet8", f"fedgrab {version}", "## Intended use", "## Classes", "## Measures",
                     "## Limits", "2 clients, partition file, method fedgrab+, round 4 of 4", "not calibrated", "logits and probabilities", "half of the files up to 16 x 16 pixels"):
            self.assertIn(part, page)
        for name, count, right in zip(summary["class_names"], summary["class_counts"], summary["last"]["per_class"]):
            self.assertRegex(page, rf"\| {name} +\| +{count} \|.* {right:.4g} \|")
        self.assertRegex(page, rf"\| all +\| {summary['last']['all']:.4g} ")
        self.assertRegex(page, rf"\| f1 +\| {summary['last']['f1']:.4g} ")
        counted = r"\| class +\| +training images"
        self.assertRegex(page, counted)
        self.both("export", self.runs / "run", "-o", "model.onnx", "--last", "--no-counts")
        self.assertNotRegex((self.folder / "model.onnx.md").read_text(), counted)

    def test_the_card_is_about_the_exported_model(self):
        """Its measures are those of the best round, and none where the classifier was changed after the run."""
        shutil.copytree(self.runs / "run", self.folder / "run")
        file = self.folder / "run/summary.json"
        summary = json.loads(file.read_text())
        summary["best"]["all"], summary["last"]["all"] = 0.123, 0.321
        summary["measures"] = {"best": {"auroc": {"value": 0.875, "low": 0.75, "high": 0.9375}, "sensitivity": [0.5, None, 0.25]}}
        file.write_text(json.dumps(summary))
        pages = {}
        for name, flags in (("best", []), ("last", ["--last"]), ("changed", ["--set", "posthoc.kind=tau-norm"])):
            self.both("export", "run", "-o", name, *flags)
            pages[name] = (self.folder / f"{name}.md").read_text()
        self.assertIn("0.123", pages["best"])
        self.assertRegex(pages["best"], r"\| auroc +\| 0\.875 \(0\.75 to 0\.9375\)")
        self.assertRegex(pages["best"], r"\| green .*\| +– \|")
        self.assertIn("the best on the validation split", pages["best"])
        self.assertIn("0.321", pages["last"])
        self.assertNotIn("0.875", pages["last"])
        self.assertIn("None are known", pages["changed"])
        self.assertIn("tau-norm", pages["changed"])


if __name__ == "__main__":
    unittest.main()
