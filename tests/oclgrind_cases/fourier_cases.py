"""Fourier transforms of lines."""

from __future__ import annotations

import numpy as np

from clnet.device import Target
from clnet.kernels.fourier import stockham, stockham_lanes
from clnet.kernels.fourier.stockham import transform_lines

from .harness import REALS, RNG, case, given, near, output, run

MODULES = (stockham, stockham_lanes)


@case()
def transforms(target: Target) -> None:
    for n in (12, 35):
        for dtype in REALS:
            z = (RNG.standard_normal((3, n)) + 1j * RNG.standard_normal((3, n))).astype(
                np.result_type(dtype, np.complex64)
            )
            for sign, expected in ((-1, np.fft.fft(z)), (1, np.fft.ifft(z) * n)):
                y = output((3, n), z.dtype)
                run_lines(target, y, z, n, sign)
                near(y, expected, terms=64)


@case()
def transforms_of_real_numbers(target: Target) -> None:
    for n in (12, 15):
        for dtype in REALS:
            x = RNG.standard_normal((2, n)).astype(dtype)
            half = np.fft.rfft(x).astype(np.result_type(dtype, np.complex64))
            y = output(half.shape, half.dtype)
            run_lines(target, y, x, n, -1)
            near(y, half, terms=64)
            back = output((2, n), dtype)
            run_lines(target, back, half, n, 1)
            near(back, x * n, terms=64)


@case("cpu")
def transforms_of_many_lines(target: Target) -> None:
    lanes = target.traits.simd_width
    for n, lines in ((12, lanes + 3), (35, lanes)):
        for dtype in REALS:
            x = RNG.standard_normal((lines, n)).astype(dtype)
            half = np.fft.rfft(x).astype(np.result_type(dtype, np.complex64))
            z = (x + 1j * RNG.standard_normal(x.shape)).astype(half.dtype)
            y, back = output(half.shape, half.dtype), output(x.shape, dtype)
            run_lines(target, y, x, n, -1)
            near(y, half, terms=64)
            run_lines(target, back, half, n, 1)
            near(back, x * n, terms=64)
            for sign, expected in ((-1, np.fft.fft(z)), (1, np.fft.ifft(z) * n)):
                y = output(z.shape, z.dtype)
                run_lines(target, y, z, n, sign)
                near(y, expected, terms=64)


def run_lines(target: Target, y, x, n, sign):
    run(transform_lines(target, y, given(x, before=3), n=n, sign=sign))
