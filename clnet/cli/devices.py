"""``clnet devices``: what OpenCL offers here, and what had to be skipped."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from textwrap import fill
from typing import Any

from ..device import devices
from ..device.discovery import Found, extensions_of, identity_of, select, traits_of
from ..device.install_hint import install_hint
from ..errors import ArgumentError, ClnetError, DeviceError
from ..profiling.table import size
from ..values.settings import SETTINGS

_HEADER = (
    *("", "name", "device", "platform", "driver"),
    *("type", "units", "simd", "memory", "fp16", "fp64"),
)


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Put the command into the parser.

    Args:
        commands: where sub-commands are added.
        shared: options of all commands.
    """
    parser = commands.add_parser(
        "devices",
        parents=[shared],
        help="list the OpenCL devices",
        description="List the OpenCL devices, and the platforms that were skipped with the reason. "
        "A star marks the default device.",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="all that is known of each, and where files are kept"
    )
    parser.add_argument("--json", action="store_true", help="names and traits, for clnet plan")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the table; 1 if there is no usable device, or not the one that is asked for."""
    found, wrong = devices(), None
    usable = [f for f in found if f.handle is not None]
    if usable and arguments.json:
        print(json.dumps([_described(f) for f in usable], indent=1))
    elif usable and arguments.verbose:
        print("\n\n".join([*map(_description, usable), _folders()]))
    elif usable:
        default, wrong = _default(found)
        print(_table([_HEADER, *(_row(f, default) for f in usable)]))
    problems = sys.stdout if usable and not arguments.json else sys.stderr
    for skipped in found:
        if skipped.problem is not None:
            print(f"{skipped.selector}: {skipped.problem}", file=problems)
    if not usable:
        print(
            "\n".join(["To install, for one of:", *map("  {}".format, install_hint())]),
            file=problems,
        )
    if wrong is not None:
        print(f"clnet: {wrong}", file=sys.stderr)
    return 0 if usable and wrong is None else 1


def _default(found: tuple[Found, ...]) -> tuple[Found | None, ClnetError | None]:
    """The default device; where ``CLNET_DEVICE`` asks for one that is not there, the error."""
    name = None if SETTINGS.device is None else SETTINGS.device.partition("[")[0]  # of a part
    try:
        return select(name, found, asked_by="CLNET_DEVICE"), None
    except (ArgumentError, DeviceError) as error:
        return None, error


def _described(found: Found) -> dict[str, Any]:
    identity = asdict(identity_of(found.handle))
    return {
        "selector": found.selector,
        "identity": identity,
        "traits": traits_of(found.handle).to_dict(),
    }


def _description(found: Found) -> str:
    """All that is known of a device, a line for each fact."""
    traits, identity = traits_of(found.handle), identity_of(found.handle)
    local = size(traits.local_memory_bytes)
    facts = {
        "device": identity.name,
        "vendor": identity.vendor,
        "platform": f"{identity.platform}, {identity.platform_version}",
        "driver": identity.driver,
        "version": identity.version,
        "type": traits.kind.value,
        "compute units": str(traits.compute_units),
        "floats in a vector": str(traits.simd_width),
        "items in a group": f"up to {traits.max_group_size:,}",
        "local memory": local
        + (", its own" if traits.dedicated_local_memory else ", in main memory"),
        "memory": size(traits.global_memory_bytes)
        + (", the host's" if traits.unified_memory else ""),
        "largest array": size(traits.max_allocation_bytes),
        "16-bit floats": "computed" if traits.float16 else "stored, computed in 32 bits",
        "64-bit floats": "yes" if traits.float64 else "no",
    }
    width = max(map(len, facts))
    extensions = fill(
        " ".join(extensions_of(found.handle)), 100, initial_indent="    ", subsequent_indent="    "
    )
    lines = [f"  {name:{width}}  {text}" for name, text in facts.items()]
    return "\n".join([found.selector, *lines, "  extensions", extensions])


def _folders() -> str:
    return (
        f"kernels are kept in {SETTINGS.cache_dir}\n"
        f"measured choices are kept in {SETTINGS.tunings_dir}"
    )


def _row(found: Found, default: Found | None) -> tuple[str, ...]:
    traits, identity = traits_of(found.handle), identity_of(found.handle)
    return (
        "*" if found is default else "",
        found.selector,
        identity.name,
        identity.platform,
        identity.driver,
        traits.kind.value,
        str(traits.compute_units),
        str(traits.simd_width),
        f"{traits.global_memory_bytes / 2**30:.1f} GiB",
        "yes" if traits.float16 else "no",
        "yes" if traits.float64 else "no",
    )


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
