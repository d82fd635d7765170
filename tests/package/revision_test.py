"""The revision is that of the build, not of the configuration: revision_test.py CMAKE [CMAKE_OPTION…]"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CMAKE, *OPTIONS = sys.argv[1:]
PROJECT = f"""cmake_minimum_required(VERSION 3.25)
project(small VERSION 1.2.3 LANGUAGES CXX)
include({ROOT}/cmake/revision.cmake)
add_executable(small main.cpp)
target_include_directories(small PRIVATE {ROOT}/include)
fedgrab_add_revision(small)
"""
MAIN = """#include <iostream>
#include "fedgrab/core/version.h"
int main() { std::cout << fedgrab::version() << ' ' << fedgrab::revision(); }
"""


@unittest.skipIf(shutil.which("git") is None, "there is no Git here")
class Revision(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="fedgrab-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.checkout = self.folder / "checkout"
        self.checkout.mkdir()
        (self.checkout / "CMakeLists.txt").write_text(PROJECT)
        (self.checkout / "main.cpp").write_text(MAIN)
        self.run_in(self.folder, CMAKE, "-S", self.checkout, "-B", self.folder / "build", *OPTIONS)

    def run_in(self, folder, *command):
        return subprocess.run(command, cwd=folder, check=True, text=True, capture_output=True).stdout.strip()

    def git(self, *arguments, folder=None):
        return self.run_in(folder or self.checkout, "git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments)

    def built(self):
        self.run_in(self.folder, CMAKE, "--build", self.folder / "build")
        return self.run_in(self.folder, self.folder / "build" / "small")

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "change", "--allow-empty")
        return self.git("rev-parse", "--short=12", "HEAD")

    def test_follows_the_checkout_without_another_configuration(self):
        self.assertEqual("1.2.3 unknown", self.built())
        self.git("init", "-q")
        for _ in range(2):
            self.assertEqual("1.2.3 " + self.commit(), self.built())
        (self.checkout / "main.cpp").write_text(MAIN + "// changed\n")
        self.assertTrue(self.built().endswith("-dirty"))

    def test_the_revision_of_a_project_around_it_is_not_ours(self):
        self.git("init", "-q", folder=self.folder)
        (self.folder / ".gitignore").write_text("build\n")
        self.git("add", "-A", folder=self.folder)
        self.git("commit", "-q", "-m", "all", folder=self.folder)
        self.assertEqual("1.2.3 unknown", self.built())

    def test_nothing_is_built_again_where_nothing_changed(self):
        self.built()
        before = (self.folder / "build" / "small").stat().st_mtime_ns
        self.built()
        self.assertEqual(before, (self.folder / "build" / "small").stat().st_mtime_ns)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
