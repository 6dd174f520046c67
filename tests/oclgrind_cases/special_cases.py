"""Functions by series, continued fractions and recurrences."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import scipy.special as sc

from clnet.device import Target
from clnet.kernels.pointwise import special as package_special
from clnet.kernels.pointwise.special import RECURRENCES

from .harness import REALS, case, given, near, output, run

MODULES = (import_module("clnet.kernels.pointwise.special"),)

_X = (0.0, 0.3, 1.7, 2.5, 9.0, -3.0, -9.0)
UNARY = {
    "i0": sc.i0,
    "i1": sc.i1,
    "i0e": sc.i0e,
    "i1e": sc.i1e,
    "j0": sc.j0,
    "j1": sc.j1,
    "y0": sc.y0,
    "y1": sc.y1,
    "k0": sc.k0,
    "k1": sc.k1,
    "k0e": sc.k0e,
    "k1e": sc.k1e,
    "erfcx": sc.erfcx,
    "log_ndtr": sc.log_ndtr,
    "airy_ai": lambda x: sc.airy(x)[0],
    "spherical_bessel_j0": lambda x: np.sinc(x / np.pi),
}


@case("cpu")
def of_one_number(target: Target) -> None:
    for dtype in REALS:
        for kind, reference in UNARY.items():
            x = np.array(_X, dtype)
            if kind[0] in "yk":
                x = np.abs(x) + dtype(0.25)
            y = output(x.shape, dtype)
            run(package_special(target, kind, [y], [given(x, before=3)]))
            near(y, reference(x.astype(float)), terms=400)
        x = np.array(_X, dtype)
        y, power = output(x.shape, dtype), output(x.shape, np.int32)
        run(package_special(target, "frexp", [y, power], [given(x)]))
        near(y, np.frexp(x)[0])
        near(power, np.frexp(x)[1])


@case("cpu")
def of_two_numbers(target: Target) -> None:
    for dtype in REALS:
        a, b = np.array([0.5, 3, 20, 80], dtype), np.array([1, 2, 30, 60], dtype)
        for kind, reference in (
            ("igamma", sc.gammainc(a.astype(float), b)),
            ("igammac", sc.gammaincc(a.astype(float), b)),
            ("zeta", sc.zeta(a.astype(float) + 1, b)),
            ("nextafter", np.nextafter(a, b)),
            ("legendre_polynomial_p", sc.eval_legendre(b[::-1] // 8, a / 80)),
        ):
            first = a + 1 if kind == "zeta" else a / 80 if kind[0] == "l" else a
            second = b[::-1] // 8 if kind[0] == "l" else b
            y = output(a.shape, dtype)
            run(package_special(target, kind, [y], [given(first), given(second.copy())]))
            near(y, reference, terms=2000)
        for kind in RECURRENCES:
            y = output(a.shape, dtype)
            degrees = np.array([-1, 0, 1, 1], dtype)
            run(package_special(target, kind, [y], [given(a), given(degrees)]))
            assert y.numpy()[:2].tolist() == [0, 1]
    a, b = np.array([4, 0, -6]), np.array([6, 0, 4])
    for kind, reference in (("gcd", np.gcd(a, b)), ("lcm", np.lcm(a, b))):
        y = output(a.shape, np.int64)
        run(package_special(target, kind, [y], [given(a), given(b)]))
        near(y, reference)
