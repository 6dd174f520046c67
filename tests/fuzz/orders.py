"""Drawn orders of views, writes in place and ``no_grad``, with clnet and PyTorch: gradients of all.

``python -m tests.fuzz.orders --count 1500 --seed 7`` prints each that differs, in as few lines as
it needs. A program that PyTorch refuses is left out; one that clnet refuses by name, because a
saved tensor was written or a view repeats elements, counts as refused.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from typing import Any

import numpy as np

import clnet
from clnet.errors import GradientError

_STARTS = (
    *("w * 1.5", "w.clone()", "a * w", "a * 1.5", "w.detach().clone()", "lib.zeros_like(w)"),
    *("(w * 2).detach().requires_grad_() * 1", "lib.empty_like(w).copy_(w)"),
)
_VIEWS = (
    *("{x}", "{x}[1]", "{x}[1:]", "{x}[:, 1]", "{x}[:, ::2]", "{x}.t()", "{x}.view(-1)"),
    *("{x}.transpose(0, 1)[1:]", "{x}.view(2, 6)", "{x}.reshape(4, 3)", "{x}.flatten()[2:7]"),
    *("{x}.unsqueeze(0)", "{x}[None, ..., None]", "{x}.diagonal()", "{x}.narrow(1, 1, 2)"),
    *("{x}.select(0, -1)", "{x}.unfold(1, 2, 2)", "{x}.expand(3, 4)", "{x}.permute(1, 0)"),
    *("{x}.squeeze()", "{x}.unbind(0)[1]", "{x}.chunk(2, 1)[0]", "{x}.detach()", "{x}.data"),
    *("{x}.view_as({x})", "{x}.T[1:3]", "{x}.unflatten(1, (2, 2))", "{x}[..., -1]", "{x}.mT"),
    *("{x}.clone()", "{x}[[0, 2]]", "{x}.tensor_split(2)[0]", "{x}.ravel()", "{x}.diag()"),
)
_WRITES = (
    *("{x}.mul_(2)", "{x}.add_(c)", "{x}.zero_()", "{x}.fill_(0.5)", "{x}.copy_(c)"),
    *("{x}[...] = 0.25", "{x}[0] = 0.75", "{x}[..., 0] += 1", "{x}.sin_()", "{x}.mul_(w.sum())"),
    *("{x} *= w.mean()", "{x}.masked_fill_({x} > 0, 0.1)", "{x}[{x} > 0] *= 2", "{x}.add_({x})"),
    *("{x}.copy_(w.sum() * {x}.clone())", "{x}.clamp_(-0.5, 0.5)", "{x}.t_()", "{x}.squeeze_()"),
    *("{x}.unsqueeze_(0)", "{x}.transpose_(0, -1)", "{x}.neg_().exp_()", "{x}.pow_(2)"),
    *("{x}.div_(w.exp().sum())", "{x}.index_fill_(0, lib.tensor([0]), 2.0)", "{x}.cumsum_(0)"),
    *("{x}.detach().add_(1)", "lib.nn.functional.relu({x}, inplace=True)", "{x}.mul_({x}.sum())"),
    *("{x}.lerp_({x}.clone() * 2, 0.5)", "{x}.diagonal().mul_(2)", "{x}.addcdiv_(w.sum(), 2 + c)"),
)
_NUMBERS = np.random.default_rng(0).standard_normal((2, 3, 4))


def draw(seed: int) -> list[str]:
    """The lines of a program; each name ends among its results."""
    rng = random.Random(seed)
    lines, names = [f"b = {rng.choice(_STARTS)}"], ["b"]
    for _ in range(rng.randint(2, 5)):
        x, kind = rng.choice(names), rng.random()
        if kind < 0.45:
            names.append(f"v{len(names)}")
            lines.append(f"{names[-1]} = {rng.choice(_VIEWS).format(x=x)}")
        elif kind < 0.9:
            quiet = "with lib.no_grad(): " if rng.random() < 0.2 else ""
            lines.append(quiet + rng.choice(_WRITES).format(x=x))
        else:
            lines.append(f"out.append(({x} * 2).sum() + {x}.exp().mean())")
    return lines + [f"out.append({x} * 1)" for x in names]


def run(lib: Any, lines: list[str]) -> list[np.ndarray | None]:
    """The results of a program, its gradient, and what it left in what it was given."""
    w, a = (lib.tensor(x) for x in _NUMBERS)
    out: list[Any] = []
    w.requires_grad_()
    names = {"lib": lib, "w": w, "a": a, "c": lib.tensor(0.7, dtype=lib.float64), "out": out}
    exec("\n".join(lines), names)
    weighed = [(x * x).sum() * k for k, x in enumerate(out, 1) if x.requires_grad]
    if weighed:
        sum(weighed).backward()
    found = [*out, w.grad, a, w]
    return [None if x is None else x.detach().numpy().copy() for x in found]


def verdict(lines: list[str], torch: Any) -> str:
    """``same``, ``differs``, ``refused``, ``left out``, or the error of clnet's."""
    try:
        wanted = run(torch, lines)
    except (RuntimeError, IndexError, TypeError, ValueError):
        return "left out"
    try:
        found = run(clnet, lines)
    except GradientError:
        return "refused"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "same" if all(map(_near, found, wanted)) else "differs"


def _near(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=True)


def shorter(lines: list[str], torch: Any) -> list[str]:
    """As few of its lines as differ in the same way."""
    wanted = verdict(lines, torch)
    for k in reversed(range(len(lines))):
        less = [*lines[:k], *lines[k + 1 :]]
        if verdict(less, torch) == wanted:
            lines = less
    return lines


def main() -> int:
    """Draw programs; 1 if one differs."""
    parser = argparse.ArgumentParser(description="Drawn orders of views and writes in place.")
    parser.add_argument("--count", type=int, default=1000, help="programs")
    parser.add_argument("--seed", type=int, default=0, help="of the first")
    given = parser.parse_args()
    import torch  # noqa: PLC0415 - optional

    came = Counter[str]()
    for seed in range(given.seed, given.seed + given.count):
        lines = draw(seed)
        came[verdict(lines, torch)] += 1
        if verdict(lines, torch) not in ("same", "left out", "refused"):
            print(seed, verdict(lines, torch), *shorter(lines, torch), sep="\n  ", flush=True)
    print(dict(came))
    return int(bool(came.keys() - {"same", "left out", "refused"}))


if __name__ == "__main__":
    sys.exit(main())
