"""Profiles as text, and their figures as plain values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..device import PHASES, Command
from .host_usage import HostUsage
from .limits import Limits
from .total import Total, dearest, totals_of_commands

if TYPE_CHECKING:
    from .profile import Profile

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_HEADS = ("Type", "Time(%)", "Time", "Calls", "Avg", "Min", "Max")
_RATES = ("GFLOP/s", "of gemm", "GB/s", "of copy")


def duration(seconds: float) -> str:
    """Seconds with the unit that suits them, such as ``1.234ms``."""
    for scale, unit in _UNITS:
        if seconds >= scale:
            return f"{seconds / scale:.3f}{unit}"
    return "0" if seconds <= 0 else f"{seconds * 1e9:.3f}ns"


def size(nbytes: float | None) -> str:
    """Bytes with the unit that suits them, such as ``1.5 MiB``; None: nobody knows."""
    if nbytes is None:
        return "unknown"
    for scale, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if nbytes >= scale:
            return f"{nbytes / scale:.1f} {unit}"
    return f"{nbytes:.0f} B"


def activity(totals: dict[str, Total], limits: Limits | None, share: float) -> str:
    """Kernels and copies, with their rates and the fractions of the device's limits."""
    rows = [
        (*_times(total, totals), *_rates(total, limits), name)
        for name, total in dearest(totals, share).items()
    ]
    return aligned([(*_HEADS, *_RATES, "Name"), *rows])


def calls(totals: dict[str, Total], share: float) -> str:
    """The host's calls."""
    rows = [(*_times(total, totals), name) for name, total in dearest(totals, share).items()]
    return aligned([(*_HEADS, "Name"), *rows])


def by_phase(
    commands: Sequence[Command],
    key: Callable[[Command], str],
    limits: Limits | None,
    share: float,
) -> str:
    """Device time in its phases, the host's time to enqueue, allocations and rates.

    Args:
        commands: what was carried out.
        key: what a row stands for, such as :func:`module_of`.
        limits: of the device, if they are known.
        share: leave out rows beyond this share of the time.
    """
    totals = totals_of_commands(commands, key)
    phased = totals_of_commands(commands, lambda c: f"{key(c)}\0{c.counted_in}")
    everything = sum(t.seconds for t in totals.values()) or 1.0
    heads = (*(p.capitalize() for p in PHASES), "Host", "Calls", "Allocs", "Bytes")
    rows: list[tuple[str, ...]] = [("Time(%)", *heads, *_RATES, "Name")]
    for name, total in dearest(totals, share).items():
        phases = [phased.get(f"{name}\0{phase}", Total()).seconds for phase in PHASES]
        rows.append(
            (
                f"{100 * total.seconds / everything:.2f}%",
                *(duration(s) if s else "-" for s in phases),
                duration(total.host_seconds),
                str(total.calls),
                str(total.allocations),
                size(total.allocated_bytes),
                *_rates(total, limits),
                name,
            )
        )
    return aligned(rows)


def module_of(command: Command) -> str:
    """The module that asked for a command, or a name for none."""
    return command.module_path or "(no module)"


def name_of(command: Command) -> str:
    """The op that asked for a command, whatever the phase."""
    return command.op or "(no op)"


def op_of(command: Command) -> str:
    """The op that asked for a command, and its phase."""
    return command.op if command.phase in {"", "forward"} else f"{command.op} ({command.phase})"


def summary(profile: Profile, share: float) -> str:
    """Everything worth a look."""
    kernels = profile.totals()
    host = profile.call_totals()
    parts = [
        headline(profile),
        _titled("Device: kernels and copies", kernels, share),
        activity(kernels, profile.common_limits, share),
        _titled("Host: API calls", host, share),
        calls(host, share),
        _titled("By op", profile.totals(name_of), share),
        by_phase(profile.commands, name_of, profile.common_limits, share),
        _titled("By module", profile.totals(module_of), share),
        by_phase(profile.commands, module_of, profile.common_limits, share),
    ]
    if profile.exchanges:
        parts += ["Exchanges with other ranks", exchanges(profile)]
    return "\n\n".join(parts)


def _faults(host: HostUsage) -> str:
    if host.minor_faults is None or host.major_faults is None:
        return "unknown"
    return f"{host.minor_faults:,} at first touch, {host.major_faults:,} from a disk"


def headline(profile: Profile) -> str:
    """Wall, device and processor time, memory, start-up and limits: a line each."""
    wall = profile.wall or 1.0
    busy = profile.device_seconds
    names = ", ".join(f"{name} ({what})" for name, what in profile.devices.items())
    phases = ", ".join(f"{p} {duration(s)}" for p, s in profile.phases().items())
    blocks = sum(c.allocations for c in profile.commands)
    nbytes = sum(c.allocated_bytes for c in profile.commands)
    lines = [
        f"device    {names or 'none was used'}",
        f"wall      {duration(profile.wall)}; kernels and copies {duration(busy)} "
        f"({100 * busy / wall:.1f}% of wall); CPU {100 * profile.cpu / wall:.0f}%",
        f"host      user {duration(profile.host.user)}, system {duration(profile.host.system)}; "
        f"page faults: {_faults(profile.host)}",
        f"phases    {phases}",
        f"memory    peak RSS {size(profile.peak_resident_bytes)}, peak on the device "
        f"{size(profile.peak_allocated_bytes)}, {blocks} allocations of {size(nbytes)} in all",
        f"start-up  {profile.start.text()}",
    ]
    if profile.exchanges:
        lines.append(f"exchange  {exchanged(profile)}")
    for name, limits in profile.limits.items():
        lines.append(f"limits    {limits.text()} (measured on {name})")
    if not profile.limits:
        lines.append("limits    not measured; run: clnet bench limits")
    return "\n".join(lines)


def exchanged(profile: Profile) -> str:
    """What was exchanged with other ranks, and the share of the time, in words."""
    found = profile.exchanges
    seconds = sum(e.seconds for e in found)
    return (
        f"{len(found)} of {size(sum(e.bytes for e in found))} in {duration(seconds)} "
        f"({100 * seconds / (profile.wall or 1.0):.1f}% of wall), "
        f"{duration(profile.hidden_exchange_seconds)} of it while a device computed; "
        f"{duration(sum(e.waited for e in found))} until other ranks were there"
    )


def exchanges(profile: Profile) -> str:
    """Exchanges with other ranks, by what was called."""
    rows: list[tuple[str, ...]] = [("Time", "Calls", "Waiting", "Bytes", "GB/s", "Name")]
    for name in dict.fromkeys(e.call for e in profile.exchanges):
        of = [e for e in profile.exchanges if e.call == name]
        seconds, nbytes = sum(e.seconds for e in of), sum(e.bytes for e in of)
        rate = f"{nbytes / seconds / 1e9:.2f}" if nbytes and seconds else "-"
        waited = duration(sum(e.waited for e in of))
        rows.append((duration(seconds), str(len(of)), waited, size(nbytes), rate, name))
    return aligned(rows)


def fields(profile: Profile) -> dict[str, Any]:
    """The figures of a profile as plain values."""
    return {
        "devices": profile.devices,
        "wall_seconds": profile.wall,
        "device_seconds": profile.device_seconds,
        "cpu_percent": 100 * profile.cpu / (profile.wall or 1.0),
        "host": profile.host._asdict(),
        "peak_resident_bytes": profile.peak_resident_bytes,
        "peak_allocated_bytes": profile.peak_allocated_bytes,
        "start": profile.start.fields(),
        "limits": {n: {"gflops": v.gflops, "gbytes": v.gbytes} for n, v in profile.limits.items()},
        "phases": profile.phases(),
        "kernels": _listed(profile.totals()),
        "calls": _listed(profile.call_totals()),
        "ops": _listed(profile.totals(op_of)),
        "modules": _listed(profile.totals(module_of)),
        "exchanges": {
            "calls": len(profile.exchanges),
            "bytes": sum(e.bytes for e in profile.exchanges),
            "seconds": sum(e.seconds for e in profile.exchanges),
            "hidden_seconds": profile.hidden_exchange_seconds,
            "waited_seconds": sum(e.waited for e in profile.exchanges),
        },
    }


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns flush right, the last one flush left."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            [*(cell.rjust(w) for cell, w in zip(row[:-1], widths[:-1], strict=True)), row[-1]]
        )
        for row in rows
    )
    return "\n".join(lines)


def _titled(title: str, totals: dict[str, Total], share: float) -> str:
    everything = sum(t.seconds for t in totals.values())
    kept = dearest(totals, share)
    reached = sum(t.seconds for t in kept.values())
    percent = 100 * reached / everything if everything else 100.0
    return f"{title}: {len(kept)} of {len(totals)} make up {percent:.1f}% of {duration(everything)}"


def _times(total: Total, totals: dict[str, Total]) -> tuple[str, ...]:
    everything = sum(t.seconds for t in totals.values()) or 1.0
    return (
        total.kind,
        f"{100 * total.seconds / everything:.2f}%",
        duration(total.seconds),
        str(total.calls),
        duration(total.average),
        duration(total.least),
        duration(total.most),
    )


def _rates(total: Total, limits: Limits | None) -> tuple[str, ...]:
    def of(rate: float, limit: Callable[[Limits], float]) -> str:
        return "-" if limits is None or not rate else f"{100 * rate / limit(limits):.0f}%"

    return (
        f"{total.gflops:.2f}" if total.flops else "-",
        of(total.gflops, lambda x: x.gflops),
        f"{total.gbytes:.2f}" if total.bytes else "-",
        of(total.gbytes, lambda x: x.gbytes),
    )


def _listed(totals: dict[str, Total]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "type": t.kind,
            "seconds": t.seconds,
            "calls": t.calls,
            "min": t.least,
            "max": t.most,
            "host_seconds": t.host_seconds,
            "flops": t.flops,
            "bytes": t.bytes,
            "allocations": t.allocations,
            "allocated_bytes": t.allocated_bytes,
        }
        for name, t in totals.items()
    ]
