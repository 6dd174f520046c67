"""Of four kernels that tests build, continuous integration compiles one as users have it.

Most of a build of PoCL's are LLVM's passes and code, which take half the time without optimisation.
A test builds a kernel for the few numbers that it asks, and asks the same of it either way: so
``ci/check.sh`` has three of four compiled without, by their texts, unless they have much to do.
Which three turns with the commits: what four runs have asked is all of it with optimisation. ``make
test`` by itself leaves nothing out, nor do processes that tests start, whole trainings among them.
"""

from __future__ import annotations

import os
import zlib
from typing import Any

import pytest

import clnet
from clnet.device import Launch
from clnet.device.builtin_functions import POCL
from clnet.kernels.kernel import Rendered
from tests.groups import UNOPTIMISED

QUARTER = "CLNET_TESTS_OPTIMISE_QUARTER"
"""The environment variable that says which quarter is optimised, any whole number; unset: all."""
PARTS = 4
MUCH = 2**20
"""Operations and bytes of a launch from which it would take longer than is won."""

MUCH_MORE = 2**23
"""From which a kernel that had little to do at first is built once more."""

_LEFT_OUT: set[Rendered] = set()


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
    usual, made = Rendered.text, Launch.__init__
    busy: set[Rendered] = set()

    def launch(self: Launch, kernel: Any, *args: Any, **given: Any) -> None:
        made(self, kernel, *args, **given)
        work = self.flops + self.bytes
        if work >= MUCH:
            busy.add(kernel)
            if work >= MUCH_MORE and kernel in _LEFT_OUT:
                _optimise(kernel)

    def text(rendered: Rendered) -> str:
        # Options are read after the text, since both are parts of a binary's key.
        rendered_text = usual(rendered)
        known = UNOPTIMISED in rendered.options or rendered in busy
        if not known and is_left_out(rendered_text):
            rendered.options = (*rendered.options, UNOPTIMISED)
            _LEFT_OUT.add(rendered)
        return rendered_text

    patch.setattr(Launch, "__init__", launch)
    patch.setattr(Rendered, "text", text)


def compile_all(patch: pytest.MonkeyPatch) -> None:
    """Have all kernels optimised, those again that were left out: of some a test looks at options.

    Args:
        patch: takes it back, for what is built then.
    """
    patch.delenv(QUARTER, raising=False)
    for rendered in tuple(_LEFT_OUT):
        _optimise(rendered)


def _optimise(rendered: Rendered) -> None:
    _LEFT_OUT.discard(rendered)
    rendered.options = tuple(o for o in rendered.options if o != UNOPTIMISED)
    clnet.device().programs.kernels.pop(rendered, None)
