"""Fed-GraB: federated long-tailed learning with self-adjusting gradient balancers (NeurIPS 2023).

`fedgrab.torch` has SGB and related losses as PyTorch criteria, and `fedgrab.track` exports runs. Both are pure Python.

Everything else is in the compiled core, which is loaded at first use. `run` simulates a federation; `Client` and `Server` are for a
deployed one; `load_data` and `partition` return data sets and partitions; `Balancer` and `prior` (SGB and DPA) are for the training loop
of any framework. Arrays are numpy arrays and are copied only where necessary.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._core import Error, UsageError
    from .balancer import Balancer, prior
    from .client import Client, Evaluator, Trained
    from .data import Data, Split, load_data, partition
    from .experiment import Run, run
    from .privacy import privacy_spent
    from .server import Server

__version__ = "0.2.0"
__all__ = ["Balancer", "Client", "Data", "Error", "Evaluator", "Run", "Server", "Split", "Trained", "UsageError", "load_data", "partition",
           "prior", "privacy_spent", "run"]

_MODULES = {"_core": ("Error", "UsageError"), "balancer": ("Balancer", "prior"), "client": ("Client", "Evaluator", "Trained"),
            "data": ("Data", "Split", "load_data", "partition"), "experiment": ("Run", "run"),
            "privacy": ("privacy_spent",), "server": ("Server",)}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Loads the compiled core when it is first asked for: it refuses to share a process with another LibTorch."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'fedgrab' has no attribute {name!r}")
    importlib.import_module("._compiled", __name__)
    value = getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
