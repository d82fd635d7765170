"""A real deployment of six sites, TLS and keys, two of them hostile: the run ends with a usable model, and the log names them."""

import re
import sys
import unittest
from pathlib import Path

import numpy as np

TREE = Path(__file__).resolve().parents[2]
sys.path += [str(TREE / "tests" / "cli")]

import fedgrab  # noqa: E402
import harness  # noqa: E402
from federation import Federation  # noqa: E402

NODES, ROUNDS = 6, 4
PARAMETERS = {"method.name": "fedavg", "data.per_class": 120, "data.test_per_class": 20, "train.local_epochs": 3, "longtail.factor": 1,
              "train.lr": 0.05, "partition.kind": "iid", "train.seed": 4}
HOSTILE = {4: "honest,replay,text,huge", 5: "nan,heavy,empty,huge"}
EXPECTED = {  # by site: what the log says of it, by round
    4: {2: "sent weights of round 1 again", 3: "sent a num-examples that is not a number", 4: "changed the model by"},
    5: {1: "sent weights that are not finite", 2: "claims more samples", 3: "sent no record of arrays", 4: "changed the model by"},
}


class Hostile(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.federation = Federation()
        cls.addClassCleanup(cls.federation.close)
        site = str(Path(__file__).parent / "hostile_site")
        cls.federation.add_sites(NODES, {k: {"PYTHONPATH": site, "FEDGRAB_HOSTILE": attacks} for k, attacks in HOSTILE.items()})

    def run_with(self, name, **config):
        out = self.folder / name
        settings = {"rounds": ROUNDS, "nodes": NODES, "quorum": 3, "round-timeout": 120.0, "out": str(out),
                    "parameters": " ".join(f"{key}={value}" for key, value in PARAMETERS.items())} | config
        text = " ".join(f'{key}="{value}"' if isinstance(value, str) else f"{key}={value}" for key, value in settings.items())
        process = self.federation.run(name, text)
        self.assertEqual(0, process.wait(timeout=300), self.federation.log(name))
        self.assertTrue((out / f"round-{ROUNDS}.npz").exists(), self.federation.log(name))
        return self.federation.log(name), dict(np.load(out / f"round-{ROUNDS}.npz"))

    def accuracy(self, weights):
        return fedgrab.Evaluator(PARAMETERS | {"partition.clients": NODES}).evaluate(weights)["all"]

    def assert_named(self, log):
        for site, rounds in EXPECTED.items():
            for server_round, say in rounds.items():
                self.assertRegex(log, rf"round {server_round}: node \d+(?: \(site {site}\))? .*(?:{say}).*; going on with \d of 6")
        left_out = re.findall(r"round \d: (node \d+).*; going on", log)
        self.assertEqual(2, len(set(left_out)), "two sites and no others")

    def test_the_run_ends_with_a_usable_model(self):
        log, weights = self.run_with("plain")
        self.assert_named(log)
        accuracy = self.accuracy(weights)
        print(f"accuracy {accuracy:.3f}", file=sys.stderr)
        self.assertGreater(accuracy, 0.4)

    def test_the_same_with_differential_privacy(self):
        log, weights = self.run_with("private", **{"dp-clip": 20.0, "dp-noise": 0.005})
        self.assert_named(log)
        self.assertEqual(ROUNDS, len(re.findall(r"round \d: differential privacy: epsilon [\d.e+]+ for delta 1e-05 after \d models", log)))
        accuracy = self.accuracy(weights)
        print(f"accuracy {accuracy:.3f} with differential privacy", file=sys.stderr)
        self.assertGreater(accuracy, 0.2)


if __name__ == "__main__":
    unittest.main()
