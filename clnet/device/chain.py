"""Launches that follow each other, as one: what lies between two of them costs no time then.

On PoCL each launch wakes threads anew, the second one some 16 us after the first, and costs the
host 5 to 10 us. A chain is one kernel that computes the groups of all its launches: a group of it
for each unit draws them in order, each launch's when all before are done. Who has drawn one is
running, so what others wait for goes on, however few units there are; and who has waited in vain
for long, since another program has the other unit, leaves the rest to those who are at work.

The text has every different kernel once, its body a function (:mod:`.apart`). Numbers, and places
in buffers, come from a table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np

from ..values.pattern import pattern
from ..values.record import NamedTuple
from .apart import Body, answered, body_of
from .launch import HostScalar, KernelSource, Launch, Storage

if TYPE_CHECKING:
    from .bound import BoundLaunches
    from .device import Device
    from .program import Signature

# Names that a text gives: two kernels may give the same to different things.
_NAMES = (
    pattern(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE),
    pattern(r"\btypedef\b[^;]*?(\w+)[ \t]*(?:\[[^]]*\])?[ \t]*;"),
    pattern(r"\btypedef\s+(?:struct|union|enum)\b[^{;]*\{[^}]*\}\s*(\w+)\s*;"),
    pattern(r"\b(\w+)\s*\([^(){};]*(?:\([^(){};]*\)[^(){};]*)*\)\s*\{"),
    pattern(r"\b__constant\b[^;=(]*?(\w+)[ \t]*(?:\[[^]]*\][ \t]*)*="),
    pattern(r"\b(?:struct|union|enum)\s+(\w+)"),
)
_WORDS = {"if", "for", "while", "switch", "return", "sizeof", "defined", "__attribute__"}
_OPTIONS = ("-cl-std=CL1.2",)
_LINE = 128  # bytes that parts of local memory are aligned to
_HEAD = 8  # numbers of the table before a launch's arguments
_APART = 16  # ints between what different units count
_AXES = 3
_SLOTS = {"int16": 8, "long16": 16}  # numbers of the table that a vector takes
# OpenCL promises 1024 bytes of arguments, 8 of them for a pointer.
_MOST_BUFFERS = 120
_FEWEST = 3
# Tries before a group leaves the rest to others: a few milliseconds.
_PATIENCE = 1_000_000
_END = -1  # in place of a kernel behind the last launch
# What a unit is taken to compute, and all of them to move, in a second; to tell launches that are
# short beside what lies between them.
_FLOPS, _BYTES = 60e9, 10e9
_LONG_S = 2e-3
_SHORT_S = 5e-5  # two or three times what lies between two
_CHAIN_S = 6e-3  # a chain that a unit leaves at its beginning takes so much longer

_TEXT = """\
typedef int16 __attribute__((aligned(8))) any_int16;
typedef long16 __attribute__((aligned(8))) any_long16;
{functions}
#pragma OPENCL FP_CONTRACT ON
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void chain(__global const long *table, __global int *state, {buffers})
{{
{memory}    __global uchar *const places[] = {{{places}}};
    volatile __global int *const done = state, *const left = state + {apart};
    const int own = get_group_id(0), units = get_num_groups(0);
    __global const long *at = table;
    int drawn = 2;
    for (; at[1] >= 0; at = table + at[0], drawn += units) {{
        int patience = {patience};
        while (*done < at[2] && patience > 0)
            patience--;
        if (patience == 0)
            break;
        mem_fence(CLK_GLOBAL_MEM_FENCE);
        const size_t n_0 = at[3], n_1 = at[4], n_2 = at[5];
        __global const long *const a = at + {head};
        for (int i = 0; i < units; i++) {{
            const int unit = (own + i) % units;
            const int first = at[6] * unit / units, last = at[6] * (unit + 1) / units;
            volatile __global int *const next = state + (drawn + unit) * {apart};
            while (*next < last - first) {{
                const int group = first + atomic_inc(next);
                if (group >= last)
                    break;
                const size_t g_0 = group / n_2 / n_1, g_1 = group / n_2 % n_1, g_2 = group % n_2;
                switch (at[1]) {{
{cases}
                }}
                mem_fence(CLK_GLOBAL_MEM_FENCE);
                atomic_inc(done);
            }}
        }}
    }}
    if (atomic_inc(left) == units - 1)
        for (int i = 0; i < at[7]; i++)
            state[i * {apart}] = 0;
}}
"""


class Part(NamedTuple):
    """A kernel of a chain.

    Attributes:
        body: its body in a function.
        signature: its parameters.
        local_size: work-items of a group.
    """

    body: Body
    signature: Signature
    local_size: tuple[int, ...]

    def call(self, suffix: str) -> tuple[str, int]:
        """The call of its body, and the bytes of local memory that it takes."""
        given: list[str] = []
        slot = 0
        declared = self.body.parameters.replace("*", " * ").split(",")
        for parameter, kind in zip(declared, self.signature.types, strict=True):
            ctype = " ".join(parameter.split()[:-1]).replace(" restrict", "")
            vector = ctype.rpartition(" ")[2]
            given.append({
                None: f"({ctype})places[a[{slot}]]",
                np.void: f"*(__global const any_{vector} *)(a + {slot})",
                np.float32: f"as_float((int)a[{slot}])",
                np.float64: f"as_double(a[{slot}])",
            }.get(kind, f"({ctype})a[{slot}]"))  # fmt: skip
            slot += _SLOTS.get(vector, 1) if kind is np.void else 1
        memory, nbytes = {m.name: m for m in self.body.memory}, 0
        for asked in self.body.given[len(declared) :]:
            if asked in memory:
                given.append(f"(__local {memory[asked].ctype} *)(memory + {nbytes})")
                nbytes += -(-(memory[asked].nbytes or 0) // _LINE) * _LINE
            else:
                given.append(answered(asked, self.local_size))
        return f"{self.body.name}_body{suffix}({', '.join(given)});", nbytes


class ChainSource:
    """The kernel that chains of some kernels are; a source like others.

    Args:
        parts: the different kernels.
        buffers: how many pointers it takes.
    """

    name = "chain"
    options = _OPTIONS
    alone = foretold = True

    def __init__(self, parts: Sequence[Part], buffers: int) -> None:
        self._parts = parts
        self._buffers = buffers

    @property
    def origin(self) -> str:
        """What is in it."""
        return f"chain({', '.join(part.body.name for part in self._parts)})"

    def text(self) -> str:
        """The OpenCL C."""
        functions: list[str] = []
        cases: list[str] = []
        most = 0
        for number, part in enumerate(self._parts):
            suffix = f"_k{number}"
            text = renamed(part.body.text, suffix)
            functions.append(f"#pragma OPENCL FP_CONTRACT ON\n{text}")
            call, nbytes = part.call(suffix)
            cases.append(f"        case {number}: {call} break;")
            most = max(most, nbytes)
        names = [f"b{i}" for i in range(self._buffers)]
        memory = f"    __local uchar memory[{most}] __attribute__((aligned({_LINE})));\n"
        return _TEXT.format(
            functions="\n".join(functions),
            buffers=", ".join(f"__global uchar *{name}" for name in names),
            memory=memory if most else "",
            places=", ".join(names),
            cases="\n".join(cases),
            head=_HEAD,
            apart=_APART,
            patience=_PATIENCE,
        )


def renamed(text: str, suffix: str) -> str:
    """A text in which all names that it gives, but for variables, end with a suffix."""
    names = {found for each in _NAMES for found in each.findall(text)} - _WORDS
    return re.sub(r"\b[A-Za-z_]\w*", lambda m: m[0] + suffix if m[0] in names else m[0], text)


@dataclass(frozen=True)
class Chain:
    """Launches that become one.

    Attributes:
        launches: in order.
        storages: what the kernel's pointers lead to.
        table: numbers and places of all.
        state_bytes: of what its groups count.
    """

    launches: tuple[Launch, ...]
    storages: tuple[Storage, ...]
    table: np.ndarray
    state_bytes: int


class Chains:
    """Finds chains among launches, and keeps what their kernel is made of.

    Args:
        units: how many groups a device computes at a time.
        args_of: the arguments of a launch as a kernel gets them.
        signature_of: the parameters of a kernel.

    Attributes:
        pointers: the most storages of a chain that was found.
    """

    def __init__(
        self,
        units: int,
        args_of: Callable[[Launch], tuple[Any, ...]],
        signature_of: Callable[[KernelSource], Signature],
    ) -> None:
        self._units = units
        self._args_of = args_of
        self._signature_of = signature_of
        self._parts: dict[tuple[KernelSource, tuple[int, ...]], Part | None] = {}
        self._numbers: dict[Part, int] = {}
        self.pointers = 0

    def source(self) -> ChainSource:
        """The kernel of all chains that were found."""
        return ChainSource(list(self._numbers), self.pointers)

    def split(self, launches: Sequence[Launch]) -> Iterator[Chain | tuple[Launch, ...]]:
        """Launches in order: chains, and those between them."""
        held: list[tuple[Launch, Part]] = []
        storages: dict[Storage, None] = {}
        seconds = 0.0
        for launch in launches:
            part = self._part(launch)
            mine = [_root(a) for a in self._args_of(launch) if isinstance(a, Storage)]
            takes = _seconds(launch, self._units)
            full = len({*storages, *mine}) > _MOST_BUFFERS or seconds + takes > _CHAIN_S
            if held and (part is None or full):
                yield self._made(held)
                held, storages, seconds = [], {}, 0.0
            if part is None:
                yield (launch,)
                continue
            held.append((launch, part))
            storages |= dict.fromkeys(mine)
            seconds += takes
        if held:
            yield self._made(held)

    def _part(self, launch: Launch) -> Part | None:
        """The kernel of a launch, if it may be in a chain."""
        if not launch.kernel.foretold or _seconds(launch, self._units) > _LONG_S:
            return None
        if any(type(a) is HostScalar for a in launch.args):
            return None
        alone = prod(launch.local_size) == 1
        key = launch.kernel, () if alone else launch.local_size
        if key not in self._parts:
            body = None
            if launch.kernel.options == _OPTIONS and len(launch.local_size) <= _AXES:
                body = body_of(launch.kernel.text(), alone=alone)
            if body is None or body.asks or any(m.nbytes is None for m in body.memory):
                self._parts[key] = None
            else:
                signature = self._signature_of(launch.kernel)
                self._parts[key] = Part(body, signature, launch.local_size)
        return self._parts[key]

    def _made(self, held: Sequence[tuple[Launch, Part]]) -> Chain | tuple[Launch, ...]:
        """A chain, if that is worth it."""
        launches = tuple(launch for launch, _ in held)
        if len(launches) < _FEWEST:
            return launches
        places: dict[Storage, int] = {}
        table: list[int] = []
        before, counters = 0, 2 + self._units * len(launches)
        for launch, part in held:
            number = self._numbers.setdefault(part, len(self._numbers))
            counts = _groups(launch)
            counts += [1] * (_AXES - len(counts))
            args = _arguments(self._args_of(launch), part.signature, places)
            groups = prod(counts)
            table += [len(table) + _HEAD + len(args), number, before, *counts, groups, counters]
            table += args
            before += groups
        table += [0, _END, before, 1, 1, 1, 0, counters]
        self.pointers = max(self.pointers, len(places))
        return Chain(launches, tuple(places), np.array(table, np.int64), 4 * _APART * counters)


def are_short(launches: Sequence[Launch], units: int) -> bool:
    """Whether launches take so little each that what lies between them is a large part of all.

    Args:
        launches: of a plan.
        units: of its device.
    """
    takes = [_seconds(launch, units) for launch in launches]
    return len(takes) >= _FEWEST and sum(takes) <= len(takes) * _SHORT_S


def _seconds(launch: Launch, units: int) -> float:
    """What a launch is foretold to take."""
    used = min(units, prod(_groups(launch)))
    return max(launch.flops / (max(used, 1) * _FLOPS), launch.bytes / _BYTES)


def _groups(launch: Launch) -> list[int]:
    """Of each axis."""
    return [g // n for g, n in zip(launch.global_size, launch.local_size, strict=True)]


def _arguments(args: Sequence[Any], signature: Signature, places: dict[Storage, int]) -> list[int]:
    """A launch's arguments as numbers of the table; pointers are numbers of places."""
    values = list(args)
    for place, item in signature.pointers:
        storage = args[place]
        values[place] = places.setdefault(_root(storage), len(places))
        values[place + 1] += storage.begin // item
    found: list[int] = []
    for value, kind in zip(values, signature.types, strict=True):
        if kind is np.void:
            numbers: Any = np.frombuffer(value, np.int64)
            found += numbers.tolist()
        elif kind in (np.float32, np.float64):
            bits = np.int32 if kind is np.float32 else np.int64
            found.append(int(np.array(value, kind).view(bits)))
        else:
            found.append(int(value))
    return found


def _root(storage: Storage) -> Storage:
    """What a storage is a region of, or itself."""
    return storage if storage.arena is None else storage.arena


class Chaining:
    """Launches that are to be chains where that is worth it, and the kernel that they wait for.

    Args:
        device: whose they are.
        parts: launches in order, whose storages have, or will get, memory; all of a chain are of
            one part.
    """

    def __init__(self, device: Device, parts: Sequence[Sequence[Launch]]) -> None:
        programs = device.programs

        def signature_of(kernel: KernelSource) -> Signature:
            return programs.get(kernel).signature

        self._device = device
        self._chains = Chains(
            device.traits.compute_units, device.queue.faults.args_of, signature_of
        )
        self._found = [list(self._chains.split(part)) for part in parts]
        self._source = self._chains.source()
        self._building: Thread | None = None
        self._failure: Exception | None = None

    def build(self) -> None:
        """Have the kernel built beside what runs, which may be seconds; the program may go on.

        At its end a program waits for it: a compiler does not like to be left.
        """
        if any(isinstance(each, Chain) for part in self._found for each in part):
            building = Thread(target=self._built, name="clnet-chains")
            try:
                building.start()
            except RuntimeError as error:  # the program ends, or may have no more threads
                self._failure = error
            else:
                self._building = building

    def _built(self) -> None:
        try:
            self._device.programs.get_beside(self._source)
        except Exception as error:  # whatever it is, who binds it is told
            self._failure = error

    @property
    def ready(self) -> bool:
        """Whether nothing is being built."""
        return self._building is None or not self._building.is_alive()

    def bound(self) -> list[list[BoundLaunches]]:
        """For each part what its queue replays.

        Raises:
            BuildError: if the compiler refuses the kernel.
            Exception: what building it failed of, or the driver.
        """
        if self._failure is not None:
            raise self._failure
        return [[self._bound(each) for each in part] for part in self._found]

    def _bound(self, each: Chain | tuple[Launch, ...]) -> BoundLaunches:
        device, queue = self._device, self._device.queue
        if not isinstance(each, Chain):
            return queue.bind(each)
        table, state = Storage(device, each.table.nbytes), Storage(device, each.state_bytes)
        for storage, held in ((table, each.table), (state, np.zeros(each.state_bytes, np.uint8))):
            storage.buffer = queue.create(held.nbytes)  # no tensor's: the pool does not count it
            queue.upload(storage, held)
        args = (table, state, *each.storages)
        args += (state,) * (self._chains.pointers - len(each.storages))
        size = (device.traits.compute_units,)
        launch = Launch(self._source, size, (1,), args, flops=0, bytes=0)
        return queue.bind((launch,), each.launches)
