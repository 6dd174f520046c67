"""The state of a random number stream: a seed and a counter. The numbers are made by kernels."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping
from numbers import Integral
from threading import local
from typing import Any

import numpy as np

from ..errors import ArgumentError
from .plain import shown
from .process import process_lock

# Of all generators: held for a few instructions. Not a field, so that a generator can be copied.
_LOCK = process_lock()
_STATE = "<QQ"  # a seed and a counter
_MOST_DEVICES = 2**7  # that PyTorch numbers

AS_TENSOR: list[Callable[[bytes], Any]] = []
"""What makes a tensor of bytes, given by whoever has tensors."""
AS_DEVICE: list[Callable[[Any], Any]] = []
"""What opens a device that is named, or gives the one in use, given by whoever has devices."""


class _Own(local):
    """A thread's own: how often it has drawn, of any generator."""

    draws: int = 0


_OWN = _Own()


def draws() -> int:
    """How often this thread has drawn; a generator's offset moves with other threads, too."""
    return _OWN.draws


class Generator:
    """A counter-based stream (Philox): the same seed gives the same numbers on every device.

    Threads may share one: no numbers are given twice, but chance says which thread gets which.

    Args:
        seed: the key, 0 <= seed < 2**64; a device may stand in its place, as PyTorch has it.
        offset: how many blocks of four numbers were drawn.
        device: taken as PyTorch does; one stream serves every device.

    Attributes:
        key: the seed; :meth:`seed` is PyTorch's, which begins anew.
        offset: as above.

    Raises:
        ArgumentError: if the device is none and names none, or the seed is none.
    """

    def __init__(self, seed: Any = 0, offset: int = 0, device: Any = None) -> None:
        if device is None and not isinstance(seed, float | Integral):
            seed, device = 0, seed
        numbered = isinstance(device, int) and 0 <= device < _MOST_DEVICES
        if not (device is None or isinstance(device, str) or numbered or _is_device(device)):
            law = "device is a device, or names one"
            raise ArgumentError("Generator", law, device=shown(device))
        self.key, self.offset, self._device = _key("Generator", seed), offset, device

    @property
    def device(self) -> Any:
        """The device that was given; that of new tensors if none was, or none of that name is."""
        return AS_DEVICE[0](self._device)

    def manual_seed(self, seed: int) -> Generator:
        """Start again from ``seed``; one below 0 counts from 2**64.

        Raises:
            ArgumentError: if it is no whole number, or lies outside [-2**63, 2**64).
        """
        key = _key("manual_seed", seed)
        with _LOCK:
            self.key, self.offset = key, 0
        return self

    def seed(self) -> int:
        """Start from a number nobody chose; gives the number."""
        return self.manual_seed(int.from_bytes(os.urandom(4), "little")).key

    def initial_seed(self) -> int:
        """The seed that it was last given."""
        return self.key

    def take(self, count: int) -> tuple[int, int]:
        """Reserve ``count`` numbers.

        Returns:
            The seed, and the block at which they start.
        """
        _OWN.draws += 1
        with _LOCK:
            start = self.offset
            self.offset += -(-count // 4)
            return self.key, start

    def stands(self) -> dict[str, int]:
        """Seed and counter, by the names ``seed`` and ``offset``."""
        with _LOCK:
            return {"seed": self.key, "offset": self.offset}

    def get_state(self) -> Any:
        """Seed and counter: a tensor as ``clnet.get_rng_state`` gives."""
        return AS_TENSOR[0](packed(self.stands()))

    def set_state(self, state: Any) -> None:
        """Continue from what :meth:`get_state` gave, or :meth:`stands`.

        Raises:
            ArgumentError: if it is something else.
        """
        if hasattr(state, "__array__"):
            state = _unpacked(np.asarray(state))
        if not isinstance(state, Mapping) or not {"seed", "offset"} <= state.keys():
            law, kind = "a state is what get_state() gave", type(state).__name__
            raise ArgumentError("set_state", law, new_state=kind)
        seed, offset = int(state["seed"]), int(state["offset"])
        with _LOCK:
            self.key, self.offset = seed, offset


def packed(state: dict[str, int]) -> bytes:
    """What ``stands`` gives as 16 bytes, which checkpoints hold."""
    return struct.pack(_STATE, state["seed"], state["offset"])


def _unpacked(host: np.ndarray) -> dict[str, int]:
    if host.shape != (struct.calcsize(_STATE),) or host.dtype != np.uint8:
        raise ArgumentError(
            "set_rng_state",
            "a state is what get_rng_state() gave, 16 numbers of uint8",
            shape=host.shape,
            dtype=host.dtype,
            remedy="Other libraries' generators draw otherwise: begin with clnet.manual_seed",
        )
    return dict(zip(("seed", "offset"), struct.unpack(_STATE, host.tobytes()), strict=True))


def _is_device(value: object) -> bool:
    return isinstance(getattr(value, "type", None), str)  # a tensor's is a method


def _key(op: str, seed: Any) -> int:
    whole = isinstance(seed, Integral) and not isinstance(seed, bool)
    if not whole or not -(2**63) <= int(seed) < 2**64:
        law = "a seed is a whole number in [-2**63, 2**64)"
        raise ArgumentError(op, law, seed=shown(seed))
    return int(seed) % 2**64
