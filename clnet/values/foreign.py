"""Tensors of another library as NumPy arrays, without importing it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ..errors import DtypeError
from .dtypes import default_complex, default_float
from .plain import shown


def is_foreign(value: Any) -> bool:
    """Whether it is a tensor of another library: of PyTorch, whose tensors are asked to detach."""
    kind = type(value)
    if hasattr(kind, "__apply_function__"):  # clnet's own
        return False
    return hasattr(kind, "detach") and hasattr(kind, "numpy") and hasattr(kind, "__array__")


def host_array(value: Any, *, typed: bool = False) -> np.ndarray:
    """A tensor's elements, in host memory; an array itself; Python's numbers in the default dtypes.

    Args:
        value: what :func:`is_foreign` knows, or what NumPy makes an array of.
        typed: whether the caller has a dtype for them: Python's floats keep all their digits.
    """
    if not is_foreign(value):
        host = np.asarray(value)
        if typed or isinstance(value, np.ndarray | np.generic):
            return host
        default = {"d": default_float, "D": default_complex}.get(host.dtype.char)
        return host if default is None else host.astype(default().numpy, copy=False)
    plain = value.detach().cpu()
    if str(plain.dtype).endswith("bfloat16"):  # NumPy reads none; float32 holds them exactly
        return plain.float().numpy().astype(ml_dtypes.bfloat16)
    return plain.numpy(force=True)


def host_as(host: np.ndarray, dtype: Any) -> np.ndarray:
    """An array in a dtype of NumPy's.

    Raises:
        DtypeError: if NumPy has none such.
    """
    try:
        return host.astype(dtype)
    except TypeError as error:
        raise DtypeError("asarray", "NumPy has the dtype", dtype=shown(dtype)) from error
