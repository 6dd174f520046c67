"""From a kernel's rendered source to what can be launched; binaries are kept on disk."""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from ..errors import BuildError
from ..values.cache import Shelf
from ..values.pattern import pattern
from ..values.process import process_lock
from ..values.record import NamedTuple
from ..values.settings import SETTINGS
from .ahead import Ahead
from .apart import body_apart
from .binaries import keep
from .build_progress import progress
from .build_times import BuildTimes
from .builders import FIRST, Answer, Request
from .builtin_functions import WITHOUT_HEADER, declarations
from .claims import Claims
from .driver_room import check_room
from .forked import INHERITANCE
from .handles import new_handle, tell_types
from .quiet_build import built
from .spared_headers import spared_headers
from .warpgroups import RETARGETED, is_marked, retargeted
from .watch import Watch

if TYPE_CHECKING:
    from .launch import KernelSource

_SCALARS = {
    "char": np.int8,
    "uchar": np.uint8,
    "short": np.int16,
    "ushort": np.uint16,
    "int": np.int32,
    "uint": np.uint32,
    "long": np.int64,
    "ulong": np.uint64,
    "half": np.float16,
    "float": np.float32,
    "double": np.float64,
}
_PAIRS = {"float2": 8, "double2": 16}  # bytes of what pointers lead to: complex numbers
_VECTORS = {"int16": 64, "long16": 128}  # bytes; a launch gives them as such
_DECLARATION = pattern(r"__kernel\s+void\s+(\w+)\s*\(([^)]*)\)")
_LINE_IN_LOG = pattern(r":(\d+):\d+: error|:(\d+):\d+:")
_SHOWN_LINES = 5
# Warnings are counted on stderr by some compilers (PoCL: "28 warnings generated."), and say nothing
# about a kernel that is tested. So they are asked for only by CLNET_BUILD_WARNINGS, and for the log
# of a build that failed. No part of a binary's key: it changes no binary.
QUIET: tuple[str, ...] = () if SETTINGS.build_warnings else ("-w",)
_DECLARED_VERSION = "-cl-std=CL1.2"  # whose built-in functions we can declare
# One kernel is built at a time in a process: what pyopencl makes of a kernel's types, and Python's
# filters of warnings, are the process's, and drivers hold a lock while they compile, anyway.
_BUILDING = process_lock()


class Signature(NamedTuple):
    """The parameters of a kernel.

    Attributes:
        types: for each its NumPy scalar type, None for a pointer, ``np.void`` for a vector.
        writes: for each, whether it is a pointer that is written.
        pointers: the places of those that are pointers, each with the bytes of an element.
    """

    types: tuple[Any, ...]
    writes: tuple[bool, ...]
    pointers: tuple[tuple[int, int], ...]


def parse_signature(text: str, name: str) -> Signature:
    """The parameters of ``__kernel void name(...)`` in rendered source.

    Args:
        text: the OpenCL C.
        name: the kernel.

    Returns:
        Its signature.

    Raises:
        BuildError: if the source has no such kernel, or a parameter is of another type than
            scalars, pointers to them, and vectors of 16 integers.
    """
    found = next((d for d in _DECLARATION.finditer(text) if d.group(1) == name), None)
    if found is None:
        raise BuildError(name, "the rendered source has no such kernel")
    types: list[Any] = []
    writes: list[bool] = []
    pointers: list[tuple[int, int]] = []
    for parameter in found.group(2).split(","):
        words = parameter.replace("*", " * ").split()
        pointer = "*" in words
        vector = next((w for w in words if w in _VECTORS), None)
        if vector is not None and not pointer:
            types.append(np.void)
            writes.append(False)
            continue
        scalar = next((w for w in words if w in _SCALARS or (pointer and w in _PAIRS)), None)
        if scalar is None:
            raise BuildError(
                name, "a parameter is no number and no pointer to one", found=parameter
            )
        if pointer:
            item = _PAIRS.get(scalar) or np.dtype(_SCALARS[scalar]).itemsize
            pointers.append((len(types), item))
        types.append(None if pointer else _SCALARS[scalar])
        writes.append(pointer and "const" not in words[: words.index("*")])
    return Signature(tuple(types), tuple(writes), tuple(pointers))


class CompiledKernel:
    """A kernel ready to be launched.

    Attributes:
        handle: the ``pyopencl.Kernel``.
        launched: whether it was ever enqueued.
        name: its name.
        program: the ``pyopencl.Program`` it is of.
        set_args: sets all its arguments.
        signature: its parameters.
    """

    __slots__ = ("handle", "launched", "name", "program", "set_args", "signature")

    def __init__(self, program: Any, name: str, signature: Signature) -> None:
        self.program = program
        self.name = name
        self.signature = signature
        self.launched = False
        self.handle = self.new_handle()
        # Untyped arguments cost pyopencl 25 us a launch, typed ones 0.5 us (PoCL).
        tell_types(self.handle, signature.types)
        self.set_args = self.handle.set_args

    def new_handle(self) -> Any:
        """A ``pyopencl.Kernel`` with arguments of its own, for a plan that binds them once.

        They are untyped: telling pyopencl their types takes longer than setting them once does.
        """
        return new_handle(self.program, self.name)


@dataclass
class ProgramStatistics:
    """What building cost a process so far.

    Attributes:
        built: kernels compiled from source.
        loaded: kernels taken from the cache on disk.
        with_header: kernels compiled with the driver's header, since they need it.
        seconds: spent in both, before the first launch.
        first_launch_seconds: spent in enqueueing kernels for the first time; some drivers compile
            there.
        kernels: for each of them where its seconds went, whichever process spent them.
    """

    built: int = 0
    loaded: int = 0
    with_header: int = 0
    seconds: float = 0.0
    first_launch_seconds: float = 0.0
    kernels: list[BuildTimes] = field(default_factory=list)


class Prepared(NamedTuple):
    """What it took to have some kernels at hand.

    Attributes:
        kernels: different ones.
        built: compiled from source now.
        stored: in the cache on disk, to be loaded when they are launched; the others were there.
        seconds: spent in building, and in looking for them.
    """

    kernels: int
    built: int = 0
    stored: int = 0
    seconds: float = 0.0


class ProgramCache:
    """Compiled kernels of one context: in memory by identity, on disk by content.

    What is on disk is kept by the source, the options and the device's key. Processes may share
    it, and a torn, damaged or foreign file is built anew (:mod:`..cache`).

    Args:
        context: the ``pyopencl.Context``.
        device: the ``pyopencl.Device``.
        device_key: differs whenever binaries may not be shared.
        shelf: where binaries are kept.
        watch: who looks on; None: one of its own.
        ahead: builds kernels in other processes; None: all are built in this one.
        header: whether the driver's compiler reads a header of built-in functions for each
            program; a text then brings declarations of those that it names.
        copies: whether the compiler copies a kernel into functions that launch it; the body is then
            a function of its own, for a work-item or for a group.
        loses_places: whether the driver keeps kernels open whose binaries were asked for:
            :mod:`.binaries`.
        room: the folder in which the driver compiles; None: in none.

    Attributes:
        kernels: those that are ready; entered under a lock, looked up without.
    """

    def __init__(
        self,
        context: Any,
        device: Any,
        device_key: str,
        shelf: Shelf,
        watch: Watch | None = None,
        ahead: Ahead | None = None,
        *,
        header: bool = False,
        copies: bool = False,
        loses_places: bool = False,
        room: Path | None = None,
    ) -> None:
        self._context = context
        self._device = device
        self._device_key = device_key
        self._shelf = shelf
        self._watch = watch or Watch()
        self._ahead = ahead
        self._header = header
        self._spares: bool | None = None  # whether the compiler takes what spares it headers
        self._copies = copies
        self._loses_places = loses_places
        self._room = room
        self.kernels: dict[KernelSource, CompiledKernel] = {}
        self._times: dict[KernelSource, BuildTimes] = {}  # of those that are not ready yet
        self.statistics = ProgramStatistics()

    @property
    def builds_beside(self) -> bool:
        """Whether others build, so that a thread of this process can wait for them."""
        return self._ahead is not None

    def get(self, source: KernelSource) -> CompiledKernel:
        """The compiled kernel of a source; built at most once.

        Args:
            source: a rendered kernel.

        Returns:
            The kernel.

        Raises:
            BuildError: if the compiler refuses it.
            DeviceError: in a child forked after OpenCL was used.
        """
        kernel = self.kernels.get(source)
        if kernel is None:
            INHERITANCE.use()
            with _BUILDING:
                kernel = self.kernels.get(source)
                if kernel is None:
                    kernel = self.kernels[source] = self._make(source)
        return kernel

    def get_beside(self, source: KernelSource) -> CompiledKernel:
        """As :meth:`get`; others get theirs meanwhile, where a process waits for requests.

        Raises:
            BuildError: if the compiler refuses it.
            DeviceError: in a child forked after OpenCL was used.
        """
        if self._ahead is not None and source not in self.kernels:
            text = self._text(source)
            key = self._key(source, text)
            if not self._shelf.holds(key):
                answer = self._ahead.ask(self._request(source, text))
                with _BUILDING:
                    self._take(source, key, answer)
        return self.get(source)

    def prepare(self, sources: Iterable[KernelSource]) -> Prepared:
        """Have kernels at hand that will be launched.

        What is on disk is loaded when it is launched, while the device computes what was launched
        before. The others are built now; if they are many, several at a time.

        Args:
            sources: rendered kernels.

        Returns:
            What it took.

        Raises:
            BuildError: if the compiler refuses one.
            DeviceError: in a child forked after OpenCL was used.
        """
        INHERITANCE.use()
        start, before = time.perf_counter(), self.statistics.built
        wanted = dict.fromkeys(sources)
        new = [s for s in wanted if s not in self.kernels]
        order: list[KernelSource] = []
        keys: list[str] = []
        absent = self._absent(new, order, keys)
        with ExitStack() as stack:
            answers: Iterable[tuple[int, Answer]] = ()
            claims = Claims(self._shelf, keys)
            stack.callback(claims.close)
            if self._ahead is None:
                deque(absent, 0)
            else:
                requests = (self._request(source, source.text()) for source in absent)
                answers = stack.enter_context(self._ahead.begun(requests, claims.take))
            done = stack.enter_context(progress(len(keys)))
            for number, answer in answers:  # each is loaded while the next are built
                with _BUILDING:
                    self._take(order[number], keys[number], answer)
                claims.release(number)
                done(1)
            claims.close()  # before this process waits for others
            self.statistics.seconds += time.perf_counter() - start
            for source in order:
                if source not in self.kernels:
                    self.get(source)
                    done(1)
        return Prepared(
            len(wanted),
            self.statistics.built - before,
            len(new) - len(keys),
            time.perf_counter() - start,
        )

    def _absent(
        self, sources: Iterable[KernelSource], order: list[KernelSource], keys: list[str]
    ) -> Iterator[KernelSource]:
        """Those that are not on disk, as their texts are rendered; they and their keys are kept."""
        for source in sources:
            key = self._key(source, self._text(source))
            if not self._shelf.holds(key):
                order.append(source)
                keys.append(key)
                yield source

    def _take(self, source: KernelSource, key: str, answer: Answer | None) -> None:
        """The kernel of an answer, if there is a use for it."""
        if answer is None or source in self.kernels:
            return
        kernel = self._of_answer(answer, source, source.text(), key)
        if kernel is not None:
            self._ready(source)
            self.kernels[source] = kernel

    def _asked(self, source: KernelSource, text: str, key: str) -> CompiledKernel | None:
        """The kernel from a process that waits for requests, or None."""
        answer = self._ahead and self._ahead.ask(self._request(source, text))
        return self._of_answer(answer, source, text, key) if answer else None

    def _of_answer(
        self, answer: Answer, source: KernelSource, text: str, key: str
    ) -> CompiledKernel | None:
        """The kernel that another process built, which is kept; None if it is of no use."""
        kernel = self._of_binary(answer.binary, source, text) if answer.binary else None
        if kernel is None:
            return None
        times = self._times_of(source)
        times.front, times.code = answer.front, answer.code
        times.waiting += answer.waiting
        self._shelf.write(key, answer.binary)
        self.statistics.built += 1
        return kernel

    def _make(self, source: KernelSource) -> CompiledKernel:
        start = time.perf_counter()
        if self._room is not None:
            check_room(source.origin, self._room)
        text = self._text(source)
        key = self._key(source, text)
        kernel = self._loaded(source, text, key) or self._new(source, text, key)
        self._ready(source)
        self.statistics.seconds += time.perf_counter() - start
        return kernel

    def _new(self, source: KernelSource, text: str, key: str) -> CompiledKernel:
        """A kernel that is not on disk, unless another process puts it there meanwhile."""
        times, asked = self._times_of(source), time.perf_counter()
        with self._shelf.claimed(key):  # ranks build the same kernels, each when the others do
            times.waiting += time.perf_counter() - asked
            kernel = self._loaded(source, text, key) if self._shelf.holds(key) else None
            kernel = kernel or self._asked(source, text, key)
            if kernel is not None:
                return kernel
            ready = time.perf_counter()
            with times.stage("front"):
                kernel = self._built(source, text)
            self._watch.call("clBuildProgram", ready)
            ready = time.perf_counter()
            with times.stage("code"):
                keep(self._shelf, key, kernel.program, loses_places=self._loses_places)
            self._watch.call("clGetProgramInfo", ready)
            self.statistics.built += 1
            return kernel

    def _times_of(self, source: KernelSource) -> BuildTimes:
        return self._times.setdefault(source, BuildTimes(source.name))

    def _ready(self, source: KernelSource) -> None:
        """A kernel's times are those that count."""
        self.statistics.kernels.append(self._times.pop(source))

    def _text(self, source: KernelSource) -> str:
        with self._times_of(source).stage("rendering"):
            return source.text()

    def _key(self, source: KernelSource, text: str) -> str:
        form = ()
        if self._copies and (source.alone or "barrier(" not in text):
            form = ("apart" if source.alone else "apart in groups",)
        return "\0".join((text, *source.options, *form, self._device_key))

    def _loaded(self, source: KernelSource, text: str, key: str) -> CompiledKernel | None:
        """The kernel from the cache on disk, or None."""
        start = time.perf_counter()
        binary = self._shelf.read(key)
        kernel = None if binary is None else self._of_binary(binary, source, text)
        if kernel is not None:
            self._watch.call("clCreateProgramWithBinary", start)
            self.statistics.loaded += 1
        return kernel

    def _of_binary(self, binary: bytes, source: KernelSource, text: str) -> CompiledKernel | None:
        """The kernel in a binary, or None."""
        with self._times_of(source).stage("loading"):
            program = self._program(binary, source)
            if program is None:
                return None
            try:
                return CompiledKernel(program, source.name, parse_signature(text, source.name))
            except cl.Error:  # a binary without the kernel, of a driver that went wrong
                return None

    def _built(self, source: KernelSource, text: str) -> CompiledKernel:
        """The kernel, compiled from its text."""
        signature = parse_signature(text, source.name)
        try:
            return CompiledKernel(self._build(source, text), source.name, signature)
        except cl.LogicError:
            # A driver's own cache may hold forever what a killed process left in it (PoCL: a
            # program without kernels). Another text is another entry, if it differs in what the
            # preprocessor leaves, whose output PoCL's entries are named by.
            program = self._build(source, f"{text}typedef int other_{secrets.token_hex(8)};\n")
        try:
            return CompiledKernel(program, source.name, signature)
        except cl.LogicError as error:
            raise BuildError(
                source.origin,
                "the device's compiler leaves the kernel out",
                error=error,
                remedy="Delete the driver's own cache (PoCL's: POCL_CACHE_DIR)",
            ) from error

    def _request(self, source: KernelSource, text: str) -> Request:
        """What the compiler is given: without headers, where a text can do without."""
        if self._copies:
            text = body_apart(text, alone=source.alone)
        if not self._header or _DECLARED_VERSION not in source.options:
            replaced = RETARGETED if is_marked(text) else ()
            return Request(text, (*source.options, *QUIET), replaced)
        text = f"{declarations(text)}#line 1\n{text}"
        options = (*source.options, *QUIET, WITHOUT_HEADER)
        spared = None if self._spares is False else spared_headers()
        if spared is None:
            return Request(text, options)
        return Request(spared.renames(text) + text, (*options, spared.option))

    def _build(self, source: KernelSource, text: str) -> Any:
        """The program of a text; without the driver's header where that is enough.

        Raises:
            BuildError: if the compiler refuses it with the header, too.
        """
        request = self._request(source, text)
        if WITHOUT_HEADER in request.options:
            # It may name a function that only the header declares; what the compiler says of the
            # text with the header counts.
            with suppress(cl.Error):
                return self._compiled(request.text, request.options)
            if self._is_refused_spared():
                with suppress(cl.RuntimeError):
                    request = self._request(source, text)
                    return self._compiled(request.text, request.options)
        try:
            program = self._compiled(text, (*source.options, *QUIET))
            self.statistics.with_header += WITHOUT_HEADER in request.options
            return program
        except cl.RuntimeError as error:
            raise BuildError(
                source.origin,
                "the device's compiler refused it",
                log=f"\n{_excerpt(self._whole_log(source, text) or str(error), text)}",
            ) from error

    def _is_refused_spared(self) -> bool:
        """Whether the compiler refuses all programs that are spared headers: it is asked once."""
        spared = spared_headers() if self._spares is None else None
        if spared is None:
            return False
        try:
            self._compiled(FIRST.text, (*FIRST.options, *QUIET, spared.option))
        except cl.Error:
            self._spares = False
        else:
            self._spares = True
        return not self._spares

    def _compiled(self, text: str, options: tuple[str, ...]) -> Any:
        program = built(cl.Program(self._context, text), options, told=not QUIET)
        if not is_marked(text):
            return program
        binary = retargeted(program.get_info(cl.program_info.BINARIES)[0])
        if binary is None:
            raise cl.RuntimeError("the program is no PTX for a target that has marked lines")
        return built(cl.Program(self._context, [self._device], [binary]), options, told=not QUIET)

    def _whole_log(self, source: KernelSource, text: str) -> str | None:
        """What the compiler says about a source that it refuses, warnings included."""
        try:
            self._compiled(text, source.options)
        except cl.RuntimeError as error:
            return str(error)
        return None

    def _program(self, binary: bytes, source: KernelSource) -> Any:
        try:
            program = cl.Program(self._context, [self._device], [binary])
            return built(program, [*source.options, *QUIET])
        except cl.Error:  # a driver that no longer takes its own binary: build anew
            return None


def _excerpt(log: str, text: str) -> str:
    """The compiler's log and the lines around its first error."""
    found = _LINE_IN_LOG.search(log)
    lines = text.splitlines()
    if found is None:
        return log
    at = int(next(group for group in found.groups() if group))
    first, last = max(at - _SHOWN_LINES, 1), min(at + _SHOWN_LINES, len(lines))
    numbered = "\n".join(
        f"{n:5d}{'>' if n == at else ' '} {lines[n - 1]}" for n in range(first, last + 1)
    )
    return f"{log.strip()}\n{numbered}"
