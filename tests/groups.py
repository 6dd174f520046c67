"""Kernels of groups, which GPUs alone launch, are compiled without optimisation for PoCL's CPUs.

PoCL takes a second to some seconds of a core for a kernel with barriers, most of them passes over a
group's work-items: a fifth of that without optimisation. On a CPU a test of such a kernel is a test
of its template, which is the same; how its compiler's code does is seen on GPUs, where nothing of
this holds.
"""

from __future__ import annotations

import os

import pytest

import clnet
from clnet.device import Device
from clnet.device.builtin_functions import POCL
from clnet.kernels.kernel import Rendered

UNOPTIMISED = "-cl-opt-disable"

_text = Rendered.text


def of_groups(text: str) -> bool:
    """Whether work-items of a group wait for each other in a kernel; no kernel for CPUs has that.

    Args:
        text: its OpenCL C.
    """
    return "barrier(" in text


def _text_first(rendered: Rendered) -> str:
    # Options are read after the text, since both are parts of a binary's key.
    text = _text(rendered)
    if UNOPTIMISED not in rendered.options and of_groups(text):
        rendered.options = (*rendered.options, UNOPTIMISED)
    return text


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
