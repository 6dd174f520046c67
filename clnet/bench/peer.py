"""PyTorch as the peer on the same device: on the CPU, or through CUDA on an NVIDIA GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..device import Device, DeviceKind

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h
_KEEP_BYTES = 2**30


@dataclass(frozen=True)
class Peer:
    """PyTorch on one device.

    Attributes:
        torch: the module.
        device: PyTorch's name of the device.
    """

    torch: Any
    device: str

    @property
    def name(self) -> str:
        """The version and where it runs."""
        if self.device == "cpu":
            return f"PyTorch {self.torch.__version__}, {self.torch.get_num_threads()} threads"
        return f"PyTorch {self.torch.__version__}, {self.torch.cuda.get_device_name()}"

    def tensor(self, values: np.ndarray) -> Any:
        """The values on the device, shaped as they are; on the CPU the same memory."""
        return self.torch.from_numpy(values).to(self.device)

    def empty(self, shape: Sequence[int]) -> Any:
        """Room for float32 values."""
        return self.torch.empty(tuple(shape), device=self.device)

    def allocated_bytes(self) -> int:
        """Device memory in use; 0 on the CPU, where none is counted."""
        return 0 if self.device == "cpu" else int(self.torch.cuda.memory_allocated())

    def peak_bytes(self, run: Callable[[], object]) -> int:
        """The most device memory in use while something runs; 0 on the CPU, where none is counted.

        Args:
            run: what runs.
        """
        if self.device == "cpu":
            return 0
        self.synchronize()
        self.torch.cuda.reset_peak_memory_stats()
        run()
        self.synchronize()
        return int(self.torch.cuda.max_memory_allocated())

    def synchronize(self) -> None:
        """Wait until all that was asked of the device is done."""
        if self.device != "cpu":
            self.torch.cuda.synchronize()


def peer_on(where: Device, threads: int | None = None) -> Peer | None:
    """PyTorch at its best where ``where`` is, in float32; None if it is not installed or cannot.

    Args:
        where: our device; a CPU has PyTorch's CPU code as its peer, an NVIDIA GPU CUDA.
        threads: how many PyTorch may use on a CPU; None: as many as we.
    """
    try:
        import torch  # noqa: PLC0415 - an optional peer
    except ImportError:
        return None
    if where.traits.kind is DeviceKind.CPU:
        return Peer(_on_cpu(torch, threads or where.traits.compute_units), "cpu")
    if "NVIDIA" not in where.identity.vendor or not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    return Peer(torch, "cuda")


def _on_cpu(torch: Any, threads: int) -> Any:
    """The module, told its threads, and to keep memory.

    glibc gives large blocks back to the system when they are freed, so that PyTorch, which
    allocates its results anew, pays for fresh pages at every step. It is told to keep them.
    """
    torch.set_num_threads(threads)
    allocator = ctypes.CDLL(None)
    if hasattr(allocator, "mallopt"):
        allocator.mallopt(_M_MMAP_THRESHOLD, _KEEP_BYTES)
        allocator.mallopt(_M_TRIM_THRESHOLD, _KEEP_BYTES)
    return torch
