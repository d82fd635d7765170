"""The server's strategy by itself: no reply of a site, however it is made, ends a run or reaches the average unchecked."""

import math
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

TREE = Path(__file__).resolve().parents[2]
sys.path += [str(TREE / "flower")]

import fedgrab  # noqa: E402
from federation import message_to  # noqa: E402
from fedgrab_flower import one_by_one, run_config  # noqa: E402
from fedgrab_flower.options import read_options, strategy_class  # noqa: E402
from fedgrab_flower.privacy import require_uniform, spent, warn_of_privacy  # noqa: E402
from fedgrab_flower.records import to_record  # noqa: E402
from fedgrab_flower.strategy import make_strategy  # noqa: E402
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict  # noqa: E402
from flwr.serverapp import Grid, strategy  # noqa: E402

NAME = "conv1.weight"
DEFAULTS = {"rounds": 3, "nodes": 3, "quorum": 2, "failed-rounds": 3, "round-timeout": 60.0, "evaluate": "none", "max-examples": 1000,
            "max-weight": 10.0, "max-update": 10.0, "dp-clip": 0.0, "dp-noise": 0.0, "dp-delta": 1e-5}


class Nodes(Grid):
    """A federation of nodes 1, 2 … that answer what a test gives them."""

    def __init__(self, count):
        self.nodes = range(1, count + 1)
        self.answers = {}

    def get_node_ids(self):
        return self.nodes

    def push_messages(self, messages):
        return [str(message.metadata.dst_node_id) for message in messages]

    def pull_messages(self, message_ids):
        for identity in message_ids:
            answer = self.answers[int(identity)]
            if isinstance(answer, Exception):
                raise answer
            yield answer

    set_run = run = create_message = send_and_receive = get_nodes = None


class Case(unittest.TestCase):
    def start(self, name="FedAvg", options="", parameters={}, **config):  # noqa: B006
        """A strategy that has sent the first model to its nodes."""
        self.plan = run_config.plan_of(DEFAULTS | {key.replace("_", "-"): value for key, value in config.items()})
        self.server = fedgrab.Server({"server.optimizer": "none"} | parameters, classes=3, shape=(3, 16, 16))
        self.strategy = make_strategy(name, options, self.server, self.plan)
        # Outside of a ServerApp Flower makes no messages of its own.
        self.strategy.average._construct_messages = lambda record, nodes, kind: [message_to(node, record) for node in nodes]
        self.model = self.server.weights()
        self.send(1, self.model)
        return self.strategy

    def send(self, server_round, weights):
        self.strategy.configure_train(server_round, to_record(weights), ConfigRecord(), Nodes(self.plan.nodes))

    def weights(self, shift):
        return {name: values + np.float32(shift) for name, values in self.model.items()}

    def reply(self, node, content):
        return Message(content, reply_to=message_to(node, RecordDict()))

    def good(self, node, shift=None, examples=4, **metrics):
        private = self.plan.privacy is not None
        given = {"num-examples": examples} | ({} if private else {"loss": 1.0}) | metrics
        return RecordDict({"arrays": to_record(self.weights(0.01 * node if shift is None else shift)), "metrics": MetricRecord(given),
                           "site": ConfigRecord({"number": node})})

    def replies(self, *contents):
        """Of the first nodes good ones, after them these."""
        honest = self.plan.nodes - len(contents)
        return [self.reply(node, content) for node, content in enumerate([*map(self.good, range(1, honest + 1)), *contents], 1)]

    def value(self, arrays):
        """By how much the model was moved."""
        return float(np.mean(arrays[NAME].numpy() - self.model[NAME]))


def changed(content, **records):
    for name, record in records.items():
        if record is None:
            del content[name]
        else:
            content[name] = record
    return content


class BadReplies(Case):
    def bad(self):
        """What a hostile or broken site may send, and what the log says of it."""
        good = self.good
        def array(change):
            return changed(good(3), arrays=to_record(self.weights(0.03) | {NAME: change(self.weights(0.03)[NAME])}))

        def named(**metrics):
            return good(3, **{key.replace("_", "-"): value for key, value in metrics.items()})

        data = Array(self.weights(0.03)[NAME])
        def raw(**fields):
            values = {"dtype": "float32", "shape": data.shape, "stype": data.stype, "data": data.data} | fields
            record = to_record(self.weights(0.03))
            record[NAME] = Array(**values)
            return changed(good(3), arrays=record)

        variances = {name: -values for name, values in self.weights(0.03).items() if name == "bn1.running_var"}
        yield "no record of arrays", changed(good(3), arrays=None)
        yield "no record of metrics", changed(good(3), metrics=None)
        yield "no record of site", changed(good(3), site=None)
        yield "no record of arrays and metrics and site", RecordDict()
        yield "no record of arrays", changed(good(3), arrays=MetricRecord({"x": 1}))
        yield "4 records where 3", changed(good(3), more=to_record(self.model))
        yield "4 records where 3", changed(good(3), more=MetricRecord({"num-examples": 10**15}))
        yield "not finite", array(lambda w: w * np.nan)
        yield "not finite", array(lambda w: w * np.inf)
        yield "changed the model by", array(lambda w: w * 0 + np.float32(1e30))
        yield "changed the model by", changed(good(3), arrays=to_record(self.weights(1000)))
        yield "as float64", array(lambda w: w.astype(np.float64))
        yield "as complex64", array(lambda w: w.astype(np.complex64))
        yield "as int32", array(lambda w: w.astype(np.int32))
        yield "as float32 instead|as str", array(lambda w: np.full(w.shape, "x"))
        yield "more bytes", array(lambda w: np.full(w.shape, "a text of some length"))
        yield "another network, see", array(lambda w: w[:1])
        yield "names differ", changed(good(3), arrays=to_record({k: v for k, v in self.weights(0.03).items() if k != NAME}))
        yield "names differ", changed(good(3), arrays=to_record(self.weights(0.03) | {"x": np.zeros(1, np.float32)}))
        yield "names differ", changed(good(3), arrays=ArrayRecord())
        yield "more bytes", raw(data=b"x" * 10**6)
        yield r"cannot be read \(", raw(data=b"")
        yield r"cannot be read \(", raw(data=b"PK\x03\x04 not an archive")
        yield r"cannot be read \(TypeError", raw(stype="pickle")
        yield r"cannot be read \(", raw(data=huge_header())
        yield "negative variances", changed(good(3), arrays=to_record(self.weights(0.03) | variances))
        yield "num-examples that is not a number", named(num_examples=[4])
        yield "num-examples that is not a number", named(num_examples=[])
        yield "whole number", named(num_examples=-5)
        yield "whole number", named(num_examples=0)
        yield "whole number", named(num_examples=4.5)
        yield "more samples than max-examples=1000", named(num_examples=10**15)
        yield "num-examples that is not finite", named(num_examples=float("inf"))
        yield "loss that is not finite", named(loss=float("nan"))
        yield "loss that is not a number", named(loss=[1.0, 2.0])
        yield "other metrics", named(more=1)
        yield "other metrics", changed(good(3), metrics=MetricRecord({"num-examples": 4}))
        yield "other metrics", changed(good(3), metrics=MetricRecord())
        for number in (-1, 2**31, 1.5, "\x1b[31mtext", b"bytes", [3], True):
            yield "no usable site number", changed(good(3), site=ConfigRecord({"number": number}))
        yield "no usable site number", changed(good(3), site=ConfigRecord({"number": 3, "more": 1}))
        yield "no usable site number", changed(good(3), site=ConfigRecord())
        yield "sent back the model", changed(good(3), arrays=to_record(self.model))
        yield "same weights as node 1", changed(good(3), arrays=to_record(self.weights(0.01)))

    def test_are_left_out_and_named(self):
        self.start()
        for say, content in list(self.bad()):
            for name, expected in (("FedAvg", 0.015), ("FedMedian", 0.015), ("Krum", 0.01)):
                with self.subTest(strategy=name, say=say):
                    self.start(name)
                    with self.assertLogs("flwr", "WARNING") as logged:
                        arrays, _ = self.strategy.aggregate_train(1, self.replies(content))
                    self.assertRegex(logged.output[0], f"round 1: node 3.* (?:{say}).*; going on with 2 of 3")
                    self.assertNotIn("\x1b", "".join(logged.output))
                    self.assertAlmostEqual(expected, self.value(arrays), 5)

    def test_errors_and_silence_are_told_apart(self):
        for say, code in (("reports an error, which is in its own log", 2), ("did not answer", 5)):
            self.start()
            bad = Message(Error(code=code, reason="\x1b[31m text of a site"), reply_to=message_to(3, RecordDict()))
            with self.assertLogs("flwr", "WARNING") as logged:
                arrays, _ = self.strategy.aggregate_train(1, [*self.replies()[:2], bad])
            self.assertRegex(logged.output[0], f"node 3 {say}; going on with 2 of 3")
            self.assertNotIn("text of a site", "".join(logged.output))
            self.assertAlmostEqual(0.015, self.value(arrays), 5)

    def test_a_second_answer_and_a_stranger_do_not_count(self):
        self.start()
        again, stranger = self.reply(3, self.good(3, shift=0.5)), self.reply(77, self.good(77))
        with self.assertLogs("flwr", "WARNING") as logged:
            arrays, _ = self.strategy.aggregate_train(1, [*self.replies(), again, stranger])
        self.assertIn("node 3 (site 3) answered more than once", logged.output[0])
        self.assertAlmostEqual(0.02, self.value(arrays), 5)

    def test_a_replay_is_left_out(self):
        self.start()
        arrays, _ = self.strategy.aggregate_train(1, self.replies())
        self.send(2, {name: array.numpy() for name, array in arrays.items()})
        contents = [self.good(1, shift=0.05), self.good(2, shift=0.06), self.good(3)]
        with self.assertLogs("flwr", "WARNING") as logged:
            arrays, _ = self.strategy.aggregate_train(2, self.replies(*contents))
        self.assertIn("node 3 (site 3) sent weights of round 1 again", logged.output[0])
        self.assertAlmostEqual(0.055, self.value(arrays), 5)

    def test_an_old_model_is_no_update(self):
        self.start()
        arrays, _ = self.strategy.aggregate_train(1, self.replies())
        self.send(2, {name: array.numpy() for name, array in arrays.items()})
        contents = [self.good(1, shift=0.05), self.good(2, shift=0.06), changed(self.good(3), arrays=to_record(self.model))]
        with self.assertLogs("flwr", "WARNING") as logged:
            self.strategy.aggregate_train(2, self.replies(*contents))
        self.assertIn("sent weights of round 0 again", logged.output[0])

    def test_a_site_keeps_its_number(self):
        self.start()
        arrays, _ = self.strategy.aggregate_train(1, self.replies())
        self.send(2, {name: array.numpy() for name, array in arrays.items()})
        other = changed(self.good(3, shift=0.07), site=ConfigRecord({"number": 1}))
        with self.assertLogs("flwr", "WARNING") as logged:
            self.strategy.aggregate_train(2, self.replies(self.good(1, shift=0.05), self.good(2, shift=0.06), other))
        self.assertIn("node 3 (site 3) says that it is site 1 now", logged.output[0])

    def test_one_weight_is_bounded_by_the_others(self):
        self.start(max_examples=10**6)
        with self.assertLogs("flwr", "WARNING") as logged:
            arrays, _ = self.strategy.aggregate_train(1, self.replies(self.good(3, examples=10**6)))
        self.assertIn("claims 1000000 samples and counts as 40", logged.output[0])
        self.assertAlmostEqual((4 * 0.01 + 4 * 0.02 + 40 * 0.03) / 48, self.value(arrays), 5)

    def test_uniform_weights(self):
        self.start()
        uniform = make_strategy("FedAvg", "", self.server, self.plan, uniform=True)
        uniform.asked = {1, 2, 3}
        arrays, _ = uniform.aggregate_train(1, self.replies(self.good(3, examples=40)))
        self.assertAlmostEqual(0.02, self.value(arrays), 5)

    def test_evaluations(self):
        strategy = self.start(evaluate="clients")
        good = {"num-examples": 2, "accuracy": 0.5, "loss": 1.0}
        for bad in ({"accuracy": float("nan")}, {"accuracy": 1.5}, {"num-examples": [2]}, {"num-examples": 10**15}, {"more": 1}, {"loss": [1.0]}):
            replies = [self.reply(node, RecordDict({"metrics": MetricRecord(metrics)}))
                       for node, metrics in enumerate((good, good | {"accuracy": 1.0}, good | bad), 1)]
            with self.assertLogs("flwr", "WARNING") as logged:
                metrics = strategy.aggregate_evaluate(1, replies)
            self.assertIn("the evaluation of node 3 is left out", logged.output[0])
            self.assertEqual(0.75, metrics["accuracy"])
        with self.assertLogs("flwr", "WARNING"):
            self.assertIsNone(strategy.aggregate_evaluate(1, [self.reply(1, RecordDict())]))


def huge_header():
    """An array of numpy that says it has 10^15 numbers."""
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000,), }"
    return b"\x93NUMPY\x01\x00" + (len(text) + 1).to_bytes(2, "little") + text + b"\n"


class Transport(Case):
    def test_a_reply_that_cannot_be_decoded_takes_no_other_with_it(self):
        self.start()
        nodes = Nodes(3)
        messages = [message_to(node, RecordDict()) for node in (1, 2, 3)]
        nodes.answers = {1: self.reply(1, self.good(1)), 2: ValueError("Unexpected set of children"), 3: self.reply(3, self.good(3))}
        with self.assertLogs("flwr", "WARNING") as logged:
            replies = one_by_one.OneByOne(nodes).send_and_receive(messages, timeout=60)
        self.assertEqual([1, 3], [reply.metadata.src_node_id for reply in replies])
        self.assertIn("node 2 sent a reply that cannot be decoded (ValueError)", logged.output[0])

    def test_the_loss_of_the_superlink_is_an_error(self):
        nodes = Nodes(1)
        nodes.answers = {1: ConnectionRefusedError()}
        with self.assertRaises(ConnectionRefusedError):
            one_by_one.OneByOne(nodes).send_and_receive([message_to(1, RecordDict())], timeout=60)


class FailedRounds(Case):
    def fail_round(self, server_round):
        with self.assertLogs("flwr", "ERROR") as logged:
            self.assertEqual((None, None), self.strategy.aggregate_train(server_round, self.replies()[:1]))
        return logged.output[-1]

    def test_too_few_replies_keep_the_model(self):
        self.start()
        self.assertIn("round 1: keeping the model of the round before: 1 usable replies, the quorum is 2", self.fail_round(1))
        self.send(2, self.model)
        arrays, _ = self.strategy.aggregate_train(2, self.replies())  # the same weights as in the failed round
        self.assertAlmostEqual(0.02, self.value(arrays), 5)
        self.strategy.require_a_model()

    def test_too_many_in_a_row_end_the_run(self):
        self.start()
        self.fail_round(1), self.fail_round(2)
        with self.assertRaisesRegex(RuntimeError, "round 3: no new model in 3 rounds in a row: 1 usable .*see to the sites .* quorum"):
            self.strategy.aggregate_train(3, self.replies()[:1])
        self.start()
        self.fail_round(1), self.fail_round(2)
        self.strategy.aggregate_train(3, self.replies())
        self.fail_round(4)

    def test_a_run_without_a_model_is_an_error(self):
        self.start()
        self.fail_round(1)
        with self.assertRaisesRegex(RuntimeError, "no round gave a new model"):
            self.strategy.require_a_model()

    def test_a_strategy_that_raises_keeps_the_model(self):
        self.start("FedMedian")
        for broken in (ValueError("no median"), KeyError("x"), MemoryError()):
            with mock.patch.object(strategy.FedMedian, "aggregate_train", side_effect=broken), self.assertLogs("flwr", "ERROR") as logged:
                self.assertEqual((None, None), self.start("FedMedian").aggregate_train(1, self.replies()))
            self.assertIn(f"keeping the model of the round before: {type(broken).__name__}", logged.output[0])

    def test_a_result_that_is_not_finite_keeps_the_model(self):
        self.start(parameters={"server.optimizer": "momentum"}, max_update=0.0)
        far = [self.good(node, shift=1e37 * node) for node in (1, 2, 3)]
        with self.assertLogs("flwr", "ERROR") as logged:
            self.assertEqual((None, None), self.strategy.aggregate_train(1, self.replies(*far)))
        self.assertRegex(logged.output[0], "keeping the model .* finite")
        np.testing.assert_array_equal(self.model[NAME], self.server.weights()[NAME])
        arrays, _ = self.strategy.aggregate_train(2, self.replies())
        self.assertTrue(all(np.isfinite(array.numpy()).all() for array in arrays.values()))


class Strategies(Case):
    def test_those_that_do_not_fit_say_what_does(self):
        for name, say in {"FedAdam": "server.optimizer=adam", "FedYogi": "yogi", "FedAdagrad": "adagrad", "FedAvgM": "momentum",
                          "FedProx": "client.algorithm=prox", "FedXgbBagging": "none of FedAvg", "QFedAvg": "none of", "Nothing": "Bulyan",
                          "DifferentialPrivacyServerSideFixedClipping": "dp-clip"}.items():
            with self.assertRaisesRegex(ValueError, f"strategy: {name} .*{say}"):
                self.start(name)

    def test_our_server_optimisers_leave_batchnorm_statistics_alone(self):
        for optimizer in ("momentum", "adagrad", "adam", "yogi"):
            self.start(parameters={"server.optimizer": optimizer, "server.lr": 0.3})
            arrays, _ = self.strategy.aggregate_train(1, self.replies())
            for name in self.model:
                moved = arrays[name].numpy() - self.model[name]
                with self.subTest(optimizer=optimizer, name=name):
                    self.assertEqual("running" in name, bool(np.allclose(moved, 0.02, atol=1e-5)))

    def test_options(self):
        hostile, selected = {"num_malicious_nodes": 1}, {"num_nodes_to_select": 2}
        for name, text, expected in (("Krum", "num_malicious_nodes=1", hostile), ("FedTrimmedAvg", "beta = 0.34", {"beta": 0.34}),
                                     ("MultiKrum", "num_malicious_nodes=1, num_nodes_to_select=2", hostile | selected),
                                     ("MultiKrum", '{"num_nodes_to_select": 2}', selected), ("FedTrimmedAvg", "beta=0", {"beta": 0.0}),
                                     ("Bulyan", "num_malicious_nodes=1", hostile), ("FedAvg", " ", {}), ("FedMedian", "", {})):
            self.assertEqual(expected, read_options(name, text))
            made = strategy_class(name)(**expected)
            for key, value in expected.items():
                self.assertEqual(value, getattr(made, key))

    def test_options_at_fault(self):
        for name, text, say in (("Krum", "beta=0.2", "Krum has no option 'beta'; its options: num_malicious_nodes"),
                                ("FedAvg", "beta=0.2", "it has none"), ("FedTrimmedAvg", "beta=0.5", "a number from 0 to below 0.5, got 0.5"),
                                ("FedTrimmedAvg", "beta='x'", "a number"), ("FedTrimmedAvg", "beta=nan", "a number"),
                                ("Krum", "num_malicious_nodes=-1", "whole"), ("Krum", "num_malicious_nodes=1.5", "whole"),
                                ("Krum", "num_malicious_nodes=true", "whole"), ("Krum", "num_malicious_nodes", "expected \"key=value"),
                                ("Krum", "{", "JSON"), ("MultiKrum", "min_available_nodes=1", "num_malicious_nodes, num_nodes_to_select")):
            with self.subTest(text=text), self.assertRaisesRegex(ValueError, f"^strategy-options: .*{say}"):
                read_options(name, text)

    def test_they_reach_the_strategy(self):
        """Of three replies trimming removes none by default, and both ends with beta=0.34."""
        for options, expected in (("", (0.01 + 0.02 + 0.3) / 3), ("beta=0.34", 0.02)):
            self.start("FedTrimmedAvg", options)
            arrays, _ = self.strategy.aggregate_train(1, self.replies(self.good(3, shift=0.3)))
            self.assertAlmostEqual(expected, self.value(arrays), 5)

    def test_sizes_that_cannot_hold_are_said(self):
        with self.assertRaisesRegex(ValueError, "Bulyan with num_malicious_nodes=1 needs 7 sites, the run has 6"):
            self.start("Bulyan", "num_malicious_nodes=1", nodes=6)
        for name, options, say in (("Krum", "num_malicious_nodes=1", "among 5 replies or more, the quorum is 2"), ("Krum", "", "expects no hostile"),
                                   ("FedTrimmedAvg", "", "removes no value of 2 replies, the quorum; it takes three")):
            with self.assertLogs("flwr", "WARNING") as logged:
                self.start(name, options)
            self.assertIn(say, "".join(logged.output))


class Attacks(unittest.TestCase):
    def test_the_table_of_attacks(self):
        words = ["--sites", "3", "--rounds", "1", "--strategies", "FedAvg", "FedMedian", "--attacks", "none", "NaN", "huge"]
        done = subprocess.run([sys.executable, "-B", TREE / "benchmarks" / "flower_attacks.py", *words], capture_output=True, text=True)
        self.assertEqual(0, done.returncode, done.stderr)
        rows = [[cell.strip() for cell in line.split("|")[2:-1]] for line in done.stdout.splitlines()[2:]]
        self.assertEqual(["FedAvg", "FedMedian"], [row[0] for row in rows])
        for _, _, nan, huge in rows:
            self.assertEqual(nan, huge, "both are left out")


class Privacy(Case):
    def test_updates_are_clipped_and_weigh_the_same(self):
        self.start(dp_clip=0.1)
        contents = [self.good(1, shift=0.5), self.good(2, shift=-0.5, examples=900), self.good(3, shift=0.6)]
        with self.assertLogs("flwr", "INFO") as logged, mock.patch.object(fedgrab, "privacy_spent", return_value=math.inf, create=True):
            arrays, _ = self.strategy.aggregate_train(1, self.replies(*contents))
        change = {name: array.numpy() - self.model[name] for name, array in arrays.items()}
        self.assertAlmostEqual(0.1 / 3, math.sqrt(sum(float(np.sum(values.astype(float) ** 2)) for values in change.values())), 4)
        self.assertIn("round 1: differential privacy: epsilon is infinite", "".join(logged.output))

    def test_noise_follows_the_replies_that_are_averaged(self):
        """One of two replies weighs more than one of six: Flower would go on with the noise for six."""
        for replies in (2, 6):
            self.start(dp_clip=0.5, dp_noise=2.0, nodes=6)
            with mock.patch.object(fedgrab, "privacy_spent", return_value=1.0, create=True), self.assertLogs("flwr", "INFO"):
                arrays, _ = self.strategy.aggregate_train(1, self.replies()[:replies])
            noise = np.concatenate([(array.numpy() - self.model[name]).ravel() for name, array in arrays.items() if "running" not in name])
            self.assertAlmostEqual(1, noise.std() / (2.0 * 0.5 / replies), 1)

    def test_variances_stay_positive(self):
        self.start(dp_clip=0.5, dp_noise=20.0)
        with mock.patch.object(fedgrab, "privacy_spent", return_value=1.0, create=True), self.assertLogs("flwr", "INFO"):
            arrays, _ = self.strategy.aggregate_train(1, self.replies())
        for name, array in arrays.items():
            if name.endswith("running_var"):
                self.assertTrue((array.numpy() >= 0.099).all())

    def test_epsilon_counts_models_that_went_out(self):
        self.start(dp_clip=0.5, dp_noise=1.5)
        with mock.patch.object(fedgrab, "privacy_spent", return_value=3.25, create=True) as accountant, self.assertLogs("flwr") as logged:
            self.strategy.aggregate_train(1, self.replies())
            self.strategy.aggregate_train(2, self.replies()[:1])  # fails, and gives nothing away
            self.send(3, self.server.weights())
            self.strategy.aggregate_train(3, self.replies(*[self.good(node, shift=0.1 * node) for node in (1, 2, 3)]))
        self.assertEqual([mock.call(1.5, 3, 3, 1, 1e-5), mock.call(1.5, 3, 3, 2, 1e-5)], accountant.call_args_list)
        self.assertIn("round 3: differential privacy: epsilon 3.25 for delta 1e-05 after 2 models", "".join(logged.output))

    def test_the_accountant(self):
        text = spent(run_config.Privacy(1.0, 0.0, 1e-5), 6, 3)
        self.assertIn("epsilon is infinite, nothing is guaranteed", text)
        values = [float(spent(run_config.Privacy(1.0, noise, 1e-5), 6, rounds).split()[3]) for noise, rounds in ((4, 1), (4, 10), (1, 10))]
        self.assertTrue(0 < values[0] < values[1] < values[2] < math.inf)

    def test_a_loss_is_not_taken(self):
        self.start(dp_clip=0.5)
        with mock.patch.object(fedgrab, "privacy_spent", return_value=1.0, create=True), self.assertLogs("flwr", "WARNING") as logged:
            self.strategy.aggregate_train(1, self.replies(self.good(3, loss=1.0)))
        self.assertIn("node 3 sent other metrics than num-examples", logged.output[0])

    def test_what_it_does_not_cover_is_said(self):
        self.start(dp_clip=1.0, evaluate="clients")
        with mock.patch.object(fedgrab, "privacy_spent", return_value=7.0, create=True), self.assertLogs("flwr", "INFO") as logged:
            warn_of_privacy(self.plan, self.model)
        for say in ("all 3 rounds: differential privacy: epsilon 7 for delta 1e-05 after 3 models", "BatchNorm", "numbers of test images"):
            self.assertIn(say, "".join(logged.output))

    def test_what_does_not_go_with_it(self):
        with self.assertRaisesRegex(ValueError, "dp-clip: .*FedMedian is none"):
            self.start("FedMedian", dp_clip=1.0)
        for config, say in (({"dp_noise": 1.0}, "dp-noise: noise without clipping"), ({"dp_clip": -1.0}, "dp-clip: expected"),
                            ({"dp_clip": "x"}, "dp-clip: expected"), ({"dp_clip": 1.0, "dp_delta": 0.4}, "dp-delta: 0.4 means nothing with 3")):
            with self.assertRaisesRegex(ValueError, say):
                self.start(**config)
        with self.assertRaisesRegex(ValueError, "all sites weigh the same"):
            require_uniform({"server.weights": "samples"})
        require_uniform({"server.weights": "uniform"})
        for pair in ("server.clip=1", "server.noise=1"):
            with self.assertRaisesRegex(ValueError, f"parameters: {pair} is for simulations; a deployment has dp-clip"):
                run_config.parameters(mock.Mock(run_config={"parameters": f"train.lr=0.1 {pair}", "rounds": 3}))

    def test_other_bounds(self):
        for config, say in (({"max_examples": 0}, "max-examples: expected a number, 1 or more, got 0"), ({"max_weight": -1}, "max-weight"),
                            ({"max_update": float("nan")}, "max-update"), ({"quorum": 4}, "quorum: expected a number, 1 to 3"),
                            ({"failed_rounds": 0}, "failed-rounds"), ({"nodes": 1.5}, "whole number"),
                            ({"evaluate": "x"}, "server, clients or none")):
            with self.assertRaisesRegex(ValueError, say):
                self.start(**config)


if __name__ == "__main__":
    unittest.main()
