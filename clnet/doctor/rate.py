"""Rates of products and copies beside what the device reaches with nothing else to do."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..creation import asarray
from ..device import Device
from ..profiling.limits import Limits
from ..user_kernel import kernel

_CHAINS, _ROUNDS, _TRIES = 12, 10_000, 4
_ARITHMETIC = """
__kernel void doctor_arithmetic(__global const ${ctype} *x, int n, __global ${ctype} *y)
{
    const int i = get_global_id(0);
    const VECTOR a = (VECTOR)(x[0]), b = (VECTOR)(x[1]);
% for k in range(chains):
    VECTOR c${k} = (VECTOR)(x[2] + ${k} + i);
% endfor
    for (int r = 0; r < n; r++) {
% for k in range(chains):
        c${k} = c${k} * a + b;
% endfor
    }
    const VECTOR sum = ${" + ".join(f"c{k}" for k in range(chains))};
    y[i] = ${last};
}
"""


@dataclass(frozen=True)
class Rates:
    """What is reached.

    Attributes:
        peak_gflops: multiply-adds in registers: what arithmetic units reach at most.
        gemm_gflops, copy_gbytes: the best product, the best copy.
        gemm_share: of the peak.
        disturbed: whether the machine was busy with other things.
    """

    peak_gflops: float
    gemm_gflops: float
    copy_gbytes: float
    gemm_share: float
    disturbed: bool

    def text(self) -> str:
        """One line."""
        line = (
            f"products {self.gemm_gflops:,.1f} GFLOP/s, {100 * self.gemm_share:.0f}% of the "
            f"{self.peak_gflops:,.1f} that arithmetic alone reaches; copies "
            f"{self.copy_gbytes:,.1f} GB/s"
        )
        return f"{line} (the machine was busy: too low)" if self.disturbed else line


def rates(device: Device, limits: Limits) -> Rates:
    """Measure the peak of arithmetic, and set what products reach beside it.

    Args:
        device: whose.
        limits: of products and copies, measured before.
    """
    peak = peak_gflops(device)
    share = limits.gflops / peak
    return Rates(peak, limits.gflops, limits.gbytes, share, limits.disturbed)


def peak_gflops(device: Device) -> float:
    """GFLOP/s of independent multiply-adds in registers."""
    lanes = device.traits.simd_width
    last = "sum" if lanes == 1 else "+".join(f"sum.s{k:x}" for k in range(lanes))
    run = kernel(
        _ARITHMETIC,
        params={"ctype": "float", "chains": _CHAINS, "last": last},
        options=(f"-DVECTOR=float{'' if lanes == 1 else lanes}",),
    )
    with device:
        x = asarray(np.array([0.999, 0.001, 0.5], np.float32), device=device)
        items = device.traits.compute_units * (2048 if lanes == 1 else 16)
        flops = 2 * _CHAINS * _ROUNDS * items * lanes

        def once() -> None:
            run(x, _ROUNDS, shape=(items,), flops=flops)

        return flops / _fastest(device, once) / 1e9


def _fastest(device: Device, once: Callable[[], None]) -> float:
    times: list[float] = []
    for _ in range(_TRIES + 1):
        start = time.perf_counter()
        once()
        device.synchronize()
        times.append(time.perf_counter() - start)
    return min(times[1:])
