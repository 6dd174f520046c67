"""Programs built without a word: some drivers write a log when nothing is wrong."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import pyopencl as cl


def built(program: Any, options: Sequence[str] = (), *, told: bool = False) -> Any:
    """A program, built; pyopencl keeps no copy of its own.

    Args:
        program: the ``pyopencl.Program``, of a text or a binary.
        options: build options.
        told: let pyopencl warn of what the compiler's log says.

    Returns:
        The program.

    Raises:
        cl.RuntimeError: if the compiler refuses it; the log is in it.
    """
    with warnings.catch_warnings():
        if not told:
            warnings.simplefilter("ignore", cl.CompilerWarning)
        return program.build(options=list(options), cache_dir=False)
