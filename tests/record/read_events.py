"""Prints the scalars of a folder of event files as TensorBoard itself reads them: {tag: [[step, value], …]}."""

import json
import sys

from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator


def main():
    events = EventAccumulator(sys.argv[1], size_guidance={SCALARS: 0})  # 0: keep every one
    events.Reload()
    print(json.dumps({tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}))


if __name__ == "__main__":
    main()
