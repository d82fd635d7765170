"""Exports run directories to experiment trackers. Reads files alone: the compiled core is not needed.

    python -m fedgrab.track mlflow RUN…
"""

from .run_directory import ExportError, RunDirectory

__all__ = ["ExportError", "RunDirectory"]
