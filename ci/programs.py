"""Programs written for PyTorch, run with clnet in its place and compared with it.

Models, losses and optimisers of pip packages are imported twice, once with PyTorch and once with
clnet under PyTorch's name. From the same weights and data, outputs, gradients and three steps are
compared. The packages are not clnet's dependencies::

    pip install --no-deps vit-pytorch x-transformers timm segmentation-models-pytorch einops einx \
        torch-einops-utils loguru frozendict tabulate pytorch-ranger
    pip install --no-deps lion-pytorch pytorch-optimizer torch_optimizer adabelief-pytorch \
        schedulefree prodigyopt dadaptation
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

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


@dataclass(frozen=True)
class Program:
    """One thing to run.

    Attributes:
        kind: ``"optimisers"`` or ``"models"``.
        package: the module that is imported.
        name: of the class in it.
        make: gives it, of the library, the package's module and (for optimisers) parameters.
        inputs: shapes and kinds of a model's inputs.
        tolerance: relative to the largest element.
    """

    kind: str
    package: str
    name: str
    make: Callable[..., Any]
    inputs: Callable[[np.random.Generator], list[np.ndarray]] | None = None
    tolerance: float = 1e-4

    @property
    def title(self) -> str:
        """Package and name."""
        return f"{self.package}.{self.name}"


def optimiser(package: str, name: str, *, tolerance: float = 1e-4, **settings: Any) -> Program:
    """A program that is an optimiser, with settings."""

    def make(library: Any, module: Any, parameters: Any) -> Any:
        del library
        return getattr(module, name)(parameters, **settings)

    return Program("optimisers", package, name, make, tolerance=tolerance)


def model(
    package: str, name: str, shape: tuple[int, ...], *, tokens: int = 0, **settings: Any
) -> Program:
    """A program that is a model, with settings; of images, or of tokens below a number."""

    def make(library: Any, module: Any, parameters: Any) -> Any:
        del library, parameters
        return getattr(module, name)(**settings)

    def inputs(rng: np.random.Generator) -> list[np.ndarray]:
        drawn = rng.integers(0, tokens, shape) if tokens else rng.standard_normal(shape)
        return [drawn.astype(np.int64 if tokens else np.float32)]

    title = settings.get("model_name", name)
    return Program("models", package, title, make, inputs, tolerance=2e-3)


def _transformer(kind: str, **settings: Any) -> Program:
    def make(library: Any, module: Any, parameters: Any) -> Any:
        del library, parameters
        layers = getattr(module, kind)(dim=32, depth=2, heads=2, **settings)
        return module.TransformerWrapper(num_tokens=20, max_seq_len=12, attn_layers=layers)

    def inputs(rng: np.random.Generator) -> list[np.ndarray]:
        return [rng.integers(0, 20, (2, 9))]

    return Program("models", "x_transformers", kind, make, inputs, tolerance=2e-3)


_TORCH_OPTIMIZER = (
    *(
        "A2GradExp",
        "A2GradInc",
        "A2GradUni",
        "AccSGD",
        "AdaBelief",
        "AdaBound",
        "AdaMod",
    ),
    *(
        "AdamP",
        "AggMo",
        "Apollo",
        "DiffGrad",
        "LARS",
        "Lamb",
        "MADGRAD",
        "NovoGrad",
        "PID",
        "QHAdam",
    ),
    *("QHM", "RAdam", "Ranger", "RangerQH", "RangerVA", "SGDP", "SGDW", "SWATS", "Yogi"),
)
_PYTORCH_OPTIMIZER = (
    *("A2Grad", "ADOPT", "APOLLO", "AdEMAMix", "AdaBelief", "AdaBound", "AdaDelta", "AdaFactor"),
    *(
        "AdaGC",
        "AdaLOMO",
        "AdaMax",
        "AdaMod",
        "AdaNorm",
        "AdaPNM",
    ),
    *("AdaShift", "AdaSmooth", "AdaTAM", "Adai", "Adalite", "AdamC", "AdamG", "AdamP"),
    *("AdamS", "AdamWSN", "Adan", "AggMo", "Aida", "Ano", "AvaGrad", "BCOS", "CAME", "Conda"),
    *("DAdaptAdaGrad", "DAdaptAdam", "DAdaptAdan", "DAdaptLion", "DAdaptSGD", "DiffGrad", "EXAdam"),
    *("EmoFact", "EmoLynx", "EmoNavi", "FAdam", "FOCUS", "FTRL", "Fromage", "GaLore", "Grams"),
    *("MADGRAD", "MARS", "MSVAG", "Nero", "NovoGrad", "PAdam", "PID", "PNM", "Prodigy"),
    *("QHAdam", "QHM", "RACS", "RAdam", "Ranger", "Ranger21", "SCION", "SCIONLight"),
    *("SGDP", "SGDSaI", "SGDW", "SM3", "SOAP", "SPAM", "SPlus", "SRMM", "SWATS", "ScalableShampoo"),
    *(
        "ScheduleFreeAdamW",
        "ScheduleFreeRAdam",
        "ScheduleFreeSGD",
        "Shampoo",
        "SignSGD",
        "SimplifiedAdEMAMix",
    ),
    *("StableAdamW", "StableSPAM", "TAM", "Tiger", "VSGD", "Yogi"),
)
# Left out: those that draw random numbers (the libraries' differ) or want more than parameters.
_NEEDS = {"Ranger21": {"num_iterations": 10}, "AdaLOMO": None, "LOMO": None}
_FURTHER = (
    ("lion_pytorch", "Lion"),
    ("adabelief_pytorch", "AdaBelief"),
    ("schedulefree", "AdamWScheduleFree"),
    ("schedulefree", "SGDScheduleFree"),
    ("schedulefree", "RAdamScheduleFree"),
    ("prodigyopt", "Prodigy"),
    ("dadaptation", "DAdaptAdam"),
    ("dadaptation", "DAdaptSGD"),
    ("dadaptation", "DAdaptAdaGrad"),
    ("dadaptation", "DAdaptLion"),
    ("dadaptation", "DAdaptAdan"),
)

_VIT = {"image_size": 32, "patch_size": 8, "num_classes": 5, "dim": 32, "depth": 2}
_HEADS = {"heads": 2, "mlp_dim": 48}
_IMAGE = (2, 3, 32, 32)
_MODELS = [
    model("vit_pytorch", "ViT", _IMAGE, **_VIT, **_HEADS),
    model("vit_pytorch", "SimpleViT", _IMAGE, **_VIT, **_HEADS),
    model("vit_pytorch.deepvit", "DeepViT", _IMAGE, **_VIT, **_HEADS),
    model("vit_pytorch.cait", "CaiT", _IMAGE, **_VIT, **_HEADS, cls_depth=1),
    model("vit_pytorch.vit_for_small_dataset", "ViT", _IMAGE, **_VIT, **_HEADS),
    model("vit_pytorch.simple_vit_with_register_tokens", "SimpleViT", _IMAGE, **_VIT, **_HEADS),
    model("vit_pytorch.simple_vit_with_qk_norm", "SimpleViT", _IMAGE, **_VIT, **_HEADS),
    model("vit_pytorch.parallel_vit", "ViT", _IMAGE, **_VIT, **_HEADS),
    model("vit_pytorch.learnable_memory_vit", "ViT", _IMAGE, **_VIT, **_HEADS),
    model(
        *("vit_pytorch.cct", "CCT", _IMAGE),
        img_size=32,
        embedding_dim=32,
        n_conv_layers=1,
        num_layers=2,
        num_heads=2,
        mlp_ratio=2,
        num_classes=5,
        positional_embedding="learnable",
    ),
    model(
        *("vit_pytorch.mobile_vit", "MobileViT", (1, 3, 64, 64)),
        image_size=(64, 64),
        dims=[16, 24, 32],
        num_classes=5,
        channels=[8, 8, 16, 16, 16, 16, 24, 24, 24, 24, 32],
    ),
    _transformer("Decoder"),
    _transformer("Encoder"),
    _transformer("Decoder", rotary_pos_emb=True, ff_glu=True, use_rmsnorm=True),
    model("timm", "create_model", (1, 3, 64, 64), model_name="resnet10t", num_classes=5),
    model("timm", "create_model", (1, 3, 64, 64), model_name="test_vit", num_classes=5),
    model("timm", "create_model", (1, 3, 64, 64), model_name="test_efficientnet", num_classes=5),
    model("timm", "create_model", (1, 3, 64, 64), model_name="test_convnext", num_classes=5),
    model("timm", "create_model", (1, 3, 64, 64), model_name="test_byobnet", num_classes=5),
    model("timm", "create_model", (1, 3, 64, 64), model_name="test_nfnet", num_classes=5),
    model("timm", "create_model", (1, 3, 64, 64), model_name="test_mambaout", num_classes=5),
    model("segmentation_models_pytorch", "Unet", (1, 3, 64, 64), encoder_weights=None),
    model("segmentation_models_pytorch", "FPN", (1, 3, 64, 64), encoder_weights=None),
]
PROGRAMS = [
    *_MODELS,
    *[optimiser(package, name) for package, name in _FURTHER],
    *[optimiser("torch_optimizer", name) for name in _TORCH_OPTIMIZER],
    *[
        optimiser("pytorch_optimizer", name, **(_NEEDS.get(name, {}) or {}))
        for name in _PYTORCH_OPTIMIZER
        if _NEEDS.get(name, {}) is not None
    ],
]
BELOW = {"pytorch_ranger", "einops", "einx", "torch_einops_utils", "torchvision"}
"""Packages that those import, and that import PyTorch themselves."""
PACKAGES = {program.package.split(".")[0] for program in PROGRAMS}


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
    model = program.make(library, module, None)
    if not weights:
        weights.update({n: _host_exact(v) for n, v in model.state_dict().items()})
    model.load_state_dict({n: library.tensor(v) for n, v in weights.items()})
    model.eval()  # dropout differs by its random numbers
    x = [library.tensor(v) for v in program.inputs(np.random.default_rng(0))]
    optimizer = library.optim.SGD(model.parameters(), lr=1e-3)
    found: dict[str, np.ndarray] = {}
    for step in range(STEPS):
        optimizer.zero_grad()
        y = model(*x)
        y = y[0] if isinstance(y, tuple | list) else y
        found[f"output {step}"] = _host(y)
        (y * y).mean().backward()
        if step == 0:
            found |= {
                f"gradient of {n}": _host(p.grad)
                for n, p in model.named_parameters()
                if p.grad is not None
            }
        optimizer.step()
    return found


def _host_exact(x: Any) -> np.ndarray:
    return np.array(x.detach().cpu().numpy())


def steps_of_optimiser(library: Any, program: Program, module: Any) -> dict[str, np.ndarray]:
    """Parameters of a small network after each step of an optimiser."""
    rng = np.random.default_rng(0)
    shapes = {"a": (7, 5), "b": (5,), "c": (5, 3)}
    host = {n: rng.standard_normal(s).astype(np.float32) * 0.5 for n, s in shapes.items()}
    x = library.tensor(rng.standard_normal((11, 7)).astype(np.float32))
    y = library.tensor(rng.standard_normal((11, 3)).astype(np.float32))
    weights = {n: library.nn.Parameter(library.tensor(v)) for n, v in host.items()}
    optimizer = program.make(library, module, list(weights.values()))
    if hasattr(optimizer, "train"):
        optimizer.train()
    found: dict[str, np.ndarray] = {}

    def closure() -> Any:
        optimizer.zero_grad()
        hidden = (x @ weights["a"] + weights["b"]).tanh()
        loss = ((hidden @ weights["c"] - y) ** 2).mean()
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


def main() -> int:
    """Run them all and print what came of it; 1 if one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("only", nargs="*", help="kinds, packages or names")
    parser.add_argument("--trace", action="store_true", help="show tracebacks")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
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
