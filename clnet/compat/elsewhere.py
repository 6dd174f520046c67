"""``torch.xpu``, ``torch.mps``, ``torch.mtia``, ``torch.cpu``: what programs ask them first.

Devices are named, whoever made them: the first three say that they are not there. Programs keep
tables of functions by the kind of device, which look all of them up: seeding and emptying do
nothing there, as in PyTorch, and what needs a device is refused when it is called.
"""

from __future__ import annotations

from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import amp, cuda, differences

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

    def memory_allocated(self, device: Any = None) -> int:
        """0 bytes."""
        return 0

    memory_reserved = max_memory_allocated = max_memory_reserved = memory_allocated

    def empty_cache(self, what: Any = None) -> None:
        """Nothing is there to be emptied, seeded or counted anew."""

    manual_seed = manual_seed_all = seed = seed_all = empty_cache
    reset_peak_memory_stats = reset_accumulated_memory_stats = empty_cache

    def __getattr__(self, name: str) -> Any:
        if name not in _NEED_A_DEVICE:
            raise differences.missing(self.__name__, name)

        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise RuntimeError(
                f"{self.__name__}.{name}: no device goes by this name. "
                f"{differences.INSTEAD[self.__name__.rpartition('.')[2]]}"
            )

        refuse.__name__ = refuse.__qualname__ = name
        return refuse


_NEED_A_DEVICE = frozenset(
    """current_allocated_memory current_device current_stream driver_allocated_memory
    get_device_capability get_device_name get_device_properties get_rng_state get_rng_state_all
    initial_seed mem_get_info memory_stats recommended_max_memory set_device set_rng_state
    set_rng_state_all synchronize""".split()
)
xpu, mps, mtia = (_Absent(f"torch.{name}") for name in ("xpu", "mps", "mtia"))


def _synchronize(device: Any = None) -> None:
    """The host has done what it was told."""


@contextmanager
def _stream(stream: Any) -> Iterator[None]:
    yield


class _Autocast(amp.autocast):
    """``clnet.autocast("cpu", ...)``, arguments as there."""

    def __init__(
        self,
        enabled: bool = True,  # noqa: FBT001, FBT002 - PyTorch's signature
        dtype: Any = None,
        cache_enabled: bool | None = None,  # noqa: FBT001
    ) -> None:
        super().__init__("cpu", dtype, enabled, cache_enabled)


_amp = ModuleType("torch.cpu.amp", "Mixed precision, of the host.")
_amp.__dict__.update(autocast=_Autocast, GradScaler=amp.GradScaler)
cpu = ModuleType("torch.cpu", "The host, as PyTorch asks for it.")
cpu.__dict__.update(
    amp=_amp,
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
