"""The compiled core. Everything that needs it takes it from here, so that no second LibTorch is in the process when it is loaded."""

try:
    from ._libtorch_guard import stay_alone
except ModuleNotFoundError:  # the pure-Python wheel does not know a LibTorch
    raise ImportError("fedgrab: this installation has no compiled core (fedgrab.torch and fedgrab.track work without it;"
                      " `pip install ./python` in fedgrab's source tree builds it)") from None

stay_alone()

from . import _core  # noqa: E402

__all__ = ["_core"]
