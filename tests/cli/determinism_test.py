"""The same command gives the same result, whatever the number of workers."""
import unittest

from harness import TINY, Case, metrics, result


class Determinism(Case):
    def results(self, *arguments):
        for name, workers in (("one", 1), ("two", 2), ("again", 2)):
            self.fedgrab("run", *TINY, *arguments, "--set", f"engine.workers={workers}", "--out", name)
        return [result(self.folder / name) for name in ("one", "two", "again")]

    def check(self, *arguments):
        one, two, again = self.results(*arguments)
        self.assertEqual(two, again)
        self.assertEqual(one, two)

    def test_fedavg(self):
        self.check("--method", "fedavg")

    def test_fedgrab_keeps_the_state_of_its_balancers(self):
        self.check("--method", "fedgrab", "--rounds", "6")

    def test_batch_normalisation_and_partial_participation(self):
        self.check("--method", "fedavg", "--model", "resnet8", "--rounds", "2", "--clients", "6",
                   "--set", "train.participation=0.5", "--set", "longtail.factor=10", "--set", "data.per_class=10")

    def test_another_seed_is_another_run(self):
        for seed in (1, 2):
            self.fedgrab("run", *TINY, "--rounds", "1", "--seed", seed, "--out", f"seed{seed}")
        first, second = (metrics(self.folder / f"seed{seed}")[0]["loss"] for seed in (1, 2))
        self.assertNotEqual(first, second)


if __name__ == "__main__":
    unittest.main()
