"""A driver with a fault: what lies under the queue and the programs does something wrong.

:func:`planted` puts it in the place of pyopencl, where a device finds it, and gives a device of its
own, with a cache of its own: nothing that a faulty driver built or computed meets another device.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyopencl as cl

from clnet.device import Device
from clnet.device.discovery import discover, select
from clnet.values.settings import SETTINGS

PRAGMA = "#pragma OPENCL FP_CONTRACT OFF"


class Kernel:
    """A kernel whose arguments pass by the driver."""

    def __init__(self, driver: Driver, program: Any, name: str) -> None:
        self.driver, self.real = driver, cl.Kernel(program, name)
        self.set_scalar_arg_dtypes = self.real.set_scalar_arg_dtypes
        self.given: dict[int, Any] = {}

    def set_args(self, *values: Any) -> None:
        self.real.set_args(*self.driver.arguments(list(values)))

    def set_arg(self, place: int, value: Any) -> None:
        self.given[place] = value
        values = [self.given.get(k) for k in range(max(self.given) + 1)]
        for k, changed in enumerate(self.driver.arguments(values)):
            if changed is not None:
                self.real.set_arg(k, changed)


class Driver:
    """pyopencl, but for what a subclass overrides."""

    def __init__(self) -> None:
        self.launches = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(cl, name)

    def text(self, text: str) -> str:
        return text

    def options(self, options: list[str]) -> list[str]:
        return options

    def arguments(self, values: list[Any]) -> list[Any]:
        return values

    def sizes(self, total: Any, group: Any) -> tuple[Any, Any]:
        return total, group

    def Program(self, context: Any, *given: Any) -> Any:  # noqa: N802 - pyopencl's
        if isinstance(given[0], str):
            given = (self.text(given[0]),)
        return Program(self, cl.Program(context, *given))

    def Kernel(self, program: Any, name: str) -> Any:  # noqa: N802 - pyopencl's
        return Kernel(self, getattr(program, "real", program), name)

    def enqueue_nd_range_kernel(self, queue: Any, kernel: Any, total: Any, group: Any) -> Any:
        self.launches += 1
        total, group = self.sizes(tuple(total), tuple(group))
        return cl.enqueue_nd_range_kernel(queue, kernel.real, total, group)


class Program:
    """A program whose options pass by the driver."""

    def __init__(self, driver: Driver, real: Any) -> None:
        self.driver, self.real = driver, real
        self.get_info = real.get_info

    def build(self, options: Any = (), **given: Any) -> Program:
        self.real.build(options=self.driver.options(list(options)), **given)
        return self


class Rewriting(Driver):
    """A compiler that takes a text for another."""

    def __init__(self, *changes: tuple[str, str]) -> None:
        super().__init__()
        self.changes = changes

    def text(self, text: str) -> str:
        # What stands before the line that is called the first names functions as they are.
        head, line, rest = text.rpartition("#line 1\n")
        for old, new in self.changes:
            rest = re.sub(old, new, rest)
        return f"{head}{line}{rest}"


def defining(name: str, parameters: str, body: str) -> Callable[[], Driver]:
    """A compiler with a wrong built-in function."""

    class Defining(Driver):
        def text(self, text: str) -> str:
            if not re.search(rf"\b{name}\s*\(", text):
                return text
            wrong, own = f"#define {name}({parameters}) ({body})", rf"#define {name}\(.*"
            if re.search(own, text):  # the compiler's own, where that has one
                return re.sub(own, wrong, text)
            # Declarations of built-in functions stand before the line that is called the first.
            head, line, rest = text.rpartition("#line 1\n")
            return f"{head}{wrong}\n{line}{rest}"

    return Defining


class LosesTheLastGroup(Driver):
    def sizes(self, total, group):
        if total[0] > group[0]:
            total = (total[0] - group[0], *total[1:])
        return total, group


class WrongLocalSize(Driver):
    def sizes(self, total, group):
        if group[0] % 2 == 0:
            group = (group[0] // 2, *group[1:])
        return total, group


class LosesLaunches(Driver):
    """Every ninth."""

    def enqueue_nd_range_kernel(self, queue, kernel, total, group):
        self.launches += 1
        if self.launches % 9 == 0:
            return cl.enqueue_marker(queue)
        return cl.enqueue_nd_range_kernel(queue, kernel.real, total, group)


class SwapsArguments(Driver):
    def arguments(self, values):
        at = [k for k, v in enumerate(values) if isinstance(v, cl.Buffer)]
        if len(at) > 2:
            i, j = at[-2:]
            values[i], values[j] = values[j], values[i]
        return values


class TruncatesNumbers(Driver):
    """Floats have sixteen bits on their way to a kernel."""

    def arguments(self, values):
        return [float(np.float16(v)) if isinstance(v, float) else v for v in values]


class RoundsOffsets(Driver):
    """Arguments that say where a region begins are rounded to eight elements."""

    def arguments(self, values):
        after = [k and isinstance(values[k - 1], cl.Buffer) for k in range(len(values))]
        return [
            v // 8 * 8 if near and isinstance(v, int) else v
            for v, near in zip(values, after, strict=True)
        ]


class Copying(Driver):
    """A driver whose copies are not those that were asked for."""

    def enqueue_copy(self, queue, target, source, **given):
        if isinstance(target, np.ndarray) or isinstance(source, np.ndarray):
            return self.transfer(queue, target, source, **given)
        return cl.enqueue_copy(queue, target, source, **given)

    def transfer(self, queue, target, source, **given):
        return cl.enqueue_copy(queue, target, source, **given)


class TearsCopies(Copying):
    """The last bytes of what is no whole number of lines are not sent."""

    def transfer(self, queue, target, source, **given):
        if isinstance(source, np.ndarray) and source.nbytes % 64 and source.nbytes > 64:
            source = source.reshape(-1).view(np.uint8)[: source.nbytes // 64 * 64]
        return super().transfer(queue, target, source, **given)


class RoundsPlaces(Driver):
    """Copies begin at multiples of 64 bytes."""

    def enqueue_copy(self, queue, target, source, **given):
        for name in ("src_offset", "dst_offset"):
            if name in given:
                given[name] = given[name] // 64 * 64
        return cl.enqueue_copy(queue, target, source, **given)


class UploadsLate(Copying):
    """What is sent arrives behind the next kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.late: list[Any] = []

    def transfer(self, queue, target, source, **given):
        if isinstance(target, np.ndarray):
            self.arrive()
            return super().transfer(queue, target, source, **given)
        self.late.append((queue, target, source.copy(), given))
        return cl.enqueue_marker(queue)

    def enqueue_nd_range_kernel(self, queue, kernel, total, group):
        event = super().enqueue_nd_range_kernel(queue, kernel, total, group)
        self.arrive()
        return event

    def arrive(self):
        while self.late:
            queue, target, source, given = self.late.pop(0)
            cl.enqueue_copy(queue, target, source, **{**given, "is_blocking": True})


class UploadsUnsafely(Copying):
    """What is sent is read from the host's memory after the driver has said that it was."""

    def __init__(self) -> None:
        super().__init__()
        self.late: list[Any] = []

    def transfer(self, queue, target, source, **given):
        if isinstance(source, np.ndarray):
            self.late.append((queue, target, source, given))
            if len(self.late) > 3:  # read now, whatever is there
                queue, target, source, given = self.late.pop(0)
                cl.enqueue_copy(queue, target, source, **{**given, "is_blocking": True})
            return cl.enqueue_marker(queue)
        return super().transfer(queue, target, source, **given)


class DownloadsEarly(Copying):
    """The last kernel has not ended when its result is read: an event's wait was lost."""

    def __init__(self) -> None:
        super().__init__()
        self.held: Callable[[], Any] | None = None

    def let_go(self) -> None:
        held, self.held = self.held, None
        if held is not None:
            held()

    def enqueue_nd_range_kernel(self, queue, kernel, total, group):
        self.let_go()
        self.held = lambda: cl.enqueue_nd_range_kernel(queue, kernel.real, total, group)
        return cl.enqueue_marker(queue)

    def transfer(self, queue, target, source, **given):
        event = super().transfer(queue, target, source, **given)
        self.let_go()
        return event


class SharesMemory(Driver):
    """Every other buffer is the one before, if that is large enough."""

    def __init__(self) -> None:
        super().__init__()
        self.last: Any = None

    def Buffer(self, context, flags, size=0, **given):  # noqa: N802 - pyopencl's
        if given:
            return cl.Buffer(context, flags, size, **given)
        if self.last is not None and self.last.size >= size:
            buffer, self.last = self.last, None
            return buffer
        self.last = cl.Buffer(context, flags, size)
        return self.last


class StaleCache(Driver):
    """A program is known by its kernel's name."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, str] = {}

    def text(self, text: str) -> str:
        name = re.search(r"__kernel\s+void\s+(\w+)\s*(\([^)]*\))", text)
        return text if name is None else self.kept.setdefault(name[1] + name[2], text)


@dataclass(frozen=True)
class Fault:
    """A fault, and where the doctor meets it.

    Attributes:
        name: of the fault.
        driver: makes the driver.
        asked: names of cases and trials, of which one at least finds it.
    """

    name: str
    driver: Callable[[], Driver]
    asked: tuple[str, ...]

    def __str__(self) -> str:
        return self.name


FAULTS = (
    Fault("wrong exp", defining("exp", "x", "exp(x) * 1.000001"), ("double precision",)),
    Fault("wrong atan", defining("atan", "x", "atan(x) + 0.0001f"), ("atan",)),
    Fault("wrong sqrt", defining("sqrt", "x", "sqrt(x) * 1.0001f"), ("sqrt",)),
    Fault("rint rounds down", defining("rint", "x", "floor(x)"), ("rounding",)),
    Fault(
        "wrong fma",
        defining("fma", "x, y, z", "as_float(as_int((x) * (y))) + (z)"),
        ("rounding of built-in functions",),
    ),
    Fault("contracts sums", lambda: Rewriting((PRAGMA, "")), ("a long sum kept in order",)),
    Fault(
        "forgets what is no number",
        lambda: Rewriting((r"\((\w+) != \1\)", "(0)")),
        ("special numbers",),
    ),
    Fault(
        "drops barriers", lambda: Rewriting((r"\bbarrier\([^)]*\);", "")), ("barriers and atomics",)
    ),
    Fault(
        "atomics that are none",
        lambda: Rewriting((r"\batomic_add\(&(\w+), ([^;]*)\);", r"\1 = \2;")),
        ("barriers and atomics",),
    ),
    Fault(
        "select swapped",
        defining("select", "a, b, c", "select(b, a, c)"),
        ("rounding of built-in functions",),
    ),
    Fault(
        "halves are cut off",
        lambda: Rewriting((r"\bvstore_half_rte\b", "vstore_half_rtz")),
        ("vectors and halves",),
    ),
    Fault(
        "vectors from aligned places alone",
        defining("vload4", "i, p", "vload4(i, (p) - ((size_t)(p) / 4 & 3))"),
        ("vectors and halves",),
    ),
    Fault(
        "wrong mul_hi",
        defining("mul_hi", "a, b", "((a) >> 16) * ((b) >> 16)"),
        ("rounding of built-in functions",),
    ),
    Fault(
        "wrong number of groups",
        defining("get_num_groups", "d", "get_num_groups(d) + 1"),
        ("grid",),
    ),
    Fault(
        "uninitialised memory",
        lambda: Rewriting((r"\b(float\d*) (\w+) = 0;", r"\1 \2 = 3;")),
        ("sums of rows", "sums of columns and of all", "means of windows that overlap"),
    ),
    Fault("loses the last group", LosesTheLastGroup, ("grid",)),
    Fault("wrong local size", WrongLocalSize, ("barriers and atomics",)),
    Fault("loses launches", LosesLaunches, ("order of commands",)),
    Fault("swaps arguments", SwapsArguments, ("broadcast", "order of commands")),
    Fault("cuts numbers to 16 bits", TruncatesNumbers, ("training",)),
    Fault("rounds offsets", RoundsOffsets, ("every third, from the second on",)),
    Fault("tears copies", TearsCopies, ("copies",)),
    Fault("rounds places of copies", RoundsPlaces, ("copies",)),
    Fault("uploads late", UploadsLate, ("order of commands",)),
    Fault("reads the host's memory late", UploadsUnsafely, ("order of commands", "copies")),
    Fault("lost wait for an event", DownloadsEarly, ("order of commands",)),
    Fault("shares memory", SharesMemory, ("memory apart",)),
    Fault("stale cache", StaleCache, ("exp", "log", "tanh", "erf")),
)


@contextmanager
def planted(driver: Driver, folder: Path) -> Iterator[Device]:
    """A device whose driver has a fault.

    Args:
        driver: in pyopencl's place.
        folder: for its cache.
    """
    settings = replace(SETTINGS, cache_dir=folder, build_processes=0)
    with (
        patch("clnet.device.queue.cl", driver),
        patch("clnet.device.program.cl", driver),
        patch("clnet.device.handles.cl", driver),
        patch("clnet.device.device.SETTINGS", settings),
        patch("clnet.device.builders.SETTINGS", settings),
    ):
        device = Device(select(SETTINGS.device, discover()), SETTINGS.threads)
        with device:
            yield device
