"""The pure-Python wheel in an environment that has nothing but a PyTorch: no compiler, no numpy of pip's, no network."""

import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
USE = """
import torch, fedgrab.torch, fedgrab
criterion = fedgrab.torch.SGBLoss(classes=3)
loss = criterion(torch.nn.Linear(20, 3)(torch.randn(64, 20)), torch.randint(3, (64,)))
loss.backward()
print(int(criterion.steps))
print(fedgrab.__file__)
try:
    fedgrab.Balancer(3)
except ImportError as error:
    print(error)
"""


class Wheel(unittest.TestCase):
    def test_installs_and_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            run = lambda *command: subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout  # noqa: E731
            run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", folder, TREE / "python" / "torch")
            wheel, = Path(folder).glob("*.whl")
            self.assertRegex(wheel.name, r"^fedgrab-[\d.]+-py3-none-any\.whl$")
            names = zipfile.ZipFile(wheel).namelist()
            self.assertFalse([name for name in names if not name.endswith((".py", ".pyi", "py.typed")) and "dist-info" not in name])
            run(PYTHON, "-m", "venv", "--system-site-packages", "clean")
            run("clean/bin/pip", "install", "--no-index", wheel)
            steps, path, complaint = run("clean/bin/python", "-c", USE).splitlines()
            self.assertEqual("1", steps)
            self.assertTrue(path.startswith(f"{folder}/clean/"), path)
            self.assertIn("no compiled core", complaint)


if __name__ == "__main__":
    for PYTHON in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode == 0:
            unittest.main()
    print("SKIP: there is no PyTorch here (Debian: python3-torch)", file=sys.stderr)
