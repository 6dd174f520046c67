"""Binaries of programs that were built here, for the cache on disk: at once, or when we end.

PoCL before 4.0 has 128 places for kernels that are open, and closes the one that was launched
longest ago for the next. But asking for a binary asks it twice, for the size and for the bytes, and
the second time it counts a use that never ends: the place is lost. With no places left a launch
opens its kernel anew, among all that stay open: behind 1,500 of them 0.5 ms instead of 0.02. So a
process asks for few binaries while it launches. Of the others it asks for the size alone, by which
they are compiled, and for the bytes at its end.
"""

from __future__ import annotations

import atexit
from contextlib import suppress
from typing import Any

import pyopencl as cl

from ..values.cache import Shelf
from ..values.pattern import pattern
from .builtin_functions import POCL
from .forked import INHERITANCE
from .traits import DeviceIdentity

AT_ONCE = 32
"""How many of PoCL's places binaries may take."""
_VERSION = pattern(r"PoCL (\d+)\.")
_MENDED = 4  # the version of PoCL that counts right


def loses_places(identity: DeviceIdentity) -> bool:
    """Whether a device's driver keeps a kernel open forever once its binary was asked for.

    Args:
        identity: the device.
    """
    version = _VERSION.search(identity.platform_version)
    return identity.platform == POCL and (version is None or int(version.group(1)) < _MENDED)


class _Late:
    """Binaries of a process that its driver is asked for at the end.

    Attributes:
        taken: places of the driver that were lost to others.
        programs: what is yet to be asked for: where to keep it, by which key, and the program.
    """

    def __init__(self) -> None:
        self.taken = 0
        self.programs: list[tuple[Shelf, str, Any]] = []

    def put_off(self, shelf: Shelf, key: str, program: Any) -> None:
        """Ask for a program's binary when the process ends."""
        if not self.programs:
            atexit.register(self.ask)
        self.programs.append((shelf, key, program))

    def ask(self) -> None:
        """Keep what was put off."""
        programs, self.programs = self.programs, []
        if not INHERITANCE.lost:
            for shelf, key, program in programs:
                with suppress(cl.Error):
                    shelf.write(key, _binary(program))


_LATE = _Late()


def _binary(program: Any) -> bytes:
    return program.get_info(cl.program_info.BINARIES)[0]


def keep(shelf: Shelf, key: str, program: Any, *, loses_places: bool) -> None:
    """Have a built program compiled, and its binary kept.

    Args:
        shelf: where.
        key: by which it is found.
        program: the ``pyopencl.Program``.
        loses_places: whether the driver loses a place for each binary: :func:`loses_places`.
    """
    if not loses_places or _LATE.taken < AT_ONCE:
        _LATE.taken += loses_places
        shelf.write(key, _binary(program))
    else:
        program.get_info(cl.program_info.BINARY_SIZES)
        _LATE.put_off(shelf, key, program)
