"""PyTorch in the same process must use the LibTorch that fedgrab was built with; two of them would take each other's functions."""

import importlib.abc
import importlib.machinery
import os
import re
import sys
from typing import Any

from ._libtorch import PATH


def _complaint(other: str) -> ImportError:
    return ImportError(
        f"fedgrab uses the LibTorch at {PATH}, PyTorch the one at {other}: they cannot share a process"
        " (build fedgrab with PyTorch's, as docs/python.md says, or use two processes)")


def _same(path: str) -> bool:
    try:
        return os.path.samefile(path, PATH)
    except OSError:
        return False


def _loaded() -> set[str]:
    """Every libtorch_cpu in this process, whoever brought it."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        return set(re.findall(r"(/.*/libtorch_cpu\.so\S*)", maps.read()))


class _TorchFinder(importlib.abc.MetaPathFinder):
    """Looks at a torch that is about to be imported after fedgrab."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name != "torch":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            library = os.path.join(folder, "lib", "libtorch_cpu.so")
            if os.path.exists(library) and not _same(library):
                raise _complaint(library)
        return None  # the usual finders import it


def stay_alone() -> None:
    for library in _loaded():
        if not _same(library):
            raise _complaint(library)
    sys.meta_path.insert(0, _TorchFinder())
