"""The training loop: epochs, metrics, progress, checkpoints, resume."""

from .callback import Callback, StepTime, StepTimes
from .curves import Curves, save_curves
from .history import History
from .language import Carried, Perplexity, continuation, perplexity, token_loss
from .metrics import accuracy
from .rate import RateSearch, find_learning_rate
from .statistics import (
    Statistics,
    TensorStatistics,
    statistics_of,
    statistics_of_model,
    statistics_table,
)
from .tensorboard import TensorBoard
from .trainer import Trainer

__all__ = [
    "Callback",
    "Carried",
    "Curves",
    "History",
    "Perplexity",
    "RateSearch",
    "Statistics",
    "StepTime",
    "StepTimes",
    "TensorBoard",
    "TensorStatistics",
    "Trainer",
    "accuracy",
    "continuation",
    "find_learning_rate",
    "perplexity",
    "save_curves",
    "statistics_of",
    "statistics_of_model",
    "statistics_table",
    "token_loss",
]
