"""Kernels of groups, which GPUs alone launch, are compiled without optimisation for PoCL's CPUs.

PoCL takes a second to some seconds of a core for a kernel with barriers, most of them passes over a
group's work-items: a fifth of that without optimisation. On a CPU a test of such a kernel is a test
of its template, which is the same; how its compiler's code does is seen on GPUs, where nothing of
this holds.
"""

from __future__ import annotations

import pytest

import clnet
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


def compile_fast(patch: pytest.MonkeyPatch) -> None:
    """Leave optimisation out for them, where the default device is one of PoCL's.

    Args:
        patch: takes it back.
    """
    if clnet.device().identity.platform == POCL:
        patch.setattr(Rendered, "text", _text_first)
