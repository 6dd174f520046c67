"""Factorizations: reflections, triangles, symmetric matrices, eigenvalues and rotations."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from clnet.array import Array
from clnet.device import Target
from clnet.kernels.factor.complex_schur import complex_eigen
from clnet.kernels.factor.complex_triangle import complex_lu
from clnet.kernels.factor.householder import householder, reflect
from clnet.kernels.factor.rotations import orthogonal_rows
from clnet.kernels.factor.schur import general_eigen
from clnet.kernels.factor.spectrum import symmetric_eigen
from clnet.kernels.factor.symmetric import ldl, ldl_substitute
from clnet.kernels.factor.triangle import cholesky, exchanged, lu, substitute
from clnet.kernels.factor.unitary import unitary, unitary_form, unitary_reflect

from .harness import REALS, case, given, near, normal, output, run

MODULES = tuple(
    import_module(f"clnet.kernels.factor.{name}")
    for name in (
        *("householder", "triangle", "symmetric", "spectrum", "schur", "eigenvectors", "rotations"),
        "rotations_alone",
        *("unitary", "complex_schur", "complex_triangle"),
    )
)


@case()
def reflections(target: Target) -> None:
    for dtype in REALS:
        for shape in ((2, 5, 3), (1, 3, 5)):
            x = normal(*shape, dtype=dtype)
            batch, m, n = shape
            a, tau = output(shape, dtype), output((batch, min(m, n)), dtype)
            run(householder(target, a, tau, given(x, before=3)))
            c = normal(batch, m, 19, dtype=dtype)
            y, back = output(c.shape, dtype), output(c.shape, dtype)
            run(reflect(target, y, a, tau, given(c), turned=True))
            run(reflect(target, back, a, tau, y, turned=False))
            near(back, c, terms=64)
            turned_x = output(shape, dtype)
            run(reflect(target, turned_x, a, tau, given(x), turned=True))
            near(turned_x, np.triu(a.numpy()), terms=64)


@case()
def triangles(target: Target) -> None:
    for dtype, panel in zip(REALS, (2, 3), strict=False):
        x = normal(2, 5, 4, dtype=dtype)
        a, pivots, info = output(x.shape, dtype), output((2, 4), np.int32), output((2,), np.int32)
        run(lu(target, a, pivots, info, given(x, before=3), panel=panel))
        order = output((2, 5), np.int64)
        run(exchanged(target, order, pivots))
        low = np.tril(a.numpy()[..., :4], -1) + np.eye(5, 4)
        product = low @ np.triu(a.numpy()[:, :4])
        near(given(product.astype(dtype)), np.take_along_axis(x, order.numpy()[..., None], 1))
        assert not info.numpy().any()
        run(lu(target, a, pivots, info, given(np.zeros_like(x)), panel=panel))
        assert info.numpy().tolist() == [1, 1]
        square = x[:, :4] @ x[:, :4].swapaxes(1, 2) + np.eye(4, dtype=dtype)
        factor = output(square.shape, dtype)
        run(cholesky(target, factor, info, given(square), panel=panel))
        near(factor, np.linalg.cholesky(square.astype(float)), terms=64)
        b = normal(2, 4, 3, dtype=dtype)
        for upper in (False, True):
            for unit in (False, True):
                whole = normal(2, 4, 4, dtype=dtype) / 4 + 2 * np.eye(4, dtype=dtype)
                kept = np.triu(whole) if upper else np.tril(whole)
                kept = kept - kept * np.eye(4) + np.eye(4) if unit else kept
                y = output(b.shape, dtype)
                how = {"upper": upper, "unit": unit, "panel": panel}
                run(substitute(target, y, given(whole), given(b), **how))
                near(y, np.linalg.solve(kept.astype(float), b), terms=64)


@case()
def symmetric_systems(target: Target) -> None:
    for dtype in REALS:
        x = normal(2, 5, 5, dtype=dtype)
        x = x + x.swapaxes(1, 2)
        x[:, np.arange(5), np.arange(5)] *= dtype(0.01)
        a, pivots, info = output(x.shape, dtype), output((2, 5), np.int32), output((2,), np.int32)
        run(ldl(target, a, pivots, info, given(x)))
        b = normal(2, 5, 3, dtype=dtype)
        y = output(b.shape, dtype)
        run(ldl_substitute(target, y, a, pivots, given(b)))
        near(given((x @ y.numpy()).astype(dtype)), b, terms=1000)
        assert not info.numpy().any()


@case()
def eigenvalues(target: Target) -> None:
    for dtype in REALS:
        x = normal(2, 6, 6, dtype=dtype)
        half, x = x, np.tril(x) + np.tril(x, -1).swapaxes(1, 2)
        wanted = np.linalg.eigvalsh(x.astype(float))
        values, vectors = output((2, 6), dtype), output(x.shape, dtype)
        run(symmetric_eigen(target, values, vectors, given(half, before=3)))
        near(values, wanted, terms=64)
        v = vectors.numpy()
        product = (v * wanted[:, None]) @ v.swapaxes(1, 2)
        near(given(product.astype(dtype)), x, terms=1000)
        for upper in (False, True):
            one = half.swapaxes(1, 2).copy() if upper else half
            run(symmetric_eigen(target, values, None, given(one), upper=upper))
            near(values, wanted, terms=64)


@case()
def general_eigenvalues(target: Target) -> None:
    for dtype in REALS:
        x = normal(2, 6, 6, dtype=dtype)
        values, vectors = output((2, 6, 2), dtype), output((2, 6, 6, 2), dtype)
        run(general_eigen(target, values, vectors, given(x, before=3)))
        found = values.numpy() @ [1, 1j]
        assert (found.imag != 0).any()
        assert (found.imag == 0).any()
        v = vectors.numpy() @ [1, 1j]
        difference = x @ v - v * found[:, None]
        near(given(abs(difference).astype(dtype)), np.zeros(x.shape), terms=1000)
        near(given(np.linalg.norm(v, axis=1).astype(dtype)), np.ones((2, 6)), terms=64)
        alone = output(values.shape, dtype)
        run(general_eigen(target, alone, None, given(x)))
        near(alone, values.numpy())


@case()
def rotations(target: Target) -> None:
    for dtype in REALS:
        x = normal(2, 5, 7, dtype=dtype)
        wanted = np.linalg.svd(x.astype(float), compute_uv=False)
        lengths, y, v = output((2, 5), dtype), output(x.shape, dtype), output((2, 5, 5), dtype)
        run(orthogonal_rows(target, lengths, y, v, given(x, before=3)))
        near(lengths, wanted, terms=64)
        near(y, v.numpy() @ x, terms=64)
        run(orthogonal_rows(target, lengths, y, None, given(x)))
        near(lengths, wanted, terms=64)


def _numbers(pairs: Array) -> np.ndarray:
    return pairs.numpy() @ [1, 1j]


def _near(found: np.ndarray, wanted: np.ndarray, dtype: type) -> None:
    near(given(abs(found - wanted).astype(dtype)), np.zeros(found.shape), terms=1000)


@case()
def unitary_forms(target: Target) -> None:
    for dtype in REALS:
        for shape in ((2, 5, 3), (1, 3, 5)):
            batch, m, n = shape
            x = normal(*shape, 2, dtype=dtype)
            a, tau = output(x.shape, dtype), output((batch, min(m, n), 2), dtype)
            run(unitary(target, a, tau, given(x, before=3)))
            c = normal(batch, m, 4, 2, dtype=dtype)
            y, back, form = output(c.shape, dtype), output(c.shape, dtype), output(x.shape, dtype)
            run(unitary_reflect(target, y, a, tau, given(c), turned=True))
            run(unitary_reflect(target, back, a, tau, y, turned=False))
            near(back, c, terms=64)
            run(unitary_reflect(target, form, a, tau, given(x), turned=True))
            _near(_numbers(form), np.triu(_numbers(a)), dtype)
        x = normal(2, 4, 4, 2, dtype=dtype)
        a, q, p = (output(x.shape, dtype) for _ in range(3))
        for right in (None, p):
            run(unitary_form(target, a, q, right, given(x)))
            turned = _numbers(q if right is None else p).conj().swapaxes(1, 2)
            _near(_numbers(q) @ _numbers(a) @ turned, x @ [1, 1j], dtype)


@case()
def complex_eigenvalues(target: Target) -> None:
    for dtype in REALS:
        x = normal(2, 4, 4, 2, dtype=dtype)
        values, vectors = output((2, 4, 2), dtype), output(x.shape, dtype)
        run(complex_eigen(target, values, vectors, given(x, before=3)))
        v = _numbers(vectors)
        _near(x @ [1, 1j] @ v, v * _numbers(values)[:, None], dtype)
        alone = output(values.shape, dtype)
        run(complex_eigen(target, alone, None, given(x)))
        near(alone, values.numpy())


@case()
def complex_triangles(target: Target) -> None:
    for dtype in REALS:
        x = normal(2, 4, 3, 2, dtype=dtype)
        a, pivots, info = output(x.shape, dtype), output((2, 3), np.int32), output((2,), np.int32)
        run(complex_lu(target, a, pivots, info, given(x, before=3)))
        order, packed = output((2, 4), np.int64), _numbers(a)
        run(exchanged(target, order, pivots))
        product = (np.tril(packed, -1) + np.eye(4, 3)) @ np.triu(packed[:, :3])
        _near(product, np.take_along_axis(x @ [1, 1j], order.numpy()[..., None], 1), dtype)
        run(complex_lu(target, a, pivots, info, given(np.zeros_like(x))))
        assert info.numpy().tolist() == [1, 1]
