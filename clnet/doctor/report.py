"""What the doctor says of a device: outcomes, quirks and rates, as text, as JSON, side by side."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from ..device import Device, DeviceTraits
from ..device.guard import plainer
from ..device.quirk import quirks
from ..errors import ArgumentError, shortened
from ..profiling.limits import measured_limits
from .case import Finding, Outcome
from .examine import examine_apart, outcome_of
from .rate import Rates, rates

_FORM = 1
_PACKAGES = ("clnet", "pyopencl", "numpy", "mako", "pocl-binary-distribution")
# By a word of a finding or a family: what a user can do.
_REMEDIES = {
    "process": "The driver ends the process. Update it, or choose another device (CLNET_DEVICE)",
    "commands": "Copies or their order go wrong: do not trust this device. Update its driver",
    "language": "The driver's compiler is wrong about the language. Update the driver",
    "double precision": "Keep to float32 on this device",
}
_REMEDY = (
    "Update the driver, choose another device (CLNET_DEVICE), or try clnet doctor --mend; attach "
    "this report to an issue (clnet report)"
)


@dataclass
class Report:
    """What was found.

    Attributes:
        device, identity, traits: whose report it is.
        versions: of Python, the system and packages.
        outcomes: of cases and trials.
        not_asked: names of those for which there was no time.
        quirks: see :func:`clnet.device.quirk.quirks`.
        rates: see :class:`.rate.Rates`; None: they were not measured.
        complaints: what is wrong beside outcomes.
        seconds: it took.
    """

    device: str
    identity: dict[str, str]
    traits: dict[str, Any]
    versions: dict[str, str]
    outcomes: list[Outcome] = field(default_factory=list)
    not_asked: list[str] = field(default_factory=list)
    quirks: dict[str, Any] = field(default_factory=dict)
    rates: Rates | None = None
    complaints: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def failed(self) -> list[Outcome]:
        """The outcomes with findings."""
        return [outcome for outcome in self.outcomes if outcome.findings]

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong, and everything was asked."""
        return not (self.failed or self.complaints or self.not_asked)

    def to_json(self) -> str:
        """The report as JSON; :func:`read` takes it."""
        return json.dumps({"form": _FORM, "healthy": self.healthy, **asdict(self)}, indent=1)


def versions() -> dict[str, str]:
    """Of Python, the system and the packages that matter."""
    found = {"python": platform.python_version(), "system": platform.platform()}
    installed = {d.metadata["Name"]: d.version for d in metadata.distributions()}
    return {**found, **{name: installed[name] for name in _PACKAGES if name in installed}}


def diagnose(
    device: Device,
    *,
    seconds: float = 60.0,
    tell: Callable[[Outcome], None] | None = None,
) -> Report:
    """Examine a device.

    Args:
        device: which.
        seconds: no case is begun later.
        tell: called with each outcome.

    Returns:
        The report.
    """
    report = empty_report(device)
    report.quirks = quirks(device.name)
    report.complaints = contradictions(report.quirks)
    report.outcomes, report.not_asked = examine_apart(device.name, seconds=seconds, tell=tell)
    if not report.failed:  # rates of wrong numbers say nothing
        report.rates = rates(device, measured_limits(device))
    return report


def mended(
    traits: DeviceTraits,
    failed: Collection[str],
    ask: Callable[[dict[str, Any], Collection[str] | None], Sequence[Outcome]],
) -> tuple[str, dict[str, Any]] | None:
    """The least that a device must be used without to be right.

    Args:
        traits: of the device.
        failed: names of the cases that were wrong.
        ask: gives the outcomes of some cases, or of all, with changed traits.

    Returns:
        What is left out, and the traits that say so; None: nothing helps.
    """
    for name, changes in plainer(traits):
        for asked in (failed, None):  # what was wrong first, then all
            if any(outcome.findings for outcome in ask(changes, asked)):
                break
        else:
            return name, changes
    return None


def empty_report(device: Device) -> Report:
    """A report in which only the device is told."""
    identity = {key: str(value) for key, value in asdict(device.identity).items()}
    return Report(device.name, identity, device.traits.to_dict(), versions())


def contradictions(found: dict[str, Any]) -> list[str]:
    """Where a driver states what it does not do.

    Args:
        found: the quirks.
    """
    wrong = [f"{name}: the driver refused it" for name, v in found.items() if v == "refused"]
    if found.get("denormals stated") and found.get("denormals kept") is False:
        wrong.append("denormals: the driver says that they are kept, and they become 0")
    least = found.get("largest allocation made")
    if isinstance(least, int) and least < found["largest allocation stated"] // 4:
        wrong.append(
            f"largest allocation: {least:,} bytes can be had of the "
            f"{found['largest allocation stated']:,} that are stated"
        )
    return wrong


def remedy(outcome: Outcome) -> str:
    """What a user can do about an outcome."""
    keys = [finding.way for finding in outcome.findings]
    return next(
        (text for word, text in _REMEDIES.items() if word in (*keys, outcome.family, outcome.name)),
        _REMEDY,
    )


def shown(report: Report) -> str:
    """The report for reading."""
    traits = report.traits
    lines = [
        f"{report.device}: {report.identity['name']}, {report.identity['platform']}, "
        f"driver {report.identity['driver']}",
        f"  {traits['kind']}, {traits['compute_units']} units, vectors of {traits['simd_width']}, "
        f"{traits['global_memory_bytes'] / 2**30:.1f} GiB",
        "  " + ", ".join(f"{name} {value}" for name, value in report.quirks.items()),
    ]
    if report.rates is not None:
        lines.append("  " + report.rates.text())
    families: dict[str, list[Outcome]] = {}
    for outcome in report.outcomes:
        families.setdefault(outcome.family, []).append(outcome)
    for family, outcomes in families.items():
        wrong = sum(1 for o in outcomes if o.findings)
        kernels = len({name for o in outcomes for name in o.kernels})
        verdict = f"{wrong} WRONG" if wrong else "right"
        lines.append(
            f"  {family:15} {len(outcomes):3} asked, {kernels:3} kernels, "
            f"{sum(o.seconds for o in outcomes):5.1f} s: {verdict}"
        )
    for outcome in report.failed:
        lines += [f"WRONG {outcome.name}", *(f"    {f.way}: {f.law}" for f in outcome.findings[:4])]
        lines.append(f"    {remedy(outcome)}.")
    lines += [f"WRONG {complaint}. {_REMEDY}." for complaint in report.complaints]
    if report.not_asked:
        lines.append(
            f"no time for {len(report.not_asked)} of the cases ({', '.join(report.not_asked[:3])} "
            "...); run it again: kernels that were built are kept"
        )
    if report.healthy:
        number = len(report.outcomes)
        lines.append(f"{report.device} can be trusted: {number} of {number} right")
    return "\n".join([*lines, f"{report.seconds:.1f} s"])


def read(path: Path) -> Report:
    """A report that ``clnet doctor --json`` wrote.

    Raises:
        ArgumentError: if the file holds none.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if values.pop("form") != _FORM:
            raise ValueError("it is of another version of clnet")
        values.pop("healthy")
        values["outcomes"] = [outcome_of(outcome) for outcome in values["outcomes"]]
        values["rates"] = values["rates"] and Rates(**values["rates"])
        return Report(**values)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ArgumentError(
            "doctor",
            f"the file holds no report ({shortened(error)})",
            file=path,
            remedy="Write one with clnet doctor --json FILE",
        ) from error


def compared(now: Report, other: Report) -> str:
    """Two reports side by side: what differs.

    Args:
        now: the one.
        other: the other.
    """
    lines = [f"compared with {other.device} ({other.identity['driver']}):"]
    tables = {
        "identity": (now.identity, other.identity),
        "traits": (now.traits, other.traits),
        "versions": (now.versions, other.versions),
        "quirks": (now.quirks, other.quirks),
        "rates": tuple(asdict(r.rates) if r.rates else {} for r in (now, other)),
    }
    for title, (a, b) in tables.items():
        lines += [
            f"  {title}: {name} {a.get(name, '-')}, there {b.get(name, '-')}"
            for name in {**a, **b}
            if a.get(name) != b.get(name)
        ]
    verdicts = [{o.name: bool(o.findings) for o in r.outcomes} for r in (now, other)]
    told = {True: "wrong", False: "right", None: "not asked"}
    lines += [
        f"  {name}: {told[verdicts[0].get(name)]}, there {told[verdicts[1].get(name)]}"
        for name in {**verdicts[0], **verdicts[1]}
        if verdicts[0].get(name) != verdicts[1].get(name)
    ]
    kernels = [{k for o in r.outcomes for k in o.kernels} for r in (now, other)]
    for these, where in ((kernels[0] - kernels[1], "here"), (kernels[1] - kernels[0], "there")):
        if these:
            lines.append(f"  kernels only {where}: {', '.join(sorted(these))}")
    return "\n".join(lines if len(lines) > 1 else [*lines, "  nothing differs"])


__all__ = [
    "Finding",
    "Outcome",
    "Report",
    "compared",
    "contradictions",
    "diagnose",
    "empty_report",
    "mended",
    "read",
    "remedy",
    "shown",
    "versions",
]
