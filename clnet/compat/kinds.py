"""``torch.types``: names for annotations."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from ..device import Device
from ..tensor import Tensor
from ..values.dtypes import DType
from ..values.generator import Generator
from ..values.shapes import Size

__all__ = ["Device", "Number", "Storage"]

Number = int | float | bool
Storage = Any
_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex
_dtype, _device, _layout = DType, Device, Any
_size = Size | Sequence[int]
_TensorOrTensors = Tensor | Sequence[Tensor]
_Generator = Generator
FileLike = Any
