"""Winograd's transforms: constant matrices around element-wise products; they launch nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod

from ..values.record import NamedTuple

# By their number, as whole numbers over a common one. Five lie evenly about 1 in ratio: 2 and -2
# beside 1 and -1 would enlarge sums of products of 3x3 filters, and with them their rounding
# errors, to the double.
_POINTS = {
    3: ((0, 1, -1), 1),
    5: ((0, 4, -4, 9, -9), 6),
    7: ((0, 2, -2, 4, -4, 1, -1), 2),
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
    points, unit = _POINTS[size + tile - 2]
    others = [[q for q in points if q != p] for p in points]
    products = [prod(p - q for q in rest) for p, rest in zip(points, others, strict=True)]
    pixels = [[*_coefficients(rest, unit), 0.0] for rest in others]
    last = len(points) - 1

    def evaluate(count: int) -> Transform:
        finite = [
            [_rounded(p**i * unit ** (last - i), n) for i in range(count)]
            for p, n in zip(points, products, strict=True)
        ]
        return _transform([*finite, [float(i == count - 1) for i in range(count)]])

    def interpolate(count: int) -> Transform:
        rows = [[_rounded(p**i, unit**i) for p in points] for i in range(count)]
        return _transform([[*row, float(i == count - 1)] for i, row in enumerate(rows)])

    return Transforms(
        _transform([*pixels, _coefficients(points, unit)]),
        evaluate(size),
        interpolate(tile),
        evaluate(tile),
        interpolate(size),
    )


def _coefficients(roots: Sequence[int], unit: int) -> list[float]:
    """Of the polynomial whose roots are these over ``unit``, from the constant on."""
    found = [1]
    for root in roots:
        found = [a - root * b for a, b in zip([0, *found], [*found, 0], strict=True)]
    return [_rounded(c, unit ** (len(roots) - power)) for power, c in enumerate(found)]


def _rounded(numerator: int, denominator: int) -> float:
    """The float next to a fraction; 0 has no sign."""
    return numerator / denominator + 0.0


def _transform(rows: Sequence[Sequence[float]]) -> Transform:
    return Transform(tuple(map(tuple, rows)))
