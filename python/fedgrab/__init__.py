"""Fed-GraB: federated long-tailed learning with self-adjusting gradient balancers (NeurIPS 2023).

`fedgrab.torch` has SGB and its relatives as PyTorch criteria, and `fedgrab.track` exports runs: both are pure Python.

The rest is the compiled core, loaded at its first use. `run` trains a whole simulated federation; `Client` and `Server` are those of a
real one; `load_data` and `partition` return their data; `Balancer` and `prior` (SGB and DPA) go into a training loop of any framework.
Arrays are numpy's and are not copied where that can be helped.
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
