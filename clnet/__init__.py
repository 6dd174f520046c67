"""Train and run neural networks on any OpenCL device."""

from . import autograd as _autograd
from . import errors, nn, ops, optim
from .autograd import enable_grad, is_grad_enabled, no_grad
from .compile import compile
from .device import DeviceKind, device, devices
from .dtypes import DType, bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8
from .dtypes import bool_ as bool
from .generator import Generator
from .ops.function import PUBLIC_OPS, Face
from .tensor import Tensor, empty, full, ones, tensor, zeros

globals().update({n: f for n, (f, face) in PUBLIC_OPS.items() if Face.FUNCTION in face})
