"""Asynchronous copies of tiles: where they read and write, plain C standing for instructions."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from clnet.array import Array
from clnet.device import Target, device
from clnet.kernels.epilogue import Epilogue
from clnet.kernels.gemm import gemm_tiled, gemm_turned
from clnet.kernels.gemm.gemm import gemm
from tests.kernels.launching import SMALL_RING
from tests.kernels.test_gemm import GPU, check, operands, place, poisoned

_PLAIN = (
    (r"asm volatile\(\"cp\.async\.ca\.shared\.global \[%0\], \[%1\], 4, %2;\"[^;]*;",
     "*to = valid ? *from : 0;"),
    (r"asm volatile\(\"cp\.async\.cg\.shared\.global \[%0\], \[%1\], 16, %2;\"[^;]*;",
     "for (int i = 0; i < 4; i++) to[i] = valid ? from[i] : 0;"),
    (r"asm volatile\(\"cp\.async\.ca\.shared\.global \[%0\], \[%1\], 4;\"[^;]*;", "*to = *from;"),
    (r"asm volatile\(\"(cp\.async\.(commit|wait)_group.*;)?\"[^;]*;", ";"),
)  # fmt: skip


def without_instructions(text: str) -> str:
    """The same kernel for a compiler that has none of them; copies are there at once."""
    for instruction, plain in _PLAIN:
        text, count = re.subn(instruction, plain, text)
        assert count
    assert "asm" not in text
    return text


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("gap", [0, 3])
def test_copies_bring_what_is_multiplied(layout, gap, monkeypatch):
    """Whole tiles and their edges, runs of four and single elements, along either axis."""
    where = device()
    if where.traits.asynchronous_copies:
        pytest.skip("the device has the instructions; other tests run them")
    tile = SMALL_RING[0][0]._replace(copy="async")
    monkeypatch.setattr(gemm_tiled, "TILINGS", ((tile, 1.0),))
    monkeypatch.setattr(gemm_turned, "SHARE", 0)
    traits = {**GPU, "local_memory_bytes": 2**17, "asynchronous_copies": True}
    target = Target(dataclasses.replace(where.traits, **traits), where.target.workspace_limit)
    for m, n, k in ((48, 64, 40), (35, 70, 29)):
        a, b, bias = operands((m, k), (k, n), (n,))
        left, right = (
            place(x, where, (0, 1) if order == "N" else (1, 0), gap)
            for x, order in zip((a, b), layout, strict=True)
        )
        out = poisoned((m, n), where)
        epilogue = Epilogue(Array.from_numpy(bias, where))
        (launch,) = gemm(target, out, left, right, epilogue=epilogue)
        text = without_instructions(launch.kernel.text())
        monkeypatch.setattr(launch.kernel, "_text", text)
        where.queue.run([launch])
        check(out.numpy(), a.astype(np.float64) @ b + bias, k)
