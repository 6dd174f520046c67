#!/usr/bin/env python3
"""Write ``docs/ops.md``: every public op, what it takes, how often it can be differentiated.

    python ci/ops_page.py [--check]

Everything but the notes is found out: each op is traced (nothing runs) on the inputs of its test
cases in every dtype, and differentiated three times; kernels are those its functions name.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import clnet
from ci.ops_notes import CORNERS, INTRODUCTION, NOTES
from clnet.autograd import grad
from clnet.compile.tracer import Step, Tracer
from clnet.errors import ClnetError, TraceError
from clnet.ops import PUBLIC_OPS, Face
from clnet.ops.machinery.function import Function
from clnet.values import mode
from clnet.values.dtypes import ALL, DType, Kind
from tests.opcase import OpCase, normal

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "ops.md"
MAX_WIDTH = 120  # columns of the page
TIMES = 3  # a gradient that can be taken three times is taken as one that always can
X = normal(4, 3, 5)
# Ops that draw numbers, make memory or convert have no case; these are called with one tensor.
CALLED = """
alpha_dropout bfloat16 bool byte char double dropout1d dropout2d empty_like feature_alpha_dropout
gumbel_softmax half int long short
"""
CALLS: dict[str, Callable[..., Any]] = {
    "dropout3d": lambda x: call("dropout3d", x.unsqueeze(0)),
    "float": lambda x: x.half().float(),
    "multinomial": lambda x: x[0].multinomial(2),
    "new_empty": lambda x: x.new_empty((2, 3)),
    "type_as": lambda x: x.type_as(x.half()),
    **{name: lambda x, name=name: call(name, x) for name in CALLED.split()},
}
KINDS = {
    "all": set(ALL),
    "floating": {d for d in ALL if d.kind is Kind.FLOATING},
    "floating, complex": {d for d in ALL if d.differentiable},
    "float32, float64, complex": {d for d in ALL if d.differentiable and d.real.itemsize >= 4},
    "complex": {d for d in ALL if d.is_complex},
    "real": {d for d in ALL if not d.is_complex},
    "real but bool": {d for d in ALL if d.kind not in (Kind.BOOL, Kind.COMPLEX)},
    "whole numbers, bool": {d for d in ALL if d.kind < Kind.FLOATING},
    "whole numbers": {d for d in ALL if d.kind is Kind.INTEGER},
    "all but bool": {d for d in ALL if d.kind is not Kind.BOOL},
    "all but uint8": {d for d in ALL if d.name != "uint8"},
}
PLACES = {
    Face.FUNCTION: "`clnet`",
    Face.METHOD: "`Tensor`",
    Face.FUNCTIONAL: "`F`",
    Face.LINALG: "`linalg`",
}


def call(name: str, x: Any) -> Any:
    """An op of one argument, as in training where there is a choice."""
    function = inspect.unwrap(PUBLIC_OPS[name][0])
    trains = "training" in inspect.signature(function).parameters
    return function(x, training=True) if trains else function(x)


def cases() -> dict[str, list[OpCase]]:
    """The test cases of every op."""
    found: dict[str, list[OpCase]] = defaultdict(list)
    for path in sorted((ROOT / "tests" / "ops").glob("test_*.py")):
        module = importlib.import_module(f"tests.ops.{path.stem}")
        for case in getattr(module, "CASES", []):
            found[case.op].append(case)
    for name, fn in CALLS.items():
        if name not in found:
            found[name].append(OpCase(fn, fn, [X], name=name))
    return found


# Tracing.


def inputs(case: OpCase, dtype: DType) -> list[clnet.Tensor]:
    """A case's inputs: those that are floating in a dtype, else those that hold numbers."""
    rng = np.random.default_rng(0)
    drawn = [np.asarray(draw.sample(rng, draw.shape)) for draw in case.inputs]
    floating = any(host.dtype.kind == "f" for host in drawn)
    with np.errstate(all="ignore"):  # values do not matter
        return [
            clnet.tensor(
                host.astype(dtype.numpy) if host.dtype.kind == "f" or not floating else host
            )
            for host in drawn
        ]


def results(case: OpCase, tensors: list[clnet.Tensor]) -> list[Any]:
    """What a case gives."""
    found = case.fn(*tensors)
    return list(found) if isinstance(found, tuple | list) else [found]


def functions(case: OpCase, dtype: DType) -> list[Function]:
    """What a case applies; where it reads values on the host, up to there."""
    tracer, tensors = Tracer(), inputs(case, dtype)
    with mode.using(tracer=tracer), suppress(TraceError):
        results(case, tensors)
    return [step.function for step in tracer.steps if isinstance(step, Step)]


def taken(case: OpCase, among: Iterable[DType]) -> set[DType]:
    """The dtypes a case runs in, of some."""
    found: set[DType] = set()
    for dtype in among:
        try:
            functions(case, dtype)
        except ClnetError:
            continue
        found.add(dtype)
    return found


def order(case: OpCase, dtype: DType) -> str:
    """How often a case can be differentiated: 0, 1, 2 or any number of times."""
    tensors = inputs(case, dtype)
    leaves = [t.requires_grad_() for t in tensors if t.dtype.is_floating_point]
    times = 0
    with mode.using(tracer=Tracer()):
        try:
            outputs = results(case, tensors)
            while times < TIMES:
                roots = [y for y in outputs if isinstance(y, clnet.Tensor) and y.requires_grad]
                if not roots or not leaves:
                    return str(times)
                weights = [clnet.ones_like(y.detach()).requires_grad_() for y in roots]
                found = grad(roots, leaves, weights, create_graph=True, allow_unused=True)
                outputs = [g for g in found if g is not None]
                leaves += weights  # a linear op's gradient depends on them alone
                times += 1
        except TraceError:
            return "any" if case.grad else "0"
        except (NotImplementedError, ClnetError):
            return str(times)
    return "any"


def most(own: Iterable[OpCase], dtype: DType) -> str:
    """How often the one of some cases that can be differentiated most often can be."""
    found = ""
    for case in own:
        found = max(found, order(case, dtype))  # "any" comes after all digits
        if found == "any":
            break
    return found


# Which kernels a function launches: the rooms of the names its code mentions, and of what those do.


def kernels(function: Function) -> set[str]:
    """The rooms of kernels of a function, by the names in its ``lower`` and in its settings."""
    found = {_family(value) for value in vars(function).values() if callable(value)}
    for value in vars(function).values():
        if isinstance(value, Function):  # which lowers that
            found |= kernels(value)
    return (found | set(_mentioned(type(function).lower, set()))) - {""}


def _family(value: Any) -> str:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return name.split(".")[2] if name and name.startswith("clnet.kernels.") else ""


def _mentioned(function: Any, seen: set[CodeType]) -> Iterator[str]:
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None or code in seen:
        return
    seen.add(code)
    for name in _names(code):
        value = function.__globals__.get(name)
        if _family(value) and not isinstance(value, type):
            yield _family(value)
        elif inspect.isfunction(value) and inspect.unwrap(value).__module__.startswith(
            "clnet.ops."
        ):
            yield from _mentioned(value, seen)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


# The page.


def row(name: str, own: list[OpCase]) -> str:
    """The line of an op."""
    usual_dtypes = {clnet.float32, clnet.int64}
    accepted: dict[int, set[DType]] = {}
    dtypes: set[DType] = set()
    for case in own:  # what one case takes is not asked of the others
        among = [d for d in ALL if d in usual_dtypes or d not in dtypes]
        accepted[id(case)] = taken(case, among)
        dtypes |= accepted[id(case)]
    real = clnet.float32 if clnet.float32 in dtypes else clnet.int64
    usual = [case for case in own if real in accepted[id(case)]]
    cells = [
        f"`{name}`",
        ", ".join(text for face, text in PLACES.items() if face in PUBLIC_OPS[name][1]),
        words(dtypes),
        most(usual, real),
        ", ".join(sorted(set[str]().union(*map(kernels, functions(usual[0], real))))) or "none",
        NOTES.get(name, ""),
    ]
    return "| " + " | ".join(cells) + " |"


def words(dtypes: set[DType]) -> str:
    """A set of dtypes in a few words."""
    for text, group in KINDS.items():
        if group == dtypes:
            return text
    return ", ".join(d.name for d in ALL if d in dtypes)


def build() -> str:
    """The page's text."""
    known = cases()
    families: dict[str, list[str]] = defaultdict(list)
    for name, (function, _) in PUBLIC_OPS.items():
        if name in known:
            families[inspect.unwrap(function).__module__].append(name)
    lines = [INTRODUCTION.strip(), ""]
    for module in sorted(families):
        title = str(importlib.import_module(module).__doc__).splitlines()[0]
        lines += [f"## {title.rstrip('.')}", ""]
        lines += ["| op | found in | dtypes | gradients | kernels | what differs |"]
        lines += ["| --- | --- | --- | --- | --- | --- |"]
        lines += [row(name, known[name]) for name in sorted(families[module])]
        lines += [""]
    others = sorted(n for n in PUBLIC_OPS if n not in known)
    twins = [name for name in others if name.endswith("_")]
    names = [name for name in others if not name.endswith("_")]
    lines += ["## In place", "", *listed("Methods that overwrite their tensor", twins), ""]
    lines += ["## Beside these", ""]
    lines += listed("Second names, and ops whose tests are no such cases", names)
    lines += ["", "## Corners that PyTorch answers otherwise", ""]
    lines += ["By their names in `tests/cornercases.py`; all others of that file agree.", ""]
    lines += [entry(f"`{name}`: {reason}") for name, reason in CORNERS.items()]
    return "\n".join(lines) + "\n"


def listed(title: str, names: list[str]) -> list[str]:
    """Lines that name ops."""
    text = f"{title}: " + ", ".join(f"`{name}`" for name in names) + "."
    return textwrap.wrap(text, MAX_WIDTH, break_long_words=False, break_on_hyphens=False)


def entry(text: str) -> str:
    """An entry of a list, in lines of the page's width."""
    return textwrap.fill(
        f"- {text}",
        MAX_WIDTH,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def main() -> int:
    """Write the page; with ``--check`` only compare, and give 1 if it is not up to date."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    check = parser.parse_args().check
    text = build()
    if check:
        return int(PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
