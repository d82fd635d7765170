"""Small valid inputs for every fuzz target: seeds.py FOLDER writes FOLDER/TARGET/NAME."""
import gzip
import io
import json
import pathlib
import shutil
import struct
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "cli"), str(HERE.parent / "web")]

from harness import write_png
from runs import write_run

REFERENCE = HERE.parent / "data" / "reference"


def pieces(*parts):
    return b"\n====\n".join(part.encode() if isinstance(part, str) else part for part in parts)


def run_files():
    with tempfile.TemporaryDirectory() as folder:
        run = write_run(pathlib.Path(folder) / "run", rounds=3, classes=3, clients=2)
        return [(run / name).read_text() for name in ("config.toml", "metrics.jsonl", "classes.json", "summary.json")]


def idx(kind, *dimensions):
    return struct.pack(f">HBB{len(dimensions)}I", 0, 8, len(dimensions), *dimensions) + bytes(kind)


def idx_sets():
    images, labels = idx(range(24), 4, 2, 3), idx([0, 1, 2, 1], 4)
    yield b"p" + pieces(images, labels, images, labels)
    yield b"z" + pieces(gzip.compress(images, mtime=0), labels, images, labels)
    colour = idx(range(36), 2, 3, 2, 3)
    yield b"p" + pieces(colour, idx([0, 1], 2), idx(range(36), 2, 2, 3, 3), idx([1, 0], 2))


def archive():
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in (("set/train.bin", b"0123"), ("set/inner/test.bin", b"4" * 600)):
            about = tarfile.TarInfo(name)
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))
    return packed.getvalue()[:4096]


def safetensors(*tensors, metadata=None):
    header, data = ({"__metadata__": metadata} if metadata else {}), b""
    for name, kind, shape, content in tensors:
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def card(**fields):
    return json.dumps({"architecture": "resnet8", "input": [3, 32, 32], "head_kind": "cosine", "head_bias": False, "head_scale": 16.0,
                       "head_projected": False, "head_offset": [], "head_shift": [0.5, 0.25], "class_names": ["cat", "dog"],
                       "mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25], "round": 7, "config": "[train]\nlr = 0.1\n"} | fields)


def images():
    for path in sorted(REFERENCE.iterdir()):
        if path.suffix in (".jpg", ".png") and path.stat().st_size < 6000:
            yield path.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        write_png(pathlib.Path(folder) / "a.png", (1, 2, 3), size=4)
        yield (pathlib.Path(folder) / "a.png").read_bytes()
    yield b"P6\n# comment\n2 2\n255\n" + bytes(range(12))
    yield b"P5 2 2 65535\n" + bytes(range(8))
    yield b"P3 2 1 7\n0 1 2 3 4 5\n"
    yield b"P2 1 2 255 9 8"


def seeds():
    config, records, classes, summary = run_files()
    record = bytes([3]) + bytes(3072)
    return {
        "config": ['[data]\nname = "cifar10"\npath = "/data"\naugment = ["crop", "flip"]\nmean = [0.1, 0.2, 0.3]\n',
                   'longtail = {rho = 0.01}\n[partition]\nkind = "iid"\nclients = 12\nalpha = 0.5\n', "data.mean=0.1,0.2,0.3",
                   "partition.alpha=1e-2", 'partition.kind="file"', '["data"]\n"size" = 0x20\npath = """a\nb"""\n'],
        "partition": ['{"clients": [[0, 1, 2, 3],\n[4, 5],\n[6, 7]\n]}\n', '{"clients": [[0], [1.5], ["x"]], "more": {"a": [null, true]}}'],
        "image_list": ["path,label,client\na.png,0,u1\n\"b, c.png\",1,u2\n", "Image;Class\na.png;x\n\n", "train/a b.jpg 3\nb.jpg 4\n",
                       "\ufeffuser_id\timage_id\tclass\n1\t2\t3\n"],
        "image": images(),
        "cifar": [pieces("", record, record), pieces("\n".join("abcdefghij"), record, record), pieces("", bytes(1) + record, bytes(1) + record)],
        "idx": idx_sets(),
        "unpack": [archive()],
        "metrics": [records, records.splitlines()[0] + "\n"],
        "report": [pieces(config, records, classes, summary), pieces(config, records, classes), pieces(config, records.splitlines()[0] + "\n")],
        "http": ["GET / HTTP/1.1\r\nHost: localhost:8080\r\nAccept-Encoding: br;q=1, gzip;q=0.5\r\n\r\n",
                 "GET /data.json?a=b HTTP/1.0\r\nIf-None-Match: \"3\"\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"],
        "safetensors": [safetensors(("fc.weight", "F32", [2, 2], bytes(16)), ("fc.bias", "BF16", [2], bytes(4)), metadata={"format": "pt"}),
                        safetensors(("empty", "I64", [0, 3], b""), ("flag", "BOOL", [], b"\1"))],
        "model_card": [card(), card(architecture="cnn", input=[1, 28, 28], mean=[0.1], std=[0.3], head_kind="linear", head_shift=[])],
    }


def main():
    root = pathlib.Path(sys.argv[1])
    shutil.rmtree(root, ignore_errors=True)
    for target, inputs in seeds().items():
        (root / target).mkdir(parents=True)
        for number, content in enumerate(inputs):
            (root / target / str(number)).write_bytes(content.encode() if isinstance(content, str) else content)


if __name__ == "__main__":
    main()
