"""A process that builds kernels for another: sources come in, binaries go out.

Run as a script, apart from clnet, so that it starts in the time pyopencl takes. What it is asked
and answers is in :mod:`.ahead`.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
import warnings
from collections.abc import Sequence
from threading import Timer
from typing import Any

import pyopencl as cl

_IDLE_S = 60
_NOTHING = "__kernel void nothing(__global int *x) { x[0] = 0; }\n"


def build(context: Any, text: str, options: Sequence[str]) -> tuple[bytes, float, float, float]:
    """The binary of a program for a context's only device, and what it took.

    Args:
        context: the ``pyopencl.Context``.
        text: OpenCL C.
        options: build options.

    Returns:
        The binary, empty if the driver refuses the program; seconds of a core for the front end
        and for the binary; seconds without a core.
    """
    begin, used = time.perf_counter(), time.thread_time()
    try:
        program = cl.Program(context, text).build(options=list(options), cache_dir=False)  # pyright: ignore[reportArgumentType] - no cache
        parsed = time.thread_time()
        binary = program.get_info(cl.program_info.BINARIES)[0]  # pyright: ignore[reportIndexIssue] - a list
    except cl.Error:  # who asked builds it once more, and tells the user what is wrong
        return b"", 0.0, 0.0, 0.0
    done = time.thread_time()
    waiting = max(time.perf_counter() - begin - (done - used), 0.0)
    return bytes(binary), parsed - used, done - parsed, waiting


def serve() -> None:
    """Answer requests on the standard input with binaries until there are no more.

    One that was started before there are requests loads the compiler meanwhile, and waits a minute.
    """
    warnings.simplefilter("ignore")
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # what a driver prints is no answer
        platform, device, early = pickle.load(sys.stdin.buffer)
        context = cl.Context([cl.get_platforms()[platform].get_devices()[device]])
        if early:
            build(context, _NOTHING, ())
        while True:
            idle = Timer(_IDLE_S, os._exit, (0,))
            idle.daemon = True
            idle.start()
            try:
                request = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            finally:
                idle.cancel()
            pickle.dump(build(context, *request), answers)
            answers.flush()


if __name__ == "__main__":
    serve()
