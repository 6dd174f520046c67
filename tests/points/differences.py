"""What stays different from PyTorch at the special points, and why.

Each line names calls and quantities (regular expressions; ``y`` is the result, ``da`` its gradient
to the first operand, ``dab`` that one's to the second) and, where it can be said, at which points.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.points.sweep import spread

Where = Callable[..., Any]
Shows = Callable[[np.ndarray, np.ndarray], Any]


@dataclass(frozen=True)
class Difference:
    """Points at which a difference is meant.

    Attributes:
        calls: which calls, by their text.
        quantities: which of their results.
        reason: why it stays.
        where: at which operands; None for all.
        shows: what is seen there, of clnet's results and PyTorch's; None for anything.
    """

    calls: str
    quantities: str
    reason: str
    where: Where | None = None
    shows: Shows | None = None

    def covers(
        self,
        text: str,
        quantity: str,
        hosts: Sequence[np.ndarray],
        got: np.ndarray,
        want: np.ndarray,
    ) -> Any:
        """Where this line speaks of a result."""
        if not (re.search(self.calls, text) and re.fullmatch(self.quantities, quantity)):
            return np.zeros(got.size, bool)
        found = np.ones(got.size, bool)
        with np.errstate(all="ignore"):
            if self.where is not None:
                here = self.where(*(h.astype(np.float64) for h in hosts))
                found &= spread(here, got.size)
            if self.shows is not None:
                found &= self.shows(got.astype(np.float64), want.astype(np.float64))
        return found


def _has_nan(*x: Any) -> Any:
    return np.any([np.isnan(v) for v in x], axis=0)


def _infinite(*x: Any) -> Any:
    return np.any([~np.isfinite(v) for v in x], axis=0)


def _huge(*x: Any) -> Any:
    return np.any([~(np.abs(v) < 100) for v in x], axis=0)


def _halves(x: Any) -> Any:
    return (x <= 1) & (2 * x == np.round(2 * x))


def _zero(*x: Any) -> Any:
    return np.any([v == 0 for v in x], axis=0)


def _denormal(*x: Any) -> Any:
    return np.any([(v != 0) & (np.abs(v) < 1e-37) for v in x], axis=0)


def _sign(got: Any, want: Any) -> Any:
    return (got == 0) & (want == 0)


def _nan(got: Any, want: Any) -> Any:
    return np.isnan(want)


def _unbounded(got: Any, want: Any) -> Any:
    return ~np.isfinite(got) | ~np.isfinite(want)


def _constant(got: Any, want: Any) -> Any:
    return (got == 0) | (want == 0)


def _nine_digits(got: Any, want: Any) -> Any:
    return np.abs(got - want) < 1e-8 * np.abs(want)


def _poles(x: Any) -> Any:
    """Poles of lgamma, half-way between them, and the floats beside them."""
    return (x <= 1) & ((x < -1e15) | (np.abs(2 * x - np.round(2 * x)) < 1e-6))


FUSED = "PyTorch multiplies and adds in one rounding, where the processor can"
OVERFLOW = "PyTorch's formula overflows on the way to a number that is in range"
POSITION = "PyTorch's own answer depends on where the element lies; its formula's is taken"
TRIGAMMA = "the trigamma function: PyTorch's has nine digits in float64"
BESIDE = "at a pole or beside it, where PyTorch divides by the sine of a rounded multiple of pi"
UNDEFINED = "there is no second derivative there; each takes another side"
SECOND = "PyTorch's second derivative is NaN there; clnet's is the limit, or 0"

DIFFERENCES = [
    Difference(r"(add|sub|rsub)\(a, b, alpha", "y", FUSED, _huge, _unbounded),
    Difference(r"addcmul", "y", FUSED, _huge, _unbounded),
    Difference(r"lerp", "y", f"{FUSED}: the sign of a zero", lambda a, b, *c: b == 0, _sign),
    Difference(r"addcdiv", "dc|dcc", f"{OVERFLOW}: it squares the divisor",
               lambda a, b, c: (c == 0) | (np.abs(c) > 1e15), _nan),
    Difference(r"\b(asinh|atanh|erf|erfc|gelu)\(", "daa", OVERFLOW, _huge, _nan),
    Difference(r"mish", "daa", OVERFLOW, lambda a: np.abs(a) > 80, _nan),
    Difference(r"\b(logaddexp|logaddexp2)\(", "d..", OVERFLOW,
               lambda a, b: ~(np.abs(a - b) < 80), _nan),
    Difference(r"\b(cosh|sinh)\(a\)", "y|d.*", OVERFLOW,
               lambda a: np.abs(a) > 80, _unbounded),
    Difference(r"clamp.*\(a, b", "y", "of two zeros either may be given", _zero, _sign),
    Difference(r"hardsigmoid", "da", "PyTorch's 1 / 6 is a float32, in float64, too",
               lambda a: np.abs(a) < 3, lambda got, want: np.abs(got - want) < 1e-7),
    Difference(r"signbit", "y", "NaN has a sign, which arithmetic does not keep", _has_nan),
    Difference(r"pow\(a, -?0\.5\)", "y", "a root, also in float16, where PyTorch calls pow",
               lambda a: _infinite(a) | (a == 0)),
    Difference(r"hardswish", "y", OVERFLOW, _huge, _unbounded),
    Difference(r"gelu\(a\)", "y", "infinity times 0.5 times 2 is NaN in PyTorch's vectors", _huge,
               _unbounded),
    Difference(r"soft_margin_loss\(a, b, red", "y|d.*", OVERFLOW, lambda a, b: np.abs(a) > 80,
               _unbounded),
    Difference(r"ldexp", "d.*", "another order of products: one of them overflows", _huge,
               _unbounded),
    Difference(r"pow\(a, 2\)|square|a \*\* 2", "da", "g a + g a for g (2 a): no overflow", _huge,
               _nan),
    Difference(r"pow\(a, 1\.5\)", "d.*", "a root of -infinity or -0, by pow and by sqrt",
               lambda a: _infinite(a) | (a == 0), _unbounded),
    Difference(r"\b(fmod|remainder)\(", "y", "exact, where PyTorch's quotient overflows",
               lambda a, b: ~(np.abs(a) < 3e38 * np.abs(b)), _nan),
    Difference(r"\b(fmax|fmin)\(", "y", "of two zeros either may be given", _zero, _sign),
    Difference(r"hardtanh|hardshrink|relu6|softshrink|hardswish|elu|selu|celu", "d.*", POSITION,
               _has_nan),
    Difference(r"m\.logit\(", "da", POSITION, lambda a: np.isnan(a) | (a == 0)),
    Difference(r"sinc", "daa", SECOND, lambda a: np.abs(a) < 1e-30, _nan),
    Difference(r"hypot\(|pow\(a, b\)", "d..", "powers of a denormal: 0, or not, by the device",
               _denormal, _nan),
    Difference(r"normalize|cosine_similarity|dist\(|norm\(", "d..", SECOND, _zero, _nan),
    Difference(r"norm\(|var\(", "d.", "a length or variance that is infinite or NaN", _infinite,
               _unbounded),
    Difference(r"cosine_similarity", "d.", "infinity over the least length", _infinite, _nan),
    Difference(r"binary_cross_entropy\(", "d..",
               "the slope is held within 1e-12 of 0 and 1; PyTorch's second derivative is not that "
               "one's derivative",
               lambda a, *b: (a * (1 - a) < 1e-6)),
    Difference(r"kl_div", "d.*", "NaN in PyTorch where the target or its inverse is 0 or infinite",
               lambda a, b: (np.abs(b) < 1e-30) | _infinite(b), _nan),
    Difference(r"prelu", "dba", f"{UNDEFINED} (0)", lambda a, b: a == 0, _constant),
    Difference(r"prelu", "dab", f"{UNDEFINED} (0); they are summed", None),
    Difference(r"softplus\(a, ", "daa", f"{UNDEFINED} (the threshold)",
               lambda a: (a == 2.5) | (a == -2), _constant),
    Difference(r"softplus\(a\)", "daa", f"{UNDEFINED} (the threshold)", lambda a: a == 20,
               _constant),
    Difference(r"nll_loss|cross_entropy\(m", "y", "a loss of 0 has no sign", None, _sign),
    Difference(r"logsumexp", "d.*",
               "the softmax; PyTorch's is of a logarithm that is rounded beside 1e30", _huge),
    Difference(r"prod\(", "d.*", "a product with infinity or NaN in it", _infinite, _unbounded),
    Difference(r"digamma\(|polygamma\(", "daa",
               "at poles and half-way between them: infinite in PyTorch, here the slope of a "
               "constant; and rounding", _halves),
    Difference(r"digamma\(|polygamma\(0", "da", TRIGAMMA, None, _nine_digits),
    Difference(r"polygamma\(1", "y", TRIGAMMA, None, _nine_digits),
    Difference(r"lgamma\(", "daa", TRIGAMMA, None, _nine_digits),
    Difference(r"digamma\(|lgamma\(|polygamma\([01]", "y|daa?", BESIDE, _poles),
    Difference(r"polygamma\([12]", "y|da", "0 at infinity, and NaN at minus infinity", _infinite,
               _unbounded),
    Difference(r"\b(modified_bessel_)?i[01]\(a\)", "y|daa?", OVERFLOW, lambda a: np.abs(a) > 80,
               lambda got, want: ~np.isfinite(want)),
    Difference(r"\bi1e?\(", "da", "the slope of NaN is NaN", _has_nan,
               lambda got, want: np.isnan(got)),
    Difference(r"\bi1e\(", "daa", f"{UNDEFINED} (-1 and 1)", lambda a: np.abs(a) < 1e-30,
               lambda got, want: np.abs(got) < 2.1),
    Difference(r"\bigammac?\(", "y", "PyTorch gives up at the ends of the range, and of NaN",
               lambda a, b: (a < 1e-37) | (a > 1e29) | np.isnan(a) | np.isnan(b),
               lambda got, want: np.isnan(got) | ((got >= 0) & (got < 1.000001))),
    Difference(r"zeta\(", "y", f"{OVERFLOW}, or to the limit", lambda a, b: a > 1e29, _nan),
    Difference(r"zeta\(", "y", "of NaN it is NaN, also at poles", _has_nan,
               lambda got, want: np.isnan(got)),
    Difference(r"bessel_|airy", "y", "the limit at infinity", _infinite,
               lambda got, want: np.isnan(want) & (got == 0)),
    Difference(r"bessel_[jy]", "y",
               "PyTorch's has seven digits in float64, and fewer of large numbers in float32; "
               "tests/ops compares with SciPy",
               lambda a: (np.abs(a) > 1.9) & (np.abs(a) < 1e5),
               lambda got, want: np.abs(got - want) < 3e-6),
    Difference(r"airy", "y", "PyTorch's has seven digits in float64; far out its phase is rounded",
               lambda a: (a < -2) & (a > -1e5), lambda got, want: np.abs(got - want) < 2e-3),
    Difference(r"bessel_k", "y", "half of the least number is 0 in PyTorch", lambda a: a < 1e-44,
               lambda got, want: ~np.isfinite(want)),
    Difference(r"erfcx", "daa?", f"{OVERFLOW}, or is a difference of nearly equal numbers",
               lambda a: a > 80, lambda got, want: ~np.isnan(got)),
    Difference(r"log_ndtr", "da", "PyTorch takes exp of a difference of large numbers",
               lambda a: a < -5, lambda got, want: ~np.isnan(got)),
    Difference(r"log_ndtr", "daa", "differences of nearly equal numbers, by their rounding",
               lambda a: a < -5, lambda got, want: np.isfinite(got)),
    Difference(r"(log_)?ndtr\(", "daa", OVERFLOW, lambda a: np.abs(a) > 1e30, _nan),
    Difference(r"ndtri", "daa?", "exp of half a square magnifies its rounding", None,
               lambda got, want: np.abs(got - want) < 1e-4 * np.abs(want)),
    Difference(r"chebyshev_polynomial_[uvw]", "y",
               "PyTorch's quotient of sines rounds near the ends of the interval, or takes the end",
               lambda a, n: (n > 6) & (np.abs(a) <= 1), None),
    Difference(r"frexp", "da", "PyTorch takes the power in float32", lambda a: np.abs(a) < 1e-300),
]  # fmt: skip


def explained(
    text: str, quantity: str, hosts: Sequence[np.ndarray], got: np.ndarray, want: np.ndarray
) -> np.ndarray:
    """Which points of a result some line speaks of."""
    found = np.zeros(got.size, bool)
    for line in DIFFERENCES:
        found |= line.covers(text, quantity, hosts, got, want)
    return found
