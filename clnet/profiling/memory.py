"""Who holds a device's memory, by size class, holder and line, and what grew between two looks.

Knet's ``meminfo`` listed the sizes of its pool; here each block also has a holder: the path of a
parameter in its model, a gradient, an optimiser's state, a compiled plan, or the user's line that
made it (:func:`record_memory_history`).
"""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from html import escape
from typing import Any, NamedTuple

from ..device import (
    BlockSizes,
    Device,
    PoolStatistics,
    Storage,
    current_device,
    users_line,
)
from ..device import device as open_device
from ..errors import ArgumentError, ClnetError
from ..nn import Module, Parameter
from ..nn.parameter import UninitializedTensorMixin
from ..tensor import Tensor
from ..values.collector import known_objects

_ROWS = 12
# Of these a line says more than a shape; the others have a path.
_MADE_ON_A_LINE = ("tensor", "other")


class MemoryHolder(NamedTuple):
    """A block of memory that is in use.

    Attributes:
        kind: ``"parameter"``, ``"buffer"``, ``"gradient"``, ``"optimiser state"``, ``"tensor"``,
            ``"workspace"``, ``"plan"`` or ``"other"`` (values that backward needs, results nobody
            made a tensor of).
        name: the path in its module, or shape and dtype.
        nbytes: the bytes asked for.
        line: ``file:line`` that made it, if that was recorded; else "".
    """

    kind: str
    name: str
    nbytes: int
    line: str = ""


class _Row(NamedTuple):
    kind: str
    name: str
    count: int
    nbytes: int


@dataclass(frozen=True)
class MemorySnapshot:
    """Who held a device's memory at one moment; ``print`` shows tables, notebooks HTML.

    Attributes:
        device: its name.
        statistics: totals in bytes.
        sizes: blocks by size class, the largest first.
        holders: every block in use, the largest first.
    """

    device: str
    statistics: PoolStatistics
    sizes: tuple[BlockSizes, ...]
    holders: tuple[MemoryHolder, ...]

    def since(self, earlier: MemorySnapshot) -> str:
        """A table of what is held more, or less, than at an earlier moment.

        Args:
            earlier: a snapshot of the same device.

        Raises:
            ArgumentError: if it is of another.
        """
        if not isinstance(earlier, MemorySnapshot) or earlier.device != self.device:
            given = getattr(earlier, "device", type(earlier).__name__)
            law = "the other is a snapshot of the same device"
            raise ArgumentError("MemorySnapshot.since", law, device=self.device, given=given)
        now, then = _sums(self.holders), _sums(earlier.holders)
        rows = [
            _Row(
                *key,
                *(a - b for a, b in zip(now.get(key, (0, 0)), then.get(key, (0, 0)), strict=True)),
            )
            for key in {**then, **now}
            if now.get(key) != then.get(key)
        ]
        rows.sort(key=lambda row: (-abs(row.nbytes), row.kind, row.name))
        grown = self.statistics.allocated - earlier.statistics.allocated
        return "\n".join([f"{self.device}: {_size(grown, sign=True)}", *_lines(rows, sign=True)])

    def __str__(self) -> str:
        title, totals = self._title()
        return "\n".join(
            [title, *totals, "", *_size_lines(self.sizes), "", *_lines(self._rows(), sign=False)]
        )

    def _repr_html_(self) -> str:
        title, totals = self._title()
        sizes = [(_size(s.capacity), str(s.in_use), str(s.free)) for s in self.sizes]
        held = [(r.kind, r.name, str(r.count), _size(r.nbytes)) for r in self._rows()]
        return (
            f"<p>{escape(title)}<br>{'<br>'.join(map(escape, totals))}</p>"
            + _html(("holder", "", "blocks", "bytes"), held)
            + _html(("block", "in use", "free"), sizes)
        )

    def _rows(self) -> list[_Row]:
        rows = [_Row(*key, *sums) for key, sums in _sums(self.holders).items()]
        return sorted(rows, key=lambda row: (-row.nbytes, row.kind, row.name))

    def _title(self) -> tuple[str, list[str]]:
        s = self.statistics
        return f"memory of {self.device}", [
            f"in use    {_size(s.allocated):>10}   at most {_size(s.peak_allocated):>10}",
            f"reserved  {_size(s.reserved):>10}   at most {_size(s.peak_reserved):>10}",
            f"handed out {s.num_allocations:,} times, {_size(s.allocated_in_all)} in all; "
            f"taken from the device {s.num_device_allocations:,} times",
        ]


def memory_snapshot(device: Any = None) -> MemorySnapshot:
    """Who holds the device's memory just now.

    It looks through all objects of the process, which takes some tenths of a second.

    Args:
        device: as :func:`clnet.device` takes it; None: the current one.

    Examples:
        >>> import clnet
        >>> before = clnet.memory_snapshot()
        >>> x = clnet.ones(1024, 1024)
        >>> print(clnet.memory_snapshot().since(before))  # doctest: +ELLIPSIS
        pocl:0: +4.0 MiB
        ...
    """
    opened = current_device() if device is None else open_device(device)
    names, storages = _found(opened)
    lines = opened.pool.lines or {}
    holders = [
        MemoryHolder(*names.get(id(s), ("other", "")), s.nbytes, lines.get(s.buffer.int_ptr, ""))
        for s in storages
    ]
    holders.sort(key=lambda holder: (-holder.nbytes, holder[0], holder[1]))
    sizes = tuple(opened.pool.block_sizes())
    return MemorySnapshot(opened.name, opened.pool.statistics(), sizes, tuple(holders))


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """A table of who holds the device's memory just now.

    Args:
        device: as :func:`clnet.device` takes it; None: the current one.
        abbreviated: leave the table of size classes out.
    """
    found = memory_snapshot(device)
    return str(
        MemorySnapshot(found.device, found.statistics, (), found.holders) if abbreviated else found
    )


def memory_stats(device: Any = None) -> dict[str, int]:
    """PyTorch's figures of an allocator, by its names, as far as a pool by size class has them.

    Args:
        device: as :func:`clnet.device` takes it; None: the current one.

    Returns:
        Bytes and counts; ``"allocated_bytes.all.current"`` and so on.
    """
    opened = current_device() if device is None else open_device(device)
    s, sizes = opened.pool.statistics(), opened.pool.block_sizes()
    return {
        "allocated_bytes.all.current": s.allocated,
        "allocated_bytes.all.peak": s.peak_allocated,
        "allocated_bytes.all.allocated": s.allocated_in_all,
        "allocated_bytes.all.freed": s.allocated_in_all - s.allocated,
        "reserved_bytes.all.current": s.reserved,
        "reserved_bytes.all.peak": s.peak_reserved,
        "allocation.all.current": sum(each.in_use for each in sizes),
        "allocation.all.allocated": s.num_allocations,
        "segment.all.current": sum(each.in_use + each.free for each in sizes),
        "segment.all.allocated": s.num_device_allocations,
        "requested_bytes.all.current": sum(each.requested_bytes for each in sizes),
    }


def record_memory_history(enabled: bool = True, device: Any = None) -> None:
    """Note, for each block that is handed out from now on, the user's line that asked for it.

    It costs about a microsecond an allocation. :func:`memory_snapshot` shows the lines.

    Args:
        enabled: False ends it, and forgets.
        device: as :func:`clnet.device` takes it; None: the current one.
    """
    opened = current_device() if device is None else open_device(device)
    opened.pool.record_lines(users_line if enabled else None)


def _found(device: Device) -> tuple[dict[int, tuple[str, str]], list[Storage]]:
    """What each storage is, by its id, and all storages of a device that have a block of their own.

    Whoever names a storage first is its holder: parameters before the tensors that look at them.
    """
    by_role: dict[_Role, list[Any]] = {role: [] for role in _Role}
    places: dict[int, list[Any] | None] = {}
    # A type is asked once: a process has millions of objects.
    for each in known_objects(gc.get_objects):
        kind = type(each)
        if id(kind) not in places:
            role = _role(kind)
            places[id(kind)] = None if role is None else by_role[role]
        if (place := places[id(kind)]) is not None:
            place.append(each)
    storages: list[Storage] = [
        each for each in by_role[_Role.STORAGE] if each.device is device and each.has_block
    ]
    tensors = [each for each in by_role[_Role.TENSOR] if _is_made(each)]
    # One without had its making interrupted.
    modules = [each for each in by_role[_Role.MODULE] if "_modules" in vars(each)]
    optimisers = [each for each in by_role[_Role.PERHAPS_OPTIMISER] if _is_optimiser(each)]
    names: dict[int, tuple[str, str]] = {}
    held = [
        *_of_modules(modules),
        *_of_optimisers(optimisers),
        *((t.grad, "gradient", _text(t.grad)) for t in tensors if t.is_leaf and t.grad is not None),
        *((t, "tensor", _text(t)) for t in tensors),
    ]
    for tensor, kind, name in held:
        for storage in _storages(tensor):
            names.setdefault(id(storage), (kind, name))
    for storage in device.queue.workspace.storages():
        names.setdefault(id(storage), ("workspace", ""))
    for storage in device.arenas.storages():
        names.setdefault(id(storage), ("plan", "arena"))
    return names, storages


def _of_modules(modules: list[Module]) -> Iterator[tuple[Tensor, str, str]]:
    """Parameters, their gradients and buffers, by their paths in the outermost modules."""
    inner = {id(child) for module in modules for child in module.children()}
    for root in modules:
        if id(root) in inner:
            continue
        owner = type(root).__name__
        for path, parameter in root.named_parameters():
            if not _is_made(parameter):
                continue
            yield parameter, "parameter", f"{owner}.{path}"
            if parameter.grad is not None:
                yield parameter.grad, "gradient", f"{owner}.{path}"
        for path, buffer in root.named_buffers():
            if not _is_made(buffer):
                continue
            yield buffer, "buffer", f"{owner}.{path}"


def _is_made(tensor: Tensor) -> bool:
    """Not of a lazy layer, which has no shape yet, nor just now in the making in a thread."""
    return hasattr(tensor, "_requires_grad") and not isinstance(tensor, UninitializedTensorMixin)


class _Role(Enum):
    """What the objects of a type can be to memory."""

    STORAGE, TENSOR, MODULE, PERHAPS_OPTIMISER = range(4)


_OF_PYTHON_CODE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: types that classes made


def _role(kind: type) -> _Role | None:
    if kind is Storage:
        return _Role.STORAGE
    if issubclass(kind, Tensor):
        return _Role.TENSOR
    if issubclass(kind, Module):
        return _Role.MODULE
    # Functions and classes have a ``__dict__``, too, which Python makes when it is asked for.
    of_a_class = kind.__flags__ & _OF_PYTHON_CODE and not issubclass(kind, type)
    return _Role.PERHAPS_OPTIMISER if of_a_class and kind.__dictoffset__ else None


def _is_optimiser(each: object) -> bool:
    """Users write optimisers of their own: what has groups of parameters and a state is one."""
    try:
        held = object.__getattribute__(each, "__dict__")  # runs no code of others' objects
    except AttributeError:
        return False
    return "param_groups" in held and isinstance(held.get("state"), Mapping)


def _of_optimisers(optimisers: list[Any]) -> Iterator[tuple[Tensor, str, str]]:
    for optimiser in optimisers:
        for state in optimiser.state.values():
            if not isinstance(state, Mapping):
                continue
            # What lies there: a dict of ours makes a tensor of a step's number for whoever asks it.
            values: Iterable[tuple[str, Any]]
            values = dict.items(state) if isinstance(state, dict) else state.items()
            for key, value in values:
                if isinstance(value, Tensor) and not isinstance(value, Parameter):
                    yield value, "optimiser state", f"{type(optimiser).__name__}.{key}"


def _storages(tensor: Tensor) -> Iterator[Storage]:
    """Its memory, and what that lies in."""
    try:
        storage = tensor.array.storage
    except (AttributeError, ClnetError):  # its making was interrupted; it is sparse, of tensors
        return
    while storage is not None:
        yield storage
        storage = storage.arena


def _text(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} {tensor.dtype.name}"


def _sums(holders: Iterable[MemoryHolder]) -> dict[tuple[str, str], tuple[int, int]]:
    """How many blocks and bytes there are of each kind and name; a line stands for the name."""
    sums: defaultdict[tuple[str, str], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for kind, name, nbytes, line in holders:
        place = line if kind in _MADE_ON_A_LINE else ""
        key = (kind, f"{name} {place}".strip())
        count, held = sums[key]
        sums[key] = (count + 1, held + nbytes)
    return sums


def _lines(rows: list[_Row], *, sign: bool) -> list[str]:
    """A table of holders, and what is left out of it."""
    plus = "+" if sign else ""
    lines = [
        f"{_size(row.nbytes, sign=sign):>11}  {row.count:>{plus}6,}  {row.kind:<15}  {row.name}"
        for row in rows[:_ROWS]
    ]
    if len(rows) > _ROWS:
        rest = sum(row.nbytes for row in rows[_ROWS:])
        lines.append(
            f"{_size(rest, sign=sign):>11}  in the other {len(rows) - _ROWS} of {len(rows)}"
        )
    return [f"{'bytes':>11}  {'blocks':>6}  {'held as':<15}  which", *lines] if rows else []


def _size_lines(sizes: Iterable[BlockSizes]) -> list[str]:
    """A table of size classes, the largest first."""
    rows = sorted(sizes, key=lambda each: -each.capacity * (each.in_use + each.free))
    lines = [f"{_size(s.capacity):>11}  {s.in_use:>6,}  {s.free:>6,}" for s in rows[:_ROWS]]
    if len(rows) > _ROWS:
        rest = sum(s.capacity * (s.in_use + s.free) for s in rows[_ROWS:])
        lines.append(f"{_size(rest):>11}  in the other {len(rows) - _ROWS} of {len(rows)} sizes")
    return [f"{'block':>11}  {'in use':>6}  {'free':>6}", *lines] if rows else []


def _size(nbytes: int, *, sign: bool = False) -> str:
    """Bytes with a binary unit."""
    value, unit = float(nbytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024 or unit == "GiB":
            break
        value /= 1024
    plus = "+" if sign else ""
    return f"{value:{plus}.0f} B" if unit == "B" else f"{value:{plus},.1f} {unit}"


def _html(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table of a notebook, its dearest rows."""
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows[:_ROWS]
    )
    more = f"<p>{len(rows) - _ROWS} of {len(rows)} rows are left out</p>" if rows[_ROWS:] else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
