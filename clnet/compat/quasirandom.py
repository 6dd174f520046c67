"""``torch.quasirandom``: points that fill a cube evenly, Sobol's, which SciPy counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..inspection import get_default_dtype
from ..random import initial_seed
from ..tensor import Tensor, tensor
from ..values.dtypes import DType

__all__ = ["SobolEngine"]


class SobolEngine:
    """Sobol's points in ``[0, 1)^dimension``, one after another; not scrambled, they are PyTorch's.

    Args:
        dimension: of the cube.
        scramble: draw the digits anew at random (Owen), which keeps the points even.
        seed: of that; None: the process's.

    Raises:
        ArgumentError: if there are no points of that dimension, or SciPy is not installed.
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:  # noqa: FBT001, FBT002 - PyTorch's
        if not 0 < dimension <= self.MAXDIM:
            law = f"dimension is from 1 to {self.MAXDIM}"
            raise ArgumentError("SobolEngine", law, dimension=dimension)
        try:
            from scipy.stats import qmc  # noqa: PLC0415 - optional
        except ImportError as error:
            raise ArgumentError(
                "SobolEngine", "SciPy is installed", error=error, remedy="pip install scipy"
            ) from error
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        drawn = initial_seed() if seed is None else seed
        rng = np.random.default_rng(drawn % 2**64)
        self._points = qmc.Sobol(dimension, scramble=scramble, bits=self.MAXBIT, seed=rng)
        self.num_generated = 0

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: DType | None = None) -> Tensor:
        """The next points.

        Args:
            n: how many.
            out: where to write them; None: a new tensor.
            dtype: of a new tensor; None: the default one.

        Returns:
            ``(n, dimension)``.
        """
        found = np.empty((0, self.dimension))
        if n:
            found = self._points.random(n)
            self.num_generated += n
        made = tensor(found, dtype=dtype or get_default_dtype())
        return made if out is None else out.resize_(made.shape).copy_(made)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: DType | None = None) -> Tensor:
        """The next ``2^m`` points, with which a power of two have been drawn.

        Raises:
            ArgumentError: if another number would have been.
        """
        total = self.num_generated + 2**m
        if total & (total - 1):
            law = "a power of two of points are drawn in all"
            raise ArgumentError("draw_base2", law, drawn=self.num_generated, more=2**m)
        return self.draw(2**m, out, dtype)

    def reset(self) -> SobolEngine:
        """Begin again."""
        self._points.reset()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out points.

        Args:
            n: how many.
        """
        self._points.fast_forward(n)
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        shown: list[Any] = [f"dimension={self.dimension}"]
        shown += ["scramble=True"] if self.scramble else []
        shown += [f"seed={self.seed}"] if self.seed is not None else []
        return f"{type(self).__name__}({', '.join(shown)})"
