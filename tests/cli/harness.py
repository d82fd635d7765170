"""The program under test, which FEDGRAB names, and what the tests read and write around it. Standard library only."""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest
import zlib

PROGRAM = os.path.abspath(os.environ.get("FEDGRAB") or shutil.which("fedgrab") or "build/release/src/cli/fedgrab")

# A federation that trains in a second; each test adds what it is about.
TINY = ["--clients", "4", "--rounds", "4", "--set", "data.per_class=30", "--set", "data.test_per_class=10",
        "--set", "train.batch=16", "--set", "engine.workers=1"]


class Case(unittest.TestCase):
    """Each test runs in a folder of its own."""
    maxDiff = None

    def setUp(self):
        self.folder = new_folder(self)

    def fedgrab(self, *arguments, code=0, folder=None):
        """Runs it, insists on the exit code, and gives back what it printed."""
        done = start(*arguments, folder=folder or self.folder)
        out, err = done.communicate()
        self.assertEqual(code, done.returncode, f"fedgrab {' '.join(map(str, arguments))}\n{out}{err}")
        return err if code else out


def new_folder(case):
    """A folder that lives as long as the test, or as the class of tests."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fedgrab-")).resolve()
    clean = case.addClassCleanup if isinstance(case, type) else case.addCleanup
    clean(shutil.rmtree, folder, ignore_errors=True)
    return folder


def start(*arguments, folder, **options):
    return subprocess.Popen([PROGRAM, *map(str, arguments)], cwd=folder, text=True, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def wait_until(process, condition):
    """What the condition gives once it is not false. Fails when the process ends before; however long it takes is no failure."""
    while not (found := condition()):
        try:
            process.wait(timeout=0.01)
        except subprocess.TimeoutExpired:
            continue
        if found := condition():  # the last thing it did
            break
        raise AssertionError(f"it ended too early, with {process.returncode}: {process.communicate()[1]}")
    return found


def train(folder, *arguments):
    """A run for a whole class of tests to look at."""
    subprocess.run([PROGRAM, "run", *TINY, *map(str, arguments)], cwd=folder, check=True, capture_output=True)


# ---- what a run leaves behind

def without_times(value):
    """What must be the same on every machine and in every run."""
    if isinstance(value, dict):
        return {key: without_times(inner) for key, inner in value.items()
                if not any(word in key for word in ("seconds", "time", "memory"))}
    return [without_times(inner) for inner in value] if isinstance(value, list) else value


def metrics(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def rounds_in(run):
    """On record so far, of a run that may not have begun."""
    path = run / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def tensors(path):
    """Name to (type, shape, bytes) of a safetensors file, and its metadata."""
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    body = data[8 + length:]
    return {name: (info["dtype"], info["shape"], body[slice(*info["data_offsets"])])
            for name, info in header.items()}, metadata


def change_card(path, **fields):
    """Other fields in the description of a model, and no checksum, as files of version 0.1 have none."""
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    card = json.loads(header["__metadata__"]["fedgrab"]) | fields
    header["__metadata__"] = {key: value for key, value in header["__metadata__"].items() if key != "fedgrab.crc32"}
    header["__metadata__"]["fedgrab"] = json.dumps(card)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length:])


def result(run):
    """All that a run computed, as text and bytes that can be compared, with the times dropped."""
    return {"metrics": [json.dumps(without_times(record)) for record in metrics(run)],
            "summary": without_times(json.loads((run / "summary.json").read_text())),
            "partition": (run / "partition.json").read_text(),
            "model": (run / "model.safetensors").read_bytes()}


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def half_written(folder):
    return [name for name in files_in(folder) if name.endswith(".partial")]


# ---- what users bring along

def write_ppm(path, colour, size=32):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"P6\n%d %d\n255\n" % (size, size) + bytes(colour) * (size * size))


def write_png(path, colour, size=32):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    rows = (b"\0" + bytes(colour) * size) * size
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def write_image_folder(root, classes=("red", "green", "blue"), each=6):
    for index, name in enumerate(classes):
        for number in range(each):
            colour = [20 * number] * 3
            colour[index % 3] = 255
            write_ppm(root / name / f"{number}.ppm", colour, size=16)
    return root


def write_cifar10(folder, labels, test_labels=range(10)):
    """Black images, in files with holes: the labels are what matters."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, of_images in (("train.bin", labels), ("test.bin", test_labels)):
        with open(folder / name, "wb") as file:
            for label in of_images:
                file.write(bytes([label]))
                file.seek(3072, os.SEEK_CUR)
            file.truncate()
    return folder
