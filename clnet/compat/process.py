"""Settings of a process and old names of PyTorch: functions of ``clnet`` itself."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

import re
import warnings
from importlib import metadata
from typing import Any

from ..autodiff.anomaly import set_detect_anomaly
from ..creation import arange
from ..device import Device
from ..device import device as open_device
from ..errors import ArgumentError, DtypeError
from ..face.storage import UntypedStorage
from ..ops.machinery.pointwise import know_numbers
from ..random import default_generator, seed
from ..tensor import Tensor
from ..values import mode
from ..values.dtypes import (
    as_dtype,
    bfloat16,
    choose_default_float,
    default_float,
    float16,
    float32,
    float64,
)
from ..values.plain import made_for, written
from . import accelerator, cuda
from .amp import (
    GradScaler,
    autocast,
    clear_autocast_cache,
    get_autocast_cpu_dtype,
    get_autocast_dtype,
    is_autocast_cache_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)

__all__ = [
    "GradScaler",
    "Version",
    "are_deterministic_algorithms_enabled",
    "autocast",
    "clear_autocast_cache",
    "default_generator",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "get_autocast_gpu_dtype",
    "get_default_device",
    "get_deterministic_debug_mode",
    "get_device_module",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "get_num_threads",
    "is_autocast_cache_enabled",
    "is_autocast_enabled",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_inference",
    "is_inference_mode_enabled",
    "is_storage",
    "is_warn_always_enabled",
    "seed",
    "set_anomaly_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_default_device",
    "set_default_dtype",
    "set_default_tensor_type",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_num_threads",
    "set_warn_always",
    "use_deterministic_algorithms",
]


class Version(str):
    """A version that compares as one, with a text or a tuple of numbers: ``"0.10" > "0.9"``.

    Example:
        >>> Version("0.10.1") > "0.9", Version("0.10.1") >= (0, 10)
        (True, True)
    """

    __slots__ = ()

    @staticmethod
    def _key(version: Any) -> tuple[int, ...]:
        if isinstance(version, tuple | list):
            return tuple(int(part) for part in version)
        release = re.match(r"[\d.]*", str(version))
        return tuple(int(part) for part in (release[0] if release else "").split(".") if part)

    def _compare(self, other: Any) -> int:
        a, b = self._key(self), self._key(other)
        size = max(len(a), len(b))
        a, b = (key + (0,) * (size - len(key)) for key in (a, b))
        return (a > b) - (a < b)

    def __lt__(self, other: Any) -> bool:
        return self._compare(other) < 0

    def __le__(self, other: Any) -> bool:
        return self._compare(other) <= 0

    def __gt__(self, other: Any) -> bool:
        return self._compare(other) > 0

    def __ge__(self, other: Any) -> bool:
        return self._compare(other) >= 0

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str.__eq__(self, other) or self._compare(other) == 0
        return isinstance(other, tuple | list) and self._compare(other) == 0

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


_PRECISIONS = ("highest", "tf32x3", "high", "medium")
get_autocast_gpu_dtype = get_autocast_dtype


def set_default_dtype(d: Any) -> None:
    """Floats for which no dtype is given have this one from now on: float32 at first.

    Python's floats become it, new tensors and layers' parameters have it, and so have whole numbers
    that are divided. It holds for the process. Complex numbers are complex128 beside float64, else
    complex64.

    Args:
        d: a floating dtype.

    Raises:
        DtypeError: if it is another.
    """
    dtype = as_dtype(d)
    if not dtype.is_floating_point:
        raise DtypeError("set_default_dtype", "the dtype is floating", dtype=dtype)
    choose_default_float(dtype)
    know_numbers()


_TYPES = {
    "HalfTensor": float16,
    "BFloat16Tensor": bfloat16,
    "FloatTensor": float32,
    "DoubleTensor": float64,
}


def set_default_tensor_type(t: Any) -> None:
    """As :func:`set_default_dtype`, by a type: ``FloatTensor``, ``"torch.DoubleTensor"``.

    With one of ``cuda`` new tensors are made there, too.

    Raises:
        ArgumentError: for one whose elements are no floats.
        DeviceError: if it is one of ``cuda``, and there is none.
    """
    name = str(getattr(t, "__name__", t)).rpartition(".")[2]
    if name not in _TYPES:
        raise ArgumentError("set_default_tensor_type", f"it is one of {[*_TYPES]}", type=t)
    if getattr(t, "place", None) or str(t).startswith("torch.cuda."):
        set_default_device("cuda")
    set_default_dtype(_TYPES[name])


def set_default_device(device: Any) -> None:
    """New tensors are made on a device; None: on the one that ``CLNET_DEVICE`` names, or the first.

    Raises:
        DeviceError: if there is no such device.
    """
    mode.change(device=None if device is None else open_device(device))


def get_default_device() -> Device:
    """Where new tensors are made."""
    chosen = mode.current().device
    return open_device() if chosen is None else chosen


def set_float32_matmul_precision(precision: str) -> None:
    """How float32 products and 2-d convolutions, with their gradients, may be computed.

    Args:
        precision: ``"highest"``: in float32, the default. ``"tf32x3"`` (ours): as the sum of three
            products of TF32, of operands split in two, where a device multiplies by 128 items at
            once and that is faster; elsewhere, and for all but products and convolutions, in
            float32. Its error is about float32's. An infinity in an operand may make NaN of
            elements that it is multiplied into (in a gradient to filters: of all taps of its
            channel); NaN stays NaN; large finite numbers do not overflow in the split; of numbers
            below 2**-100 the second part is a denormal number or 0, so that products of them may
            be as inexact as TF32's. ``"high"`` and ``"medium"``: operands rounded to TF32, of 11
            significant bits, where matrix units multiply them; elsewhere, and in attention and
            recurrent layers, in float32. (PyTorch's convolutions have a setting of their own,
            ``torch.backends.cudnn.allow_tf32``.)

    Raises:
        ArgumentError: if there is no such precision.
    """
    if precision not in _PRECISIONS:
        raise ArgumentError(
            "set_float32_matmul_precision", f"it is one of {_PRECISIONS}", precision=repr(precision)
        )
    mode.change(float32_precision=precision)


def get_float32_matmul_precision() -> str:
    """What :func:`set_float32_matmul_precision` said; ``"highest"`` at first."""
    return mode.current().float32_precision


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Taken: the same call gives the same bits always."""


def are_deterministic_algorithms_enabled() -> bool:
    """True: the same call gives the same bits always."""
    return True


def set_deterministic_debug_mode(debug_mode: Any) -> None:
    """Taken: the same call gives the same bits always."""


def get_deterministic_debug_mode() -> int:
    """0: nothing needs to be warned of."""
    return 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """False: nothing needs to be warned of."""
    return False


class _Warnings:
    """What :func:`set_warn_always` set."""

    always = False


def set_warn_always(b: bool, /) -> None:
    """Have the same warning come each time; else once a process, or as Python's filters say.

    Raises:
        ArgumentError: if it is no bool.
    """
    if not isinstance(b, bool):
        raise ArgumentError("set_warn_always", "it takes a bool", type=type(b).__name__)
    _Warnings.always = b
    warnings.filterwarnings("always" if b else "default", module=r"clnet\b")


def is_warn_always_enabled() -> bool:
    """What :func:`set_warn_always` said last."""
    return _Warnings.always


def is_inference(input: Tensor) -> bool:  # noqa: A002 - PyTorch's name
    """Whether a tensor was made in ``inference_mode``."""
    return input.is_inference()


def get_device_module(device: Any = None) -> Any:
    """``clnet.cuda`` for a GPU and what ``cuda`` stands for, ``clnet.accelerator`` for others."""
    name = str(device) if isinstance(device, str) else (device or get_default_device()).type
    gpu = name.partition(":")[0] in ("cuda", "gpu")
    return cuda if gpu else accelerator


def set_num_threads(int: int) -> None:  # noqa: A002 - PyTorch's name
    """Taken: how many cores a device uses is said when it is opened (``CLNET_THREADS``)."""


set_num_interop_threads = set_num_threads


def get_num_threads() -> int:
    """Compute units of the current device."""
    return get_default_device().traits.compute_units


def get_num_interop_threads() -> int:
    """1: ops follow one another."""
    return 1


def set_flush_denormal(mode: bool) -> bool:
    """False: the device's compiler decides."""
    return False


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """As :class:`clnet.autograd.set_detect_anomaly`."""
    set_detect_anomaly(mode, check_nan)


def is_inference_mode_enabled() -> bool:
    """Whether the code runs within ``inference_mode()``."""
    return mode.current().inference


def is_storage(obj: Any) -> bool:
    """Whether it is a tensor's memory, as ``x.untyped_storage()`` gives it."""
    return isinstance(obj, UntypedStorage)


def assert_(condition: Any, message: str = "") -> None:
    """``assert`` as a function."""
    if not condition:
        raise AssertionError(message)


def is_anomaly_enabled() -> bool:
    """Whether NaN in gradients are looked for; see :func:`set_anomaly_enabled`."""
    return mode.current().anomaly is not None


def is_anomaly_check_nan_enabled() -> bool:
    """Whether NaN would be errors where they are looked for: True where nothing looks, too."""
    looking = mode.current().anomaly
    return looking is None or looking.check_nan


def range(start: float, end: float, step: float = 1, **given: Any) -> Tensor:  # noqa: A001 - PyTorch's
    """Numbers from ``start`` to ``end``, that among them; of the default dtype if none is given."""
    out, count = given.pop("out", None), int((end - start) / step) + 1
    given = made_for("range", out, given)
    given["dtype"] = given.get("dtype") or default_float()
    found = arange(count, **given) * step + start
    return found if out is None else written("range", found, out)


def _version() -> Version:
    try:
        return Version(metadata.version("clnet"))
    except metadata.PackageNotFoundError:  # a checkout that was never installed
        return Version("0")


__version__ = _version()
NAMES = {
    **{name: name for name in __all__},
    **{
        name: name
        for name in ("__version__", "is_anomaly_enabled", "is_anomaly_check_nan_enabled", "range")
    },
    "_assert": "assert_",
}
"""What ``clnet`` shows of this module, by the name it has there."""
