"""The commands of the tutorial and of README in the order of each page, in a folder of their own; what they print has the shape that the
page shows.

Pages 3 and 4 show code: CMakeLists.txt compiles it."""
import os
import re
import signal
import subprocess
import sys
import unittest

from pages import TREE, commands, text_of

sys.path.insert(0, str(TREE / "tests" / "cli"))
from harness import PROGRAM, new_folder  # noqa: E402

README = "../../README.md"
ELSEWHERE = {  # beginning of a command: where it is run instead
    "./demo.sh": "installs packages; CI runs test.sh, which builds in the same way",
    "cmake --preset release && cmake --build --preset release --target fedgrab": "the build under test",
    "pip install tensorboard": "tests/python/tensorboard_test.py reads the events",
    "python3 - <<'END'\nfedgrab.privacy_spent": "tests/python/module_test.py",
}
FEW = "--set data.per_class=80 data.test_per_class=10 train.local_epochs=1 eval.resamples=20"
SMALLER = {  # everything that differs from what the page says
    "1-first-run.md": {
        r"^fedgrab run$": f"fedgrab run {FEW}",
        r"--rounds 10 ": f"--rounds 2 {FEW} ",
        r"my\.toml --seed 2 ": f"my.toml --seed 2 --rounds 2 {FEW} ",
    },
    "2-own-images.md": {
        r"(fedgrab run configs/own-images\.toml .*)": r"\1 --rounds 2 --set eval.resamples=20",
        r"--model resnet18": "--model cnn --rounds 1 --set data.size=16",
    },
    "5-differential-privacy.md": {
        r"--clients 100+": "--clients 10",
        r"--rounds 40": "--rounds 2",
        r"data\.per_class=\d+": "data.per_class=30 eval.resamples=20",
        r"for seed in 1 2 3": "for seed in 1",
        r"eval\.every=4": "eval.every=2",
    },
}
DEPENDS = re.compile(r"^(…|round \d|Few (reached|did not reach)|skin/\S+\t|resuming )|^$")  # on the model, or on the time


def shape(line):
    """Without numbers, hashes and widths of columns."""
    line = re.sub(r"[0-9a-f]{64}", "HASH", line)
    return re.sub(r"\s+", " ", re.sub(r"─+", "─", re.sub(r"-?\d+(\.\d+)?|·", "0", line))).strip()


class Page(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = new_folder(self)
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "fedgrab").symlink_to(PROGRAM)
        (self.folder / "configs").symlink_to(TREE / "configs")
        self.environment = {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(self.folder / "cache")}

    def shell(self, text, code, interrupt=False):
        """Runs it with the exit code of the command before; returns the exit code and what it printed."""
        process = subprocess.Popen(["bash", "-c", f"(exit {code})\n{text}" if "$?" in text else f"set -e\n{'exec ' if interrupt else ''}{text}"],
                                   cwd=self.folder, env=self.environment, text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        first = process.stdout.readline() if interrupt else ""  # a round has ended
        if interrupt:
            process.send_signal(signal.SIGINT)
        printed = first + process.communicate()[0]
        return process.returncode, printed

    def follow(self, page):
        """Command to output, of the commands that are run here."""
        unused, code, outputs = set(SMALLER[page]), 0, {}
        for command in commands(page):
            if command.text.startswith(tuple(ELSEWHERE)):
                continue
            text = command.text
            for pattern, smaller in SMALLER[page].items():
                text, count = re.subn(pattern, smaller, text)
                unused -= {pattern} if count else set()
            interrupted = any(line.startswith("interrupted") for line in command.shown)
            refused = any(line.startswith("fedgrab: error") for line in command.shown)
            with self.subTest(text):
                code, printed = self.shell(text, code, interrupted)
                if refused:
                    self.assertIn(code, (2, 3, 4), printed)
                else:
                    self.assertEqual(130 if interrupted else 0, code, printed)
                exact = refused or command.text.startswith(("fedgrab data", "head", "echo"))
                same = str.rstrip if exact else shape
                self.assertEqual([], [line for line in command.shown if not DEPENDS.match(line) and same(line) not in map(same, printed.splitlines())],
                                 f"the page shows lines that are not in:\n{printed}")
                outputs[command.text] = printed
        self.assertEqual(set(), unused, "SMALLER has changes that nothing needs")
        return outputs

    def test_first_run(self):
        outputs = self.follow("1-first-run.md")
        hashes = {line.split()[0] for text, printed in outputs.items() if text.startswith("sha256sum") for line in printed.splitlines()}
        self.assertEqual(1, len(hashes), "interrupted, uninterrupted and with one worker")

    def test_own_images(self):
        ward = self.folder / "ward3"
        ward.mkdir()
        # Images of the list, which the page does not draw. The content decides about the format of a file.
        rows = []
        for i in range(12):
            value = 40 * (i % 3) + i
            (ward / f"{i + 1:04}.jpg").write_bytes(b"P6 24 24 255\n" + bytes([value, 255 - value, 90]) * 24 * 24)
            rows.append(f"ward3/{i + 1:04}.jpg,{('melanoma', 'nevus', 'keratosis')[i % 3]},Ward {3 + i % 2}\n")
        (self.folder / "scans.csv").write_text("path,label,client\n" + "".join(rows))
        self.follow("2-own-images.md")
        self.assertTrue((self.folder / "skin.svg").is_file())
        self.assertTrue((self.folder / "skin.onnx.md").is_file())
        self.assertEqual(401, len((self.folder / "skin.csv").read_text().splitlines()))

    def test_readme(self):
        for name, value in (("a", 60), ("b", 120), ("c", 180)):
            (self.folder / "FOLDER" / name).mkdir(parents=True)
            for i in range(12):
                (self.folder / "FOLDER" / name / f"{i}.ppm").write_bytes(b"P6 16 16 255\n" + bytes([value + i, 90, 255 - value]) * 256)
        own_images, = [c.text for c in commands(README) if "own-images" in c.text]
        code, printed = self.shell(own_images.replace("--out", "--rounds 2 --set eval.resamples=20 --out", 2), 0)
        self.assertEqual(0, code, printed)
        for name in ("report.html", "predictions.csv", "model.onnx"):
            self.assertTrue((self.folder / name).is_file(), name)

    def test_claims_of_readme(self):
        page = text_of(README)
        methods, = re.findall(r"(\d+) methods as presets", page)
        code, help_ = self.shell("fedgrab run --method help", 0)
        self.assertEqual(int(methods), len(re.findall(r"(?m)^  [\w+-]+ +\S", help_.split("A method is a preset")[0])))
        combination, = re.findall(r"`(--method \w+ --objective [^`]*)`", page)
        code, printed = self.shell(f"fedgrab run {combination} {FEW.removeprefix('--set ')} --rounds 1 --clients 3", 0)
        self.assertEqual(0, code, printed)

    def test_differential_privacy(self):
        self.follow("5-differential-privacy.md")
        self.assertEqual(5, len(list((self.folder / "runs" / "privacy").iterdir())))


if __name__ == "__main__":
    unittest.main()
