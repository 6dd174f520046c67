"""Export networks, run them by onnxruntime, read them again: outputs and gradients compared.

    python ci/onnx_roundtrip.py                 # all networks, forward and gradients
    python ci/onnx_roundtrip.py bert vit_b_16   # some
    python ci/onnx_roundtrip.py --part 1/2 --forward
    python ci/onnx_roundtrip.py --double inception_v3   # without onnxruntime

Each of ``clnet bench zoo``'s networks and each photograph network of ``clnet.models``, at the size
that suits it, batch 1, in evaluation, with its first weights (those of dense layers drawn, where
they begin as 0). Outputs differ by up to 1e-4 of the largest; so do gradients of the network that
was read again from the original's, where those of a parameter count by its largest, and by a
hundredth of the network's: some are 0 but for rounding. inception_v3, whose first gradients are
1e12, is compared in double precision, in which onnxruntime has no convolutions. A line a network;
the exit code is 1 if one fails.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import clnet
from clnet import nn
from clnet.bench import zoo_networks
from clnet.cli.plan import NETWORKS

_TOLERANCE = 1e-4
Made = tuple[Callable[[], Any], Callable[[], tuple[np.ndarray, ...]]]


def cases() -> dict[str, Made]:
    """Networks by name, and how they and their inputs are made."""
    rng = np.random.default_rng(0)
    found: dict[str, Made] = {}
    for name, network in NETWORKS.items():
        if len(network.shape) == 3 and network.classifies:
            found[name] = (network.make, partial(_image, rng, network.shape))
    for name in zoo_networks.NAMES:
        work = zoo_networks.workload(name, 1, training=False)
        found[name] = (work.make, partial(_first, work))
    return found


def _image(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    return (rng.standard_normal((1, *shape), dtype=np.float32),)


def _first(work: Any) -> tuple[np.ndarray, ...]:
    return work.drawn()[0]


def leaves(value: Any) -> list[Any]:
    """The tensors of a result, in order."""
    if isinstance(value, tuple | list):
        return [leaf for part in value for leaf in leaves(part)]
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in leaves(part)]
    return [value]


def largest(array: np.ndarray) -> float:
    """The largest number."""
    return float(np.abs(array).max(initial=0.0))


def difference(found: np.ndarray, wanted: np.ndarray, least: float = 1e-30) -> float:
    """The largest difference, as a share of the largest number, or of ``least``."""
    if found.shape != wanted.shape:
        return float("inf")
    return largest(found - wanted) / max(largest(wanted), least)


def drawn(model: Any) -> Any:
    """The network without dense layers that are 0, behind which nothing could differ."""
    for module in model.modules():
        if isinstance(module, nn.Linear) and not module.weight.detach().numpy().any():
            nn.init.normal_(module.weight, 0.0, 0.02)
    return model.eval()


def gradients(model: Any, inputs: list[Any], weights: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Of each parameter, for a sum of all outputs with these weights."""
    for parameter in model.parameters():
        parameter.grad = None
    total = sum(
        (y * clnet.tensor(w)).sum() for y, w in zip(leaves(model(*inputs)), weights, strict=True)
    )
    total.backward()
    return {n: p.grad.numpy() for n, p in model.named_parameters() if p.grad is not None}


def widened(array: np.ndarray) -> np.ndarray:
    """Floats in double precision."""
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def by_onnxruntime(path: Path, proto: Any, arrays: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """What onnxruntime makes of a model."""
    import onnxruntime  # noqa: PLC0415 - a comparison in double precision goes without

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [value.name for value in proto.graph.input]
    return session.run(None, dict(zip(names, arrays, strict=True)))


def trip(
    make: Callable[[], Any], arrays: tuple[np.ndarray, ...], *, forward: bool, double: bool
) -> list[float]:
    """Differences of onnxruntime's outputs, of ours when read again, and of gradients."""
    clnet.manual_seed(0)
    model = drawn(make())
    if double:
        model, arrays = model.double(), tuple(widened(a) for a in arrays)
    inputs = [clnet.tensor(a) for a in arrays]
    with clnet.no_grad():
        wanted = [y.numpy() for y in leaves(model(*inputs))]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        proto = clnet.onnx.export(model, tuple(inputs), path)
        theirs = None if double else by_onnxruntime(path, proto, arrays)
        again = clnet.onnx.load(path)
    with clnet.no_grad():
        ours = [y.numpy() for y in leaves(again(*inputs))]
    found = [max(map(difference, ys, wanted)) for ys in (theirs, ours) if ys is not None]
    if not forward:
        rng = np.random.default_rng(1)
        weights = [rng.standard_normal(y.shape).astype(y.dtype) for y in wanted]
        first = gradients(model, inputs, weights)
        second = gradients(again, inputs, weights)
        named = again.initialiser_names
        second = {named[n]: g for n, g in second.items() if named[n] in first}
        read = {t.name for t in proto.graph.initializer}
        lost = (first.keys() & read) - second.keys()
        if lost:
            raise AssertionError(f"no gradient of {sorted(lost)[:3]}")
        least = 0.01 * max(map(largest, first.values()))
        found.append(max(difference(g, first[n], least) for n, g in second.items()))
    return found


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NETWORK")
    parser.add_argument("--part", default="1/1", help="such as 1/2: every second network")
    parser.add_argument("--forward", action="store_true", help="without gradients")
    parser.add_argument("--double", action="store_true", help="in double precision")
    options = parser.parse_args()
    every = cases()
    place, parts = map(int, options.part.split("/"))
    wanted = options.names or [n for i, n in enumerate(every) if i % parts == place - 1]
    bad = 0
    for name in wanted:
        start = time.perf_counter()
        make, draw = every[name]
        try:
            found = trip(make, draw(), forward=options.forward, double=options.double)
            failed = max(found) > _TOLERANCE
            text = " ".join(f"{d:.1e}" for d in found)
        except Exception as error:  # said, counted, and the next one is tried
            failed, text = True, f"{type(error).__name__}: {str(error)[:300]}"
        bad += failed
        seconds = time.perf_counter() - start
        print(f"{'FAIL' if failed else 'ok':4} {name:22} {text}  {seconds:.1f} s", flush=True)
    print(f"{len(wanted) - bad} of {len(wanted)}: outputs and gradients within {_TOLERANCE:g}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
