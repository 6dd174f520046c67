"""Optimisers and learning-rate schedules."""

from . import lr_scheduler
from .adam import Adam, AdamW
from .adaptive import Adadelta, Adagrad, NAdam
from .layerwise import LARS, Lamb
from .optimizer import Optimizer
from .rmsprop import RMSprop
from .sgd import SGD

__all__ = [
    "LARS",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Lamb",
    "NAdam",
    "Optimizer",
    "RMSprop",
    "lr_scheduler",
]
