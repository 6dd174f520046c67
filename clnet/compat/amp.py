"""``clnet.amp``: mixed precision; the table of dtypes is ``ops/machinery/autocast.py``'s."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from enum import Enum
from functools import wraps
from types import ModuleType
from typing import Any

from ..errors import ArgumentError
from ..ops.machinery.autocast import Autocast
from ..optim.grad_scaler import GradScaler as GradScaler
from ..tensor import Tensor
from ..values import mode
from ..values.containers import again
from ..values.dtypes import DType, bfloat16, float16, float32

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

_KINDS = ("cpu", "cuda", "gpu", "xpu", "mps", "hpu", "opencl")


class _Chosen:
    """What the process-wide setters of PyTorch said.

    Attributes:
        dtypes: the dtype of a context that names none, by kind of device.
        caching: whether narrow forms of weights are kept until the outermost context ends.
    """

    dtypes: dict[str, DType] = {"cpu": bfloat16}  # noqa: RUF012 - of the process
    caching = True


def kind_of(device_type: Any, name: str = "autocast") -> str:
    """The kind of a device, of its name.

    Raises:
        ArgumentError: if it is no name of one.
    """
    kind = device_type.partition(":")[0] if isinstance(device_type, str) else ""
    if kind not in _KINDS:
        raise ArgumentError(
            name, f"device_type is one of {', '.join(_KINDS)}", device_type=repr(device_type)
        )
    return kind


def default_dtype(kind: str) -> DType:
    """What a context computes in that names no dtype: bfloat16 on CPUs, else float16."""
    return _Chosen.dtypes.get(kind, float16)


class autocast:  # noqa: N801 - PyTorch's name
    """A context, and a decorator, in which products compute in 16 bits and sums in float32.

    Ops are cast one by one, as PyTorch's tables for CUDA say, on every device: products,
    convolutions, attention and recurrent cells in ``dtype``; exponentials, powers, norms, sums,
    softmax and losses in float32; what joins tensors in the widest dtype among them; all others in
    what they are given. Parameters stay float32, and their gradients come back so; their 16-bit
    forms are made once until the outermost context ends. float64 is left alone, and so is what is
    written in place. Backward runs in the dtypes of forward, inside the context or outside.

    Contexts nest; the inner one counts. A compiled function has a plan for each dtype.

    Args:
        device_type: whose defaults it has; it counts on every device.
        dtype: float16 or bfloat16; None: bfloat16 for ``"cpu"``, else float16.
        enabled: False: ops compute in their operands' dtype again.
        cache_enabled: False: a parameter is cast each time that it is used.

    Raises:
        ArgumentError: if there is no such kind of device.

    Example:
        >>> import clnet
        >>> a = clnet.ones(2, 2)
        >>> with clnet.autocast("cpu"):
        ...     y = a @ a
        ...     total = y.sum()
        >>> y.dtype, total.dtype
        (clnet.bfloat16, clnet.float32)
    """

    def __init__(
        self,
        device_type: Any = "cuda",
        dtype: DType | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if isinstance(device_type, bool):  # of cuda.amp it is autocast(enabled, dtype)
            device_type, enabled = "cuda", device_type
        kind = kind_of(device_type)
        self.device = device_type
        self.fast_dtype = self.dtype = default_dtype(kind) if dtype is None else dtype
        if enabled and self.dtype not in (float16, bfloat16):
            warnings.warn(
                f"autocast: dtype is float16 or bfloat16, not {self.dtype}; nothing is cast",
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled
        self._cache_enabled = _Chosen.caching if cache_enabled is None else cache_enabled

    def __enter__(self) -> autocast:
        outside = mode.current().autocast
        inside = None
        if self._enabled:
            cache = None
            if outside is not None and outside.dtype is self.dtype:
                cache = outside.cache
            cache = {} if cache is None else cache
            inside = Autocast(self.dtype, cache if self._cache_enabled else None)
        mode.begin(self, autocast=inside)
        return self

    def __exit__(self, *raised: object) -> None:
        """The state outside again; narrow forms of weights go with the outermost context."""
        mode.end(self)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function``, run in this context."""

        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with autocast(self.device, self.dtype, self._enabled, self._cache_enabled):
                return function(*args, **kwargs)

        return run


def is_autocast_available(device_type: str) -> bool:
    """Whether there is such a kind of device: the table holds on all."""
    return kind_of(device_type, "is_autocast_available") in _KINDS


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether ops are cast just now."""
    return mode.current().autocast is not None


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Cast ops from now on, or no more, until a context around this call ends."""
    on = device_type if enabled is None else enabled
    kind = "cuda" if enabled is None else kind_of(device_type, "set_autocast_enabled")
    now = mode.current().autocast
    dtype = default_dtype(kind)
    fresh = Autocast(dtype, {} if _Chosen.caching else None)
    mode.change(autocast=(now if now and now.dtype is dtype else fresh) if on else None)


def get_autocast_dtype(device_type: str | None = None) -> DType:
    """What products compute in inside the context; outside, in a context that names no dtype."""
    now = mode.current().autocast
    if now is not None:
        return now.dtype
    return default_dtype("cuda" if device_type is None else kind_of(device_type))


def get_autocast_cpu_dtype() -> DType:
    """As :func:`get_autocast_dtype` of ``"cpu"``."""
    return get_autocast_dtype("cpu")


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Have contexts for a kind of device compute in a dtype if they name none.

    Raises:
        ArgumentError: if it is not of 16 bits, or there is no such kind.
    """
    name = "set_autocast_dtype"
    kind = kind_of(device_type, name)
    if dtype not in (float16, bfloat16):
        raise ArgumentError(name, "dtype is float16 or bfloat16", dtype=dtype)
    _Chosen.dtypes = {**_Chosen.dtypes, kind: dtype}
    now = mode.current().autocast
    if now is not None:
        mode.change(autocast=Autocast(dtype, None if now.cache is None else {}))


def is_autocast_cache_enabled() -> bool:
    """Whether narrow forms of weights are kept until the outermost context ends."""
    now = mode.current().autocast
    return _Chosen.caching if now is None else now.cache is not None


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Say whether contexts that do not say so themselves keep narrow forms of weights."""
    _Chosen.caching = enabled
    now = mode.current().autocast
    if now is not None:
        mode.change(autocast=Autocast(now.dtype, {} if enabled else None))


def clear_autocast_cache() -> None:
    """Forget the narrow forms of weights that the context made."""
    now = mode.current().autocast
    if now is not None and now.cache is not None:
        now.cache.clear()


def custom_fwd(
    fwd: Any = None, *, device_type: str = "cuda", cast_inputs: DType | None = None
) -> Any:
    """``forward`` of a user's Function, whose ``backward`` is :func:`custom_bwd`'s.

    Args:
        fwd: ``forward(ctx, *args)``; None: what is returned decorates one.
        device_type: as :class:`autocast`'s.
        cast_inputs: what floating arguments are cast to inside a context, in which case ops in
            ``forward`` compute in their operands' dtype; None: ``forward`` is cast as all else.

    Returns:
        ``forward``.
    """
    kind_of(device_type, "custom_fwd")
    if fwd is None:
        return lambda function: custom_fwd(
            function, device_type=device_type, cast_inputs=cast_inputs
        )

    @wraps(fwd)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        now = mode.current().autocast
        ctx._autocast = now if cast_inputs is None else None
        if cast_inputs is None or now is None:
            return fwd(ctx, *args, **kwargs)
        with mode.using(autocast=None):
            given = (_all_cast(x, cast_inputs) for x in (args, kwargs))
            args, kwargs = given
            return fwd(ctx, *args, **kwargs)

    return forward


def custom_bwd(bwd: Any = None, *, device_type: str = "cuda") -> Any:
    """``backward`` of a user's Function, run in the context that its ``forward`` ran in.

    Args:
        bwd: ``backward(ctx, *grads)``; None: what is returned decorates one.
        device_type: as :class:`autocast`'s.

    Returns:
        ``backward``.
    """
    kind_of(device_type, "custom_bwd")
    if bwd is None:
        return lambda function: custom_bwd(function, device_type=device_type)

    @wraps(bwd)
    def backward(ctx: Any, *grads: Any, **kwargs: Any) -> Any:
        before = ctx._autocast
        with mode.using(autocast=before and before.apart()):
            return bwd(ctx, *grads, **kwargs)

    return backward


def _all_cast(value: Any, dtype: DType) -> Any:
    """A value with all floating tensors in it, but float64's, in a dtype."""
    if isinstance(value, Tensor):
        narrow = value.dtype.is_floating_point and value.dtype.itemsize <= float32.itemsize
        return value.to(dtype) if narrow else value
    if isinstance(value, Mapping):
        return {key: _all_cast(each, dtype) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return again(value, (_all_cast(each, dtype) for each in value))
    return value


autocast_mode = ModuleType("clnet.amp.autocast_mode", "Where PyTorch has contexts.")
autocast_mode.__dict__.update(
    autocast=autocast,
    autocast_decorator=lambda context, function: context(function),
    custom_bwd=custom_bwd,
    custom_fwd=custom_fwd,
    is_autocast_available=is_autocast_available,
)


class OptState(Enum):
    """PyTorch's names of where an optimiser stands, which packages import."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


grad_scaler = ModuleType("clnet.amp.grad_scaler", "Where PyTorch has the scaler of gradients.")
grad_scaler.__dict__.update(GradScaler=GradScaler, OptState=OptState)
