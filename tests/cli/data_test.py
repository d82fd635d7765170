"""Lists of image files, as users bring them: read, looked at, checked, trained on."""
import json
import pathlib
import re
import unittest

from harness import Case, metrics, start, write_ppm


class Lists(Case):
    def setUp(self):
        super().setUp()
        self.write_table([f"client {i % 3}" for i in range(24)])
        self.flags = ["--data", "list", "--data-path", "table.csv", "--set", "data.size=14", "--set", "data.cache=cache"]

    def write_table(self, holders):
        rows = ["Image;Class;Client"]
        for i, holder in enumerate(holders):
            colour = [40, 40, 40 + i]
            colour[i % 2] = 220
            write_ppm(self.folder / "scans" / f"{i}.ppm", colour, size=20 + i)
            rows.append(f"scans/{i}.ppm;{('red', 'green')[i % 2]};{holder}")
        (self.folder / "table.csv").write_text("\r\n".join(rows), encoding="utf-8-sig")

    def test_each_client_of_the_table_is_a_client(self):
        self.fedgrab("data", "partition", *self.flags, "--set", "partition.kind=user", "--json", "p.json")
        clients = json.loads((self.folder / "p.json").read_text())["clients"]
        self.assertEqual(3, len(clients))
        out = self.fedgrab("run", *self.flags, "--set", "partition.kind=user", "--rounds", 2, "--out", "out", "--quiet")
        self.assertIn("out", out)
        self.assertEqual(3, metrics(self.folder / "out")[0]["clients"])

    def test_a_second_run_decodes_nothing(self):
        flags = ["run", *self.flags, "--clients", 2, "--rounds", 1, "--quiet"]
        self.fedgrab(*flags, "--out", "first")
        caches = sorted((self.folder / "cache").glob("*.images"))
        self.assertEqual(2, len(caches))
        before = [cache.read_bytes() for cache in caches]
        self.fedgrab(*flags, "--out", "second")
        self.fedgrab("data", "info", *[{"table.csv": f"../{self.folder.name}/table.csv"}.get(flag, flag) for flag in self.flags])
        self.assertEqual(2, len(list((self.folder / "cache").glob("*.images"))), "the same files by another name")
        self.assertEqual(before, [cache.read_bytes() for cache in caches])
        self.assertEqual(metrics(self.folder / "first")[0]["loss"], metrics(self.folder / "second")[0]["loss"])

    def test_predicts_what_it_was_trained_on(self):
        """A wide image is cut to its middle, as in training, not squeezed."""
        self.fedgrab("run", *self.flags, "--clients", 2, "--rounds", 3, "--out", "out", "--quiet")
        wide, middle = self.folder / "wide.ppm", self.folder / "middle.ppm"
        row = bytes([220, 40, 40]) * 20 + bytes([40, 220, 60]) * 16 + bytes([220, 40, 40]) * 20
        wide.write_bytes(b"P6 56 16 255\n" + row * 16)
        write_ppm(middle, [40, 220, 60], size=16)
        said = [json.loads(line)["classes"] for line in self.fedgrab("predict", "out", wide, middle, "--json").splitlines()]
        self.assertEqual(said[0], said[1])

    def test_repeated_rows_are_told(self):
        table = self.folder / "table.csv"
        table.write_text(table.read_text("utf-8-sig") + "\n" + "\n".join(table.read_text("utf-8-sig").splitlines()[1:]))
        _, err = start("data", "check", *self.flags, folder=self.folder).communicate()
        self.assertRegex(err, "training rows name a file that a row before")
        self.assertRegex(err, "test images are training images too")

    def test_info(self):
        (self.folder / "scans" / "4.ppm").write_bytes(b"")
        text = self.fedgrab("data", "info", *self.flags)
        self.assertIn("list: 2 classes, images 3x14x14", text)
        self.assertRegex(text, r"imbalance factor \d\.\d, Gini 0\.\d{3}")
        self.assertRegex(text, r"files of 2\dx2\d to 4\dx4\d pixels")
        self.assertRegex(text, r"cannot be read: .*scans/4\.ppm")

    def test_check(self):
        self.assertIn("can be read", self.fedgrab("data", "check", *self.flags))
        (self.folder / "scans" / "7.ppm").write_bytes(b"P6 what")
        self.assertIn("1 images cannot be read", self.fedgrab("data", "check", *self.flags, code=3))
        (self.folder / "scans" / "7.ppm").unlink()
        err = self.fedgrab("data", "check", *self.flags, code=3)
        self.assertIn("1 of 24 listed images are missing", err)

    def test_what_to_obtain(self):
        for name, source in (("imagenet-lt", "image-net.org"), ("inaturalist-user", "inat_comp")):
            err = self.fedgrab("data", "check", "--data", name, "--data-path", ".", code=3)
            self.assertRegex(err, f"no such list.*{re.escape(source)}")

    def test_a_bad_file_stops_or_is_left_out(self):
        (self.folder / "scans" / "4.ppm").write_bytes(b"GIF89a")
        run = ["run", *self.flags, "--clients", 2, "--rounds", 1, "--quiet", "--out", "out"]
        self.assertIn("scans/4.ppm", self.fedgrab(*run, code=3))
        self.fedgrab(*run, "--set", "data.bad=skip")
        self.assertIn("scans/4.ppm", "".join(file.read_text() for file in (self.folder / "cache").glob("*.bad.txt")))

    def test_thousands_of_classes(self):
        rows = ["path,label"]
        write_ppm(self.folder / "one.ppm", (1, 2, 3), size=2)
        for label in range(8142):
            rows += [f"one.ppm,{label}"] * (2 + 100 // (label + 1))
        (self.folder / "table.csv").write_text("\n".join(rows))
        flags = ["--data", "list", "--data-path", "table.csv", "--set", "data.size=1", "--set", "data.cache=cache"]
        self.assertIn("8142 classes", self.fedgrab("data", "info", *flags))
        text = self.fedgrab("data", "partition", *flags, "--clients", 20)
        self.assertLess(len(text.splitlines()), 100)


class Formats(Case):
    NPZ = pathlib.Path(__file__).resolve().parents[1] / "data" / "reference" / "medmnist.npz"

    def test_numpy_archives(self):
        flags = ["--data", "npz", "--data-path", self.NPZ]
        text = self.fedgrab("data", "info", *flags)
        self.assertIn("npz: 3 classes, images 3x4x5, 6 training images of 6 available, 3 test images", text)
        self.assertIn("2 images are the validation split of the data set", text)
        self.assertIn("all 6 training, 2 validation and 3 test images can be read", self.fedgrab("data", "check", *flags))
        (self.folder / "cut.npz").write_bytes(self.NPZ.read_bytes()[:-30])
        self.assertIn("cut.npz", self.fedgrab("data", "check", "--data", "npz", "--data-path", "cut.npz", code=3))

    def test_patients(self):
        rows = ["path,label,patient"]
        for i in range(40):
            write_ppm(self.folder / f"{i}.ppm", (i, 2, 3), size=2)
            rows.append(f"{i}.ppm,{('red', 'green')[i % 2]},P{i // 4}")
        (self.folder / "table.csv").write_text("\n".join(rows))
        flags = ["--data", "list", "--data-path", "table.csv", "--set", "data.size=1", "--set", "data.cache=cache"]
        self.assertRegex(self.fedgrab("data", "info", *flags), r"training images are of 8 groups; .* one client")
        self.fedgrab("data", "partition", *flags, "--clients", 4)
        err = self.fedgrab("data", "partition", *flags, "--clients", 9, code=3)
        self.assertIn("9 clients cannot share 8 groups", err)
        err = self.fedgrab("data", "partition", *flags, "--set", "partition.samples=5", code=2)
        self.assertIn("partition.samples", err)

    def test_a_file_is_what_it_holds(self):
        """Whatever its name says."""
        for label in ("a", "b"):
            for i in range(2):
                write_ppm(self.folder / "set" / label / f"{i}.ppm", (i, 2, 3), size=2)
        (self.folder / "set" / "a" / "0.ppm").rename(self.folder / "set" / "a" / "0.dcm")
        flags = ["--data", "folder", "--data-path", "set"]
        self.assertIn("all 2 training and 2 test images can be read", self.fedgrab("data", "check", *flags))
        (self.folder / "set" / "a" / "1.2.840").write_bytes(bytes(128) + b"DICM")
        err = self.fedgrab("data", "check", *flags, code=3)
        self.assertRegex(err, "1.2.840: (cannot be read as DICOM|is a DICOM file)")


if __name__ == "__main__":
    unittest.main()
