"""The program with the parts that the tutorial adds, by the commands of the tutorial."""
import pathlib
import shlex
import sys
import unittest

from extract import commands

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "tests" / "cli"))
from harness import TINY, Case, metrics, tensors  # noqa: E402

PAGE = (TREE / "docs" / "tutorial" / "3-adding-a-part.md").read_text()
PARTS = ["lion", "label-smoothing", "noisy-shares", "grey"]


class Tutorial(Case):
    def test_parts_are_listed(self):
        text = self.fedgrab("run", "--method", "help")
        for name in ("lion", "label-smoothing", "noisy-shares", "fedlion"):
            self.assertRegex(text, rf"(?m)^  {name} +\S")
        self.assertIn("objective.label-smoothing.epsilon = 0.1", self.fedgrab("params"))

    def test_commands(self):
        seen = {}
        for command in commands(PAGE):
            part, = [name for name in PARTS if name in command]
            with self.subTest(command):
                self.fedgrab(*shlex.split(command)[1:], *TINY, "--rounds", 2, "--out", part)
                self.assertEqual(2, len(metrics(self.folder / part)))
                seen[part] = tensors(self.folder / part / "model.safetensors")[0]
        self.assertEqual(PARTS, list(seen))
        self.fedgrab("run", *TINY, "--method", "fedavg", "--rounds", 2, "--out", "without")
        without = tensors(self.folder / "without" / "model.safetensors")[0]
        for part, model in seen.items():
            self.assertNotEqual(without, model, f"{part} changes nothing")


if __name__ == "__main__":
    unittest.main()
