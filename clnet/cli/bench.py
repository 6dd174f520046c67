"""``clnet bench``: the benchmarks by name."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from ..bench import (
    attention,
    bandwidth,
    beside_tinygrad,
    cnn,
    conv,
    ece408,
    exchange,
    gemm,
    limits,
    memory,
    onnx_model,
    overhead,
    profiler,
    scaling,
    shi2016,
    start,
    step,
    zoo,
)

BENCHES: dict[str, tuple[Callable[[Sequence[str]], int | None], str]] = {
    "shi2016": (shi2016.main, "seconds a mini-batch of Shi et al.'s networks"),
    "zoo": (zoo.main, "networks of today, trained and asked"),
    "ece408": (ece408.main, "the course report: train, answer in one batch, profile"),
    "limits": (limits.main, "the device's best rates"),
    "gemm": (gemm.main, "matrix products"),
    "conv": (conv.main, "convolutions and their gradients"),
    "attention": (attention.main, "attention and its gradients"),
    "cnn": (cnn.main, "the small CNN on Fashion-MNIST: accuracy, seconds an epoch"),
    "onnx": (onnx_model.main, "a model of ONNX, compiled, beside onnxruntime"),
    "bandwidth": (bandwidth.main, "ops that move memory, beside a copy"),
    "memory": (memory.main, "what early release saves"),
    "overhead": (overhead.main, "what the host costs"),
    "step": (step.main, "training steps eager and compiled: launches, time, the host's share"),
    "start": (start.main, "from import to the first result, cold and warm"),
    "tinygrad": (beside_tinygrad.main, "a product and steps of training beside tinygrad's"),
    "scaling": (scaling.main, "a step on 1, 2 ... workers, beside PyTorch's"),
    "allreduce": (exchange.main, "sums over ranks, beside mpi4py's of host arrays"),
    "profiler": (profiler.main, "what the profiler costs, and how its times add up"),
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
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its options")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the benchmark; its exit code."""
    main, _ = BENCHES[arguments.name]
    return main(arguments.arguments) or 0
