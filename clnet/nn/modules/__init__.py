"""``nn.modules``: where PyTorch's layers lie, by the names of its files."""

# ruff: noqa: F401

from __future__ import annotations

from .. import activation as activation
from .. import adaptive as adaptive
from .. import container as container
from .. import conv as conv
from .. import distance as distance
from .. import dropout as dropout
from .. import fold as fold
from .. import group_norm as instancenorm
from .. import group_norm as normalization
from .. import lazy as lazy
from .. import linear as flatten
from .. import linear as linear
from .. import loss as loss
from .. import margin_loss as _margin_loss
from .. import module as module
from .. import norm as batchnorm
from .. import ntuple as utils
from .. import padding as padding
from .. import parameter_container as _parameter_container
from .. import pool as pooling
from .. import rnn as rnn
from .. import sparse as sparse
from .. import transformer as transformer
from .. import upsampling as channelshuffle
from .. import upsampling as pixelshuffle
from .. import upsampling as upsampling
from ..activation import *
from ..adaptive import *
from ..container import *
from ..conv import *
from ..distance import *
from ..dropout import *
from ..fold import *
from ..group_norm import *
from ..lazy import *
from ..linear import *
from ..loss import *
from ..margin_loss import *
from ..module import Module as Module
from ..norm import *
from ..padding import *
from ..parallel import SyncBatchNorm as SyncBatchNorm
from ..parameter_container import *
from ..pool import *
from ..rnn import *
from ..sparse import *
from ..transformer import *
from ..upsampling import *

# Where PyTorch has them: a file of its has the layers of two of ours.
_ALSO = (
    (activation, ("MultiheadAttention",)),
    (batchnorm, ("SyncBatchNorm", *(f"LazyBatchNorm{n}d" for n in (1, 2, 3)))),
    (container, _parameter_container.__all__),
    (conv, [f"LazyConv{kind}{n}d" for kind in ("", "Transpose") for n in (1, 2, 3)]),
    (instancenorm, [f"LazyInstanceNorm{n}d" for n in (1, 2, 3)]),
    (linear, ("LazyLinear",)),
    (loss, _margin_loss.__all__),
)
for _file, _names in _ALSO:
    for _name in _names:
        setattr(_file, _name, globals()[_name])
setattr(module, "_global_parameter_registration_hooks", {})  # noqa: B010 - there are none
