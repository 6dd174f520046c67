"""What programs written for PyTorch look for under ``torch.utils``; nothing of clnet needs it."""

from . import benchmark as benchmark
from . import checkpoint as checkpoint
from . import constructors as _device  # noqa: F401 - PyTorch's name
from . import contexts as _contextlib  # noqa: F401 - PyTorch's name
from . import cpp_extension as cpp_extension
from . import data as data
from . import deterministic as deterministic
from . import dispatch as _python_dispatch  # noqa: F401 - PyTorch's name
from . import dlpack as dlpack
from . import flop_counter as flop_counter
from . import foreach as _foreach_utils  # noqa: F401 - PyTorch's name
from . import hooks as hooks
from . import model_zoo as model_zoo
from . import pytree as _pytree  # noqa: F401 - PyTorch's name
from . import tensorboard as tensorboard
from . import triton as _triton  # noqa: F401 - PyTorch's name
from . import weak as weak
from .swapping import swap_tensors as swap_tensors
