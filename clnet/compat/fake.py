"""``torch._subclasses``: tensors without memory, of PyTorch's compiler. There are none."""

from __future__ import annotations

from types import ModuleType
from typing import Any

__all__ = ["FakeTensor", "FakeTensorMode", "fake_tensor"]


class FakeTensor:
    """A tensor without memory: there is none."""


class FakeTensorMode:
    """A block in which tensors would have no memory: ``clnet.plan`` says what memory is needed."""


def is_fake(x: Any) -> bool:
    """False."""
    return False


fake_tensor = ModuleType("torch._subclasses.fake_tensor", __doc__)
fake_tensor.__dict__.update(FakeTensor=FakeTensor, FakeTensorMode=FakeTensorMode, is_fake=is_fake)
