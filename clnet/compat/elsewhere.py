"""``torch.xpu``, ``torch.mps``, ``torch.mtia``, ``torch.cpu``: what programs ask them first.

Devices are named, whoever made them: the first three say that they are not there.
"""

from __future__ import annotations

from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import cuda, differences

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["cpu", "mps", "mtia", "xpu"]


class _Absent(ModuleType):
    """The module of a kind of device that nobody has under this name."""

    def is_available(self) -> bool:
        """False."""
        return False

    is_initialized = is_bf16_supported = is_available

    def device_count(self) -> int:
        """0."""
        return 0

    def __getattr__(self, name: str) -> Any:
        raise differences.missing(self.__name__, name)


xpu, mps, mtia = (_Absent(f"torch.{name}") for name in ("xpu", "mps", "mtia"))


def _synchronize(device: Any = None) -> None:
    """The host has done what it was told."""


@contextmanager
def _stream(stream: Any) -> Iterator[None]:
    yield


cpu = ModuleType("torch.cpu", "The host, as PyTorch asks for it.")
cpu.__dict__.update(
    Stream=cuda.Stream,
    StreamContext=_stream,
    current_device=lambda: "cpu",
    current_stream=cuda.current_stream,
    device_count=lambda: 1,
    is_available=lambda: True,
    is_initialized=lambda: True,
    set_device=_synchronize,
    stream=_stream,
    synchronize=_synchronize,
)
