"""Evaluates a call in clnet and in PyTorch, and says what came of it."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from traceback import walk_tb
from typing import Any

import numpy as np

import clnet
from ci import torch_cases as cases
from clnet.errors import ClnetError

from .draw import name_of
from .surface import parameters, surface

DRAWN = "<drawn>"
"""The file that frames of a drawn text name."""
STEPS = 3
WORSE = 4.0
"""How much farther than PyTorch's a float32 result may be from that in float64."""

# What a call ended with. The last six are findings.
RESULT, REFUSED, STRICTER = "result", "refused", "stricter"
INTERNAL, UNNAMED, DIFFERS, ACCEPTED = "internal", "unnamed", "differs", "accepted"
CRASH, HANG = "crash", "hang"
FINDINGS = (INTERNAL, UNNAMED, DIFFERS, ACCEPTED, CRASH, HANG)


@dataclass(frozen=True)
class Outcome:
    """What a call ended with.

    Attributes:
        kind: one of the words above.
        detail: the error, or what differs.
    """

    kind: str
    detail: str = ""


def environment(package: Any, *, grad: bool, wide: bool = False) -> dict[str, Any]:
    """What calls may name, made with a package; ``wide``: of float64 instead of float32."""
    hosts = cases.inputs()
    if wide:
        hosts = {n: h.astype(np.float64) if h.dtype.kind == "f" else h for n, h in hosts.items()}
    made = {name: package.tensor(value) for name, value in hosts.items()}
    for value in made.values():
        if grad and "float" in str(value.dtype):
            value.requires_grad_()
    weight = package.nn.Parameter(package.tensor(hosts["x"]))
    made["weights"] = [weight]
    made["o"] = package.optim.SGD([weight], lr=0.5)
    return made | {
        "m": package,
        "nn": package.nn,
        "F": package.nn.functional,
        "optim": package.optim,
        "schedule": package.optim.lr_scheduler,
        "np": np,
        "lay": functools.partial(_lay, package),
        "run": functools.partial(_run, package),
        "steps": functools.partial(_steps, weight),
        "rates": functools.partial(_rates, made["o"], weight),
    }


def _lay(package: Any, tensor: Any, how: str) -> Any:
    """The same values, elsewhere in memory (one row of them, repeated, if ``expanded``)."""
    if tensor.ndim == 0 or 0 in tensor.shape:
        return tensor
    if how == "transposed":
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    if how == "strided":
        return package.stack((tensor, tensor), -1)[..., 0]
    if how == "offset":
        return package.cat((tensor[:1], tensor))[1:]
    return tensor[:1].expand(*tensor.shape)


def _run(package: Any, layer: Any, *args: Any, **given: Any) -> Any:
    """A layer's result, its parameters the same in both packages."""
    rng = np.random.default_rng(0)
    with package.no_grad():
        for value in layer.parameters():
            drawn = rng.uniform(-0.5, 0.5, value.numel()).astype(np.float32)
            value.copy_(package.tensor(drawn).reshape(tuple(value.shape)))  # NumPy has 64 axes
    return layer(*args, **given)


def _steps(weight: Any, optimiser: Any) -> Any:
    def closure() -> Any:
        optimiser.zero_grad()
        loss = (weight**2).sum()
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimiser.step(closure)
    return weight.detach()


def _rates(optimiser: Any, weight: Any, scheduler: Any) -> list[float]:
    rates = []
    for step in range(STEPS):
        weight.sum().backward()
        optimiser.step()
        plateau = "Plateau" in type(scheduler).__name__
        scheduler.step(*((1.0 + step % 2,) if plateau else ()))
        rates.append(float(optimiser.param_groups[0]["lr"]))
    return rates


def attempt(text: str, package: Any, *, grad: bool, wide: bool = False) -> list[Any]:
    """The results of a call on the host, then the gradients of its inputs."""
    package.manual_seed(0)
    package.set_printoptions(profile="default")  # the call before may have set them
    named = environment(package, grad=grad, wide=wide)
    value = eval(compile(text, DRAWN, "eval"), named)  # the text is drawn by this folder
    found = [_dense(part) for part in _flat(value)]
    held: list[Any] = [_to_host(v) for v in found]
    gradients = _gradients(package, found, named) if grad else []
    return [*held, len(gradients) > 0, *gradients]


def _gradients(package: Any, found: list[Any], named: Mapping[str, Any]) -> list[Any]:
    """Gradients of all inputs of the sum of what has one, each element weighed otherwise."""
    wanted = [v for v in found if getattr(v, "requires_grad", False) and hasattr(v, "backward")]
    terms = []
    for value in wanted:  # what it is weighed by goes by its shape: outputs may lack a gradient
        drawn = np.random.default_rng(value.ndim).standard_normal(tuple(value.shape))
        weight = package.tensor(drawn.astype(np.float32))
        value = value if str(value.dtype).endswith("float64") else value.float()
        terms.append((value * weight.to(value.dtype)).sum())
    if not terms:
        return []
    functools.reduce(lambda a, b: a + b, terms).backward()
    inputs = [named[name] for name in cases.inputs()]
    return [None if t.grad is None else _to_host(t.grad) for t in inputs if t.is_leaf]


def _flat(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [part for item in value for part in _flat(item)]
    return [value]


def _dense(value: Any) -> Any:
    """Sparse tensors as what they stand for, which can be looked at."""
    sparse = "sparse" in str(getattr(value, "layout", ""))
    return value.to_dense() if sparse else value


def _to_host(value: Any) -> Any:
    """A tensor as (dtype, array), another value as it is."""
    if not (hasattr(value, "detach") and hasattr(value, "dtype")):
        return value
    name = str(value.dtype).split(".")[-1]
    value = value.detach().clone()
    host = (value.float() if name == "bfloat16" else value).cpu().numpy()
    return name, np.array(host)


def clnet_outcome(text: str, *, grad: bool) -> tuple[Outcome, list[Any]]:
    """What clnet makes of a call, and its results."""
    try:
        held = attempt(text, clnet, grad=grad)
        clnet.synchronize()  # which reports what the device found in the data
        return Outcome(RESULT), held
    except ClnetError as error:
        kind = REFUSED if is_named(text, f"error: {error}") else UNNAMED
        return Outcome(kind, f"{type(error).__name__}: {error}"), []
    except NotImplementedError as error:  # as PyTorch's, of what a class leaves to others
        named = "forward" in str(error) or is_named(text, f"error: {error}")
        return Outcome(REFUSED if named else INTERNAL, str(error)), []
    except Exception as error:  # whatever a call raises is what is to be reported
        kind = REFUSED if is_pythons(text, error) else INTERNAL
        return Outcome(kind, f"{type(error).__name__}: {error}"), []


# What PyTorch says of names that it has not: there is nothing to compare with.
_ABSENT = re.compile(r"has no attribute|got an unexpected keyword argument|unrecognized keyword")
_NUMPY = str(Path(np.__file__).parent)
_BINDING = re.compile(
    r"[\w>]\(\) (missing|takes|got an unexpected keyword|got multiple|got some positional)"
    r"|^\w+ expected at most \d+ argument|^function takes at most \d+ argument"
)


def is_pythons(text: str, error: Exception) -> bool:
    """Whether Python refuses the call itself: an argument too many, a name there is none of.

    What is raised while clnet's functions run is not that, but for a call by the drawn text of
    another value than a function, and for what a function of the drawn text (a lambda) itself
    raises of the operands that it was given: an error of the user's.
    """
    if isinstance(error, AttributeError) and "module 'clnet" in str(error):
        return True
    binding = isinstance(error, TypeError) and _BINDING.search(str(error))
    if binding:
        return True
    files = [frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__)]
    depth = sum(file != __file__ and not file.startswith(_NUMPY) for file in files)
    # The frame of the text, and NumPy's if it calls that; or the innermost one is the text's.
    return depth <= 1 or files[-1] == DRAWN


def is_named(text: str, message: str) -> bool:
    """Whether a message names what was called or one of its arguments."""
    if "out of device memory" in message:
        return True  # it says how much was asked for and what to do; any op can need too much
    called = set(re.findall(r"[A-Za-z_]\w+", text))
    words = {word.strip("_") for word in re.findall(r"\w+", message)}
    if {word.strip("_") for word in called} & words:
        return True
    # A composed op's errors name the op whose law failed, but for what reads a value.
    op = message.split(": ")[1].split(" ")[-1].strip("_").split(".")[-1]  # "backward of gelu"
    public = {getattr(f, "__name__", "").strip("_") for f in surface().values()} | {
        n.split(".")[-1].strip("_") for n in surface()
    }
    if op in public - {"item", "tensor"} or (
        re.search(r"\w \W{1,2} |~|\[", text) and not name_of(text)
    ):
        return True
    names = {
        p.name
        for name, function in surface().items()
        if name.split(".")[-1] in called
        for p in parameters(function)
    }
    return bool((names - {"x"}) & words) or any(
        sign in message for sign in ("index", "key", "nested")
    )


def difference(ours: list[Any], theirs: list[Any], *, narrow: bool = False) -> str:
    """What differs between results, or nothing; ``narrow``: they were rounded to 16 bits."""
    if len(ours) != len(theirs) and (True in ours) != (True in theirs):
        return f"gradients flow in {'clnet' if True in ours else 'PyTorch'} alone"
    if len(ours) != len(theirs):
        return f"{len(ours)} results, not {len(theirs)}"
    for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if b is None and a is not None and True in theirs[:k]:
            return "gradients flow in clnet alone"
        if found := _unlike(a, b, narrow=narrow):
            return f"result {k}: {found}"
    return ""


def _unlike(a: Any, b: Any, *, narrow: bool) -> str:
    if isinstance(a, tuple) != isinstance(b, tuple):
        if a is None and isinstance(b, tuple) and not np.any(b[1]):
            return ""  # no gradient stands for 0
        return f"{_short(a)}, not {_short(b)}"
    if not isinstance(b, tuple):
        numbers = (bool, int, float, str, type(None))
        both = isinstance(a, numbers) and isinstance(b, numbers)
        same = a == b or (type(a) is float and type(b) is float and _close(a, b))
        return f"{a!r}, not {b!r}" if both and not same else ""
    (name, host), (wanted, expected) = a, b
    if name != wanted:
        return f"{name}, not {wanted}"
    if host.shape != expected.shape:
        return f"shape {host.shape}, not {expected.shape}"
    if host.dtype.kind in "fc":
        ulps = 8e-2 if narrow else 1e-3
        wide = np.complex128 if host.dtype.kind == "c" else np.float64
        finite = expected[np.isfinite(expected)].astype(wide)
        scale = max(1.0, float(np.abs(finite).max(initial=0)))
        good = np.isclose(
            host.astype(wide), expected, rtol=ulps, atol=0.1 * ulps * scale, equal_nan=True
        )
    else:
        good = host == expected
    if np.all(good):
        return ""
    at = tuple(int(n) for n in np.argwhere(~np.atleast_1d(good))[0])
    first, second = np.atleast_1d(host)[at], np.atleast_1d(expected)[at]
    return f"{int(np.sum(~good))} of {host.size} elements, at {at} {first!r}, not {second!r}"


def _close(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-5)


def _short(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tensor of {value[0]}{value[1].shape}"
    return repr(value)[:60]


def settled(
    text: str, oracle: Any, say: Callable[[str], None] = lambda phase: None, *, grad: bool
) -> Outcome:
    """What a call ends with, also compared with PyTorch where there is one.

    Args:
        text: the call.
        oracle: PyTorch, or None.
        say: told of each phase that begins.
        grad: whether inputs require gradients.
    """
    say("clnet")
    try:
        outcome, ours = clnet_outcome(text, grad=grad)
    finally:
        clnet.set_grad_enabled(True)
        clnet.autograd.set_detect_anomaly(False)
    if oracle is None or outcome.kind in (INTERNAL, UNNAMED):
        return outcome
    say("oracle")
    try:
        theirs = attempt(text, oracle, grad=grad)
    except Exception as error:  # whatever PyTorch raises is what clnet is compared with
        if outcome.kind == RESULT and not _ABSENT.search(str(error)):
            message = " ".join(str(error).split())[:160]
            return Outcome(ACCEPTED, f"PyTorch: {type(error).__name__}: {message}")
        return outcome
    finally:
        oracle.set_grad_enabled(True)
        oracle.autograd.set_detect_anomaly(False)
    if outcome.kind == REFUSED:
        return Outcome(STRICTER, outcome.detail)
    found = difference(ours, theirs, narrow="float16" in text or "half" in text)
    if "elements, at" in found and is_as_exact(text, oracle, ours, theirs, grad=grad):
        return outcome
    return Outcome(DIFFERS, found) if found else outcome


def is_as_exact(text: str, oracle: Any, ours: list[Any], theirs: list[Any], *, grad: bool) -> bool:
    """Whether results differ by rounding that PyTorch's have, too: measured in double precision.

    A badly conditioned call (the inverse of a matrix of almost no determinant) amplifies the last
    bits of its operands: float32 results are then compared with those of the same call in float64.
    """
    try:
        exact = attempt(text, oracle, grad=grad, wide=True)
    except Exception:
        return False
    if not len(ours) == len(theirs) == len(exact):
        return False
    return all(starmap(_no_worse, zip(ours, theirs, exact, strict=True)))


def _no_worse(a: Any, b: Any, exact: Any) -> bool:
    """Whether a result is as near to the exact one as another, up to a factor."""
    if not isinstance(b, tuple) or b[0] != "float32":
        return not _unlike(a, b, narrow=False)
    if (
        not isinstance(exact, tuple)
        or a[0] != b[0]
        or not a[1].shape == b[1].shape == exact[1].shape
    ):
        return False
    if not all(np.isfinite(part[1]).all() for part in (a, b, exact)):
        return not _unlike(a, b, narrow=False)
    errors = [np.abs(part[1] - exact[1].astype(np.float64)).max(initial=0) for part in (a, b)]
    return not _unlike(a, b, narrow=False) or errors[0] <= WORSE * errors[1]
