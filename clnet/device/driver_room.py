"""Whether a driver that compiles into files has room for them.

PoCL links each kernel in its cache's folder, and ends the process where that fails.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from ..errors import BuildError

__all__ = ["check_room"]

# The largest of clnet's own kernels left 2 MB there.
_LEAST_BYTES = 4 * 2**20


def check_room(origin: str, folder: Path) -> None:
    """Refuse to compile where files have no room.

    Args:
        origin: which kernel it is for.
        folder: where the driver writes; it need not exist yet.

    Raises:
        BuildError: if there are less than 4 MiB.
    """
    there = next(p for p in (folder, *folder.parents) if p.exists())
    try:
        free = shutil.disk_usage(there).free
    except OSError:  # nobody knows: the driver may say
        return
    if free < _LEAST_BYTES:
        raise BuildError(
            origin,
            "the driver's compiler has room for its files",
            folder=folder,
            free_bytes=free,
            least_bytes=_LEAST_BYTES,
            remedy="Make room, or set POCL_CACHE_DIR to a folder elsewhere",
        )
