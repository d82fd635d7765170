"""Exported ONNX models are valid and give in ONNX Runtime what ours give: every network, every kind of head, every
post-hoc classifier."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from harness import PROGRAM, TINY, new_folder, tensors, write_ppm

try:
    import numpy
    import onnx
    import onnxruntime
except ImportError:
    print("onnxruntime is not installed")
    raise SystemExit(0)

REFERENCE = os.environ["ONNX_REFERENCE"]
NETWORKS = ("cnn", "cnn256", "resnet8", "resnet18", "resnet32", "resnet34", "resnet50", "pfl-cnn")
HEADS = ("cosine", "offset", "projected", "shift", "grey")
POSTHOC = {  # preset or changes of FedAvg, by name of the run
    "none": ["--method", "fedavg"],
    "tau-norm": ["--method", "tau-norm"],
    "logit-adjustment": ["--method", "dpa-shift"],
    "bias-calibration": ["--method", "fedavg", "--set", "posthoc.kind=bias-calibration"],
    "mean-softmax": ["--method", "fedavg", "--set", "posthoc.kind=mean-softmax"],
    "creff": ["--method", "creff"],
    "aligned": ["--method", "fedloge"],
    "cosine-with-offset": ["--method", "fedavg", "--set", "head.kind=cosine", "--set", "posthoc.kind=bias-calibration"],
    "projected": ["--method", "fedetf", "--set", "head.steps=5"],
    "default": [],
}


def numbers(path):
    stored, _ = tensors(path)
    return {name: numpy.frombuffer(data, numpy.float32).reshape(shape) for name, (_, shape, data) in stored.items()}


def session_of(path):
    onnx.checker.check_model(str(path), full_check=True)
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


class Onnx(unittest.TestCase):
    def compare(self, model, reference):
        """Both batches of a session: all images, and one."""
        session, ours = session_of(model), numbers(reference)
        spread = numpy.ptp(ours["logits"], axis=0).max()
        self.assertGreater(spread, 1e-3, "a network that has died would agree with anything")
        apart = 0
        for count in (len(ours["images"]), 1):
            logits, probabilities = session.run(["logits", "probabilities"], {"images": ours["images"][:count]})
            expected = ours["logits"][:count]
            self.assertEqual(expected.shape, logits.shape)
            apart = max(apart, numpy.abs(logits - expected).max())
            softmax = numpy.exp(expected - expected.max(axis=1, keepdims=True))
            softmax /= softmax.sum(axis=1, keepdims=True)
            self.assertLess(numpy.abs(probabilities - softmax).max(), 1e-5)
        print(f"{model.stem}: {apart:.1e} apart, logits vary by {spread:.2g}")
        self.assertLess(apart, min(1e-4, 1e-3 * spread))

    def test_every_network_and_head(self):
        folder = new_folder(self)
        subprocess.run([REFERENCE, "networks", folder], check=True)
        self.assertEqual({*NETWORKS, *HEADS}, {path.stem for path in folder.glob("*.onnx")})
        for model in sorted(folder.glob("*.onnx")):
            with self.subTest(model.stem):
                self.compare(model, model.with_suffix(".safetensors"))

    def test_every_posthoc_classifier(self):
        folder = new_folder(self)
        for name, arguments in POSTHOC.items():
            with self.subTest(name):
                subprocess.run([PROGRAM, "run", *TINY, "--rounds", "2", "--set", "data.validation=0.2", "--set",
                                "posthoc.temperature=true", "--quiet", "--out", name, *arguments],
                               cwd=folder, check=True, capture_output=True)
                subprocess.run([PROGRAM, "export", name, "-o", f"{name}.onnx"], cwd=folder, check=True, capture_output=True)
                subprocess.run([REFERENCE, "model", name, f"{name}.safetensors"], cwd=folder, check=True)
                self.compare(folder / f"{name}.onnx", folder / f"{name}.safetensors")

    def test_gives_what_predict_gives(self):
        folder = new_folder(self)
        subprocess.run([PROGRAM, "run", *TINY, "--rounds", "2", "--quiet", "--out", "run"], cwd=folder, check=True, capture_output=True)
        subprocess.run([PROGRAM, "export", "run", "-o", "run.onnx"], cwd=folder, check=True, capture_output=True)
        session = session_of(folder / "run.onnx")
        metadata = session.get_modelmeta().custom_metadata_map
        names = json.loads(metadata["class_names"])
        write_ppm(folder / "image.ppm", (200, 40, 90))
        image = numpy.array([200, 40, 90], numpy.float32).reshape(1, 3, 1, 1) * numpy.ones((1, 3, 32, 32), numpy.float32) / 255
        (probabilities,), = session.run(["probabilities"], {"images": image})
        printed = subprocess.run([PROGRAM, "predict", "run", "image.ppm", "--json", "--top", "10"], cwd=folder, check=True,
                                 capture_output=True, text=True).stdout
        for found in json.loads(printed)["classes"]:
            self.assertAlmostEqual(found["probability"], float(probabilities[names.index(found["name"])]), places=5)

    def test_says_what_it_is_and_not_where_it_was_made(self):
        folder = new_folder(self)
        subprocess.run([PROGRAM, "run", *TINY, "--rounds", "1", "--quiet", "--out", "run"], cwd=folder, check=True, capture_output=True)
        subprocess.run([PROGRAM, "export", "run", "-o", "run.onnx"], cwd=folder, check=True, capture_output=True)
        model = onnx.load(folder / "run.onnx")
        version = subprocess.run([PROGRAM, "version"], check=True, capture_output=True, text=True).stdout.split()[1]
        self.assertEqual(("fedgrab", version), (model.producer_name, model.producer_version))
        metadata = {entry.key: entry.value for entry in model.metadata_props}
        self.assertLessEqual({"class_names", "architecture", "fedgrab_version", "round", "method", "posthoc", "calibrated"}, set(metadata))
        self.assertNotIn(str(folder).encode(), (folder / "run.onnx").read_bytes())


if __name__ == "__main__":
    unittest.main()
