"""Runs as MLflow shows them. An export replaces an earlier one of the same name."""

import json
import os
import re
from pathlib import Path

from .run_directory import ExportError, RunDirectory

METRICS_A_CALL, PARAMETERS_A_CALL = 1000, 100  # limits of MLflow's batches
LONGEST_PARAMETER = 500  # of MLflow before 2.8


def tracking_uri(store: str | None) -> str:
    """A folder or anything that MLflow takes; by default what MLFLOW_TRACKING_URI names, else the folder mlruns."""
    store = store or os.environ.get("MLFLOW_TRACKING_URI") or "mlruns"
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow 3 asks for it where the store is a folder
    return store if "://" in store else Path(store.removeprefix("file:")).resolve().as_uri()


def export(runs: list[RunDirectory], *, store: str | None = None, experiment: str = "fedgrab", report: Path | None = None) -> list[str]:
    """MLflow's identifiers of the runs."""
    uri = tracking_uri(store)
    try:
        from mlflow.entities import Metric, Param
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient
    except ModuleNotFoundError:
        raise ExportError("mlflow: not installed (pip install mlflow, or mlflow-skinny)") from None
    try:
        client = MlflowClient(tracking_uri=uri)
        known = client.get_experiment_by_name(experiment)
        where = known.experiment_id if known else client.create_experiment(experiment)
        return [_export(client, where, run, report, Metric, Param) for run in runs]
    except MlflowException as error:
        raise ExportError(f"mlflow: {str(error).splitlines()[0]}") from None


def _export(client, experiment: str, run: RunDirectory, report: Path | None, Metric, Param) -> str:
    rounds, summary, parameters = run.rounds(), run.summary, run.parameters  # may complain, and then nothing has changed
    page = _checked(report, run) if report else None
    earlier = client.search_runs([experiment], f"tags.`fedgrab.run` = '{_quotable(run.name)}'")
    start = int(1000 * rounds[0].time) if rounds else None
    tags = {"mlflow.runName": run.name, "fedgrab.run": _quotable(run.name)}
    for key in ("version", "revision"):
        if summary and key in summary:
            tags[f"fedgrab.{key}"] = summary[key]
    ours = client.create_run(experiment, start_time=start, tags=tags).info.run_id
    listed = [Param(key, value[:LONGEST_PARAMETER]) for key, value in parameters.items()]
    for first in range(0, len(listed), PARAMETERS_A_CALL):
        client.log_batch(ours, params=listed[first:first + PARAMETERS_A_CALL])
    metrics = [Metric(_allowed(name), float(value), int(1000 * line.time), line.number)
               for line in rounds for name, value in line.measures.items()]
    for first in range(0, len(metrics), METRICS_A_CALL):
        client.log_batch(ours, metrics=metrics[first:first + METRICS_A_CALL])
    if summary:
        client.log_text(ours, json.dumps(summary, indent=1, ensure_ascii=False), "summary.json")
    if page:
        client.log_text(ours, page, "report.html")
    client.set_terminated(ours, "FINISHED" if summary else "RUNNING", end_time=int(1000 * rounds[-1].time) if rounds else None)
    for run_before in earlier:
        client.delete_run(run_before.info.run_id)
    return ours


def _allowed(name: str) -> str:
    """MLflow's names have letters, digits, and a few signs."""
    return re.sub(r"[^\w.\- /]", "_", name)


def _quotable(text: str) -> str:
    return text.replace("'", "_")


def _checked(report: Path, run: RunDirectory) -> str:
    try:
        page = report.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ExportError(f"{report}: {error}") from None
    folder = str(run.path.resolve().parent)
    if folder != "/" and folder in page:
        raise ExportError(f"{report}: names a folder of this machine (make it by `fedgrab report {run.path} -o FILE.html`)")
    return page
