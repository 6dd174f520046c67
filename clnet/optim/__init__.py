"""Optimisers and learning-rate schedules."""

from . import adam as adamw  # noqa: F401 - PyTorch's names of files
from . import adam as sparse_adam  # noqa: F401
from . import adamax as radam  # noqa: F401
from . import adaptive as adadelta  # noqa: F401
from . import adaptive as adagrad  # noqa: F401
from . import adaptive as nadam  # noqa: F401
from . import lr_scheduler, swa_utils
from .adafactor import Adafactor
from .adam import Adam, AdamW, SparseAdam
from .adamax import Adamax, RAdam
from .adaptive import Adadelta, Adagrad, NAdam
from .asgd import ASGD
from .layerwise import LARS, Lamb
from .lbfgs import LBFGS
from .muon import Muon
from .optimizer import Optimizer
from .rmsprop import RMSprop
from .rprop import Rprop
from .sgd import SGD

__all__ = [
    "ASGD",
    "LARS",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Lamb",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
]
