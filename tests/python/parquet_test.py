"""Parquet image sets, as the Hugging Face hub has them, become lists that fedgrab reads."""
import csv
import json
import pathlib
import struct
import subprocess
import sys
import unittest
import zlib

try:
    import pyarrow
    import pyarrow.parquet
except ImportError:
    print("there is no pyarrow")
    sys.exit(0)

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))

from harness import Case


def png(grey, size=4):
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    rows = (b"\0" + bytes([grey]) * size) * size
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Parquet(Case):
    def write(self, name, rows, names=("cat", "dog"), **columns):
        """Rows of grey level and label."""
        table = pyarrow.table({"image": [{"bytes": png(grey), "path": None} for grey, _ in rows],
                               "label": [label for _, label in rows], **columns})
        features = {"info": {"features": {"label": {"names": list(names), "_type": "ClassLabel"}, "image": {"_type": "Image"}}}}
        path = self.folder / "hub" / name
        path.parent.mkdir(exist_ok=True)
        pyarrow.parquet.write_table(table.replace_schema_metadata({"huggingface": json.dumps(features)}), path)

    def convert(self, *arguments, code=0):
        done = subprocess.run([sys.executable, "-m", "fedgrab.parquet", *map(str, arguments)], cwd=self.folder, text=True, capture_output=True)
        self.assertEqual(code, done.returncode, done.stdout + done.stderr)
        return done.stderr if code else done.stdout

    def rows_of(self, name):
        with open(self.folder / "set" / name, newline="") as stream:
            return list(csv.DictReader(stream))

    def test_a_set_of_three_parts(self):
        self.write("train-00000-of-00002.parquet", [(10, 0), (20, 1)], patient=["a", "b"])
        self.write("train-00001-of-00002.parquet", [(30, 0)], patient=["c"])
        self.write("validation-00000-of-00001.parquet", [(40, 1)], patient=["d"])
        self.write("test-00000-of-00001.parquet", [(50, 0), (60, 1)], patient=["e", "f"])
        out = self.convert("hub", "set", "--group", "patient")
        self.assertIn("train.csv: 3 images", out)
        rows = self.rows_of("train.csv")
        self.assertEqual(["cat", "dog", "cat"], [row["label"] for row in rows])
        self.assertEqual(["a", "b", "c"], [row["group"] for row in rows])
        self.assertEqual(png(30), (self.folder / "set" / rows[2]["path"]).read_bytes())
        flags = ["--data", "list", "--data-path", "set", "--set", "data.size=4", "--set", "data.cache=cache"]
        text = self.fedgrab("data", "info", *flags)
        self.assertIn("list: 2 classes, images 3x4x4, 3 training images of 3 available, 2 test images", text)
        self.assertIn("1 images are the validation split", text)
        self.assertIn("of 3 groups", text)
        self.assertIn("all 3 training, 1 validation and 2 test images can be read", self.fedgrab("data", "check", *flags))

    def test_validation_is_tested_on_where_there_is_no_test_part(self):
        self.write("train-0.parquet", [(10, 0), (20, 1)])
        self.write("validation-0.parquet", [(30, 0)])
        self.convert("hub", "set")
        self.assertEqual(["cat"], [row["label"] for row in self.rows_of("test.csv")])
        self.assertFalse((self.folder / "set" / "val.csv").exists())

    def test_one_file_is_one_list(self):
        self.write("pets.parquet", [(10, 0), (20, 1), (30, 1)], names=())
        self.assertIn("set/all.csv", self.convert("hub/pets.parquet", "set"))
        self.assertEqual(["0", "1", "1"], [row["label"] for row in self.rows_of("all.csv")])

    def test_what_cannot_be_converted(self):
        self.assertIn("holds no .parquet file", self.convert("nowhere", "set", code=3))
        self.write("train.parquet", [(10, 5)])
        self.assertIn("holds 5, but there are 2 classes", self.convert("hub", "one", code=3))
        self.assertIn("has no column breed (name it with --label: image, label)", self.convert("hub", "two", "--label", "breed", code=3))
        (self.folder / "hub" / "train.parquet").write_bytes(b"PAR1")
        self.assertIn("fedgrab: error:", self.convert("hub", "three", code=3))


if __name__ == "__main__":
    unittest.main()
