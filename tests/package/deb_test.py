"""The Debian package: what is in it, what it depends on, and that its program runs where it is unpacked."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

CPACK, BUILD = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
if not all(map(shutil.which, ("dpkg-deb", "dpkg-shlibdeps"))):
    sys.exit("SKIP: there is no dpkg-dev here")


def output(*command, **options):
    done = subprocess.run([*map(str, command)], text=True, capture_output=True, **options)
    if done.returncode:
        raise AssertionError(f"{command}\n{done.stdout[-3000:]}{done.stderr}")
    return done.stdout


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="fedgrab-"))
        cls.addClassCleanup(shutil.rmtree, folder)
        output(CPACK, "--config", BUILD / "CPackConfig.cmake", "-B", folder, cwd=BUILD)
        cls.file, = folder.glob("*.deb")
        cls.root = folder / "root"
        output("dpkg-deb", "-x", cls.file, cls.root)
        cls.fields = dict(line.split(": ", 1) for line in output("dpkg-deb", "-f", cls.file).splitlines() if ": " in line and not line.startswith(" "))

    def test_name_and_version_are_those_of_the_program(self):
        version = re.match(r"fedgrab (\S+)", output(self.root / "usr/bin/fedgrab", "version"))[1]
        self.assertEqual(("fedgrab", version), (self.fields["Package"], self.fields["Version"]))
        self.assertEqual(f"fedgrab_{version}_{self.fields['Architecture']}.deb", self.file.name)

    def test_depends_on_what_the_program_is_linked_with(self):
        depends = {name.split()[0] for name in self.fields["Depends"].split(",")}
        self.assertLessEqual({"libopenblas0-openmp", "libc6", "libpng16-16"}, depends)
        self.assertTrue([name for name in depends if name.startswith("libtorch")], depends)

    def test_holds_the_program_its_completion_and_the_licences(self):
        files = {str(file.relative_to(self.root)) for file in self.root.rglob("*") if file.is_file()}
        self.assertEqual({"usr/bin/fedgrab", "usr/share/bash-completion/completions/fedgrab", "usr/share/doc/fedgrab/copyright"}, files)
        licences = (self.root / "usr/share/doc/fedgrab/copyright").read_text()
        for text in ("Apache License", "nlohmann", "tomlplusplus", "CLI11"):
            self.assertIn(text, licences)

    def test_the_completion_completes(self):
        file = self.root / "usr/share/bash-completion/completions/fedgrab"
        said = output("bash", "-c", f'. {file}; complete -p fedgrab; COMP_WORDS=(fedgrab re); COMP_CWORD=1; _fedgrab; echo "${{COMPREPLY[@]}}"')
        self.assertIn("-F _fedgrab fedgrab", said)
        self.assertIn("reproduce", said.splitlines()[-1])

    def test_the_program_holds_no_path_of_this_machine(self):
        self.assertNotIn("RUNPATH", output("readelf", "-d", self.root / "usr/bin/fedgrab"))
        self.assertNotIn(str(BUILD).encode(), (self.root / "usr/bin/fedgrab").read_bytes())


if __name__ == "__main__":
    unittest.main()
