"""The state of a random number stream: a seed and a counter. The numbers are made by kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ArgumentError
from .process import process_lock

# Of all generators: held for a few instructions. Not a field, so that a generator can be copied.
_LOCK = process_lock()


@dataclass
class Generator:
    """A counter-based stream (Philox): the same seed gives the same numbers on every device.

    Threads may share one: no numbers are given twice, but chance says which thread gets which.

    Attributes:
        seed: the key, 0 <= seed < 2**64.
        offset: how many blocks of four numbers were drawn.
        device: taken as PyTorch does; one stream serves every device.
    """

    seed: int = 0
    offset: int = 0
    device: Any = None

    def __post_init__(self) -> None:
        device = self.device
        if not (device is None or isinstance(device, str | int) or hasattr(device, "type")):
            raise ArgumentError("Generator", "device is a device, or names one", device=device)

    def manual_seed(self, seed: int) -> Generator:
        """Start again from ``seed``.

        Raises:
            ArgumentError: if it lies outside [0, 2**64).
        """
        if not 0 <= seed < 2**64:
            raise ArgumentError("manual_seed", "a seed lies in [0, 2**64)", seed=seed)
        with _LOCK:
            self.seed, self.offset = seed, 0
        return self

    def take(self, count: int) -> tuple[int, int]:
        """Reserve ``count`` numbers.

        Returns:
            The seed, and the block at which they start.
        """
        with _LOCK:
            start = self.offset
            self.offset += -(-count // 4)
            return self.seed, start

    def get_state(self) -> dict[str, int]:
        """Seed and counter."""
        with _LOCK:
            return {"seed": self.seed, "offset": self.offset}

    def set_state(self, state: dict[str, int]) -> None:
        """Continue from what :meth:`get_state` gave.

        Raises:
            ArgumentError: if it is something else.
        """
        if not isinstance(state, Mapping) or not {"seed", "offset"} <= state.keys():
            law, kind = "a state is what get_state() gave", type(state).__name__
            raise ArgumentError("set_state", law, new_state=kind)
        seed, offset = int(state["seed"]), int(state["offset"])
        with _LOCK:
            self.seed, self.offset = seed, offset
