"""A build without LibTorch and the optional image formats, and what its program can do: without_torch_test.py CMAKE BUILD_FOLDER [CMAKE_OPTION…]"""
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CMAKE, BUILD, *OPTIONS = sys.argv[1:]
PROGRAM = pathlib.Path(BUILD, "src", "cli", "fedgrab")
os.environ["FEDGRAB"] = str(PROGRAM)
sys.path[:0] = [str(HERE.parent / "cli"), str(HERE.parent / "web")]

from harness import Case
from runs import write_run


def run(*command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout


class WithoutTorch(Case):
    @classmethod
    def setUpClass(cls):
        try:
            run(CMAKE, "-S", ROOT, "-B", BUILD, *OPTIONS, "-DCMAKE_BUILD_TYPE=", "-DFEDGRAB_TORCH=OFF",
                "-DFEDGRAB_TESTS=OFF", "-DCMAKE_DISABLE_FIND_PACKAGE_Torch=ON",
                *(f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("TIFF", "WebP", "DCMTK")))
            run(CMAKE, "--build", BUILD, "--target", "fedgrab", "--parallel", "2")
        except subprocess.CalledProcessError as error:
            raise AssertionError(error.output) from None

    def test_includes_and_links_no_part_of_it(self):
        commands = pathlib.Path(BUILD, "compile_commands.json").read_text()
        self.assertNotIn("torch", commands.replace("libtorch_absent", "").replace("without-torch", ""))
        linked = run("ldd", PROGRAM)
        for library in ("torch", "libtiff", "libwebp", "libdcm"):
            self.assertNotIn(library, linked)
        if (pathlib.Path(BUILD) / "build.ninja").exists():
            self.assertNotIn("/torch/", run("ninja", "-C", BUILD, "-t", "deps"))

    def test_shows_runs(self):
        write_run(self.folder / "runs" / "one", rounds=3, method="fedavg")
        self.assertIn("fedavg", self.fedgrab("table", "runs"))
        if shutil.which("node") and shutil.which("npm"):  # else the page was not built in
            self.fedgrab("report", "runs", "-o", "page.html")
            self.assertIn("</html>", (self.folder / "page.html").read_text())
        self.assertIn("built without LibTorch", self.fedgrab("version"))
        self.assertIn("is not a folder", self.fedgrab("watch", "nowhere", code=2))

    def test_says_how_to_build_the_rest(self):
        for command in (["run"], ["run", "--method", "fedavg"], ["data", "info"], ["params", "--help"]):
            self.assertIn("FEDGRAB_TORCH=ON", self.fedgrab(*command, code=2))
        self.assertNotIn("sweep", self.fedgrab("--help"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
