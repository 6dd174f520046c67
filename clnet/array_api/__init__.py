"""The Python array API standard, version 2023.12, of clnet's tensors.

``x.__array_namespace__()`` is this module, so SciPy (``SCIPY_ARRAY_API=1``), scikit-learn
(``array_api_dispatch=True``) and others that speak the standard compute on a device. Functions are
those of ``clnet`` with the standard's names, arguments and promotion; gradients flow through them.
What differs stands in docs/array_api.md.
"""

from __future__ import annotations

import sys as _sys
from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from typing import Any as _Any

from ..errors import ArgumentError as _ArgumentError
from ..tensor import Tensor as _Tensor
from ..utils.dlpack import from_dlpack as from_dlpack
from ..values.dtypes import bool_ as bool  # noqa: A004, F401
from ..values.dtypes import complex64 as complex64
from ..values.dtypes import complex128 as complex128
from ..values.dtypes import float32 as float32
from ..values.dtypes import float64 as float64
from ..values.dtypes import int8 as int8
from ..values.dtypes import int16 as int16
from ..values.dtypes import int32 as int32
from ..values.dtypes import int64 as int64
from ..values.dtypes import uint8 as uint8
from . import fft as fft
from . import linalg as linalg
from .creation import *
from .elementwise import *
from .information import *
from .linalg import matmul as matmul
from .linalg import matrix_transpose as matrix_transpose
from .linalg import tensordot as tensordot
from .linalg import vecdot as vecdot
from .manipulation import *
from .statistic import *

newaxis = None
__array_api_version__ = "2023.12"
_VERSIONS = (None, "2021.12", "2022.12", "2023.12")


def namespace_of(x: _Tensor, /, *, api_version: str | None = None) -> _Any:
    """``x.__array_namespace__()``: this module.

    Raises:
        ArgumentError: if a version is asked for that it does not speak.
    """
    if api_version not in _VERSIONS:
        law = f"the version is one of {_VERSIONS[1:]}"
        raise _ArgumentError("__array_namespace__", law, api_version=api_version)
    return _sys.modules[__name__]
