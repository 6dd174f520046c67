"""``clnet run``: a model of ONNX on inputs from files, its outputs to a file or to the screen."""

from __future__ import annotations

import argparse
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from .. import onnx
from ..autograd import no_grad
from ..compile import compile as compiled
from ..creation import as_tensor
from ..device import device
from ..errors import ArgumentError, shortened
from ..values import mode

_SHOWN = 8  # elements of an output that is no row of scores


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Put the command into the parser.

    Args:
        commands: where sub-commands are added.
        shared: options of all commands.
    """
    parser = commands.add_parser(
        "run",
        parents=[shared],
        help="run a model of ONNX on inputs from files",
        description="Run a model of ONNX. Inputs are .npy files in the graph's order, NAME=FILE, "
        "or the arrays of an .npz file by name. Without --output, scores of a row are printed with "
        "the best first, of other outputs shape and first elements.",
    )
    parser.add_argument("path", type=Path, metavar="MODEL", help="the model's file")
    parser.add_argument("inputs", nargs="*", metavar="[NAME=]FILE", help="an .npy or .npz file")
    parser.add_argument("--output", type=Path, metavar="FILE", help="an .npz file to write")
    parser.add_argument("--labels", type=Path, metavar="FILE", help="names of classes, one a line")
    parser.add_argument("--top", type=int, default=5, metavar="N", help="scores that are printed")
    parser.add_argument(
        "--draw", action="store_true", help="draw what no file gives, to see what a call costs"
    )
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="NAME=N",
        help="with --draw: of an axis that the model leaves open",
    )
    parser.add_argument("--compile", action="store_true", help="as one plan, as clnet.compile does")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="calls, for a profile")
    parser.add_argument("--device", help="see: clnet devices")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read, run, and write or print."""
    labels = _labels(arguments.labels)
    if arguments.top < 1:
        raise ArgumentError("run", "top is 1 or more", top=arguments.top)
    if arguments.repeat < 1:
        raise ArgumentError("run", "repeat is 1 or more", repeat=arguments.repeat)
    if arguments.output is not None and arguments.output.suffix != ".npz":
        law = "outputs are written to an .npz file, by name"
        raise ArgumentError("run", law, **{"--output": arguments.output})
    with mode.using(device=device(arguments.device)), no_grad():
        model = onnx.load(arguments.path)
        given = _inputs(arguments.inputs, model.input_names)
        if arguments.draw:
            given = {**onnx.drawn(model, onnx.read_sizes(arguments.size)), **given}
        plan = compiled(model) if arguments.compile else None
        for _ in range(arguments.repeat - 1):
            _called(model, plan, given)
        made = _called(model, plan, given)
    if arguments.output is not None:
        _write(arguments.output, made)
        print(f"{arguments.output}: {', '.join(made)}")
        return 0
    for name, value in made.items():
        for line in _lines(name, value, arguments.top, labels):
            print(line)
    return 0


def _called(model: Any, plan: Any, given: dict[str, np.ndarray]) -> dict[str, Any]:
    """The outputs by name."""
    if plan is None:
        return dict(zip(model.output_names, model.numpy(**given), strict=True))
    tensors = {name: as_tensor(array) for name, array in given.items()}
    made = plan(**tensors)
    made = made if isinstance(made, tuple) else (made,)
    return {n: y.numpy() for n, y in zip(model.output_names, made, strict=True)}


def _inputs(texts: list[str], names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Arrays by name.

    Raises:
        ArgumentError: if a file cannot be read, or there are more of them than inputs.
    """
    found: dict[str, np.ndarray] = {}
    for text in texts:
        name, separator, rest = text.partition("=")
        file = Path(rest if separator else text)
        try:
            held: Any = np.load(file, allow_pickle=False)
            arrays = None if isinstance(held, np.ndarray) else dict(held)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise ArgumentError(
                "run", f"an input is an array in a file ({shortened(error)})", file=file
            ) from error
        if arrays is not None:
            _once({*found} & {*arrays}, file)
            found.update(arrays)
            continue
        if not separator:
            free = [n for n in names if n not in found]
            if not free:
                raise ArgumentError("run", "the model has no input left", file=file)
            name = free[0]
        _once({*found} & {name}, file)
        found[name] = held
    return found


def _once(names: set[str], file: Path) -> None:
    """Refuse inputs that an earlier file gave: which of the two is meant, nobody knows."""
    if names:
        law = "an input is given once"
        raise ArgumentError("run", law, twice=", ".join(sorted(names)), file=file)


def _labels(path: Path | None) -> list[str]:
    if path is None:
        return []
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError("run", "labels are a file of text", file=path) from error


def _write(path: Path, made: dict[str, Any]) -> None:
    """All outputs in one file; types that NumPy has not are written as float32."""
    arrays: dict[str, np.ndarray] = {}
    for name, value in made.items():
        if not isinstance(value, np.ndarray) or value.dtype.kind == "O":
            raise ArgumentError("run", "arrays of numbers are written", output=name)
        own = value.dtype.kind in "biufc"
        arrays[name] = value if own else value.astype(np.float32)
    try:
        with zipfile.ZipFile(path, "w") as file:  # np.savez takes no array called "file"
            for name, array in arrays.items():
                with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
    except OSError as error:
        raise ArgumentError("run", "the file can be written", file=path) from error


def _lines(name: str, value: Any, top: int, labels: list[str]) -> list[str]:
    """An output in words: the best scores of each row, or its first elements."""
    if not isinstance(value, np.ndarray):
        return [f"{name}: {value}"]
    head = f"{name}: {value.dtype} {value.shape}"
    if value.ndim != 2 or value.shape[1] < 2 or value.dtype.kind != "f":
        first = ", ".join(str(v) for v in value.reshape(-1)[:_SHOWN])
        return [head, f"  {first}{' ...' if value.size > _SHOWN else ''}"]
    lines = [head]
    for i, row in enumerate(value):
        for place in np.argsort(-row, kind="stable")[:top]:
            label = labels[place] if place < len(labels) else f"class {place}"
            lines.append(f"  {i}  {row[place]:10.5f}  {label}")
    return lines
