"""What kernels find wrong with the data they read: a cell in device memory, and who is told.

A kernel that checks its data has a *cell* among its arguments: it is 0 until a kernel meets bad
data and writes there which check it is, the value and its place; the first one stays, the others
are counted. The host looks when it waits for the device anyway, and only if a kernel that checks
was enqueued since it last did.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from ..errors import ClnetError, DataBoundsError
from ..values import mode
from .launch import Launch, Storage

_PACKAGE = str(Path(__file__).parents[1])
_LINE_UNKNOWN = "Set CLNET_DEBUG=1, or call it inside clnet.debug(), to be told the line"


@dataclass(frozen=True)
class Check:
    """What a kernel checks of its data.

    Attributes:
        op: the public op.
        argument: its argument that is read.
        law: what holds for its elements, in lower case.
        bound: what the limit that the kernel compares with is called; "": it is said in the law.
        error: what is raised.
    """

    op: str
    argument: str
    law: str
    bound: str = ""
    error: type[ClnetError] = DataBoundsError


# A cell as kernels write it: `report` of lib/fault.mako.
CELL = np.dtype(
    [
        ("site", np.int32),
        ("further", np.int32),
        ("value", np.int64),
        ("position", np.int64),
        ("bound", np.int64),
        ("kind", np.int64),
    ]
)
_KINDS = (np.int64, np.float32, np.float64)


@dataclass(frozen=True)
class Site:
    """A check where it is made."""

    check: Check
    module_path: str
    line: str


class Faults:
    """The cell of one queue, and what the numbers written there mean.

    Args:
        create: makes a buffer of so many bytes.
        zero: fills a buffer of so many bytes with zeros.
        told: whether what is found is an error; else nobody hears of it.

    Attributes:
        cell: the cell, as kernels' argument; it gets its buffer with the first kernel that checks.
        expected: whether a kernel that checks was enqueued since the host looked. It is set after
            the enqueue and cleared before the look, so that no thread's kernel is left out.
    """

    def __init__(
        self,
        create: Callable[[int], Any],
        zero: Callable[[Any, int], None],
        *,
        told: bool = True,
    ) -> None:
        self._told = told
        self._create = create
        self._zero = zero
        nowhere: Any = None  # it is an argument of kernels, and in no array
        self.cell = Storage(nowhere, CELL.itemsize)
        self.expected = False
        self._numbers: dict[Site, int] = {}
        self._sites: list[Site] = []
        self._lock = Lock()

    def args_of(self, launch: Launch) -> tuple[Any, ...]:
        """A launch's arguments; of a kernel that checks with the cell, and the check's number."""
        if launch.check is None:
            return launch.args
        number = self.number_of(launch.check, launch.module_path, launch.line)
        return (*launch.args, self.cell, 0, number)

    def number_of(self, check: Check, module_path: str, line: str = "") -> int:
        """What a kernel reports a check by; the cell has its memory then."""
        site = Site(check, module_path, line or (users_line() if mode.current().debug else ""))
        number = self._numbers.get(site)
        if number is None or self.cell.buffer is None:
            number = self._new(site)
        return number

    def _new(self, site: Site) -> int:
        with self._lock:
            if self.cell.buffer is None:
                self.cell.buffer = self._create(CELL.itemsize)
                self.clear()
            if site not in self._numbers:
                self._sites.append(site)
                self._numbers[site] = len(self._sites)
            return self._numbers[site]

    def untold(self) -> Faults:
        """Others of the same queue, whose findings nobody hears of."""
        return Faults(self._create, self._zero, told=False)

    def clear(self) -> None:
        """Have the cell say that nothing was found."""
        self._zero(self.cell.buffer, CELL.itemsize)

    def error(self, found: np.ndarray) -> ClnetError | None:
        """What a cell says, as the error to be raised.

        Args:
            found: the cell as it was read.

        Returns:
            The error; None if nothing was found, or nobody is to be told.
        """
        number = int(found["site"])
        if number == 0 or not self._told:
            return None
        site = self._sites[number - 1]
        check = site.check
        kind = np.dtype(_KINDS[int(found["kind"])])
        bits = np.asarray(found["value"]).reshape(1)
        values: dict[str, object] = {
            check.argument: bits.view(kind)[0].item(),
            "position": int(found["position"]),
        }
        if check.bound:
            values[check.bound] = int(found["bound"])
        if found["further"]:
            values["further"] = int(found["further"])
        if site.line:
            values["line"] = site.line
        remedy = None if site.line else _LINE_UNKNOWN
        error = check.error(check.op, check.law, remedy=remedy, **values)
        error.module = site.module_path or None
        return error


def users_line() -> str:
    """``file:line`` of the nearest caller outside clnet; "" if there is none."""
    # inspect.stack would read every file.
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
