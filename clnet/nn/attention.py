"""``nn.attention``: which kernel computes attention. clnet has one, so a choice changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from . import attention_bias as bias  # noqa: F401 - PyTorch's name
from . import flex_attention as flex_attention

__path__: list[str] = []  # ``import clnet.nn.attention.flex_attention`` is found
__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(Enum):
    """PyTorch's names of its kernels."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:  # noqa: FBT001, FBT002
    """A block in which certain kernels are wished for: there is one."""
    yield
