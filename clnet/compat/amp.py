"""``clnet.amp``: mixed precision is accepted and not mixed; gradients need no scaling then.

Products are computed in their operands' dtype. float32 where a program hoped for bfloat16 is slower
and more accurate; a module converted with ``.bfloat16()`` stores 16 bits.
"""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ..values.dtypes import DType, bfloat16
from .notice import say_once

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]


class autocast:  # noqa: N801 - PyTorch's name
    """A context, and a decorator, in which ops run in their operands' dtype as everywhere else.

    Args:
        device_type: as PyTorch's; taken.
        dtype: taken; that it is not used is said once.
        enabled: False: nothing is said.
        cache_enabled: taken.
    """

    def __init__(
        self,
        device_type: Any = "cpu",
        dtype: DType | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        # Of cuda.amp it is autocast(enabled, dtype).
        on = enabled and device_type is not False
        self.dtype = bfloat16 if dtype is None else dtype
        if on:
            say_once(
                "autocast: ops run in their operands' dtype; use module.bfloat16() for 16 bits"
            )

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *raised: object) -> None:
        """Nothing was changed."""

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function``, run in this context: as it is."""

        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return run


def is_autocast_available(device_type: str) -> bool:
    """False: ops run in their operands' dtype."""
    return False


def custom_fwd(fwd: Any = None, *, device_type: str = "cpu", cast_inputs: Any = None) -> Any:
    """``forward`` of a user's Function: as it is."""
    return fwd if fwd is not None else lambda function: function


def custom_bwd(bwd: Any = None, *, device_type: str = "cpu") -> Any:
    """``backward`` of a user's Function: as it is."""
    return bwd if bwd is not None else lambda function: function


class GradScaler:
    """Takes part in a step as PyTorch's and scales by 1: float32 gradients do not underflow.

    Args:
        device: taken, as all others.
        init_scale: taken.
        growth_factor: taken.
        backoff_factor: taken.
        growth_interval: taken.
        enabled: what :meth:`is_enabled` says.
    """

    def __init__(
        self,
        device: Any = "cuda",
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._enabled = enabled

    def scale(self, outputs: Any) -> Any:
        """The loss as it is."""
        return outputs

    def unscale_(self, optimizer: Any) -> None:
        """Gradients are not scaled."""

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step()``."""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """The scale stays 1."""

    def get_scale(self) -> float:
        """1."""
        return 1.0

    def is_enabled(self) -> bool:
        """What it was made with."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Nothing but the scale."""
        return {"scale": 1.0} if self._enabled else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The scale stays 1."""
