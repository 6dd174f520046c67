"""Programs written for PyTorch, run with clnet in its place and compared with it.

Models, losses and optimisers of pip packages are imported twice, once with PyTorch and once with
clnet under PyTorch's name. From the same weights and data, outputs, gradients and three steps are
compared. The packages are not clnet's dependencies::

    pip install --no-deps vit-pytorch x-transformers timm segmentation-models-pytorch einops einx \
        torch-einops-utils loguru frozendict tabulate pytorch-ranger
    pip install --no-deps lion-pytorch pytorch-optimizer torch_optimizer adabelief-pytorch \
        schedulefree prodigyopt dadaptation transformers tokenizers peft diffusers accelerate
    python ci/programs.py                  # all that are installed
    python ci/programs.py optimisers       # one kind
    python ci/programs.py Lion --trace     # those of a name, with tracebacks

It prints what runs unchanged and is right, what is wrong, and what does not run, with reasons.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.abc
import importlib.machinery
import sys
import traceback
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ci.program_list import PROGRAMS, Program, model, optimiser  # noqa: E402, F401

STEPS = 3


@contextmanager
def in_torchs_place() -> Iterator[Any]:
    """Put clnet under PyTorch's name; packages imported in the body are imported with it."""
    import clnet  # noqa: PLC0415 - the one of the two that is wanted
    from clnet import torch_compat  # noqa: PLC0415

    hidden = {*PACKAGES, *BELOW, "torch"}
    before = {n: m for n, m in sys.modules.items() if n.split(".")[0] in hidden}
    for name in before:
        del sys.modules[name]
    torch_compat.install()
    try:
        yield clnet
    finally:
        torch_compat.uninstall()
        for name in [n for n in sys.modules if n.split(".")[0] in hidden]:
            del sys.modules[name]
        sys.modules.update(before)


class _Nothing(type):
    """A class that has every attribute: its name, once more."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class _StandIn(types.ModuleType):
    """A package that others import at their top and that these models do not use."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing(name, (), {"__init__": lambda self, *args, **kwargs: None})


class _StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds stand-ins, after all others: for torchvision, whose binaries want their PyTorch."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """A spec for torchvision's names alone."""
        del path, target
        if fullname.split(".")[0] != "torchvision":
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        """An empty one."""
        return _StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""


BELOW = {
    *("pytorch_ranger", "einops", "einx", "torch_einops_utils", "torchvision", "safetensors"),
    *("local_attention", "axial_positional_embedding", "product_key_memory", "accelerate"),
    *("ema_pytorch", "timm", "lightning_utilities", "torch_geometric", "kornia", "monai"),
    *("transformers", "peft", "diffusers", "tokenizers", "sentence_transformers"),
    *("hyper_connections", "x_mlps_pytorch", "rotary_embedding_torch", "huggingface_hub"),
}
"""Packages that those import, and that import PyTorch themselves."""
PACKAGES = {program.package.split(".")[0] for program in PROGRAMS}


def inputs_of(program: Program, rng: Any = None) -> list[np.ndarray]:
    """A program's inputs, floats in the precision it is compared in."""
    assert program.inputs is not None
    drawn = program.inputs(np.random.default_rng(0) if rng is None else rng)
    return [v.astype(np.float64) if program.double and v.dtype.kind == "f" else v for v in drawn]


def steps_of_model(
    library: Any, program: Program, module: Any, weights: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Outputs, gradients and three steps of a model, from the same weights.

    Args:
        library: PyTorch, whose first weights are put into ``weights``, or clnet, which takes them.
        program: the model's.
        module: of its package.
        weights: by name.
    """
    assert program.inputs is not None
    net = program.make(library, module, None)
    net = net.double() if program.double else net
    if not weights:
        weights.update({n: _host_exact(v) for n, v in net.state_dict().items()})
    net.load_state_dict({n: library.tensor(v) for n, v in weights.items()})
    net.eval()  # dropout differs by its random numbers
    x = [library.tensor(v) for v in inputs_of(program)]
    optimizer = library.optim.SGD(net.parameters(), lr=1e-3) if weights else None
    found: dict[str, np.ndarray] = {}
    for step in range(STEPS):
        net.zero_grad()
        y = net(*x)
        y = y.to_tuple() if hasattr(y, "to_tuple") else y
        y = y[0] if isinstance(y, tuple | list) else y
        found[f"output {step}"] = _host(y)
        if not y.requires_grad:  # nothing is learnt
            break
        (y * y).mean().backward()
        if step == 0:
            found |= {
                f"gradient of {n}": _host(p.grad)
                for n, p in net.named_parameters()
                if p.grad is not None
            }
        if optimizer is not None:
            optimizer.step()
    return found


def values_of_loss(
    library: Any, program: Program, module: Any, weights: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """A loss, and its gradients to the floating inputs and its own weights."""
    assert program.inputs is not None
    loss = program.make(library, module, None)
    own = dict(loss.named_parameters()) if hasattr(loss, "named_parameters") else {}
    if not weights:
        weights.update({n: _host_exact(v) for n, v in own.items()})
    with library.no_grad():
        for n, p in own.items():
            p.copy_(library.tensor(weights[n]))
    x = [library.tensor(v) for v in inputs_of(program)]
    x[0].requires_grad_()
    y = loss(*x)
    y.backward()
    found = {"loss": _host(y), "gradient of the input": _host(x[0].grad)}
    return found | {f"gradient of {n}": _host(p.grad) for n, p in own.items()}


def values_of_metric(library: Any, program: Program, module: Any) -> dict[str, np.ndarray]:
    """A metric after each of three batches, and of all."""
    assert program.inputs is not None
    metric, rng = program.make(library, module, None), np.random.default_rng(0)
    found: dict[str, np.ndarray] = {}
    for step in range(STEPS):
        x = [library.tensor(v) for v in program.inputs(rng)]
        if program.package.endswith("classification"):
            x[0] = x[0].softmax(-1)
        found[f"batch {step}"] = _host(metric(*x))
    return found | {"all": _host(metric.compute())}


def _host_exact(x: Any) -> np.ndarray:
    return np.array(x.detach().cpu().numpy())


def steps_of_optimiser(library: Any, program: Program, module: Any) -> dict[str, np.ndarray]:
    """Parameters of a small network after each step of an optimiser."""
    rng = np.random.default_rng(0)
    n, hidden, outputs = program.sizes
    shapes = {"a": (n, hidden), "b": (hidden,), "c": (hidden, outputs)}
    kind = np.float64 if program.double else np.float32
    host = {n: rng.standard_normal(s).astype(kind) * 0.5 for n, s in shapes.items()}
    x = library.tensor(rng.standard_normal((11, n)).astype(kind))
    y = library.tensor(rng.standard_normal((11, outputs)).astype(kind))
    weights = {n: library.nn.Parameter(library.tensor(v)) for n, v in host.items()}
    optimizer = program.make(library, module, list(weights.values()))
    if hasattr(optimizer, "train"):
        optimizer.train()
    found: dict[str, np.ndarray] = {}

    def closure() -> Any:
        optimizer.zero_grad()
        between = (x @ weights["a"] + weights["b"]).tanh()
        loss = ((between @ weights["c"] - y) ** 2).mean()
        loss.backward()
        return loss

    for step in range(STEPS):
        loss = closure()
        optimizer.step()
        found[f"loss {step}"] = np.array(loss.item())
        found |= {f"{n} after step {step + 1}": _host(w) for n, w in weights.items()}
    return found


def _host(x: Any) -> np.ndarray:
    return np.array(x.detach().cpu().numpy(), dtype=np.float64)


def run(
    library: Any, program: Program, weights: dict[str, np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """What a program computes with a library; ``weights`` as :func:`steps_of_model` takes them."""
    library.manual_seed(0)
    module = importlib.import_module(program.package)
    if program.kind == "models":
        return steps_of_model(library, program, module, {} if weights is None else weights)
    if program.kind == "losses":
        return values_of_loss(library, program, module, {} if weights is None else weights)
    if program.kind == "metrics":
        return values_of_metric(library, program, module)
    return steps_of_optimiser(library, program, module)


def difference(
    got: dict[str, np.ndarray], expected: dict[str, np.ndarray], tolerance: float
) -> str:
    """What differs first, or nothing."""
    for name, reference in expected.items():
        if name not in got:
            return f"{name}: there is none"
        if got[name].shape != reference.shape:
            return f"{name}: shape {got[name].shape}, not {reference.shape}"
        scale = max(np.abs(reference).max(initial=0), 1e-6)
        error = np.abs(got[name] - reference).max(initial=0) / scale
        if not error <= tolerance:
            return f"{name}: differs by {error:.1e} of the largest"
    return ""


def outcome(program: Program, *, trace: bool) -> tuple[str, str]:
    """``right``, ``wrong``, ``fails`` or ``absent``, and why."""
    torch = importlib.import_module("torch")
    weights: dict[str, np.ndarray] = {}
    try:
        expected = run(torch, program, weights)
    except ImportError as error:
        return "absent", str(error)
    except Exception as error:  # PyTorch's own version does not run: nothing to compare with
        return "absent", f"with PyTorch: {type(error).__name__}: {error}"
    try:
        with in_torchs_place() as clnet:
            got = run(clnet, program, weights)
    except Exception as error:  # whatever the package meets is the finding
        if trace:
            traceback.print_exc()
        return "fails", f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    found = difference(got, expected, program.tolerance)
    return ("wrong", found) if found else ("right", "")


def _name_operators() -> None:
    """Name torchvision's operators, where its binaries do not fit this PyTorch: it is imported."""
    torch = importlib.import_module("torch")
    try:
        importlib.import_module("torchvision")
    except ModuleNotFoundError:
        return
    except RuntimeError:
        boxes = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", boxes)
        for name in [n for n in sys.modules if n.partition(".")[0] == "torchvision"]:
            del sys.modules[name]


def main() -> int:
    """Run them all and print what came of it; 1 if one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("only", nargs="*", help="kinds, packages or names")
    parser.add_argument("--trace", action="store_true", help="show tracebacks")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    _name_operators()
    sys.meta_path.append(_StandIns())
    counts = dict.fromkeys(("right", "wrong", "fails", "absent"), 0)
    for program in PROGRAMS:
        if options.only and not {program.kind, program.package, program.name} & set(options.only):
            continue
        verdict, why = outcome(program, trace=options.trace)
        counts[verdict] += 1
        print(f"{verdict:7} {program.title}{': ' if why else ''}{why}", flush=True)
    ran = sum(counts.values()) - counts["absent"]
    share = counts["right"] / max(ran, 1)
    print(f"{counts['right']} of {ran} run unchanged and are right ({share:.0%}); {counts}")
    return min(counts["wrong"], 1)


if __name__ == "__main__":
    sys.exit(main())
