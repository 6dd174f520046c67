"""A plan as text a person reads, and as a picture: what runs, where it lies, what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from ..array import Array
from ..device import Prepared, Storage
from .regions import Lowered, MemoryPlan
from .tracer import Action, Step

_MIB = 2**20
_COLUMNS = ("#", "phase", "op", "kernels", "makes", "place", "MFLOP", "MiB", "module")
_RIGHT = {"#", "MFLOP", "MiB"}
_MOST_NAMES = 3
_MOST_HOLDERS = 6

Entries = Sequence[Lowered | Action]


def as_text(
    entries: Entries, memory: MemoryPlan, prepared: Prepared, notes: Sequence[str], where: str
) -> str:
    """The plan as a table.

    Args:
        entries: what runs.
        memory: where values lie.
        prepared: its kernels, and what building them took.
        notes: what was decided about steps, and why.
        where: the device's name.

    Returns:
        Sums, one line for each op, then the notes.
    """
    rows = [_COLUMNS, *(_row(i, e, memory) for i, e in enumerate(entries))]
    widths = [max(len(row[k]) for row in rows) for k in range(len(_COLUMNS))]
    lines = [*_sums(entries, memory, where), _kernels(prepared), ""]
    for row in rows:
        cells = (
            cell.rjust(width) if column in _RIGHT else cell.ljust(width)
            for cell, width, column in zip(row, widths, _COLUMNS, strict=True)
        )
        lines.append("  ".join(cells).rstrip())
    if notes:
        lines += ["", *notes]
    return "\n".join(lines)


def as_mermaid(entries: Entries) -> str:
    """The plan as a Mermaid flowchart: ops, and the values between them."""
    nodes = [f'  n{i}["{_label(e, "<br/>")}"]' for i, e in _ops(entries)]
    edges = [f'  n{a} -->|"{text}"| n{b}' for a, b, text in _edges(entries)]
    return "\n".join(["flowchart TD", *nodes, *edges])


def as_graphviz(entries: Entries) -> str:
    """The plan in Graphviz's language: ops, and the values between them."""
    nodes = [f'  n{i} [label="{_label(e, chr(92) + "n")}"];' for i, e in _ops(entries)]
    edges = [f'  n{a} -> n{b} [label="{text}"];' for a, b, text in _edges(entries)]
    return "\n".join(["digraph plan {", "  node [shape=box];", *nodes, *edges, "}"])


def _sums(entries: Entries, memory: MemoryPlan, where: str) -> Iterator[str]:
    launches = [launch for _, e in _ops(entries) for launch in e.launches]
    flops, moved = sum(x.flops for x in launches), sum(x.bytes for x in launches)
    num_ops = sum(1 for _ in _ops(entries))
    yield (
        f"plan on {where}: {len(launches)} launches of {num_ops} ops, "
        f"{len(entries) - num_ops} host actions, {flops / 1e9:,.3f} GFLOP, "
        f"{moved / _MIB:,.1f} MiB moved"
    )
    parts = {"arenas": memory.arena_bytes, **memory.outside}
    yield (
        f"memory: peak {memory.peak_bytes / _MIB:,.2f} MiB = "
        + " + ".join(f"{name} {n / _MIB:,.2f}" for name, n in parts.items() if n)
        + f"; {memory.num_in_place} values in place of others"
    )
    yield (
        f"arenas: {', '.join(f'{n:,}' for n in memory.arenas) or 'none'} bytes; "
        f"{memory.busiest[0]:,} alive at #{memory.busiest[1]}"
    )
    held = list(held_at_peak(entries, memory).items())
    if held:
        most = ", ".join(f"{name} {n / _MIB:,.2f}" for name, n in held[:_MOST_HOLDERS])
        yield f"held at #{memory.busiest[1]}, MiB: {most}" + (
            f" and {len(held) - _MOST_HOLDERS} more" if len(held) > _MOST_HOLDERS else ""
        )
    if memory.workspaces:
        cost = ", ".join(f"{name} {n:,}" for name, n in memory.workspace_bytes.items())
        yield f"workspaces, bytes: {cost}"


def held_at_peak(entries: Entries, memory: MemoryPlan) -> dict[str, int]:
    """Bytes of the arenas alive at the busiest step, by the phase and op that made them.

    Args:
        entries: what runs.
        memory: where values lie.
    """
    at = memory.busiest[1]
    makers: dict[int, str] = {}  # by region: who wrote it last until then
    for position, entry in _ops(entries):
        if position > at:
            break
        name = " ".join(filter(None, (entry.step.phase, _op(entry.step))))
        for storage in entry.step.made:
            if storage in memory.homes:
                makers[memory.homes[storage]] = name
        if position in memory.homes:
            makers[memory.homes[position]] = f"scratch of {name}"
    found: dict[str, int] = {}
    for region, name in makers.items():
        tenant = memory.regions[region]
        if tenant.first <= at <= tenant.last:
            found[name] = found.get(name, 0) + tenant.nbytes
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def _kernels(prepared: Prepared) -> str:
    text = f"kernels: {prepared.kernels} different"
    if prepared.stored:
        text += f"; {prepared.stored} from the cache"
    if prepared.built:
        text += f"; {prepared.built} built in {prepared.seconds:.2f} s"
    return text


def _row(position: int, entry: Lowered | Action, memory: MemoryPlan) -> tuple[str, ...]:
    if isinstance(entry, Action):
        return (str(position), "host", "action", "", "", "", "", "", "")
    step = entry.step
    names = [launch.kernel.name for launch in entry.launches]
    kernels = list(dict.fromkeys(names))
    more = f" x{len(names)}" if len(names) > len(kernels) else ""
    made = [y for y in step.outputs if y.storage in step.made]
    changed = [step.inputs[i] for i in step.function.mutates]
    places = [_place(y.storage, position, memory) for y in made]
    if position in memory.homes:
        places.append(f"scratch {_region(memory, position)}")
    return (
        str(position),
        step.phase,
        _op(step),
        _first(kernels, " ") + more,
        _first([*map(_shape, made), *(f"{_shape(x)} changed" for x in changed)], " "),
        _first(places, ", "),
        f"{sum(x.flops for x in entry.launches) / 1e6:,.2f}",
        f"{sum(x.bytes for x in entry.launches) / _MIB:,.2f}",
        step.module_path,
    )


def _op(step: Step) -> str:
    """The op, and what was put behind it in the same kernel."""
    added = "+add" if getattr(step.function, "added", False) else ""
    behind = getattr(step.function, "activation", None)
    return step.function.name + added + (f"+{behind}" if behind else "")


def _first(texts: Sequence[str], between: str) -> str:
    more = len(texts) - _MOST_NAMES
    return between.join(texts[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _shape(array: Array) -> str:
    """Type and shape, and the strides where it does not lie densely."""
    text = f"{array.dtype.name}[{','.join(map(str, array.shape))}]"
    return text if array.contiguous else f"{text} strides {','.join(map(str, array.strides))}"


def _place(storage: Storage, position: int, memory: MemoryPlan) -> str:
    if storage not in memory.homes:
        return "outside"
    region = memory.homes[storage]
    in_place = memory.regions[region].first < position
    return _region(memory, storage) + (" in place" if in_place else "")


def _region(memory: MemoryPlan, home: Storage | int) -> str:
    place = memory.places[memory.homes[home]]
    return f"{place.arena}+{place.offset:,}"


def _ops(entries: Entries) -> Iterator[tuple[int, Lowered]]:
    return ((i, e) for i, e in enumerate(entries) if isinstance(e, Lowered))


def _label(entry: Lowered, new_line: str) -> str:
    step = entry.step
    return new_line.join(part for part in (_op(step), step.module_path, step.phase) if part)


def _edges(entries: Entries) -> Iterator[tuple[int, int, str]]:
    """Which op reads what another wrote last, and what that is."""
    writer: dict[Storage, int] = {}
    for position, entry in _ops(entries):
        seen: set[int] = set()
        for x in entry.step.inputs:
            before = writer.get(x.storage)
            if before is not None and before not in seen and prod(x.shape):
                seen.add(before)
                yield before, position, f"{x.dtype.name} {'x'.join(map(str, x.shape))}"
        for storage in entry.step.writes:
            writer[storage] = position
