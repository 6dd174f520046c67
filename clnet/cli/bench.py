"""``clnet bench``: the benchmarks by name."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

# By name: the module of clnet/bench, imported when it runs, and the text.
BENCHES: dict[str, tuple[str, str]] = {
    "shi2016": ("shi2016", "seconds a mini-batch of Shi et al.'s networks"),
    "zoo": ("zoo", "networks of today, trained and asked"),
    "ece408": ("ece408", "the course report: train, answer in one batch, profile"),
    "limits": ("limits", "the device's best rates"),
    "gemm": ("gemm", "matrix products"),
    "conv": ("conv", "convolutions and their gradients"),
    "attention": ("attention", "attention and its gradients"),
    "recurrent": ("recurrent", "recurrent layers and their gradients"),
    "cnn": ("cnn", "the small CNN on Fashion-MNIST: accuracy, seconds an epoch"),
    "onnx": ("onnx_model", "a model of ONNX, compiled, beside onnxruntime"),
    "bandwidth": ("bandwidth", "ops that move memory, beside a copy"),
    "memory": ("memory", "what early release saves"),
    "overhead": ("overhead", "what the host costs"),
    "step": ("step", "training steps eager and compiled: launches, time, the host's share"),
    "start": ("start", "from import to the first result, cold and warm"),
    "tinygrad": ("beside_tinygrad", "a product and steps of training beside tinygrad's"),
    "scaling": ("scaling", "a step on 1, 2 ... workers, beside PyTorch's"),
    "allreduce": ("exchange", "sums over ranks, beside mpi4py's of host arrays"),
    "profiler": ("profiler", "what the profiler costs, and how its times add up"),
}


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Put the command into the parser.

    Args:
        commands: where sub-commands are added.
        shared: options of all commands.
    """
    listed = "\n".join(f"  {name:10} {text}" for name, (_, text) in BENCHES.items())
    parser = commands.add_parser(
        "bench",
        parents=[shared],
        help="benchmarks that check their results, then time them",
        description=f"Benchmarks that check their results, then time them:\n\n{listed}\n\n"
        "clnet bench NAME --help lists the options of one.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=BENCHES, metavar="NAME", help="which")
    more = parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="...", help="its options"
    )
    more.required = False  # as it is, though its error names it where another one is missing
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the benchmark; its exit code."""
    module, _ = BENCHES[arguments.name]
    return import_module(f"...bench.{module}", __name__).main(arguments.arguments) or 0
