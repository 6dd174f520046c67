"""``clnet plan``: does a network fit into a device's memory? The device need not be here."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from .. import models, optim
from ..device import DeviceTraits, traits_for
from ..errors import ArgumentError, shortened
from ..nn import Module
from ..train.memory_plan import Make, plan

_IMAGENET, _CIFAR = (3, 224, 224), (3, 32, 32)
NETWORKS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(
        (
            *("alexnet", "vgg11", "vgg13", "vgg16", "vgg19"),
            *("vgg11_bn", "vgg13_bn", "vgg16_bn", "vgg19_bn"),
            *("resnet18", "resnet34", "resnet50", "resnet101", "resnet152"),
            *("resnext50_32x4d", "resnext101_32x8d", "wide_resnet50_2", "wide_resnet101_2"),
            *("densenet121", "squeezenet1_0", "squeezenet1_1", "mobilenet_v2"),
            *("mobilenet_v3_small", "mobilenet_v3_large", "mnasnet1_0"),
            *("shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "regnet_x_400mf", "regnet_y_400mf"),
            *("efficientnet_b0", "convnext_tiny", "convnext_small", "convnext_base"),
            *("vit_b_16", "vit_b_32", "vit_l_16", "swin_t", "swin_s", "mixer_s16", "mixer_b16"),
        ),
        _IMAGENET,
    ),
    "efficientnet_b1": (3, 240, 240),
    "efficientnet_b2": (3, 288, 288),
    "efficientnet_b3": (3, 300, 300),
    "efficientnet_b4": (3, 380, 380),
    **dict.fromkeys(("resnet14", "resnet14_bn", "resnet20", "resnet56"), _CIFAR),
    "ece408": (1, 48, 48),
}
OPTIMIZERS: dict[str, Make] = {
    "sgd": lambda params: optim.SGD(params, momentum=0.9),
    "adam": optim.Adam,
    "adamw": optim.AdamW,
    "rmsprop": optim.RMSprop,
}
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Put the command into the parser.

    Args:
        commands: where sub-commands are added.
        shared: options of all commands.
    """
    parser = commands.add_parser(
        "plan",
        parents=[shared],
        help="say whether a network fits into a device's memory",
        description="Foretell the memory that a training step (or, with --inference, a forward "
        "pass) of a network needs. Nothing is computed, and the device need not be here: give its "
        "traits, as clnet devices --json prints them there. Exits with 3 if it does not fit.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "network", choices=NETWORKS, metavar="NETWORK", help=f"one of {', '.join(NETWORKS)}"
    )
    parser.add_argument("--batch-size", type=int, default=16, help="examples in a batch")
    parser.add_argument("--input", metavar="CxHxW", help="of an example; None: what suits it")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="sgd", help="the optimiser")
    parser.add_argument("--inference", action="store_true", help="only a forward pass")
    parser.add_argument("--device", help="a device that is here (see: clnet devices)")
    parser.add_argument("--traits", metavar="FILE", help="the JSON of one that is not")
    parser.add_argument("--memory", metavar="SIZE", help="as if it had so much, such as 8G")
    parser.add_argument("--json", action="store_true", help="one JSON line")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the figures; 3 if the compiled step does not fit."""
    shape = NETWORKS[arguments.network]
    if arguments.input is not None:
        if re.fullmatch(r"\d+(x\d+)*", arguments.input) is None:
            raise ArgumentError("plan", "--input is given as 3x224x224", input=arguments.input)
        shape = tuple(map(int, arguments.input.split("x")))
    make: Callable[[], Module] = getattr(models, arguments.network)
    forecast = plan(
        make,
        (arguments.batch_size, *shape),
        _traits(arguments),
        optimizer=None if arguments.inference else OPTIMIZERS[arguments.optimizer],
    )
    if arguments.json:
        needs = {
            way: {**asdict(need), "fits": forecast.fits(way)}
            for way, need in forecast.needs.items()
        }
        line = {"network": arguments.network, "parameters": forecast.parameters, "needs": needs}
        print(json.dumps({**line, "workspaces": forecast.workspaces}))
    else:
        print(forecast)
    return 0 if forecast.fits() else 3


def _traits(arguments: argparse.Namespace) -> DeviceTraits:
    if arguments.traits is None:
        traits = traits_for(arguments.device)
    else:
        if arguments.device is not None:
            raise ArgumentError("plan", "--device and --traits name two devices")
        traits = _read(Path(arguments.traits))
    if arguments.memory is None:
        return traits
    form = re.fullmatch(r"(\d+(?:\.\d+)?)([KMG]?)(?:i?B)?", arguments.memory.strip())
    if form is None:
        raise ArgumentError("plan", "--memory is given as 8G or 512M", memory=arguments.memory)
    nbytes = int(float(form[1]) * _UNITS[form[2]])
    return replace(
        traits,
        global_memory_bytes=nbytes,
        max_allocation_bytes=min(traits.max_allocation_bytes, nbytes),
    )


def _read(path: Path) -> DeviceTraits:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ArgumentError(
            "plan", f"cannot read the traits ({shortened(error)})", file=path
        ) from error
    if isinstance(found, list) and len(found) == 1:
        found = found[0]
    traits = found.get("traits", found) if isinstance(found, dict) else None
    if not isinstance(traits, dict):
        raise ArgumentError("plan", "the file holds one device", file=path)
    return DeviceTraits.from_dict(traits)
