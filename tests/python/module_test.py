"""The module as its users meet it: golden traces, exceptions, memory, and beside PyTorch."""

import gc
import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from pathlib import Path

import numpy as np

import fedgrab

TRACES = Path(__file__).resolve().parents[1] / "objective" / "sgb-reference.json"
TINY = {"partition.clients": 3, "data.per_class": 30, "data.test_per_class": 10, "train": {"local_epochs": 1, "rounds": 2}}


def some_logits(batch=4, classes=3, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(batch, classes)).astype(np.float32), random.integers(classes, size=batch)


def python(code, **environment):
    """In a process of its own: what it printed, and the last line of what it complained."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=os.environ | environment)
    return done.stdout.strip(), done.stderr.strip().splitlines()[-1:]


class GoldenTraces(unittest.TestCase):
    """Of the published implementation, gate decisions included."""

    def test_step_by_step(self):
        cases = json.loads(TRACES.read_text())
        self.assertGreaterEqual(len(cases), 3)
        for case in cases:
            parameters = {key: case[key] for key in ("kp", "ki", "kd", "gamma", "delta", "zeta", "target")}
            balancer = fedgrab.Balancer(case["classes"], form=case["objective"], clamp=0, conditional_integration=False, **parameters)
            for number, step in enumerate(case["trace"]):
                with self.subTest(case["name"], step=number):
                    loss, gradient = balancer.step(np.array(step["logits"], np.float32), np.array(step["labels"]),
                                                   exempt=np.array(step["exempt"]))
                    self.assertAlmostEqual(step["loss"], loss, delta=1e-6 * abs(step["loss"]))
                    close = {"rtol": 5e-4, "atol": 1e-6}  # double sums against float ones, as in balancer_test.cpp
                    np.testing.assert_allclose(gradient, step["grad"], **close)
                    for ours, theirs in zip(balancer.beta, (step["beta_pos"], step["beta_neg"])):
                        np.testing.assert_allclose(ours, theirs, **close)
                    np.testing.assert_allclose(balancer.positive, step["cum_pos"], rtol=1e-5, atol=1e-6)
                    np.testing.assert_allclose(balancer.negative, step["cum_neg"], rtol=1e-5, atol=1e-6)
                    np.testing.assert_array_equal(balancer.delta, balancer.positive - balancer.negative)


class Privacy(unittest.TestCase):
    def test_accountant(self):
        spent = fedgrab.privacy_spent(4, 1000, 100, 40, 1e-5)
        self.assertAlmostEqual(3.2618, spent, places=3)
        self.assertLess(spent, fedgrab.privacy_spent(4, 1000, 1000, 40, 1e-5))
        self.assertLess(fedgrab.privacy_spent(4, 1000, 100, 40, 1e-5, sampling="poisson"), spent)
        self.assertEqual(float("inf"), fedgrab.privacy_spent(0, 1000, 100, 1, 1e-5))

    def test_the_line_of_the_tutorial(self):
        page = (Path(__file__).resolve().parents[2] / "docs" / "tutorial" / "5-differential-privacy.md").read_text(encoding="utf-8")
        call, shown = re.search(r"(?m)^(fedgrab\.privacy_spent\(.*\)) +# ([\d.]+)$", page).groups()
        self.assertEqual(shown, f"{eval(call):.2f}")

    def test_what_makes_no_sense_is_refused(self):
        for arguments in ((-1, 10, 5, 1, 1e-5), (1, 10, 11, 1, 1e-5), (1, 10, 5, -1, 1e-5), (1, 10, 5, 1, 0)):
            with self.subTest(arguments), self.assertRaises(ValueError):
                fedgrab.privacy_spent(*arguments)
        with self.assertRaisesRegex(ValueError, "fixed or poisson"):
            fedgrab.privacy_spent(1, 10, 5, 1, 1e-5, sampling="shuffled")

    def test_places_leave_the_noise_to_the_framework_that_carries_the_weights(self):
        private = TINY | {"method": "fedavg", "server.weights": "uniform", "server.clip": 1, "server.noise": 1}
        for make in (lambda: fedgrab.Client(private), lambda: fedgrab.Server(private, classes=10, shape=(1, 16, 16))):
            with self.assertRaisesRegex(fedgrab.UsageError, "server.clip.*train.seed"):
                make()


class Balancing(unittest.TestCase):
    def test_restored_goes_on_to_the_same_bits(self):
        logits, labels = some_logits()
        prior = np.array([0.9, 0.5, 0.1])
        ours = fedgrab.Balancer(3, seed=7)
        for _ in range(5):
            ours.step(logits, labels, prior=prior)
        copy = fedgrab.Balancer(3, seed=7)
        copy.restore(ours.save())
        self.assertEqual(5, copy.steps)
        for _ in range(5):
            for one, other in zip(ours.step(logits, labels, prior=prior), copy.step(logits, labels, prior=prior)):
                np.testing.assert_array_equal(one, other)
        self.assertEqual(ours.save(), copy.save())

    def test_a_prior_of_one_exempts_and_of_zero_never(self):
        logits, labels = some_logits()
        balancer = fedgrab.Balancer(3)
        for _ in range(4):
            balancer.step(logits, labels, prior=[1.0, 0.0, 0.0])
        self.assertEqual(0, balancer.positive[0] + balancer.negative[0])
        self.assertTrue((balancer.positive + balancer.negative)[1:].all())

    def test_takes_any_layout_and_precision(self):
        logits, labels = some_logits(6, 4)
        expected = fedgrab.Balancer(4).step(logits, labels)[1]
        wide = np.zeros((6, 8), np.float32)
        wide[:, ::2] = logits
        for other in (np.asfortranarray(logits), wide[:, ::2], logits[::-1][::-1], logits.astype(">f4"), logits.tolist()):
            np.testing.assert_allclose(fedgrab.Balancer(4).step(other, labels.astype(np.uint8))[1], expected, rtol=1e-6)
        self.assertEqual(np.float64, fedgrab.Balancer(4).step(logits.astype(float), labels)[1].dtype)
        logits.flags.writeable = False
        fedgrab.Balancer(4).step(logits, labels)

    def test_threads_take_turns(self):
        logits, labels = some_logits(64, 100)
        balancer = fedgrab.Balancer(100)

        def work():
            for _ in range(200):
                balancer.step(logits, labels % 100, prior=np.full(100, 0.5))
                balancer.restore(balancer.save())
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertTrue(np.isfinite(balancer.delta).all())

    def test_prior_is_dpa(self):
        weight = np.diag([3.0, 4.0, 1.0])
        np.testing.assert_allclose(fedgrab.prior(weight, "share"), np.array([3, 4, 1]) / 8)
        np.testing.assert_allclose(fedgrab.prior(weight), [0.7, 1, 0.1])
        np.testing.assert_allclose(fedgrab.prior(weight, "rank", span_min=0.25), [0.5, 1, 0.25])


class Complaints(unittest.TestCase):
    def test_of_a_step(self):
        logits, labels = some_logits()
        bad = logits.copy()
        bad[1, 2] = np.nan
        for error, message, arguments in (
                (ValueError, r"logits: expected shape \[batch, 3\], got \[3, 4\]", (logits.T, labels)),
                (ValueError, r"logits: expected shape \[batch, 3\], got \[3\]", (logits[0], labels)),
                (ValueError, r"logits: expected shape \[batch, 3\], got \[0, 3\]", (logits[:0], labels[:0])),
                (ValueError, r"labels: expected shape \[4\], got \[3\]", (logits, labels[:3])),
                (ValueError, "labels: not all within 0 … 2", (logits, labels + 5)),
                (ValueError, "logits: NaN or infinity", (bad, labels)),
                (ValueError, "logits: NaN or infinity", (bad * np.inf, labels)),
                (TypeError, "logits: expected float32 or float64, got int64", (logits.astype(int), labels)),
                (TypeError, "logits: expected float32 or float64, got float16", (logits.astype(np.float16), labels)),
                (TypeError, "labels: expected integers, got float64", (logits, labels.astype(float))),
                (TypeError, "logits: expected float32 or float64, got <U", ("abc", labels))):
            with self.subTest(message), self.assertRaisesRegex(error, message):
                fedgrab.Balancer(3).step(*arguments)
        for error, message, gate in (
                (ValueError, r"prior: expected shape \[3\], got \[2\]", {"prior": [0.1, 0.2]}),
                (ValueError, "prior: not all within 0 … 1", {"prior": [0.1, 0.2, 1.5]}),
                (ValueError, "prior: NaN", {"prior": [0.1, 0.2, np.nan]}),
                (TypeError, "exempt: expected bool, got int64", {"exempt": [0, 1, 1]}),
                (ValueError, r"exempt: expected shape \[3\], got \[1\]", {"exempt": [True]}),
                (ValueError, "give one of them", {"exempt": [True] * 3, "prior": [0.1] * 3})):
            with self.subTest(message), self.assertRaisesRegex(error, message):
                fedgrab.Balancer(3).step(logits, labels, **gate)

    def test_a_refused_step_changes_nothing(self):
        logits, labels = some_logits()
        balancer = fedgrab.Balancer(3)
        balancer.step(logits, labels)
        before = balancer.save()
        with self.assertRaises(ValueError):
            balancer.step(logits * np.nan, labels)
        self.assertEqual(before, balancer.save())
        listed = fedgrab.Balancer(3, mount="list", mount_classes=[2])
        before = listed.save()
        with self.assertRaisesRegex(ValueError, "leave mount at all"):
            listed.step(logits, labels, exempt=[True] * 3)
        self.assertEqual(before, listed.save())

    def test_of_parameters_have_the_words_of_the_core(self):
        for message, call in (
                (r"sgb\.kp: -1.0 is out of bounds", lambda: fedgrab.Balancer(3, kp=-1)),
                (r"sgb\.gama.*gamma", lambda: fedgrab.Balancer(3, gama=1)),
                (r"train\.round.*train\.rounds", lambda: fedgrab.run({"train.round": 3})),
                (r"train\.lr: \"abc\" is not a valid value", lambda: fedgrab.run({"train": {"lr": "abc"}})),
                (r"client: 5 of a partition over 3 clients", lambda: fedgrab.Client(TINY, 5)),
                (r"scaffold needs more between server and clients", lambda: fedgrab.Client(TINY | {"method": "scaffold"})),
                (r"server\.weights: only a simulation", lambda: fedgrab.Client(TINY | {"method": "fedavg", "server.weights": "shuffled"})),
                (r"server\.weights: only a simulation", lambda: fedgrab.Server({"server.weights": "shuffled"}, classes=3, shape=(1, 16, 16))),
                (r"scale: expected share", lambda: fedgrab.prior(np.eye(3), "wide")),
                (r"scale: expected share", lambda: fedgrab.prior(np.eye(3), "max"))):
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                call()
        with self.assertRaisesRegex(fedgrab.Error, "no-such-folder"):
            fedgrab.load_data({"data.name": "folder", "data.path": "/no-such-folder"})
        with self.assertRaisesRegex(TypeError, "train.lr: a parameter cannot be a set"):
            fedgrab.run({"train.lr": {0.1}})

    def test_of_states(self):
        def changed(state, **arrays):
            file = io.BytesIO()
            np.savez(file, **dict(np.load(io.BytesIO(state))) | arrays)
            return file.getvalue()

        ours, one = fedgrab.Balancer(3).save(), io.BytesIO()
        np.save(one, np.ones(3))
        for state in (b"", b"nonsense", one.getvalue(), fedgrab.Balancer(4).save(), changed(ours, steps=np.array([1, 2])),
                      changed(ours, steps=np.array([-1])), changed(ours, steps=np.array([np.nan]))):
            with self.subTest(state[:8]), self.assertRaises(ValueError):
                fedgrab.Balancer(3).restore(state)
        client = fedgrab.Client(TINY)
        client.train(client.initial_weights(), 1)
        theirs = client.save()
        for wrong in ({"sgb.error": np.zeros(3)}, {"sgb.error": np.full(10, np.nan)}, {"sgb.error": np.zeros(10, np.int64)}):
            with self.subTest(wrong), self.assertRaisesRegex(ValueError, "state: .*sgb.error"):
                client.restore(changed(theirs, **wrong))
        self.assertEqual(theirs, client.save())

    def test_of_weights_beyond_float32(self):
        client = fedgrab.Client(TINY)
        with self.assertRaisesRegex(ValueError, "float32"):
            client.evaluate({name: values.astype(float) + 1e300 for name, values in client.initial_weights().items()})


class Federated(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_clients_averaged_are_the_run(self):
        run = fedgrab.run(TINY, out=self.folder / "run")
        self.assertEqual([1, 2], [record["round"] for record in run.records])
        clients = [fedgrab.Client(TINY, k) for k in range(3)]
        self.assertEqual([len(part) for part in fedgrab.partition(TINY)], [client.samples for client in clients])
        weights = clients[0].initial_weights()
        server = fedgrab.Server(TINY, classes=len(clients[0].class_names), shape=clients[0].shape)
        for name, values in server.weights().items():
            np.testing.assert_array_equal(weights[name], values)
        for round in (1, 2):
            results = [client.train(list(weights.values()), round) for client in clients]
            total = sum(result.samples for result in results)
            average = {name: sum(result.weights[name] * (result.samples / total) for result in results) for name in weights}
            weights = server.finish(average, round)
        self.assertAlmostEqual(run.records[-1]["acc"]["all"], fedgrab.Evaluator(TINY).evaluate(weights)["all"], delta=0.011)
        clients[0].save_model(weights, self.folder / "model.safetensors")
        saved = (self.folder / "model.safetensors").read_bytes()
        header = json.loads(saved[8:8 + int.from_bytes(saved[:8], "little")])
        self.assertIn("fc.weight", header)
        card = json.loads(header["__metadata__"]["fedgrab"])
        self.assertEqual(clients[0].class_names, card["class_names"])
        loss = sum(result.metrics["loss"] * result.samples for result in results) / total
        self.assertAlmostEqual(run.records[-1]["loss"], loss, places=3)

    def test_clients_averaged_exactly_are_the_run_to_the_bit(self):
        """The sums of a run are integers, multiples of 2^-40: they do not depend on the order."""
        for method in ("fedgrab", "fedprox", "moon", "fedavgm", "logit-adjustment"):
            with self.subTest(method):
                config = TINY | {"method": method}
                out = self.folder / method
                fedgrab.run(config, out=out)
                saved = (out / "checkpoints" / "round-000002.safetensors").read_bytes()
                length = int.from_bytes(saved[:8], "little")
                header = json.loads(saved[8:8 + length])
                clients = [fedgrab.Client(config, k) for k in range(3)]
                server = fedgrab.Server(config, classes=10, shape=clients[0].shape)
                weights, total = server.weights(), sum(client.samples for client in clients)
                for round in (1, 2):
                    results = [client.train(weights, round) for client in clients]
                    weights = server.finish({
                        name: (sum(np.rint(result.weights[name].astype(float) * (result.samples / total) * 2.0**40) for result in results)
                               / 2.0**40).astype(np.float32) for name in weights}, round)
                for name, values in weights.items():
                    first, last = header[name]["data_offsets"]
                    self.assertEqual(saved[8 + length + first:8 + length + last], values.tobytes(), name)

    def test_a_server_has_the_optimiser_of_its_method(self):
        shape = {"classes": 3, "shape": (1, 16, 16)}
        for method, second in (("fedavg", 2.0), ("fedavgm", 2.9)):  # momentum 0.9 carries the first step into the second
            server = fedgrab.Server({"method": method}, **shape)
            start = server.weights()["conv1.weight"]
            server.finish({name: values + 1 for name, values in server.weights().items()}, 1)
            after = server.finish({name: values + 1 for name, values in server.weights().items()}, 2)["conv1.weight"]
            np.testing.assert_allclose(after, start + second, rtol=1e-5)
        with self.assertRaisesRegex(fedgrab.UsageError, "needs more between server and clients"):
            fedgrab.Server({"method": "scaffold"}, **shape)

    def test_a_client_goes_on_where_it_was_saved(self):
        config = TINY | {"method": "fedgrab"}
        client = fedgrab.Client(config, 1)
        first = client.train(client.initial_weights(), 1)
        other = fedgrab.Client(config, 1)
        other.restore(client.save())
        forgetful = fedgrab.Client(config, 1)
        expected = client.train(first.weights, 2).weights
        for name, values in other.train(first.weights, 2).weights.items():
            np.testing.assert_array_equal(expected[name], values)
        different = forgetful.train(first.weights, 2).weights
        self.assertTrue(any((expected[name] != different[name]).any() for name in expected), "the state of the balancers matters")

    def test_a_client_complains(self):
        client = fedgrab.Client(TINY, 0)
        weights = client.initial_weights()
        name = next(iter(weights))
        for error, message, given in (
                (ValueError, f"{name} is missing", {key: weights[key] for key in list(weights)[1:]}),
                (ValueError, "arrays where the model has", weights | {"another": np.zeros(1)}),
                (ValueError, "arrays where the model has", list(weights.values())[1:]),
                (ValueError, rf"{name}: expected shape", weights | {name: np.zeros((2, 2))}),
                (ValueError, f"{name}: NaN", weights | {name: weights[name] * np.nan}),
                (TypeError, f"{name}: expected float32", weights | {name: weights[name].astype(int)})):
            with self.subTest(message), self.assertRaisesRegex(error, message):
                client.train(given, 1)
        with self.assertRaisesRegex(ValueError, "round: expected 1"):
            client.train(weights, 0)

    def test_a_place_may_lack_a_class(self):
        for name, shades in (("ill", 200), ("well", 30)):
            for number in range(4):
                image = np.full((16, 16), shades + number, np.uint8)
                (self.folder / name).mkdir(exist_ok=True)
                (self.folder / name / f"{number}.pgm").write_bytes(b"P5 16 16 255\n" + image.tobytes())
        config = {"data.name": "folder", "data.path": self.folder, "data.size": 16}
        names = ["dying", "ill", "well"]
        client = fedgrab.Client(config, 2, own_data=True, classes=names)
        self.assertEqual(names, client.class_names)
        start = fedgrab.Server(config, classes=3, shape=(1, 16, 16)).weights()
        self.assertEqual(6, client.train(start, 1).samples)
        with self.assertRaisesRegex(fedgrab.Error, "a class ill that the federation does not know"):
            fedgrab.Client(config, own_data=True, classes=["dying", "well"])
        with self.assertRaisesRegex(ValueError, "a class twice"):
            fedgrab.Client(config, own_data=True, classes=[*names, "ill"])
        for file in [*(self.folder / "well").iterdir(), *sorted((self.folder / "ill").iterdir())[2:]]:
            file.unlink()
        (self.folder / "well").rmdir()
        alone = fedgrab.Client(config, own_data=True, classes=names)
        self.assertEqual(1, alone.train(start, 1).samples)

    def test_data_are_not_copied(self):
        data = fedgrab.load_data(TINY)
        self.assertEqual((300, 3, 32, 32), data.train.images.shape)
        self.assertFalse(data.train.images.flags.owndata)
        self.assertFalse(data.train.images.flags.writeable)
        labels = data.train.labels[data.samples]
        self.assertEqual(sorted(range(len(labels))),
                         sorted(np.concatenate(fedgrab.partition({"partition.clients": 4, "partition.kind": "iid"}, labels=labels))))

    def test_other_threads_run_while_it_trains(self):
        ticks = []
        done = threading.Event()
        ticker = threading.Thread(target=lambda: [ticks.append(done.wait(0.001)) for _ in iter(done.is_set, True)])
        client = fedgrab.Client({**TINY, "train": {"local_epochs": 20}}, 0)
        ticker.start()
        client.train(client.initial_weights(), 1)
        done.set()
        ticker.join()
        self.assertGreater(len(ticks), 1, "the interpreter stood still")

    def test_ctrl_c_ends_a_run_and_it_can_be_resumed(self):
        out = self.folder / "long"
        long = TINY | {"train": {"local_epochs": 1, "rounds": 100000, "schedule": "constant"}}

        def interrupt():
            while not (out / "metrics.jsonl").exists() or not (out / "metrics.jsonl").read_text():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)
        thread = threading.Thread(target=interrupt)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            fedgrab.run(long, out=out)
        thread.join()
        finished = len((out / "metrics.jsonl").read_text().splitlines())
        run = fedgrab.run({"train.rounds": finished + 1}, out=out, resume=True)
        self.assertEqual(finished + 1, len(run.records))

    def test_ctrl_c_ends_the_work_of_its_own_thread_alone(self):
        long = TINY | {"train": {"local_epochs": 1, "rounds": 100000}}
        ended, outs = [], [self.folder / "main", self.folder / "other"]

        def rounds(out):
            return (out / "metrics.jsonl").read_text().count("\n") if (out / "metrics.jsonl").exists() else 0

        def interrupt():
            while not all(map(rounds, outs)):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        def work():
            try:
                fedgrab.run(TINY | {"train": {"local_epochs": 1, "rounds": 100}}, out=outs[1])
            except BaseException as error:
                ended.append(error)
            else:
                ended.append("finished")
        threads = [threading.Thread(target=interrupt), threading.Thread(target=work)]
        for thread in threads:
            thread.start()
        with self.assertRaises(KeyboardInterrupt):
            fedgrab.run(long, out=outs[0])
        for thread in threads:
            thread.join()
        self.assertEqual(["finished"], ended)


class Leaks(unittest.TestCase):
    def grows(self, call, times=10_000):
        """Bytes of memory that so many calls have left behind, after as many to warm up."""
        def repeat():
            for _ in range(times):
                call()
            gc.collect()
            with open("/proc/self/statm") as statm:
                return int(statm.read().split()[1]) * resource.getpagesize()
        first = repeat()
        return repeat() - first

    def test_ten_thousand_calls_leave_nothing(self):
        logits, labels = some_logits(64, 100)
        balancer, weight = fedgrab.Balancer(100), np.ones((100, 64))
        state = balancer.save()

        def calls():
            balancer.step(logits, labels, prior=np.full(100, 0.5))
            balancer.beta, balancer.delta
            fedgrab.prior(weight)
            try:
                balancer.step(logits, labels[:1])
            except ValueError:
                pass
        self.assertLess(self.grows(calls), 4 << 20)  # one leaked gradient a call would be 256 MB
        self.assertLess(self.grows(lambda: balancer.restore(state), 1000), 4 << 20)


class BesideTorch(unittest.TestCase):
    """A torch with a LibTorch of its own is not needed to test what happens to one: a package of that shape is."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.torch = Path(folder.name) / "torch"
        (self.torch / "lib").mkdir(parents=True)
        self.path = os.pathsep.join([folder.name, *filter(None, [os.environ.get("PYTHONPATH")])])

    def fake_torch(self, code=""):
        (self.torch / "__init__.py").write_text(code)

    def test_another_libtorch_after_fedgrab(self):
        self.fake_torch()
        (self.torch / "lib" / "libtorch_cpu.so").write_bytes(b"another")
        out, complaint = python("import fedgrab; fedgrab.Balancer(1); print('here'); import torch; print('too far')", PYTHONPATH=self.path)
        self.assertEqual("here", out)
        self.assertRegex(complaint[0], "ImportError: fedgrab uses the LibTorch at .*they cannot share a process")

    def test_another_libtorch_before_fedgrab(self):
        library = self.torch / "lib" / "libtorch_cpu.so"
        library.write_bytes(bytes(4096))
        self.fake_torch(f"import mmap; file = open({str(library)!r}, 'r+b'); mapped = mmap.mmap(file.fileno(), 4096)")
        for first_use in ("fedgrab.Balancer(1)", "from fedgrab import run", "import fedgrab.client"):
            out, complaint = python(f"import torch; print('here'); import fedgrab; {first_use}; print('too far')", PYTHONPATH=self.path)
            self.assertEqual("here", out)
            self.assertRegex(complaint[0], "ImportError: fedgrab uses the LibTorch at .*they cannot share a process")

    def test_another_libtorch_beside_what_needs_none(self):
        library = self.torch / "lib" / "libtorch_cpu.so"
        library.write_bytes(bytes(4096))
        self.fake_torch(f"import mmap; file = open({str(library)!r}, 'r+b'); mapped = mmap.mmap(file.fileno(), 4096)")
        for order in ("fedgrab, torch", "torch, fedgrab"):
            self.assertEqual(("both", []), python(f"import {order}; print('both')", PYTHONPATH=self.path))

    def test_the_same_libtorch(self):
        from fedgrab._libtorch import PATH
        self.fake_torch()
        (self.torch / "lib" / "libtorch_cpu.so").symlink_to(PATH)
        for order in ("fedgrab, torch", "torch, fedgrab"):
            self.assertEqual(("both", []), python(f"import {order}; fedgrab.Balancer(3); print('both')", PYTHONPATH=self.path))


if __name__ == "__main__":
    unittest.main()
