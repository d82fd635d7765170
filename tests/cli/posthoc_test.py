"""Post-hoc classifiers as a user meets them: fitted, on record, compared, chosen on the validation split."""
import json
import struct
import unittest

from harness import Case, new_folder, tensors, train


class Posthoc(Case):
    @classmethod
    def setUpClass(cls):
        cls.runs = new_folder(cls)
        train(cls.runs, "--method", "fedavg", "--out", "held", "--set", "data.validation=0.3")
        train(cls.runs, "--method", "fedavg", "--out", "own", "--set", "posthoc.kind=bias-calibration")
        train(cls.runs, "--method", "fedavg", "--out", "both", "--set", "data.validation=0.3", "posthoc.kind=bias-calibration",
              "posthoc.temperature=true")

    def summary(self, run):
        return json.loads((self.runs / run / "summary.json").read_text())["posthoc"]

    def evaluate(self, *arguments):
        return json.loads(self.fedgrab("eval", *arguments, "--json", folder=self.runs))

    def test_the_summary_says_what_was_fitted_on_what(self):
        self.assertEqual({"kind": "none"}, self.summary("held"))
        own, both = self.summary("own"), self.summary("both")
        self.assertEqual(("bias-calibration", "training"), (own["kind"], own["fitted_on"]))
        self.assertEqual(10, len(own["bias"]))
        self.assertEqual("validation", both["fitted_on"])
        self.assertGreater(both["temperature"], 0)

    def test_a_fitted_bias_is_part_of_the_model(self):
        plain, fitted = (tensors(self.runs / run / "model.safetensors")[0] for run in ("held", "both"))
        self.assertNotEqual(plain["fc.bias"], fitted["fc.bias"])

    def test_compares_on_the_split_that_is_asked_for(self):
        kinds = "none,bias-calibration,tau-norm"
        for split, samples in (("test", 100), ("validation", self.evaluate("held", "--split", "validation")["samples"])):
            rows = self.evaluate("held", "--posthoc", kinds, "--split", split)
            self.assertEqual(kinds.split(","), [row["posthoc"]["kind"] for row in rows])
            self.assertEqual({samples}, {row["samples"] for row in rows})
        fitted = self.evaluate("held", "--posthoc", "bias-calibration", "--split", "validation")[0]
        self.assertEqual("validation", fitted["posthoc"]["fitted_on"])
        again = self.evaluate("held", "--posthoc", "bias-calibration", "--set", "posthoc.fit_on=training")[0]
        self.assertEqual("training", again["posthoc"]["fitted_on"])
        self.assertNotEqual(fitted["posthoc"]["bias"], again["posthoc"]["bias"])

    def test_a_temperature_changes_probabilities_and_no_class(self):
        plain = self.evaluate("held", "--posthoc", "none", "--split", "validation")[0]
        scaled = self.evaluate("held", "--posthoc", "none", "--split", "validation", "--set", "posthoc.temperature=true")[0]
        self.assertEqual(plain["per_class"], scaled["per_class"])
        self.assertLess(scaled["loss"], plain["loss"])

    def test_an_exported_model_is_fitted_on_the_data_of_its_run(self):
        changed = ["--set", "posthoc.temperature=true"]
        self.fedgrab("export", "held", "--last", "-o", "plain.safetensors", folder=self.runs)
        self.fedgrab("export", "held", "-o", "scaled.safetensors", *changed, folder=self.runs)
        temperature = self.evaluate("held", "--posthoc", "none", *changed)[0]["posthoc"]["temperature"]
        plain, scaled = (struct.unpack("<10f", tensors(self.runs / f"{name}.safetensors")[0]["fc.bias"][2]) for name in ("plain", "scaled"))
        for before, after in zip(plain, scaled):
            self.assertAlmostEqual(before / temperature, after, 5)
        self.assertIn("calibrated: a temperature was fitted", (self.runs / "scaled.safetensors.md").read_text())

    def test_says_what_is_missing(self):
        for arguments, words in ((["eval", "own", "--split", "validation"], "the run has no validation split"),
                                 (["eval", "own", "--posthoc", "none", "--set", "posthoc.temperature=true"], "posthoc.temperature: is fitted on a validation split"),
                                 (["export", "own", "-o", "x.onnx", "--set", "posthoc.temperature=true"], "posthoc.temperature: is fitted on a validation split"),
                                 (["run", "--set", "posthoc.kind=mean-softmax", "posthoc.fit_on=validation"], "posthoc.fit_on: there is no validation split")):
            self.assertIn(words, self.fedgrab(*arguments, code=2, folder=self.runs))


if __name__ == "__main__":
    unittest.main()
