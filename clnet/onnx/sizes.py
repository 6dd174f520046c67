"""Sizes that follow from dynamic ones: polynomials, found from traces at several sizes.

A traced function knows numbers alone. It is traced at each dynamic size once and doubled, in all
combinations; what a size is at those is a polynomial of degree 1 in each of them. Whether it is
that at sizes which nothing divides, too, is seen at odd ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import prod

from ..errors import OnnxError

__all__ = ["Dynamic", "Size"]


@dataclass(frozen=True)
class Size:
    """A sum of products of dynamic sizes.

    Attributes:
        terms: the factor of each product; the empty one is the constant.
        odd: what it is at odd sizes, if that is something else; a model cannot compute it then.
    """

    terms: dict[tuple[str, ...], Fraction]
    odd: int | None = None

    @property
    def number(self) -> int | None:
        """It, if no dynamic size is in it."""
        return None if self.symbols or self.odd is not None else int(self.terms.get((), 0))

    @property
    def symbols(self) -> set[str]:
        """The dynamic sizes in it."""
        return {name for product in self.terms for name in product}

    @property
    def symbol(self) -> str | None:
        """The dynamic size that it is, if it is one."""
        if len(self.terms) != 1 or self.odd is not None:
            return None
        ((product, factor),) = self.terms.items()
        return product[0] if len(product) == 1 and factor == 1 else None

    def at(self, sizes: dict[str, int]) -> Fraction:
        """The polynomial's value."""
        return sum(
            (factor * prod(sizes[n] for n in product) for product, factor in self.terms.items()),
            Fraction(0),
        )

    def computed(self, sizes: dict[str, int]) -> int:
        """The value as a model computes it: the quotients of products are whole."""
        return sum(
            int(factor * prod(sizes[n] for n in product)) for product, factor in self.terms.items()
        )


@dataclass(frozen=True)
class Dynamic:
    """Dynamic sizes by name, and where a function is traced.

    Attributes:
        first: their smallest sizes.
    """

    first: dict[str, int]

    MOST = 3

    def __post_init__(self) -> None:
        if len(self.first) > self.MOST:
            raise OnnxError(
                "onnx.export",
                f"a model has up to {self.MOST} different dynamic sizes",
                names=sorted(self.first),
                remedy="Give axes that are always equal one name",
            )

    @property
    def points(self) -> list[dict[str, int]]:
        """Sizes to trace at: the corners, and one point beyond them to compare with."""
        corners = [
            {n: v * (2 if n in doubled else 1) for n, v in self.first.items()}
            for doubled in self._subsets
        ]
        beyond = {n: 3 * v for n, v in self.first.items()}
        return [*corners, beyond] if self.first else corners

    @property
    def odd(self) -> dict[str, int]:
        """Odd sizes, of which what holds at multiples need not hold."""
        return {n: 2 * v + 1 for n, v in self.first.items()}

    @property
    def _subsets(self) -> list[tuple[str, ...]]:
        names = sorted(self.first)
        return [s for k in range(len(names) + 1) for s in combinations(names, k)]

    def size(self, values: Sequence[int]) -> Size:
        """The polynomial of what a size is at all points.

        Args:
            values: at each of :attr:`points`, and perhaps at :attr:`odd`.

        Raises:
            OnnxError: if it is none.
        """
        points = self.points
        values, odd = values[: len(points)], values[len(points) :]
        found = self._polynomial(values)
        if any(found.at(p) != v for p, v in zip(points, values, strict=True)):
            raise OnnxError(
                "onnx.export",
                "a size inside the model is no polynomial of its dynamic sizes",
                sizes=list(values),
                at=points,
                remedy="Let fewer axes be dynamic",
            )
        exact = all(found.computed(self.odd) == v for v in odd)
        return found if exact else replace(found, odd=odd[0])

    def _polynomial(self, values: Sequence[int]) -> Size:
        if len({*values}) == 1:
            return Size({(): Fraction(values[0])})
        subsets = self._subsets
        at = dict(zip(subsets, values, strict=False))

        def rise(of: tuple[str, ...]) -> int:
            """How much doubling all of some sizes adds beyond doubling fewer of them."""
            inside = [s for s in subsets if {*s} <= {*of}]
            return sum((-1) ** (len(of) - len(s)) * at[s] for s in inside)

        rises = {s: rise(s) for s in subsets}
        terms = {}
        for subset in subsets:
            above = [s for s in subsets if {*subset} <= {*s}]
            share = sum((-1) ** (len(s) - len(subset)) * rises[s] for s in above)
            if share:
                terms[subset] = Fraction(share, prod(self.first[n] for n in subset))
        return Size(terms)
