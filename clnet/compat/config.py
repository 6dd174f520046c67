"""``clnet.__config__``: what the library was built with, as a text."""

from __future__ import annotations

from ..device import devices

__all__ = ["parallel_info", "show"]


def show() -> str:
    """The devices that OpenCL shows: nothing was built."""
    lines = [f"  - {found.handle.name}" for found in devices() if found.handle]
    return "\n".join(["clnet, built of nothing, with OpenCL:", "  - USE_MKL=OFF", *lines])


def parallel_info() -> str:
    """As :func:`show`: threads are the devices'."""
    return show()
