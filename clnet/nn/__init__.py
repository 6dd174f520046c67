"""Layers and models in PyTorch's names; they compose ops and launch nothing."""

from . import attention as attention
from . import functional as functional
from . import init as init
from . import modules as modules
from . import parallel as parallel
from . import parameter as parameter
from . import parameters as utils  # noqa: F401 # pyright: ignore[reportUnusedImport] - PyTorch's name
from .activation import *
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
from .parallel import DataParallel as DataParallel
from .parameter import UninitializedBuffer as UninitializedBuffer
from .parameter import UninitializedParameter as UninitializedParameter
from .parameter_container import *
from .pool import *
from .rnn import *
from .sparse import *
from .transformer import *
from .upsampling import *
