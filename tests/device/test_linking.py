"""PoCL's kernels are linked with what they need alone; what others link is left as it is."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys

import numpy as np
import pyopencl as cl
import pytest

import clnet
from clnet.device.ahead import Ahead
from clnet.device.builders import Request
from clnet.device.linking import LINKERS, linking_less

LIBRARIES = "-lgcc --as-needed -lgcc_s --no-as-needed -lc -lgcc --as-needed -lgcc_s --no-as-needed"
# Clears memory, which LLVM makes a call of libc, and rounds doubles to halves, a call of libgcc
# where the processor has no instruction for it.
TEXT = """
__kernel void clears(__global float *y, __global half *h, __global const double *x, const int n)
{
    for (int i = 0; i < n; ++i) y[i] = 0.0f;
    vstore_half(x[0], 0, h);
}
"""


def asked(folder, *arguments):
    """What the script asks ``ld`` for."""
    ld = folder / "ld"
    ld.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    ld.chmod(0o755)
    (linker,) = LINKERS.iterdir()
    environment = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [linker, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform == "win32", reason="a shell's script")
def test_a_kernel_keeps_libgcc_alone(tmp_path):
    before = ["-shared", "-o", "/a folder/tempfile_a1B2c3.so", "/a folder/tempfile_d4E5f6.so.o"]
    assert asked(tmp_path, *before, *LIBRARIES.split()) == [*before, "-lgcc", "-lgcc"]


@pytest.mark.skipif(sys.platform == "win32", reason="a shell's script")
@pytest.mark.parametrize(
    "before", ["-shared -o a.so a.o", "-o tempfile_a1B2c3 /tmp/tempfile_d4E5f6.so.o"]
)
def test_what_is_no_kernel_is_linked_as_it_was_asked(tmp_path, before):
    arguments = [*before.split(), *LIBRARIES.split(), "an argument  of words", "*"]
    assert asked(tmp_path, *arguments) == arguments


def test_without_a_linker_the_environment_stays(tmp_path):
    for environment in ({}, {"PATH": str(tmp_path), "HOME": "/"}):
        assert linking_less(environment) == environment


@pytest.mark.skipif(
    clnet.device().identity.platform_version.split()[:3] != ["OpenCL", "3.0", "PoCL"]
    or "3.0" not in clnet.device().identity.driver
    or platform.machine() != "x86_64"
    or shutil.which("ld") is None,
    reason="PoCL 3.0 from pip, whose compiler looks for a linker of its target",
)
def test_processes_that_build_link_less_and_their_kernels_run(monkeypatch):
    monkeypatch.setenv("PATH", os.environ["PATH"].replace(f"{os.pathsep}{LINKERS}", ""))
    queue = clnet.device().queue
    handle, context = queue._device, queue._context
    ahead = Ahead(handle, 2)
    options = ("-cl-std=CL1.2", f"-DSALT={os.getpid()}")  # nothing of it is in PoCL's own cache
    with ahead.begun([Request(TEXT, options)] * 6, lambda _: True) as answers:
        binaries = [answer.binary for _, answer in answers]
    assert len(binaries) == 6
    assert not any(b"libc.so.6" in binary for binary in binaries)
    program = cl.Program(context, [handle], [binaries[0]]).build()
    y, h, x = np.ones(100, np.float32), np.ones(1, np.float16), np.array([0.1])
    flags = cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(context, flags, hostbuf=each) for each in (y, h, x)]
    own = cl.CommandQueue(context)
    program.clears(own, (1,), (1,), *buffers, np.int32(100))
    for host, buffer in zip((y, h), buffers, strict=False):
        cl.enqueue_copy(own, host, buffer)
    assert not y.any()
    assert h[0] == np.float16(0.1)
