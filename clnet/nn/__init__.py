"""Layers and models in PyTorch's names; they compose ops and launch nothing."""

import importlib as _importlib
from typing import TYPE_CHECKING, Any

from . import attention as attention
from . import functional as functional
from . import init as init
from . import modules as modules
from . import parameter as parameter
from . import parameters as utils  # noqa: F401 # pyright: ignore[reportUnusedImport] - PyTorch's name
from .activation import *
from .adaptive import *
from .container import *
from .conv import *
from .distance import *
from .dropout import *
from .fold import *
from .group_norm import *
from .lazy import *
from .linear import *
from .loss import *
from .margin_loss import *
from .module import Buffer as Buffer
from .module import Module as Module
from .module import Parameter as Parameter
from .norm import *
from .padding import *
from .parameter import UninitializedBuffer as UninitializedBuffer
from .parameter import UninitializedParameter as UninitializedParameter
from .parameter_container import *
from .pool import *
from .rnn import *
from .sparse import *
from .transformer import *
from .upsampling import *

if TYPE_CHECKING:
    from . import parallel as parallel
    from .parallel import DataParallel as DataParallel
    from .parallel import SyncBatchNorm as SyncBatchNorm

_OF_SEVERAL = ("DataParallel", "SyncBatchNorm")


def __getattr__(name: str) -> Any:
    """What only several devices or processes need is imported when it is asked for."""
    if name != "parallel" and name not in _OF_SEVERAL:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    room = _importlib.import_module(f"{__name__}.parallel")
    found = room if name == "parallel" else getattr(room, name)
    return globals().setdefault(name, found)


def __dir__() -> list[str]:
    """What is here, and what would be imported."""
    return sorted({*globals(), "parallel", *_OF_SEVERAL})
