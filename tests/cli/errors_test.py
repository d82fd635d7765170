"""Bad input: one line that names what is at fault, the exit code that says whose fault it is, nothing half-written."""
import json
import resource
import shutil
import signal
import struct
import subprocess
import unittest

from harness import (PROGRAM, TINY, Case, files_in, half_written, metrics, new_folder, result, start, train,
                     write_cifar10, write_image_folder, write_png, write_ppm)

OTHER, USAGE, DATA, CHECKPOINT = 1, 2, 3, 4


class Errors(Case):
    def check_line(self, err, *says):
        self.assertEqual(1, len(err.splitlines()), err)
        self.assertRegex(err, r"^fedgrab: error: [^:]+.*: .+\n$")
        for part in says:
            self.assertIn(str(part), err)

    def refuse(self, code, arguments, *says):
        """One line, the code, and every file as it was."""
        before = files_in(self.folder)
        self.check_line(self.fedgrab(*arguments, code=code), *says)
        self.assertEqual(before, files_in(self.folder))

    def refuse_run(self, code, arguments, *says):
        self.refuse(code, ["run", *TINY, "--quiet", "--out", "out", *arguments], *says)


class Usage(Errors):
    def test_commands_and_flags(self):
        self.refuse(USAGE, [], "fedgrab --help")
        self.refuse(USAGE, ["trian"], "trian: unknown command")
        self.refuse(USAGE, ["evla"], "did you mean fedgrab eval?")
        self.refuse(USAGE, ["data", "inof"], "did you mean fedgrab data info?")
        self.refuse(USAGE, ["sweep", "--jos", "2", "grid.toml"], "--jos: unknown flag", "did you mean --jobs?")
        self.refuse(USAGE, ["table", "runs", "--latx"], "--latx: unknown flag", "did you mean --latex?")
        self.refuse(USAGE, ["--foo", "run"], "--foo: unknown flag", "fedgrab --help")
        self.refuse(USAGE, ["run", "--roundz=3"], "--roundz=3: unknown flag", "did you mean --rounds?")
        self.refuse(USAGE, ["run", "--nonsense", 3], "--nonsense: unknown flag", "fedgrab run --help")
        self.refuse(USAGE, ["run", "--resume"], "--resume", "--out")
        self.refuse(USAGE, ["eval"], "model is required")
        self.refuse(USAGE, ["bench", "--seconds", 0], "--seconds", "0.1")
        self.refuse(USAGE, ["params", "zzz"], "zzz")
        self.refuse(USAGE, ["sweep"], "[sweep]")
        self.refuse(USAGE, ["sweep", "missing.toml"], "missing.toml")
        self.refuse(USAGE, ["run", "--method", "creff", "--objective", "ldam"], "posthoc.kind", "objective.name", "cosine")
        self.refuse(USAGE, ["run", "--method", "feddyn", "--set", "server.optimizer=adam"], "client.algorithm", "server.optimizer=none")
        self.refuse(USAGE, ["run", "--method", "fedavg", "--set", "posthoc.kind=logit-adjustment"], "posthoc.kind", "prior.source")

    def test_unknown_key_names_the_nearest(self):
        self.refuse_run(USAGE, ["--set", "train.momentun=0.9"], "train.momentun: unknown parameter", "train.momentum?")
        self.refuse_run(USAGE, ["--set", "lr=0.1"], "lr: unknown parameter", "train.lr?")

    def test_values(self):
        self.refuse_run(USAGE, ["--set", "train.lr=-1"], "train.lr: -1", "0 to 1000")
        self.refuse_run(USAGE, ["--set", "train.lr=nan"], "train.lr: nan")
        self.refuse_run(USAGE, ["--rounds", 0], "train.rounds: 0", "1 to")
        self.refuse_run(USAGE, ["--rounds", 2.5], "train.rounds", "2.5", "integer")
        self.refuse_run(USAGE, ["--set", "train.lr=fast"], "train.lr", "fast", "number")
        self.refuse_run(USAGE, ["--set", "train.lr"], "train.lr", "key=value")
        self.refuse_run(USAGE, ["--set", "data.channels=2"], "data.channels", "one of 0, 1, 3")
        self.refuse_run(USAGE, ["--set", "eval.patience=3"], "eval.patience", "data.validation")

    def test_unknown_names(self):
        self.refuse_run(USAGE, ["--method", "fedgarb"], "method.name", "fedgarb", "did you mean fedgrab?")
        self.refuse_run(USAGE, ["--model", "resnet9"], "model.name", "resnet9", "resnet8")
        self.refuse_run(USAGE, ["--data", "cifar11"], "data.name", "cifar11", "cifar10")
        self.refuse_run(USAGE, ["--method", "fedavg", "--objective", "sotfmax"], "objective.name", "sotfmax", "did you mean softmax?")
        for method in ("fedgrab", "fedgrab+"):  # whose own loss does not hide the typo
            self.refuse_run(USAGE, ["--method", method, "--objective", "focl"], "objective.name", "focl", "did you mean focal?")
        self.refuse_run(USAGE, ["--method", "fedgrab", "--objective", "sotfmax"], "objective.name", "sotfmax")

    def test_parameters_of_version_0_1(self):
        """They still work for the method they belong to: one warning names what they are now."""
        old = ["--method", "fedavgm", "--rounds", 1, "--quiet"]
        done = start("run", *TINY, *old, "--out", "old", "--set", "method.fedavgm.beta=0.7", "method.fedprox.mu=0.5", folder=self.folder)
        _, err = done.communicate()
        self.assertEqual(0, done.returncode, err)
        self.assertEqual(1, err.count("parameters of version 0.1"), err)
        for part in ("warning", "method.fedavgm.beta=0.7 is now server.beta1=0.7", "method.fedprox.mu has no effect with --method fedavgm"):
            self.assertIn(part, err)
        self.fedgrab("run", *TINY, *old, "--out", "new", "--set", "server.beta1=0.7")
        old, new = ((self.folder / out / "config.toml").read_text() for out in ("old", "new"))
        self.assertEqual(new, old)

    def test_configuration_files(self):
        for text, *says in (("[train]\nrounds = \n", ".toml:2: "),
                            ("[train]\nrounds = 3\nrounds = 4\n", ".toml:3: "),
                            ("[train]\nrounds = \"3\"\n", "train.rounds", '"3"', "integer"),
                            ("[train]\nrounds = 3.5\n", "train.rounds", "3.5", "integer"),
                            ("[train]\nround = 3\n", "train.round: unknown parameter", "train.rounds?"),
                            ("[trian]\nlr = 3\n", "trian.lr: unknown parameter", "train.lr?"),
                            ("[train]\nlr = -3\n", "train.lr: -3", "0 to 1000")):
            (self.folder / "bad.toml").write_text(text)
            with self.subTest(text):
                self.refuse(USAGE, ["run", "bad.toml", "--out", "out"], "bad.toml", *says)
        self.refuse(USAGE, ["run", "missing.toml"], "missing.toml", "No such file")

    def test_a_directory_that_holds_a_run(self):
        train(self.folder, "--rounds", 1, "--out", "out")
        self.refuse_run(USAGE, [], "out: holds a run already", "--resume")
        self.refuse(USAGE, ["run", "--resume", "--out", "out", "--set", "train.lr=0.5"], "train.lr", "0.5", "resume")

    def test_a_directory_whose_run_failed_in_its_first_round(self):
        failing = ["run", *TINY, "--quiet", "--method", "fedavg", "--out", "out"]
        self.check_line(self.fedgrab(*failing, "--set", "train.lr=1000", code=OTHER), "round 1", "train.lr")
        self.refuse(USAGE, failing, "out: holds a run that has not finished a round", "remove it to start over")
        shutil.rmtree(self.folder / "out")
        self.fedgrab(*failing)

    def test_init_does_not_overwrite(self):
        (self.folder / "mine.toml").write_text("# dear to me\n")
        self.refuse(USAGE, ["init", "mine.toml"], "mine.toml: exists already")
        self.assertEqual("# dear to me\n", (self.folder / "mine.toml").read_text())


class Cifar(Errors):
    def refuse_data(self, *says):
        self.refuse_run(DATA, ["--data", "cifar10", "--data-path", "data"], *says)

    def setUp(self):
        super().setUp()
        self.data = write_cifar10(self.folder / "data", [label for label in range(10) for _ in range(20)])

    def test_sound_data_trains(self):
        self.fedgrab("run", *TINY, "--rounds", 1, "--data", "cifar10", "--data-path", "data", "--out", "out")

    def test_truncated(self):
        with open(self.data / "train.bin", "r+b") as file:
            file.truncate(200 * 3073 - 5)
        self.refuse_data("data/train.bin", "614595 bytes", "3073", "truncated")

    def test_oversized(self):
        with open(self.data / "test.bin", "ab") as file:
            file.write(b"more")
        self.refuse_data("data/test.bin", "30734 bytes")

    def test_empty(self):
        (self.data / "train.bin").write_bytes(b"")
        self.refuse_data("data/train.bin", "0 bytes")

    def test_label_out_of_range(self):
        write_cifar10(self.data, [0, 1, 2, 10, 3])
        self.refuse_data("data/train.bin", "record 4", "label 10", "0 to 9")

    def test_missing(self):
        (self.data / "test.bin").unlink()
        self.refuse_data("data", "test.bin")
        self.refuse_run(DATA, ["--data", "cifar10", "--data-path", "nowhere"], "nowhere: no such file or folder")
        self.refuse_run(USAGE, ["--data", "cifar10"], "data.path")

    def test_a_folder_where_a_file_should_be(self):
        (self.data / "train.bin").unlink()
        (self.data / "train.bin").mkdir()
        self.refuse_data("data")


class Folder(Errors):
    def refuse_data(self, *says):
        self.refuse_run(DATA, ["--data", "folder", "--data-path", "data"], *says)

    def setUp(self):
        super().setUp()
        self.data = write_image_folder(self.folder / "data")

    def test_sound_data_trains(self):
        self.fedgrab("run", *TINY, "--rounds", 1, "--data", "folder", "--data-path", "data", "--out", "out")

    def test_unreadable_images(self):
        write_png(self.data / "red" / "x.png", (1, 2, 3))
        good = (self.data / "red" / "x.png").read_bytes()
        for name, content in (("x.png", good[:60]), ("x.png", b"not an image"), ("x.png", b""),
                              ("x.jpg", b"\xff\xd8\xff\xe0 broken"), ("x.ppm", b"P6\n9 9\n255\nshort")):
            (self.data / "red" / "x.png").unlink(missing_ok=True)
            (self.data / "red" / name).write_bytes(content)
            with self.subTest(name, content=content[:10]):
                self.refuse_data(f"data/red/{name}")
            (self.data / "red" / name).unlink()

    def test_empty_class_folder(self):
        (self.data / "yellow").mkdir()
        self.refuse_data("data/yellow: holds no images")

    def test_one_class(self):
        shutil.rmtree(self.data / "red")
        shutil.rmtree(self.data / "blue")
        self.refuse_data("data", "at least 2")


class Partition(Errors):
    def refuse_file(self, text, *says):
        (self.folder / "split.json").write_text(text)
        self.refuse_run(DATA, ["--set", "partition.kind=file", "--set", "partition.file=split.json"], "split.json", *says)

    def test_more_clients_than_samples(self):
        self.refuse_run(DATA, ["--clients", 100], "partition.clients", "100 clients", "82 training samples")

    def test_files(self):
        self.fedgrab("data", "partition", *TINY, "--json", "good.json")
        good = json.loads((self.folder / "good.json").read_text())["clients"]
        self.refuse_file(json.dumps({"clients": [*good, []]}), "client 4 has no sample")
        self.refuse_file(json.dumps({"clients": good[:-1]}), "belong to no client")
        self.refuse_file(json.dumps({"clients": [*good, [good[0][0]]]}), "given twice")
        self.refuse_file(json.dumps({"clients": [*good, [10**6]]}), "1000000", "not in the training set")
        self.refuse_file('{"clients": [[1, 2', "JSON")
        self.refuse_file('[]', "clients")
        (self.folder / "split.json").unlink()
        self.refuse_run(DATA, ["--set", "partition.kind=file", "--set", "partition.file=split.json"], "split.json")
        self.refuse_run(USAGE, ["--set", "partition.kind=file"], "partition.file")


class Checkpoints(Errors):
    @classmethod
    def setUpClass(cls):
        cls.runs = new_folder(cls)
        train(cls.runs, "--rounds", 2, "--method", "fedgrab", "--out", "cnn")
        train(cls.runs, "--rounds", 2, "--model", "resnet8", "--method", "fedavg", "--out", "resnet8")

    def setUp(self):
        super().setUp()
        shutil.copytree(self.runs / "cnn", self.folder / "out")
        self.checkpoint = self.folder / "out" / "checkpoints" / "round-000002.safetensors"
        self.bytes = self.checkpoint.read_bytes()

    def refuse_resume(self, *says):
        files = [self.folder / "out" / name for name in ("config.toml", "metrics.jsonl", "summary.json")]
        before = [file.read_text() for file in files]
        self.refuse(CHECKPOINT, ["run", "--resume", "--out", "out", "--rounds", 4, "--quiet"], *says)
        self.assertEqual(before, [file.read_text() for file in files])

    def test_sound_one_resumes(self):
        self.fedgrab("run", "--resume", "--out", "out", "--rounds", 3)
        self.assertEqual(3, len(metrics(self.folder / "out")))

    def test_truncated(self):
        for size in (0, 5, 100, len(self.bytes) // 2, len(self.bytes) - 1):
            self.checkpoint.write_bytes(self.bytes[:size])
            with self.subTest(size=size):
                self.refuse_resume("out/checkpoints/round-000002.safetensors")

    def test_corrupt(self):
        length, = struct.unpack("<Q", self.bytes[:8])
        for name, content in (("header", self.bytes[:20] + b"\0\xff{" + self.bytes[23:]), ("noise", b"\xff" * 1000),
                              ("description", self.bytes[:8] + self.bytes[8:8 + length].replace(b"architecture", b"architechurn") + self.bytes[8 + length:])):
            self.checkpoint.write_bytes(content)
            with self.subTest(name):
                self.refuse_resume("out/checkpoints/round-000002.safetensors")

    def test_every_field_of_the_description_damaged(self):
        length, = struct.unpack("<Q", self.bytes[:8])
        header = json.loads(self.bytes[8:8 + length])
        card = json.loads(header["__metadata__"]["fedgrab"])
        for field in card:
            deleted = {key: value for key, value in card.items() if key != field}
            mistyped = card | {field: {"not": "this"}}
            for command, damaged in ((["eval"], mistyped), (["export", "-o", "x.pt"], deleted)):
                if damaged is deleted and field in ("head_projected", "head_offset", "head_shift"):  # absent in files of version 0.1
                    continue
                header["__metadata__"]["fedgrab"] = json.dumps(damaged)
                text = json.dumps(header).encode()
                (self.folder / "damaged.safetensors").write_bytes(
                    struct.pack("<Q", len(text)) + text + self.bytes[8 + length:])
                with self.subTest(command[0], field=field):
                    self.refuse(CHECKPOINT, [*command, "damaged.safetensors"], "damaged.safetensors")

    def test_of_another_model(self):
        shutil.copy(self.runs / "resnet8" / "checkpoints" / "round-000002.safetensors", self.checkpoint)
        self.refuse_resume("out/checkpoints/round-000002.safetensors")

    def test_fewer_rounds_on_record_than_saved(self):
        (self.folder / "out" / "metrics.jsonl").write_bytes(b"")
        self.refuse_resume("out/metrics.jsonl", "round 2")

    def test_evaluating(self):
        (self.folder / "broken.safetensors").write_bytes(self.bytes[:100])
        (self.folder / "empty").mkdir()
        write_ppm(self.folder / "x.ppm", (1, 2, 3))
        for command in (["eval"], ["predict"], ["export", "-o", "x.pt"]):
            images = ["x.ppm"] if command == ["predict"] else []
            for model in ("broken.safetensors", "empty", "nowhere"):
                with self.subTest(command[0], model=model):
                    self.refuse(CHECKPOINT, [*command, model, *images], model)
        write_image_folder(self.folder / "data")
        self.refuse(CHECKPOINT, ["eval", "out", "--set", "data.name=folder", "--set", "data.path=data"], "10 classes")

    def test_evaluating_on_classes_of_other_names(self):
        write_image_folder(self.folder / "data")
        shutil.rmtree(self.folder / "out")
        train(self.folder, "--rounds", 1, "--clients", 2, "--data", "folder", "--data-path", "data", "--set", "data.size=16", "--out", "out")
        self.fedgrab("eval", "out")
        (self.folder / "data" / "red").rename(self.folder / "data" / "rosso")
        self.refuse(CHECKPOINT, ["eval", "out"], "out", "classes that differ", "rosso", "red")

    def test_starting_from_another_model(self):
        model = self.runs / "resnet8" / "model.safetensors"
        shutil.rmtree(self.folder / "out")
        self.refuse(CHECKPOINT, ["run", *TINY, "--quiet", "--method", "fedavg", "--set", f"model.init={model}", "--out", "out"], model)

    def test_predicting_what_is_no_image(self):
        (self.folder / "x.png").write_bytes(b"no image")
        self.refuse(DATA, ["predict", "out", "x.png"], "x.png")
        self.refuse(DATA, ["predict", "out", "nowhere.png"], "nowhere.png")


class AddressSpace(Errors):
    def test_under_a_low_limit_a_run_ends_or_says_why_not(self):
        """OpenBLAS tries without end to get memory that a limit does not allow."""
        outcomes = set()
        for mebibytes in range(600, 2000, 100):
            limit = mebibytes << 20
            process = start("run", *TINY, "--rounds", 1, "--quiet", "--out", f"out{mebibytes}", folder=self.folder,
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
            _, err = process.communicate()
            if process.returncode == 127:  # the system could not even load the libraries
                continue
            with self.subTest(mebibytes=mebibytes):
                self.assertIn(process.returncode, (0, OTHER), err)
                if process.returncode == OTHER:
                    self.check_line(err, "memory: ")
            outcomes.add(process.returncode)
        self.assertEqual({0, OTHER}, outcomes)


class Disk(Errors):
    saving = ["--set", "checkpoint.every=1", "--set", "checkpoint.keep=5", "--quiet"]

    def test_unwritable_output(self):
        (self.folder / "file").write_text("a file, not a folder")
        self.refuse(OTHER, ["run", *TINY, "--out", "file/out"], "file/out")
        self.refuse(OTHER, ["run", *TINY, "--out", "file"], "file")
        self.refuse(OTHER, ["init", "file/my.toml"], "file/my.toml")
        self.refuse(OTHER, ["init", "nowhere/my.toml"], "nowhere/my.toml")
        self.refuse(OTHER, ["data", "partition", *TINY, "--svg", "file/x.svg"], "file/x.svg")
        train(self.folder, "--rounds", 1, "--out", "out")
        for form in ("torchscript", "safetensors"):
            self.refuse(OTHER, ["export", "out", "--format", form, "-o", "file/model"], "file/model")

    def test_full_standard_output(self):
        for command in (["version"], ["params"], ["--help"]):
            with open("/dev/full", "w") as full, self.subTest(command[0]):
                done = subprocess.run([PROGRAM, *command], stdout=full, stderr=subprocess.PIPE, text=True)
                self.assertEqual(OTHER, done.returncode, done.stderr)
                self.check_line(done.stderr, "standard output: cannot write all of it", "is the disk full?")

    def test_file_too_large(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        no_samples = ["--set", "record.samples=0"]  # they would be the first file that is too large
        process = start("run", *TINY, *self.saving, *no_samples, "--out", "out", folder=self.folder, preexec_fn=limit)
        _, err = process.communicate()
        self.assertEqual(OTHER, process.returncode, err)
        self.check_line(err, "out/checkpoints/round-000001.safetensors", "File too large")
        self.assertEqual([], half_written(self.folder))
        self.fedgrab("run", *self.saving, "--resume", "--out", "out")
        self.fedgrab("run", *TINY, *self.saving, *no_samples, "--out", "whole")
        self.assertEqual(result(self.folder / "whole"), result(self.folder / "out"))

    def test_full_disk(self):
        """On a disk of 256 KB of its own; with more room the run goes on as if nothing had happened."""
        own_disk = ["unshare", "--map-root-user", "--mount"]
        if subprocess.run([*own_disk, "mount", "-t", "tmpfs", "tmpfs", self.folder], capture_output=True).returncode != 0:
            self.skipTest("this system lets nobody mount a disk")
        (self.folder / "disk").mkdir()
        script = """
          mount -t tmpfs -o size=256k tmpfs disk || exit 99
          "$@" --out disk/out 2>failed.txt; echo $? >code.txt
          cp -r disk/out failed
          mount -o remount,size=64m disk && "$@" --resume --out disk/out 2>resumed.txt && cp -r disk/out resumed
        """
        command = [PROGRAM, "run", *TINY, *self.saving]
        done = subprocess.run([*own_disk, "bash", "-c", script, "test", *command], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual("1", (self.folder / "code.txt").read_text().strip())
        self.check_line((self.folder / "failed.txt").read_text(), "disk/out/", "No space left on device", "free some space")
        self.assertEqual([], half_written(self.folder / "failed"))
        self.assertTrue((self.folder / "failed" / "metrics.jsonl").read_text().endswith("}\n"))
        self.fedgrab("run", *TINY, *self.saving, "--out", "whole")
        self.assertEqual(result(self.folder / "whole"), result(self.folder / "resumed"))


if __name__ == "__main__":
    unittest.main()
