"""``clnet plan --devices``: how a step is best divided over several devices."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from dataclasses import asdict

from ..device import DeviceKind, DeviceTraits
from ..device import device as open_device
from ..errors import ArgumentError
from ..nn import Module
from ..planning.exchange_cost import Link
from ..planning.memory_plan import Make
from ..planning.parallel_plan import Way, best_of, reason, ways
from ..planning.step_cost import StepCost, Task, figured, measured

_RATES = {"": 1e-9, "G": 1.0, "T": 1e3, "P": 1e6}
_MIB = 2**20


def add_options(parser: argparse.ArgumentParser) -> None:
    """Put the options into the parser of the command.

    Args:
        parser: of ``clnet plan``.
    """
    group = parser.add_argument_group(
        "several devices",
        "Foretell a training step's time for all ways to divide it over devices, and take one. "
        "Kernels are measured on the device, or go by --flops and --bandwidth.",
    )
    group.add_argument("--devices", metavar="N,...", help="how many, such as 4 or 1,2,4,1024")
    group.add_argument("--each", action="store_true", help="--batch-size is that of each device")
    group.add_argument("--link", type=float, metavar="GB/S", help="between devices, each way")
    group.add_argument("--latency", type=float, default=20.0, metavar="US", help="of a message")
    group.add_argument("--flops", metavar="RATE", help="that kernels reach, such as 25T")
    group.add_argument("--bandwidth", type=float, metavar="GB/S", help="of a device's memory")
    group.add_argument("--launch", type=float, default=3.0, metavar="US", help="of a kernel")


def refuse_options(arguments: argparse.Namespace) -> None:
    """Refuse options of several devices where none are asked for.

    Raises:
        ArgumentError: if there is one.
    """
    for name in ("each", "link", "flops", "bandwidth"):
        given = getattr(arguments, name)
        if given is not None and given is not False:
            raise ArgumentError("plan", f"--{name} goes with --devices", **{name: given})


def run(
    arguments: argparse.Namespace,
    make: Callable[[], Module],
    task: Task,
    traits: DeviceTraits,
    optimizer: Make | None,
) -> int:
    """Print the ways; 3 if for some number of devices none fits.

    Args:
        arguments: of the command.
        make: makes the network.
        task: what it is trained with.
        traits: of the devices.
        optimizer: makes the optimiser; None: there is no training step.

    Raises:
        ArgumentError: if options are missing, or do not fit.
    """
    if optimizer is None:
        raise ArgumentError("plan", "--devices is of a training step; give --optimizer")
    counts = _counts(arguments.devices)
    if arguments.link is None and max(counts) > 1:
        raise ArgumentError("plan", "--devices needs the devices' --link, in GB/s")
    if arguments.link is not None and not arguments.link > 0:
        raise ArgumentError("plan", "--link is above 0, in GB/s", link=arguments.link)
    link = Link(1.0 if arguments.link is None else arguments.link, arguments.latency)
    cost = _cost(arguments, make, task, traits, optimizer)
    found: dict[int, tuple[list[Way], Way | None]] = {}
    for count in counts:
        batch = arguments.batch_size * (count if arguments.each else 1)
        of_count = ways(cost, count, batch, link, overlap=traits.kind is not DeviceKind.CPU)
        found[count] = of_count, best_of(of_count, traits.global_memory_bytes)
    if arguments.json:
        lines = [
            {"devices": n, "ways": [asdict(w) for w in of_n], "best": best and best.name}
            for n, (of_n, best) in found.items()
        ]
        print(json.dumps({"network": arguments.network, "times": cost.source, "plans": lines}))
    else:
        _print(cost, found, traits)
    return 3 if any(best is None for _, best in found.values()) else 0


def _print(
    cost: StepCost, found: dict[int, tuple[list[Way], Way | None]], traits: DeviceTraits
) -> None:
    print(f"times: {cost.source}; parameters {cost.parameter_bytes / _MIB:,.1f} MiB")
    print(f"{'devices':>7}  {'way':24}{'ms':>12}{'waiting':>10}{'moved MiB':>11}{'holds MiB':>11}")
    for count, (of_count, best) in found.items():
        for way in of_count:
            mark = "*" if way is best else " "
            if way.problem:
                print(f"{count:7,} {mark}{way.name:24}{'-':>12}{'':32}  {way.problem}")
                continue
            fits = way.memory_bytes <= traits.global_memory_bytes
            print(
                f"{count:7,} {mark}{way.name:24}{way.seconds * 1e3:12,.2f}"
                f"{way.waiting * 1e3:10,.2f}{way.moved_bytes / _MIB:11,.1f}"
                f"{way.memory_bytes / _MIB:11,.0f}  {way.note if fits else 'does not fit'}"
            )
        if best is None:
            print(f"{count:7,}  none fits into {traits.global_memory_bytes / _MIB:,.0f} MiB")
        elif count > 1:
            print(f"{'':7}  {reason(of_count, best, traits.global_memory_bytes)}")


def _counts(text: str) -> list[int]:
    if re.fullmatch(r"[1-9]\d{0,6}(,[1-9]\d{0,6})*", text) is None:
        law = "--devices is given as 4 or 1,2,4, each from 1 to 9,999,999"
        raise ArgumentError("plan", law, devices=text)
    return list(dict.fromkeys(map(int, text.split(","))))


def _cost(
    arguments: argparse.Namespace,
    make: Callable[[], Module],
    task: Task,
    traits: DeviceTraits,
    optimizer: Make,
) -> StepCost:
    given = (arguments.flops is not None, arguments.bandwidth is not None)
    if all(given):
        form = re.fullmatch(r"(\d+(?:\.\d+)?)([GTP]?)", arguments.flops.strip())
        rate = float(form[1]) * _RATES[form[2]] if form else 0.0
        if not rate > 0 or not arguments.bandwidth > 0:
            law = "--flops is given as 25T, and --bandwidth in GB/s"
            raise ArgumentError("plan", law, flops=arguments.flops, bandwidth=arguments.bandwidth)
        return figured(
            make,
            task,
            traits,
            optimizer,
            gflops=rate,
            gbytes=arguments.bandwidth,
            launch_us=arguments.launch,
        )
    if any(given) or arguments.traits is not None:
        law = "a device that is not here has both --flops and --bandwidth"
        raise ArgumentError("plan", law, flops=arguments.flops, bandwidth=arguments.bandwidth)
    return measured(make, task, open_device(arguments.device), optimizer)
