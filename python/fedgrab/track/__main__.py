"""`python -m fedgrab.track mlflow RUN…`"""

import argparse
import sys
from pathlib import Path

from . import mlflow
from .run_directory import ExportError, RunDirectory


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fedgrab.track", description="Exports run directories to an experiment tracker.")
    trackers = parser.add_subparsers(dest="tracker", required=True, metavar="TRACKER")
    ours = trackers.add_parser("mlflow", help="parameters, measures by round and the summary, in MLflow", description=mlflow.__doc__)
    ours.add_argument("runs", nargs="+", metavar="RUN", help="a run directory")
    ours.add_argument("--store", metavar="FOLDER|URI", help="where MLflow keeps runs (default: MLFLOW_TRACKING_URI, else the folder mlruns)")
    ours.add_argument("--experiment", default="fedgrab", metavar="NAME", help="MLflow's experiment (default: fedgrab)")
    ours.add_argument("--report", type=Path, metavar="FILE", help="attach a page of `fedgrab report`; it shows class counts")
    options = parser.parse_args(arguments)
    try:
        runs = [RunDirectory(path) for path in options.runs]
        for run, identifier in zip(runs, mlflow.export(runs, store=options.store, experiment=options.experiment, report=options.report)):
            print(f"{run.path}: {identifier} in experiment {options.experiment}")
    except ExportError as error:
        print(f"fedgrab: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
