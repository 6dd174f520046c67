"""Functions of mathematics by series, continued fractions and recurrences, element by element."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from ...array import Array
from ...device import Launch, Target
from ..grid import items
from ..kernel import Kernel, by_name
from .special_tables import TABLES

_SPECIAL = Kernel("special", "pointwise/special.mako")
_FLOPS = 100

_CHEBYSHEV = "2 * v * value - last"
_SHIFTED = "2 * (2 * v - 1) * value - last"
_ANY = "100000"
RECURRENCES: dict[str, tuple[str, str, str]] = {
    "chebyshev_polynomial_t": ("v", _CHEBYSHEV, _ANY),
    "chebyshev_polynomial_u": ("2 * v", _CHEBYSHEV, _ANY),
    "chebyshev_polynomial_v": ("2 * v - 1", _CHEBYSHEV, _ANY),
    "chebyshev_polynomial_w": ("2 * v + 1", _CHEBYSHEV, _ANY),
    "shifted_chebyshev_polynomial_t": ("2 * v - 1", _SHIFTED, _ANY),
    "shifted_chebyshev_polynomial_u": ("2 * (2 * v - 1)", _SHIFTED, _ANY),
    "shifted_chebyshev_polynomial_v": ("2 * (2 * v - 1) - 1", _SHIFTED, _ANY),
    "shifted_chebyshev_polynomial_w": ("2 * (2 * v - 1) + 1", _SHIFTED, _ANY),
    "hermite_polynomial_h": ("2 * v", "2 * v * value - 2 * k * last", "limit"),
    "hermite_polynomial_he": ("v", "v * value - k * last", "limit"),
    "laguerre_polynomial_l": (
        "1 - v",
        "((2 * k + 1 - v) * value - k * last) / (k + 1)",
        _ANY,
    ),
    "legendre_polynomial_p": ("v", "((2 * k + 1) * v * value - k * last) / (k + 1)", _ANY),
}
"""The polynomial of degree 1, the next one by those before, and the largest degree."""
_USED = {
    **{f"i{n}{e}": (f"I{n}E_NEAR", f"I{n}E_FAR") for n in (0, 1) for e in ("", "e")},
    **{f"k{n}{e}": (f"K{n}", f"I{n}", f"K{n}E_FAR") for n in (0, 1) for e in ("", "e")},
    **{f"j{n}": (f"J{n}", f"P{n}", f"Q{n}") for n in (0, 1)},
    **{f"y{n}": (f"Y{n}", f"J{n}", f"P{n}", f"Q{n}") for n in (0, 1)},
    "erfcx": ("ERFCX",),
    "log_ndtr": ("ERFCX",),
    "airy_ai": ("AI", "AI_FAR", "AI_P", "AI_Q"),
}
UNARY = (*_USED, "spherical_bessel_j0", "frexp")
"""Functions of one number."""
_SINGLE_PART = 1e-9


@cache
def _tables(kind: str, ctype: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Coefficients as C has them; float takes those that it can tell from 0."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for name in _USED.get(kind, ()):
        values = TABLES[name]
        least = _SINGLE_PART * max(map(abs, values)) if ctype == "float" else 0.0
        count = max(k for k, c in enumerate(values) if abs(c) > least) + 1
        suffix = "f" if ctype == "float" else ""
        found.append((name, tuple(f"{c!r}{suffix}" for c in values[:count])))
    return tuple(found)


def special(
    target: Target, kind: str, outputs: Sequence[Array], inputs: Sequence[Array]
) -> list[Launch]:
    """A function of each element, or of each pair.

    Args:
        target: what to choose the kernel for.
        kind: which: one of :data:`UNARY`, of :data:`RECURRENCES` (of a number and a degree),
            ``zeta``, ``igamma``, ``igammac``, ``nextafter``, and of whole numbers ``gcd``, ``lcm``.
        outputs: the result, dense; of ``frexp`` int32 exponents behind it.
        inputs: of the result's shape and dtype, dense.
    """
    y = outputs[0]
    if y.size == 0:
        return []
    ctype = y.dtype.ctype
    recurrence: Any = RECURRENCES.get(kind, ())
    if recurrence and recurrence[2] == "limit":  # beyond it the numbers overflow
        recurrence = (*recurrence[:2], "128" if ctype == "float" else "512")
    second = inputs[1] if len(inputs) > 1 else None
    exponent = outputs[1] if len(outputs) > 1 else None
    return [
        _SPECIAL.launch(
            {
                "ctype": ctype,
                "kind": kind,
                "recurrence": recurrence,
                "unary": kind in UNARY,
                "tables": _tables(kind, ctype),
            },
            by_name("n y exponent x b", y.size, y, exponent, inputs[0], second),
            **items(target, y.size),
            flops=_FLOPS * y.size,
            bytes=sum(a.nbytes for a in (*outputs, *inputs)),
        )
    ]
