"""Layers and models in PyTorch's names; they compose ops and launch nothing."""

import importlib as _importlib
from typing import TYPE_CHECKING, Any

from ..values.collector import paused_collector as _paused_collector
from . import functional as functional
from . import init as init
from . import parameter as parameter
from .activation import *
from .container import *
from .linear import *
from .module import Buffer as Buffer
from .module import Module as Module
from .module import Parameter as Parameter
from .parameter import UninitializedBuffer as UninitializedBuffer
from .parameter import UninitializedParameter as UninitializedParameter

if TYPE_CHECKING:  # what editors and type checkers see; at run time only what is asked for
    from . import attention as attention
    from . import common_types as common_types
    from . import grad as grad
    from . import modules as modules
    from . import parallel as parallel
    from . import parameters as utils  # noqa: F401
    from . import quantized as quantized
    from . import reduction as reduction
    from .adaptive import *
    from .conv import *
    from .distance import *
    from .dropout import *
    from .fold import *
    from .group_norm import *
    from .lazy import *
    from .loss import *
    from .margin_loss import *
    from .norm import *
    from .padding import *
    from .parallel import DataParallel as DataParallel
    from .parallel import SyncBatchNorm as SyncBatchNorm
    from .parameter_container import *
    from .pool import *
    from .rnn import *
    from .sparse import *
    from .transformer import *
    from .upsampling import *

# What some network does without, by module; of a room others' names. A test compares both lists.
_LATER = {
    "adaptive": "AdaptiveLogSoftmaxWithLoss",
    "attention": "",
    "common_types": "",
    "conv": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
    "distance": "CosineSimilarity PairwiseDistance",
    "dropout": "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout",
    "fold": "Fold Unfold",
    "grad": "",
    "group_norm": "CrossMapLRN2d GroupNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm "
    "LocalResponseNorm RMSNorm",
    "lazy": "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d "
    "LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d "
    "LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear",
    "loss": "BCELoss BCEWithLogitsLoss CrossEntropyLoss HuberLoss L1Loss MSELoss NLLLoss "
    "NLLLoss2d SmoothL1Loss",
    "margin_loss": "CTCLoss CosineEmbeddingLoss GaussianNLLLoss HingeEmbeddingLoss KLDivLoss "
    "MarginRankingLoss MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss "
    "PoissonNLLLoss SoftMarginLoss TripletMarginLoss TripletMarginWithDistanceLoss",
    "modules": "",
    "norm": "BatchNorm1d BatchNorm2d BatchNorm3d",
    "padding": "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d "
    "ConstantPad3d ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d "
    "ReplicationPad2d ReplicationPad3d ZeroPad1d ZeroPad2d ZeroPad3d",
    "parallel": "DataParallel SyncBatchNorm",
    "parameter_container": "ParameterDict ParameterList",
    "parameters": "",
    "pool": "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d "
    "AdaptiveMaxPool2d AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d FractionalMaxPool2d "
    "FractionalMaxPool3d LPPool1d LPPool2d LPPool3d MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d "
    "MaxUnpool2d MaxUnpool3d",
    "quantized": "",
    "reduction": "",
    "rnn": "GRU LSTM RNN GRUCell LSTMCell RNNBase RNNCell RNNCellBase",
    "sparse": "Embedding EmbeddingBag",
    "transformer": "MultiheadAttention Transformer TransformerDecoder TransformerDecoderLayer "
    "TransformerEncoder TransformerEncoderLayer",
    "upsampling": "ChannelShuffle PixelShuffle PixelUnshuffle Upsample UpsamplingBilinear2d "
    "UpsamplingNearest2d",
}
_ALSO = {"utils": "parameters", "_reduction": "reduction"}  # where PyTorch has them
_PLACES = {name: module for module, names in _LATER.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """A layer, or a module of layers, is imported when it is asked for."""
    module = _ALSO.get(name) or _PLACES.get(name, name)
    if module not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _paused_collector():
        room = _importlib.import_module(f"{__name__}.{module}")
    return globals().setdefault(name, getattr(room, name) if name in _PLACES else room)


def __dir__() -> list[str]:
    """What is here, and what would be imported."""
    return sorted({*globals(), *_LATER, *_PLACES, "utils"})


if not TYPE_CHECKING:  # for ``from clnet.nn import *``
    __all__ = [name for name in __dir__() if name[0] != "_"]
