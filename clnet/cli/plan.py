"""``clnet plan``: does a network fit into a device's memory? The device need not be here.

With ``--devices``, how its step is best divided over several (:mod:`.plan_devices`).
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from .. import onnx, optim
from ..device import DeviceTraits, traits_for
from ..errors import ArgumentError, OutOfDeviceMemory
from ..nn import Module
from ..planning.memory_plan import Make, plan
from ..planning.step_cost import Task
from ..values import mode
from ..values.dtypes import DType, from_numpy
from . import plan_devices
from .plan_networks import NETWORKS, Network

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
        "network",
        type=_network,
        metavar="NETWORK",
        help=f"a model of ONNX, or one of {', '.join(NETWORKS)}",
    )
    parser.add_argument("--batch-size", type=int, default=16, help="examples in a batch")
    parser.add_argument("--input", metavar="CxHxW", help="of an example; None: what suits it")
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="NAME=N",
        help="of an axis that a model of ONNX leaves open",
    )
    parser.add_argument(
        "--optimizer",
        choices=OPTIMIZERS,
        default=argparse.SUPPRESS,
        help="the optimiser (default: sgd; of a model of ONNX: none, a forward pass)",
    )
    parser.add_argument("--inference", action="store_true", help="only a forward pass")
    parser.add_argument("--device", help="a device that is here (see: clnet devices)")
    parser.add_argument("--traits", metavar="FILE", help="the JSON of one that is not")
    parser.add_argument("--memory", metavar="SIZE", help="as if it had so much, such as 8G")
    parser.add_argument("--json", action="store_true", help="one JSON line")
    plan_devices.add_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the figures; 3 if the compiled step does not fit."""
    try:
        return _foretold(arguments)
    except OutOfDeviceMemory as error:  # not even the parameters, or the input
        need = error.values.get("need", "")
        problem = f"{error.law}, one of {need} is needed"
        line = {"network": arguments.network, "fits": False, "problem": problem}
        print(json.dumps(line) if arguments.json else f"does not fit: {problem}")
        return 3


def _foretold(arguments: argparse.Namespace) -> int:
    if arguments.batch_size < 1:
        raise ArgumentError("plan", "--batch-size is 1 or more", batch_size=arguments.batch_size)
    usual = "sgd" if arguments.network in NETWORKS else None
    name = getattr(arguments, "optimizer", usual)
    optimizer = None if arguments.inference or name is None else OPTIMIZERS[name]
    made = _of_zoo(arguments) if arguments.network in NETWORKS else _of_file(arguments)
    make, shape, dtype = made
    network = NETWORKS.get(arguments.network, Network(make, shape))
    if arguments.devices is not None:
        if network.words_first or not (network.classifies or network.each_place):
            law = "--devices is of networks that find the class of an example, or of each word"
            raise ArgumentError("plan", law, network=arguments.network)
        task = Task(shape, dtype, network.loss, network.each_place)
        return plan_devices.run(arguments, make, task, _traits(arguments), optimizer)
    plan_devices.refuse_options(arguments)
    forecast = plan(
        make,
        shape,
        _traits(arguments),
        optimizer=optimizer,
        loss=network.loss,
        target_shape=network.targets(shape),
        input_dtype=dtype,
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


def _network(text: str) -> str:
    if text in NETWORKS or Path(text).suffix == ".onnx":
        return text
    raise argparse.ArgumentTypeError(
        f"{text!r} is no file .onnx, and none of {', '.join(NETWORKS)}"
    )


_Made = tuple[Callable[[], Module], tuple[int, ...], DType]


def _of_zoo(arguments: argparse.Namespace) -> _Made:
    """What makes a network, and the shape and dtype of a batch."""
    network = NETWORKS[arguments.network]
    shape = network.shape
    if arguments.input is not None:
        if re.fullmatch(r"\d+(x\d+)*", arguments.input) is None:
            raise ArgumentError("plan", "--input is given as 3x224x224", input=arguments.input)
        shape = tuple(map(int, arguments.input.split("x")))
        if 0 in shape:
            raise ArgumentError("plan", "--input has sizes above 0", input=arguments.input)
    if arguments.size:
        raise ArgumentError("plan", "--size is of a model of ONNX", network=arguments.network)
    return network.make, network.batch(arguments.batch_size, shape), network.dtype


def _of_file(arguments: argparse.Namespace) -> _Made:
    """The same of a model of ONNX."""
    if arguments.input is not None:
        law = "--input is of a network; give axes that a model leaves open as --size NAME=N"
        raise ArgumentError("plan", law, input=arguments.input)
    sizes, batch = onnx.read_sizes(arguments.size), arguments.batch_size

    def make() -> Module:
        return onnx.FirstInput(onnx.load(arguments.network), sizes, batch)

    with mode.using(abstract=True):
        specs = onnx.load(arguments.network).input_specs
    if not specs or specs[0].dtype is None:
        raise ArgumentError("plan", "the model's first input is a tensor", inputs=len(specs))
    return make, specs[0].shape(sizes, batch), from_numpy(specs[0].dtype)


def _traits(arguments: argparse.Namespace) -> DeviceTraits:
    if arguments.traits is None:
        traits = traits_for(arguments.device)
    else:
        if arguments.device is not None:
            raise ArgumentError("plan", "--device and --traits name two devices")
        traits = DeviceTraits.from_file(arguments.traits)
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
