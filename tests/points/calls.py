"""Which calls are swept: one for each op found in the registry, and those with settings below.

An op that is pointwise (all its cases trace to pointwise functions), an activation or a loss is
found by itself and called with as many operands as its cases have. ``WRITTEN`` replaces that where
an op has settings, operands that cannot be just any number, or no such name in PyTorch.
"""

from __future__ import annotations

import importlib
import inspect
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from clnet.compile.tracer import Step, Tracer
from clnet.errors import ClnetError
from clnet.ops import PUBLIC_OPS, Face
from clnet.ops.machinery.derived import Derived
from clnet.ops.machinery.pointwise import Pointwise
from clnet.ops.special_functions import Special
from clnet.tensor import tensor
from clnet.values import mode
from clnet.values.dtypes import float32, int64
from tests.opcase import OpCase
from tests.points.sweep import DEFAULTS, Point

FAMILIES = ("activation", "loss", "likelihood_loss", "margin_loss", "distance", "softmax")
"""Modules of ``clnet.ops`` whose ops are all swept, whatever they are made of."""

WHOLE = "whole numbers have no special points; tests/ops compares every kind of value"
CONVERTS = "a conversion; tests/ops/test_convert.py goes through all pairs of dtypes"
UNSWEPT = {
    **dict.fromkeys(
        "bitwise_not bitwise_and bitwise_or bitwise_xor bitwise_left_shift "
        "bitwise_right_shift".split(),
        WHOLE,
    ),
    **dict.fromkeys("gcd lcm".split(), WHOLE),
    **dict.fromkeys("bool byte char short int long type_as".split(), CONVERTS),
    "ctc_loss": "an algorithm over a lattice; tests/ops/test_ctc.py has impossible and empty ones",
    "linear_cross_entropy": "a linear function and cross_entropy, each of which is in it",
    "triplet_margin_with_distance_loss": "its distance is the caller's; otherwise as "
    "triplet_margin_loss",
}
"""Ops that belong to the sweep and cannot be in it, with the reason."""

_KINKED = {
    "leaky_relu": ["F.leaky_relu(a)", "F.leaky_relu(a, 0.2)", "F.leaky_relu(a, -0.5)"],
    "elu": ["F.elu(a)", "F.elu(a, 0.5)", "F.elu(a, 0.0)"],
    "celu": ["F.celu(a)", "F.celu(a, 0.5)"],
    "softplus": ["F.softplus(a)", "F.softplus(a, 2.0, 5.0)", "F.softplus(a, 0.5, -1.0)"],
    "gelu": ["F.gelu(a)", "F.gelu(a, approximate='tanh')"],
    "hardtanh": ["F.hardtanh(a)", "F.hardtanh(a, -0.5, 2.0)"],
    "hardshrink": ["F.hardshrink(a)", "F.hardshrink(a, 2.0)", "F.hardshrink(a, 0.0)"],
    "softshrink": ["F.softshrink(a)", "F.softshrink(a, 2.0)", "F.softshrink(a, 0.0)"],
    "threshold": ["F.threshold(a, 0.5, 2.0)", "F.threshold(a, 0.0, -0.0)"],
    "rrelu": ["F.rrelu(a)", "F.rrelu(a, 0.5, 0.5)"],
    "logit": ["m.logit(a)", "m.logit(a, 0.25)"],
    "mvlgamma": ["m.mvlgamma(a, 3)"],
    "polygamma": ["m.polygamma(0, a)", "m.polygamma(1, a)", "m.polygamma(2, a)"],
    "round": ["m.round(a)", "m.round(a, decimals=1)", "m.round(a, decimals=-1)"],
    "nan_to_num": ["m.nan_to_num(a)", "m.nan_to_num(a, 1.0, 2.0, -2.0)"],
    "clamp": [
        *("m.clamp(a, -0.5, 0.5)", "m.clamp(a, min=0)", "m.clamp(a, max=1)", "m.clamp(a, 1, -1)"),
        "m.clamp(a, 0, float('inf'))",
    ],
    "clamp_min": ["m.clamp_min(a, 0.5)"],
    "clamp_max": ["m.clamp_max(a, 0.5)"],
    "pow": [
        *(f"m.pow(a, {n})" for n in (-3, -2, -1, -0.5, 0, 0.5, 1, 1.5, 2, 2.5, 3, 4)),
        *("m.pow(0, a)", "m.pow(2, a)", "m.pow(-1.5, a)", "a ** 2", "2.0 ** a"),
    ],
    "rsub": ["m.rsub(a, 1)"],
    "isclose": [],
    "div": ["1 / a", "a / 0.0"],
    "prelu": [],
    "softmin": [],
    "glu": [],
    "signbit": ["m.signbit(a)"],
    "half": ["a.half()"],
    "bfloat16": ["a.bfloat16()"],
    "float": ["a.float()"],
    "double": ["a.double()"],
}
_ORDERS = {
    "hardsigmoid": 1,
    "multi_margin_loss": 1,
    "multilabel_margin_loss": 1,
    "floor_divide": 0,
    "heaviside": 0,
}
"""How often PyTorch differentiates, where that is less than twice."""
_PAIRS = {
    "add": ["m.add(a, b)", "m.add(a, b, alpha=2)"],
    "sub": ["m.sub(a, b)", "m.sub(a, b, alpha=2)"],
    "div": [
        *("m.div(a, b)", "m.div(a, b, rounding_mode='floor')"),
        "m.div(a, b, rounding_mode='trunc')",
    ],
    "pow": ["m.pow(a, b)"],
    "where": [
        "m.where(a > 0, a, b)",
        "m.where(a > 0, a / a, b / b)",
        "m.where(a != 0, a.log(), b)",
    ],
    "masked_fill": ["m.masked_fill(a * b, b > 0, 2.0)"],
    "isclose": ["m.isclose(a, b)", "m.isclose(a, b, equal_nan=True)"],
    "prelu": ["m.prelu(a[:, None], b[:1]).flatten()"],
    "glu": ["F.glu(m.stack((a, b), 1), 1).flatten()"],
    "rsub": ["m.rsub(a, b)", "m.rsub(a, b, alpha=2)"],
    "clamp_min": ["m.clamp_min(a, b)"],
    "clamp_max": ["m.clamp_max(a, b)"],
    "lerp": ["m.lerp(a, b, 0.25)", "m.lerp(a, b, 0.5)", "m.lerp(a, b, 1.0)"],
}
_TRIPLES = {
    "clamp": ["m.clamp(a, b, c)"],
    "lerp": ["m.lerp(a, b, c)"],
    "addcmul": ["m.addcmul(a, b, c)", "m.addcmul(a, b, c, value=0.5)"],
    "addcdiv": ["m.addcdiv(a, b, c)", "m.addcdiv(a, b, c, value=0.5)"],
    "where": ["m.where(c > 0, a, b)"],
}
# Losses: reduction, operands' points, how many of them take no gradient.
_LOSSES: dict[str, list[tuple[str, tuple[str, ...], int]]] = {
    "mse_loss": [("a, b", ("pair", "pair"), 0)],
    "l1_loss": [("a, b", ("pair", "pair"), 0)],
    "smooth_l1_loss": [
        ("a, b", ("pair", "pair"), 0),
        ("a, b, beta=0.5", ("pair", "triple"), 0),
        ("a, b, beta=0", ("pair", "triple"), 0),
    ],
    "huber_loss": [
        ("a, b", ("pair", "pair"), 0),
        ("a, b, delta=0.5", ("pair", "triple"), 0),
    ],
    "binary_cross_entropy": [
        ("a, b", ("unit", "target"), 0),
        ("a, b, weight=c", ("unit", "target", "weight"), 1),
    ],
    "binary_cross_entropy_with_logits": [
        ("a, b", ("all", "target"), 0),
        ("a, b, weight=c", ("all", "target", "weight"), 1),
        ("a, b, pos_weight=c", ("all", "target", "weight"), 1),
    ],
    "kl_div": [
        ("a, b", ("pair", "pair"), 0),
        ("a, b, log_target=True", ("pair", "pair"), 0),
    ],
    "poisson_nll_loss": [
        ("a, b", ("pair", "count"), 0),
        ("a, b, full=True", ("pair", "count"), 1),
        ("a, b, log_input=False", ("pair", "count"), 0),
    ],
    "gaussian_nll_loss": [
        ("a, b, c", ("few", "few", "weight"), 0),
        ("a, b, c, full=True", ("few", "few", "weight"), 0),
    ],
    "hinge_embedding_loss": [
        ("a, b", ("all", "label"), 1),
        ("a, b, margin=0.5", ("all", "label"), 1),
    ],
    "margin_ranking_loss": [
        ("a, b, c", ("triple", "triple", "label"), 1),
        ("a, b, c, margin=0.5", ("triple", "triple", "label"), 1),
    ],
    "soft_margin_loss": [("a, b", ("all", "label"), 1)],
}


def _kinks(text: str) -> tuple[float, ...]:
    """The numbers that a call's text mentions, for these may be kinks."""
    found: list[float] = []
    for word in text.replace("(", " ").replace(")", " ").replace(",", " ").split():
        with suppress(ValueError):
            found.append(float(word))
    return (*found, *(-x for x in found))


def written() -> dict[str, list[Point]]:
    """The calls that are written out."""
    found: dict[str, list[Point]] = defaultdict(list)
    for count, table in enumerate((_KINKED, _PAIRS, _TRIPLES), 1):
        for op, texts in table.items():
            kinks = _kinks if count == 1 else lambda _: ()
            found[op] += [Point(op, t, DEFAULTS[count], kinks=kinks(t)) for t in texts]
    for op, calls in _LOSSES.items():
        for text, operands, fixed in calls:
            call = f"F.{op}({text}, reduction='none').flatten()"
            found[op].append(Point(op, call, operands, fixed))
    for point in (*ROWS, *_SPECIAL):
        found[point.op].append(point)
    return found


def _row(op: str, text: str, *operands: str, fixed: int = 0, orders: int = 2) -> Point:
    return Point(op, text, operands, fixed, orders=orders)


# Ops over an axis, on rows of two or three points; what differs by rounding alone has points that
# are exact.
_PAIR, _OTHER, _TRIPLE = "m.stack((a, b), 1)", "m.stack((b, c), 1)", "m.stack((a, b, c), 1)"
ROWS = [
    _row("softmax", f"F.softmax({_PAIR}, 1).flatten()", "triple", "triple"),
    _row("log_softmax", f"F.log_softmax({_PAIR}, 1).flatten()", "triple", "triple"),
    _row("softmin", f"F.softmin({_PAIR}, 1).flatten()", "triple", "triple"),
    _row("logsumexp", f"m.logsumexp({_PAIR}, 1)", "triple", "triple"),
    _row("prod", f"m.prod({_TRIPLE}, 1)", "few", "few", "few"),
    _row("cumprod", f"m.cumprod({_TRIPLE}, 1).flatten()", "tame", "tame", "tame"),
    _row("amax", f"m.amax({_PAIR}, 1)", "triple", "triple"),
    _row("amin", f"m.amin({_PAIR}, 1)", "triple", "triple"),
    _row("max", f"m.max({_PAIR}, 1)[0]", "triple", "triple"),
    _row("min", f"m.min({_PAIR}, 1)[0]", "triple", "triple"),
    _row("max", "m.max(a, b)", "pair", "pair"),
    _row("min", "m.min(a, b)", "pair", "pair"),
    _row("std", f"m.std({_PAIR}, 1)", "few", "few"),
    _row("var", f"m.var({_PAIR}, 1)", "few", "few"),
    *(
        _row("norm", f"m.norm({_PAIR}, {p}, 1)", "few", "few")
        for p in (0, 0.5, 1, 2, 3, "float('inf')", -1)
    ),
    _row("dist", "m.dist(a[:1], b[:1])[None]", "few", "few"),
    _row("cosine_similarity", f"F.cosine_similarity({_PAIR}, m.ones(2))", "few", "few"),
    _row("cosine_similarity", f"F.cosine_similarity({_PAIR}, {_OTHER})", "few", "few", "few"),
    _row("normalize", f"F.normalize({_PAIR}).flatten()", "few", "few"),
    _row("normalize", f"F.normalize({_PAIR}, 1.0).flatten()", "few", "few"),
    _row("pairwise_distance", f"F.pairwise_distance({_PAIR}, {_OTHER})", "few", "few", "few"),
    _row("cdist", f"m.cdist({_PAIR}[:, None], {_OTHER}[:, None]).flatten()",
         "few", "few", "few", orders=1),
    _row("pdist", "F.pdist(m.stack((a[:3], b[:3]), 1))", "tame", "tame", orders=1),
    _row("nll_loss", f"F.nll_loss({_PAIR}, (c > 0).long(), reduction='none')",
         "triple", "triple", "label", fixed=1),
    _row("nll_loss", f"F.nll_loss({_PAIR}, (c > 0).long(), ignore_index=0)[None]",
         "tame", "tame", "label", fixed=1),
    _row("cross_entropy", f"F.cross_entropy({_PAIR}, (c > 0).long(), reduction='none')",
         "triple", "triple", "label", fixed=1),
    _row("cross_entropy", f"F.cross_entropy({_PAIR}, m.stack((c, 1 - c), 1), reduction='none')",
         "triple", "triple", "target", fixed=1),
    _row("cross_entropy", f"F.cross_entropy({_PAIR}, (c > 0).long(), label_smoothing=0.25, "
         "reduction='none')", "triple", "triple", "label", fixed=1),
    _row("multi_margin_loss", f"F.multi_margin_loss({_PAIR}, (c > 0).long(), reduction='none')",
         "triple", "triple", "label", fixed=1),
    _row("multi_margin_loss", f"F.multi_margin_loss({_PAIR}, (c > 0).long(), 2, reduction='none')",
         "triple", "triple", "label", fixed=1),
    _row("multilabel_margin_loss", f"F.multilabel_margin_loss({_PAIR}, "
         "m.stack((c.long(), c.long() - 1), 1), reduction='none')",
         "triple", "triple", "target", fixed=1),
    _row("triplet_margin_loss", f"F.triplet_margin_loss({_PAIR}, {_OTHER}, {_PAIR} * 2, "
         "reduction='none')", "few", "few", "few"),
    _row("cosine_embedding_loss", f"F.cosine_embedding_loss({_PAIR}, "
         "m.stack((b, b * 0 + 2), 1), c, reduction='none')", "few", "few", "label", fixed=1),
    _row("multilabel_soft_margin_loss", f"F.multilabel_soft_margin_loss({_PAIR}, "
         "m.stack((c, 1 - c), 1), reduction='none')", "triple", "triple", "target", fixed=1),
]  # fmt: skip


_OF_WIDE_FLOATS = {"i0", "igamma", "igammac", "nextafter", "frexp"}
_FIRST = ("igamma", "igammac", "special.zeta")  # PyTorch has no gradient to their first operand
_SPECIAL = [
    *(_row(op, f"m.{op}(a, b)", "all", "degree", orders=0) for op in PUBLIC_OPS if "_poly" in op),
    *(_row(op, f"m.{op}(a, b)", "pair", "pair", orders=0) for op in _FIRST),
    *(_row(op, f"m.{op}(a.detach(), b)", "few", "tame", orders=1) for op in _FIRST),
    *(Point("frexp", f"m.frexp(a)[{k}]", ("all",), orders=1, sixteen_bit=False) for k in (0, 1)),
]


@cache
def cases() -> dict[str, list[OpCase]]:
    """The test cases of every op."""
    found: dict[str, list[OpCase]] = defaultdict(list)
    folder = Path(__file__).parents[1] / "ops"
    for path in sorted(folder.glob("test_*.py")):
        module = importlib.import_module(f"tests.ops.{path.stem}")
        for case in getattr(module, "CASES", []):
            found[case.op].append(case)
    return found


def _functions(case: OpCase) -> set[type]:
    for dtype in (float32, int64):
        tracer = Tracer()
        try:
            tensors = inputs(case, dtype)
            with mode.using(tracer=tracer):
                case.fn(*tensors)
        except ClnetError:
            continue
        return {type(s.function) for s in tracer.steps if isinstance(s, Step)}
    return set()


def inputs(case: OpCase, dtype: Any) -> list[Any]:
    """A case's inputs."""
    rng = np.random.default_rng(0)
    drawn = [np.asarray(d.sample(rng, d.shape)) for d in case.inputs]
    return [tensor(h.astype(dtype.numpy) if h.dtype.kind == "f" else h) for h in drawn]


@cache
def belonging() -> dict[str, int]:
    """Every op that the sweep is for, and how many operands its first case has."""
    found: dict[str, int] = {}
    for op, own in cases().items():
        family = inspect.unwrap(PUBLIC_OPS[op][0]).__module__.rpartition(".")[2]
        used = set[type]().union(*map(_functions, own))
        if family in FAMILIES or (used and used <= {Pointwise, Special, Derived}):
            found[op] = len(own[0].inputs)
    return found


def _default(op: str, operands: int) -> Point:
    face = PUBLIC_OPS[op][1]
    shown = Face.FUNCTION in face or Face.SPECIAL in face
    home = "m" if shown else "F" if Face.FUNCTIONAL in face else None
    given = ", ".join("abc"[:operands])
    text = f"{home}.{op}({given})" if home else f"a.{op}({given[3:]})"
    sixteen_bit = not op.startswith("special.") and op not in _OF_WIDE_FLOATS
    return Point(op, text, DEFAULTS[operands], sixteen_bit=sixteen_bit)


@cache
def points() -> list[Point]:
    """Every call of the sweep."""
    own = written()
    found: list[Point] = []
    for op, operands in sorted(belonging().items()):
        if op in UNSWEPT:
            continue
        found += own.pop(op) if op in own else [_default(op, operands)]
    found += [p for rest in own.values() for p in rest]
    return [replace(p, orders=_ORDERS.get(p.op, p.orders)) for p in found]
