"""Winograd's transforms: constant matrices around element-wise products; they launch nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache
from math import prod
from typing import NamedTuple

# By their number. Five lie evenly about 1 in ratio: 2 and -2 beside 1 and -1 would enlarge sums of
# products of 3x3 filters, and with them their rounding errors, to the double.
_POINTS = {
    3: tuple(map(Fraction, ("0", "1", "-1"))),
    5: tuple(map(Fraction, ("0", "2/3", "-2/3", "3/2", "-3/2"))),
    7: tuple(map(Fraction, ("0", "1", "-1", "2", "-2", "1/2", "-1/2"))),
}


class Transform(NamedTuple):
    """A constant matrix that transforms tiles: ``d -> M d M^T``.

    Attributes:
        rows: its rows.
    """

    rows: tuple[tuple[float, ...], ...]

    @property
    def length(self) -> int:
        """Number of rows."""
        return len(self.rows)

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.rows[0])

    def combine(self, row: int, names: list[str], ctype: str) -> str:
        """C for a row times variables.

        Args:
            row: which.
            names: the variables, one for each column.
            ctype: their type.
        """
        suffix = "f" if ctype == "float" else ""
        special = {1.0: "", -1.0: "-"}
        terms = [
            special.get(factor, f"{factor!r}{suffix} * ") + name
            for factor, name in zip(self.rows[row], names, strict=True)
            if factor != 0
        ]
        return " + ".join(terms).replace("+ -", "- ")


class Transforms(NamedTuple):
    """The matrices for filters of one size: ``y = results((filters w) * (pixels x))``.

    Attributes:
        pixels: of what a tile reads; the same for all three directions.
        filters: of filters.
        results: back, to the tile's results.
        gradients: of a tile of gradients, which take the filters' place in a weight gradient.
        weights: back, to the filters' elements.
    """

    pixels: Transform
    filters: Transform
    results: Transform
    gradients: Transform
    weights: Transform

    @property
    def numbers(self) -> int:
        """Numbers of a transformed tile, and so products."""
        return self.pixels.length**2


@cache
def transforms(size: int, tile: int) -> Transforms:
    """The matrices for filters of ``size`` by ``size``, by Toom's and Cook's construction.

    A filter and a tile of pixels are polynomials; their values at some points and at infinity are
    multiplied, and products give results back.

    Args:
        size: of a side of a filter.
        tile: of a side of a tile of results; with ``size`` 5, 7 or 9 in all.
    """
    points = _POINTS[size + tile - 2]
    products = [prod(p - q for q in points if q != p) for p in points]
    rows = [_coefficients([q for q in points if q != p]) for p in points]
    pixels = (*((*row, Fraction(0)) for row in rows), _coefficients(points))

    def evaluate(count: int) -> Transform:
        finite = [[p**i / n for i in range(count)] for p, n in zip(points, products, strict=True)]
        return _floats([*finite, [Fraction(i == count - 1) for i in range(count)]])

    def interpolate(count: int) -> Transform:
        return _floats([[*(p**i for p in points), Fraction(i == count - 1)] for i in range(count)])

    return Transforms(
        _floats(pixels), evaluate(size), interpolate(tile), evaluate(tile), interpolate(size)
    )


def _coefficients(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Of the polynomial with these roots, from the constant on."""
    found = [Fraction(1)]
    for root in roots:
        found = [
            a - root * b for a, b in zip([Fraction(0), *found], [*found, Fraction(0)], strict=True)
        ]
    return tuple(found)


def _floats(rows: Iterable[Iterable[Fraction]]) -> Transform:
    return Transform(tuple(tuple(map(float, row)) for row in rows))
