"""`pip install ./python` takes the libraries of a finished build: reuse_test.py CMAKE BUILD_FOLDER"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TREE = pathlib.Path(__file__).resolve().parents[2]
CMAKE, BUILD = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))


def run(*command):
    done = subprocess.run([*map(str, command)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise AssertionError(f"{command}\n{done.stdout[-4000:]}")
    return done.stdout


class Reuse(unittest.TestCase):
    def test_only_the_module_is_left_to_compile(self):
        libraries = {file: file.stat().st_mtime_ns for file in (BUILD / "src").rglob("*.a") if file.name != "libfedgrab_core.a"}  # the revision
        with tempfile.TemporaryDirectory() as folder:
            configure = (CMAKE, "-G", "Ninja", "-S", TREE / "python", "-B", folder, f"-DPython_EXECUTABLE={sys.executable}",
                             "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_PREFIX_PATH={folder}")
            configured = run(*configure)
            self.assertIn(f"-- Libraries: {BUILD}\n", run(*configure), "the second time, too")
            plan = run("ninja", "-C", folder, "-n")
        self.assertIn(f"-- Libraries: {BUILD}\n", configured)
        compiled = re.findall(r"Building CXX object (\S+)", plan)
        self.assertEqual([], [name for name in compiled if not name.startswith("CMakeFiles/_core.dir/")])
        self.assertIn("CMakeFiles/_core.dir/src/balancer.cpp.o", compiled)
        self.assertEqual(libraries, {file: file.stat().st_mtime_ns for file in libraries})


if __name__ == "__main__":
    unittest.main()
