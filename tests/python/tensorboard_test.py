"""A run's event files as TensorBoard's own package reads them."""
import json
import pathlib
import sys
import unittest

from tensorboard.backend.event_processing.event_accumulator import IMAGES, SCALARS, EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))

from harness import Case, metrics, new_folder, train


class Events(Case):
    @classmethod
    def setUpClass(cls):
        cls.root = new_folder(cls)
        train(cls.root, "--out", "run", "--rounds", "12", "--method", "fedgrab")
        cls.events = EventAccumulator(str(cls.root / "run"), size_guidance={SCALARS: 0, IMAGES: 0})  # 0: keep every one
        cls.events.Reload()
        cls.records = metrics(cls.root / "run")

    def assert_curve(self, tag, values):
        steps, read = zip(*((event.step, event.value) for event in self.events.Scalars(tag)))
        self.assertEqual([record["round"] for record in self.records], list(steps), tag)
        for expected, value in zip(values, read):
            self.assertAlmostEqual(expected, value, places=5, msg=tag)

    def test_scalars(self):
        self.assert_curve("accuracy/all", [record["acc"]["all"] for record in self.records])
        self.assert_curve("accuracy/few", [record["acc"]["few"] for record in self.records])
        self.assert_curve("loss/train", [record["loss"] for record in self.records])
        self.assert_curve("prior/tail_hit", [record["prior"]["tail_hit"] for record in self.records])

    def test_a_curve_for_each_class(self):
        names = json.loads((self.root / "run/classes.json").read_text())["class_names"]
        for c, name in enumerate(names):
            self.assert_curve(f"class/{name}", [record["acc"]["per_class"][c] for record in self.records])

    def test_confusion_as_images(self):
        images = self.events.Images("confusion")
        self.assertEqual([10, 12], [image.step for image in images])
        self.assertTrue(all(image.width == image.height > 10 for image in images))

    def test_hyper_parameters(self):
        content = self.events.PluginTagToContent("hparams")["_hparams_/session_start_info"]
        values = HParamsPluginData.FromString(content).session_start_info.hparams
        self.assertEqual("fedgrab", values["method.name"].string_value)
        self.assertEqual(4, values["partition.clients"].number_value)


if __name__ == "__main__":
    unittest.main()
