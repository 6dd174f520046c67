"""``torch.utils._device``: which functions make tensors from nothing on a device that is named."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from .. import creation, random, tensor

__all__: list[str] = []

_NAMES = """
    arange as_tensor asarray empty eye full hamming_window hann_window linspace logspace ones rand
    randint randn randperm scalar_tensor tensor tril_indices triu_indices zeros
""".split()


@lru_cache(maxsize=1)
def _device_constructors() -> frozenset[Callable[..., Any]]:  # for packages
    """The functions."""
    homes = (creation, random, tensor)
    return frozenset(next(vars(h)[n] for h in homes if n in vars(h)) for n in _NAMES)
