"""The tuner's process with a tunable whose candidates are right, wrong, or deadly."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

from clnet.errors import BuildError
from clnet.kernels import tunables
from clnet.kernels.gemm.gemm_packed import BLOCKING
from clnet.kernels.gemm.gemm_problem import Product
from clnet.kernels.gemm.gemm_trial import ProductTrial

PRODUCT = Product("float32", 24, 40, 32, 1, 1, "NN")
# Places of the candidates; the rest is what the kernel has.
RIGHT, WRONG, DEADLY, REFUSED = range(4)


def serve(selector: str, threads: int, simd_width: int) -> None:
    """As :func:`.tunables.serve`, with "planted" beside the kernel whose candidates it spoils."""
    tunables.TUNABLES["planted"] = replace(BLOCKING, name="planted", trial=spoiled)
    tunables.MOST_CANDIDATES = 5
    tunables.serve(selector, threads, simd_width)


def spoiled(where, product):
    """A product that the first candidates but one spoil."""
    blockings = BLOCKING.candidates(where.target, product)
    trial = BLOCKING.trial(where, product)

    class Spoiled(ProductTrial):
        def launches(self, choice, turn):
            place = blockings.index(choice)
            if place == WRONG:
                return trial.launches(choice, turn)[:0]
            if place == DEADLY:
                os.kill(os.getpid(), signal.SIGKILL)
            if place == REFUSED:
                raise BuildError("planted", "it does not compile")
            return super().launches(choice, turn)

    return Spoiled(where, product, trial._lower)
