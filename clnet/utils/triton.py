"""``torch.utils._triton``: kernels here are OpenCL's, so Triton is not there."""

from __future__ import annotations

__all__ = ["has_triton", "has_triton_package", "has_triton_tma"]


def has_triton() -> bool:
    """False."""
    return False


has_triton_package = has_triton_tma = has_triton
