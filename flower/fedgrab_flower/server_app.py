"""The server: Flower's strategy averages, fedgrab's method does the rest. It sees weights, numbers of samples and losses."""

from pathlib import Path

import fedgrab
import numpy as np
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from .one_by_one import OneByOne
from .privacy import require_uniform, warn_of_privacy
from .records import to_record, to_weights
from .run_config import listed, parameters, plan_of
from .strategy import make_strategy

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    wanted, plan = context.run_config, plan_of(context.run_config)
    config, classes = parameters(context), listed(context, "classes")
    if plan.privacy:
        require_uniform(config)
    evaluator = fedgrab.Evaluator(config, classes=classes) if plan.evaluate == "server" else None
    shape = evaluator.shape if evaluator else tuple(int(side) for side in listed(context, "shape"))
    server = fedgrab.Server(config, classes=len(evaluator.class_names if evaluator else classes), shape=shape)
    if plan.privacy:
        warn_of_privacy(plan, server.weights())
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

    strategy = make_strategy(str(wanted["strategy"]), str(wanted["strategy-options"]), server, plan,
                             uniform=config.get("server.weights") == "uniform")
    strategy.start(OneByOne(grid), to_record(server.weights()), num_rounds=plan.rounds, timeout=plan.timeout, evaluate_fn=after_round)
    strategy.require_a_model()
