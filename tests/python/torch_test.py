"""The example with a real PyTorch, where there is one on the LibTorch of the module: Debian's is."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import fedgrab

EXAMPLE = Path(__file__).resolve().parents[2] / "python" / "examples" / "torch_autograd.py"
MISSING = "SKIP: there is no PyTorch on the LibTorch of the module here (Debian: python3-torch)"


class Example(unittest.TestCase):
    def test_rare_classes_gain_and_both_forms_are_the_same(self):
        rows = {line[:16].strip(): [float(word) for word in line[16:].split()]
                for line in self.output.splitlines() if line.startswith(("cross", "three", "a function"))}
        self.assertEqual(rows["three lines"], rows["a function"])
        self.assertGreater(rows["three lines"][4], rows["cross-entropy"][4] + 0.3, "the class of 20 points")
        self.assertGreater(rows["three lines"][-1], rows["cross-entropy"][-1] + 0.05, "all")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "fedgrab").symlink_to(Path(fedgrab.__file__).parent)  # the module alone: PyTorch brings its own numpy
        environment = os.environ | {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        for python in (sys.executable, "/usr/bin/python3"):
            together = subprocess.run([python, "-c", "import torch, fedgrab"], env=environment, capture_output=True)
            if together.returncode == 0:
                Example.output = subprocess.run([python, EXAMPLE], env=environment, check=True, capture_output=True, text=True).stdout
                unittest.main()
    print(MISSING, file=sys.stderr)
