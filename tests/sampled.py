"""Of four kernels that tests build, continuous integration compiles one as users have it.

Most of a build of PoCL's are LLVM's passes and code, which take half the time without optimisation.
A test builds a kernel for the few numbers that it asks, and asks the same of it either way: so
``ci/check.sh`` has three of four compiled without, by their texts. Which three turns with the
commits: what four runs have asked is all of it with optimisation. ``make test`` by itself, narrower
vectors and all processes that tests start, whole trainings among them, leave nothing out.
"""

from __future__ import annotations

import os
import zlib

import pytest

import clnet
from clnet.device.builtin_functions import POCL
from clnet.kernels.kernel import Rendered
from tests.groups import UNOPTIMISED

QUARTER = "CLNET_TESTS_OPTIMISE_QUARTER"
"""The environment variable that says which quarter is optimised, any whole number; unset: all."""
PARTS = 4


def is_left_out(text: str) -> bool:
    """Whether a kernel is none of those that this run compiles as users have them.

    Args:
        text: its OpenCL C.
    """
    quarter = os.environ.get(QUARTER)
    return quarter is not None and zlib.crc32(text.encode()) % PARTS != int(quarter) % PARTS


def compile_less(patch: pytest.MonkeyPatch) -> None:
    """Leave optimisation out for three of four kernels, where the environment says so.

    Args:
        patch: takes it back.
    """
    if QUARTER not in os.environ or clnet.device().identity.platform != POCL:
        return
    usual = Rendered.text

    def text(rendered: Rendered) -> str:
        # Options are read after the text, since both are parts of a binary's key.
        made = usual(rendered)
        if UNOPTIMISED not in rendered.options and is_left_out(made):
            rendered.options = (*rendered.options, UNOPTIMISED)
        return made

    patch.setattr(Rendered, "text", text)
