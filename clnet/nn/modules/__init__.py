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
from .. import module as module
from .. import norm as batchnorm
from .. import ntuple as utils
from .. import padding as padding
from .. import pool as pooling
from .. import rnn as rnn
from .. import sparse as sparse
from .. import transformer as transformer
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
from ..pool import *
from ..rnn import *
from ..sparse import *
from ..transformer import *
from ..upsampling import *

# Where PyTorch has it.
setattr(activation, "MultiheadAttention", transformer.MultiheadAttention)  # noqa: B010
setattr(module, "_global_parameter_registration_hooks", {})  # noqa: B010 - there are none
