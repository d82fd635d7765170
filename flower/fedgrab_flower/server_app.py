"""The server: Flower's strategy averages, fedgrab's method does what it does beyond that. It sees weights, numbers of samples and losses."""

from pathlib import Path

import fedgrab
import numpy as np
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from .records import to_record, to_weights
from .run_config import listed, parameters
from .strategy import make_strategy

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config, classes = parameters(context), listed(context, "classes")
    wanted = context.run_config
    if wanted["evaluate"] not in ("server", "clients", "none"):
        raise ValueError(f"evaluate: expected server, clients or none, got {wanted['evaluate']}")
    evaluator = fedgrab.Evaluator(config, classes=classes) if wanted["evaluate"] == "server" else None
    shape = evaluator.shape if evaluator else tuple(int(side) for side in listed(context, "shape"))
    server = fedgrab.Server(config, classes=len(evaluator.class_names if evaluator else classes), shape=shape)
    out = Path(str(wanted["out"])) if wanted["out"] else None

    def after_round(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
        weights = to_weights(arrays)
        if out:
            out.mkdir(parents=True, exist_ok=True)
            np.savez(out / f"round-{server_round}.npz", **weights)
        if not evaluator or server_round == 0:
            return None
        accuracy = evaluator.evaluate(weights)
        named = {key: accuracy[key] for key in ("all", "many", "med", "few", "loss") if accuracy.get(key) is not None}
        return MetricRecord(named)

    strategy = make_strategy(str(wanted["strategy"]), server, nodes=int(wanted["nodes"]), quorum=int(wanted["quorum"]),
                             evaluate=wanted["evaluate"] == "clients")
    strategy.start(grid, to_record(server.weights()), num_rounds=int(wanted["rounds"]), timeout=float(wanted["round-timeout"]),
                   evaluate_fn=after_round)
