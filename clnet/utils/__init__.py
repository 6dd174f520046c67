"""What programs written for PyTorch look for under ``torch.utils``; nothing of clnet needs it."""

from . import checkpoint as checkpoint
from . import data as data
from . import tensorboard as tensorboard
