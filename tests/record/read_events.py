"""Prints what a folder of event files holds as TensorBoard itself reads it: {"scalars": {tag: [[step, value], …]},
"images": {tag: [[step, width, height], …]}, "hparams": {key: value}}."""

import json
import sys

from tensorboard.backend.event_processing.event_accumulator import IMAGES, SCALARS, EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData


def hyper_parameters(events):
    try:
        content = events.PluginTagToContent("hparams")["_hparams_/session_start_info"]
    except KeyError:
        return {}
    values = HParamsPluginData.FromString(content).session_start_info.hparams
    return {key: getattr(value, value.WhichOneof("kind")) for key, value in values.items()}


def main():
    events = EventAccumulator(sys.argv[1], size_guidance={SCALARS: 0, IMAGES: 0})  # 0: keep every one
    events.Reload()
    print(json.dumps({
        "scalars": {tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]},
        "images": {tag: [[e.step, e.width, e.height] for e in events.Images(tag)] for tag in events.Tags()["images"]},
        "hparams": hyper_parameters(events)}))


if __name__ == "__main__":
    main()
