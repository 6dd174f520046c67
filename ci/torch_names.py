#!/usr/bin/env python3
"""Count which of PyTorch's names clnet has, and which agree with PyTorch on drawn inputs.

    python ci/torch_names.py [--least PERCENT]

A name agrees if clnet has it, at least one call of it is in ``torch_cases.py``, and all of those
give the same shapes, dtypes, values and gradients. Names of groups that are not called (methods of
``Module``) count when they exist. Needs PyTorch, the ``torch`` extra.
"""

from __future__ import annotations

import argparse
import functools
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import clnet
from ci import torch_cases as cases
from ci import torch_further as further

RTOL, ATOL = 2e-4, 2e-5  # float32 on both sides, rounded in another order
LEAST = 98.0
STEPS = 12


class Group(NamedTuple):
    """Names found at one place: ``torch.nn`` and ``clnet.nn``, say.

    Attributes:
        title: as it is printed, and what keys of its calls begin with.
        place: the path below the package.
        names: the names wanted.
        called: whether a name must also agree in a call.
    """

    title: str
    place: str
    names: str
    called: bool = True


GROUPS = (
    Group("functions", "", cases.FUNCTIONS + further.FUNCTIONS),
    Group("methods", "Tensor", cases.METHODS + further.METHODS),
    Group("functional", "nn.functional", cases.FUNCTIONAL + further.FUNCTIONAL),
    Group("modules", "nn", cases.MODULES),
    Group("optimisers", "optim", cases.OPTIMISERS),
    Group("schedulers", "optim.lr_scheduler", cases.SCHEDULERS),
    Group("nn.init", "nn.init", further.INIT, called=False),
    Group("nn.utils", "nn.utils", cases.UTILITIES + further.UTILITIES, called=False),
    Group("module methods", "nn.Module", cases.MODULE_METHODS, called=False),
)
# Names whose calls would show nothing, or are made by every other call.
NOT_CALLED = {
    *(
        "functions " + name
        for name in ("manual_seed", "Generator", "enable_grad", "set_grad_enabled")
    ),
    *("methods " + name for name in ("backward", "register_hook", "retain_grad", "retains_grad")),
    *(
        f"modules {name}"
        for name in ("Module", "Parameter", "ModuleList", "ModuleDict", "ParameterList")
    ),
    "modules ParameterDict",
}


class Case(NamedTuple):
    """One call: the name it is a call of, and what compares it (raising where it differs)."""

    group: str
    name: str
    text: str
    compare: Callable[[str], None]


def every_case() -> Iterator[Case]:
    """All calls, and for functions that are methods too, the method's."""
    methods = set((cases.METHODS + further.METHODS).split())
    for text in _lines(cases.CALLS) + _lines(further.CALLS):
        yield _case(text, compare_call)
        method = re.match(r"m\.(\w+)\((\w+)(?:, (?=.)|(?=\)))(.*)$", text)
        # where takes the condition first as a function, and second as a method.
        if method and method[1] in methods - {"where"}:
            text = f"{method[2]}.{method[1]}({method[3]}"
            yield Case("methods", method[1], text, compare_call)
    for text in _lines(cases.IN_PLACE) + _lines(further.IN_PLACE):
        yield _case(text, compare_values)
    for text in _lines(cases.DRAWN):
        yield _case(text, compare_shapes)
    for text in _lines(cases.LAYERS):
        yield _case(text, compare_layer)
    for text in _lines(cases.OPTIMISER_CALLS):
        yield _case(text, compare_optimiser)
    for text in _lines(cases.SCHEDULER_CALLS):
        yield _case(text, compare_scheduler)


_OPERATORS = {"&": "__and__", "|": "__or__", "^": "__xor__", "<<": "__lshift__", ">>": "__rshift__"}
_PREFIXES = {
    "m.": "functions",
    "F.": "functional",
    "nn.": "modules",
    "optim.": "optimisers",
    "schedule.": "schedulers",
}


def _case(text: str, compare: Callable[[str], None]) -> Case:
    """The case of a call; what it begins with says what it is a call of."""
    for prefix, group in _PREFIXES.items():
        if text.startswith(prefix):
            name = re.match(r"[\w.]+", text[len(prefix) :])
            return Case(group, name[0] if name else "", text, compare)
    operator = re.match(r"\w+ (\S+) \w+$", text)
    if operator:
        return Case("methods", _OPERATORS[operator[1]], text, compare)
    if text.startswith("~"):
        return Case("methods", "__invert__", text, compare)
    call = re.search(r"\.(\w+)\([^.]*$", text) or re.search(r"\.(\w+)\(", text)
    return Case("methods", call[1] if call else "__getitem__", text, compare)


def _lines(text: str) -> list[str]:
    return text.strip().splitlines()


# The two sides.


def leaves(package: Any, *, grad: bool) -> dict[str, Any]:
    """The inputs as tensors of a package; floating ones require gradients."""
    made = {name: package.tensor(value) for name, value in cases.inputs().items()}
    for tensor in made.values():
        if grad and tensor.dtype.is_floating_point:
            tensor.requires_grad_()
    return made


def namespace(package: Any) -> dict[str, Any]:
    """What calls may name beside the inputs."""
    return {
        "m": package,
        "nn": package.nn,
        "F": package.nn.functional,
        "optim": package.optim,
        "schedule": package.optim.lr_scheduler,
    }


def evaluate(text: str, package: Any, operands: dict[str, Any]) -> Any:
    """The value of a call, made with one of the packages."""
    return eval(text, namespace(package) | operands)  # the text is this repository's own


def results(value: Any) -> list[Any]:
    """The tensors and numbers of a nested result, in order."""
    if isinstance(value, tuple | list):
        return [r for part in value for r in results(part)]
    return [] if value is None else [value]


# Comparisons. Each raises AssertionError where the packages differ.


def compare_call(text: str) -> None:
    """Values, and gradients of all floating inputs."""
    _compare_evaluated(text, grad=True, values=True)


def compare_values(text: str) -> None:
    """Values alone."""
    _compare_evaluated(text, grad=False, values=True)


def compare_shapes(text: str) -> None:
    """Shapes and dtypes alone."""
    _compare_evaluated(text, grad=False, values=False)


def _compare_evaluated(text: str, *, grad: bool, values: bool) -> None:
    ours, theirs = (leaves(p, grad=grad) for p in (clnet, torch))
    pairs = _paired(evaluate(text, clnet, ours), evaluate(text, torch, theirs), values=values)
    if grad:
        _compare_gradients(pairs, ours, theirs)


def _paired(ours: Any, theirs: Any, *, values: bool) -> list[tuple[Any, Any]]:
    """The results pair by pair, once they are found to be alike."""
    pairs = list(zip(results(ours), results(theirs), strict=True))
    for a, b in pairs:
        if not isinstance(b, torch.Tensor):
            assert isinstance(b, np.ndarray) or type(a) is type(b), f"{type(a)}, not {type(b)}"
            np.testing.assert_allclose(a, b, rtol=RTOL, atol=ATOL)
            continue
        assert tuple(a.shape) == tuple(b.shape), f"shape {a.shape}, not {tuple(b.shape)}"
        assert f"torch.{a.dtype.name}" == str(b.dtype), f"{a.dtype.name}, not {b.dtype}"
        if values:
            _close(a.detach().numpy(), b.detach().numpy())
    return pairs


def _compare_gradients(
    pairs: list[tuple[Any, Any]], ours: dict[str, Any], theirs: dict[str, Any]
) -> None:
    """Gradients to named leaves of a weighted sum of the results."""
    rng = np.random.default_rng(1)
    wanted = [(a, b) for a, b in pairs if isinstance(b, torch.Tensor) and b.requires_grad]
    if not wanted:
        return
    weights = [
        rng.standard_normal(tuple(b.shape)).astype(b.detach().numpy().dtype) for _, b in wanted
    ]
    for package, side in ((clnet, 0), (torch, 1)):
        terms = [
            (pair[side] * package.tensor(w)).float().sum()
            for pair, w in zip(wanted, weights, strict=True)
        ]
        functools.reduce(lambda a, b: a + b, terms).backward()
    for name, leaf in theirs.items():
        if leaf.grad is not None:
            own = ours[name].grad
            found = np.zeros(tuple(leaf.shape), np.float32) if own is None else own.numpy()
            try:
                _close(found, leaf.grad.numpy())
            except AssertionError as error:
                raise AssertionError(f"gradient to {name}: {error}") from None


def _close(actual: np.ndarray, expected: np.ndarray) -> None:
    scale = max(1.0, float(np.abs(np.nan_to_num(expected.astype(np.float64))).max(initial=0)))
    slack = 100 if expected.dtype == np.float16 else 1
    np.testing.assert_allclose(actual, expected, rtol=slack * RTOL, atol=slack * ATOL * scale)


def compare_layer(text: str) -> None:
    """Keys of the state, results and gradients of a layer with PyTorch's weights."""
    making, given = (part.strip() for part in text.split(" | "))
    torch.manual_seed(0)
    ours, theirs = (leaves(p, grad=True) for p in (clnet, torch))
    layers = [evaluate(making, p, {}) for p in (clnet, torch)]
    state = layers[1].state_dict()
    assert list(layers[0].state_dict()) == list(state), f"keys {list(layers[0].state_dict())}"
    layers[0].load_state_dict({k: clnet.tensor(v.numpy()) for k, v in state.items()})
    outputs = [
        evaluate(f"layer({given})", package, operands | {"layer": layer})
        for package, layer, operands in zip((clnet, torch), layers, (ours, theirs), strict=True)
    ]
    named = [dict(layer.named_parameters()) for layer in layers]
    pairs = _paired(*outputs, values=True)
    _compare_gradients(pairs, ours | named[0], theirs | named[1])


def compare_optimiser(text: str) -> None:
    """The weights after some steps down a bowl."""
    ends = []
    for package in (clnet, torch):
        weight = package.nn.Parameter(package.tensor(cases.inputs()["x"]))
        target = package.tensor(cases.inputs()["y"])
        optimiser = evaluate(text, package, {"weights": [weight]})

        def closure(optimiser: Any = optimiser, weight: Any = weight, target: Any = target) -> Any:
            optimiser.zero_grad()
            loss = ((weight - target) ** 2).sum()
            loss.backward()
            return loss

        for _ in range(STEPS):
            optimiser.step(closure)
        ends.append(weight.detach().numpy())
    _close(*ends)


def compare_scheduler(text: str) -> None:
    """The learning rates of some steps."""
    rates = []
    for package in (clnet, torch):
        weight = package.nn.Parameter(package.tensor(cases.inputs()["x"]))
        optimiser = package.optim.SGD([weight], lr=0.5)
        scheduler = evaluate(text, package, {"o": optimiser})
        rates.append([])
        for step in range(STEPS):
            weight.sum().backward()
            optimiser.step()
            scheduler.step(*((1.0 + step % 2,) if "Plateau" in text else ()))
            rates[-1].append(float(optimiser.param_groups[0]["lr"]))
    np.testing.assert_allclose(*rates, rtol=1e-6)


# The report.


class Count(NamedTuple):
    """How a group stands: names that PyTorch has, that clnet has, and that agree."""

    wanted: int
    exist: int
    agree: int


def exists(package: Any, group: Group, name: str) -> bool:
    """Whether a package has a name of a group."""
    try:
        place = functools.reduce(getattr, filter(None, group.place.split(".")), package)
        functools.reduce(getattr, name.split("."), place)
    except AttributeError:
        return False
    return True


def failures(chosen: list[Case]) -> dict[tuple[str, str], list[str]]:
    """For each name that was called, what differed (nothing, if it agrees)."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for case in chosen:
        key = (case.group, case.name)
        try:
            case.compare(case.text)
        except Exception as error:  # whatever a call raises is what is to be reported
            lines = [line for line in str(error).splitlines() if line.strip()]
            message = " ".join(lines[:6])[:200]
            found[key].append(f"{case.text}: {type(error).__name__}: {message}")
        else:
            found[key] += []
    return found


def report(group: Group, found: dict[tuple[str, str], list[str]]) -> Count:
    """Print what is missing or differs in a group, and count."""
    wanted = [name for name in group.names.split() if exists(torch, group, name)]
    have = [name for name in wanted if exists(clnet, group, name)]
    agree = 0
    for name in wanted:
        key = (group.title, name)
        free = not group.called or f"{group.title} {name}" in NOT_CALLED
        if name not in have:
            reason = cases.REASONS.get(name, "not written")
            print(f"  missing   {group.title}: {name} ({reason})")
        elif free or found.get(key) == []:
            agree += 1
        elif key not in found:
            print(f"  no call   {group.title}: {name}")
        for message in found.get(key, []) if name in have else []:
            print(f"  differs   {group.title}: {message}")
    return Count(len(wanted), len(have), agree)


def main() -> int:
    """Compare everything; 1 if too little agrees."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--least", type=float, default=LEAST, help="percent that must agree")
    least = parser.parse_args().least
    found = failures(list(every_case()))
    counts = {group.title: report(group, found) for group in GROUPS}
    print(f"\n{'':16}{'PyTorch':>9}{'clnet':>9}{'agree':>9}")
    for title, count in counts.items():
        print(f"{title:16}{count.wanted:9}{count.exist:9}{count.agree:9}")
    total = Count(*map(sum, zip(*counts.values(), strict=True)))
    percent = 100 * total.agree / total.wanted
    print(f"{'all':16}{total.wanted:9}{total.exist:9}{total.agree:9}   {percent:.1f}%")
    return int(percent < least)


if __name__ == "__main__":
    sys.exit(main())
