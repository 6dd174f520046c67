"""Many kernels are compiled without optimisation for PoCL's CPUs, which is most of a build.

Those of groups, which GPUs alone launch: PoCL takes a second to some seconds of a core for a kernel
with barriers, most of them passes over a group's work-items: a fifth of that without optimisation.
On a CPU a test of such a kernel is a test of its template, which is the same; how its compiler's
code does is seen on GPUs, where nothing of this holds.

And three of four of the others, but for those that do a network's work (products, convolutions,
attention). These are thousands, expressions most of them, and tests give them little to do; their
builds take 0.6 of an optimised one's, and their results are the same bits. The fourth, drawn by its
text, is as users have it; so are all kernels of narrower vectors (``ci/check.sh``), of GPUs and of
processes that tests start. ``CLNET_TESTS_OPTIMISED=1`` has all kernels without barriers so.
"""

from __future__ import annotations

import os
import sys
from zlib import crc32

import pytest

import clnet
from clnet.device import Device
from clnet.device.builtin_functions import POCL
from clnet.kernels.kernel import Rendered

UNOPTIMISED = "-cl-opt-disable"
# Networks of usual sizes wait for these, and draw their weights by them.
AT_WORK = (
    *("attention", "col2im", "conv", "copy", "fill", "gemm", "im2col", "integer", "random"),
    *("pointwise_vectors", "recurrence", "stockham", "winograd"),
)
"""What names of kernels begin with that are optimised always."""
AS_USERS_HAVE_IT = 4
"""Of so many other kernels one."""

_OPTIMISED = os.environ.get("CLNET_TESTS_OPTIMISED", "0") not in ("", "0")
_SPARED: list[Rendered] = []  # of which barriers are no reason
_text = Rendered.text


def of_groups(text: str) -> bool:
    """Whether work-items of a group wait for each other in a kernel; no kernel for CPUs has that.

    Args:
        text: its OpenCL C.
    """
    return "barrier(" in text


def is_spared(name: str, text: str) -> bool:
    """Whether a kernel without barriers is not optimised: always, or never, by its text.

    Args:
        name: the kernel's.
        text: its OpenCL C.
    """
    return not name.startswith(AT_WORK) and crc32(text.encode()) % AS_USERS_HAVE_IT != 0


def _text_first(rendered: Rendered) -> str:
    # Options are read after the text, since both are parts of a binary's key.
    text = _text(rendered)
    if UNOPTIMISED in rendered.options:
        return text
    if of_groups(text):
        rendered.options = (*rendered.options, UNOPTIMISED)
    elif not _OPTIMISED and is_spared(rendered.name, text):
        rendered.options = (*rendered.options, UNOPTIMISED)
        _SPARED.append(rendered)
    return text


def with_users_options(patch: pytest.MonkeyPatch) -> None:
    """Kernels without barriers have users' options, also those that are compiled.

    Chains are made of such kernels alone.

    Args:
        patch: takes it back.
    """
    patch.setattr(sys.modules[__name__], "_OPTIMISED", True)
    for rendered in _SPARED:
        options = tuple(option for option in rendered.options if option != UNOPTIMISED)
        patch.setattr(rendered, "options", options)


def are_compiled_wrongly(opened: Device) -> bool:
    """Whether PoCL 5.0 (LLVM 16) compiles them for AVX-512: then in one of four ways rightly.

    Run as loops between barriers, tiles of 32 rows give wrong numbers or crash; as continuations
    (``cbs``) all kernels do without optimisation, and with it none of those that were tried.
    """
    return "PoCL 5.0" in opened.identity.platform_version and opened.traits.simd_width == 16


def compile_fast(patch: pytest.MonkeyPatch) -> None:
    """Leave optimisation out for them, where the default device is one of PoCL's that allows it.

    Args:
        patch: takes it back.
    """
    here = clnet.device()
    if are_compiled_wrongly(here):
        os.environ.setdefault("POCL_WORK_GROUP_METHOD", "cbs")
    elif here.identity.platform == POCL:
        patch.setattr(Rendered, "text", _text_first)
