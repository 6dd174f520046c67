"""Handles of kernels: what sets their arguments is made once for all that have the same."""

from __future__ import annotations

import struct

import numpy as np
import pyopencl as cl
import pytest
from pyopencl import invoker

from clnet.device import handles

pytestmark = pytest.mark.device

TEXT = """__kernel void set_to(__global float *y, const float a)
{
    y[get_global_id(0)] = a;
}
__kernel void plus(__global float *x, const float b)
{
    x[get_global_id(0)] += b;
}
__kernel void plus_whole(__global float *x, const int n)
{
    x[get_global_id(0)] += n;
}
"""


@pytest.fixture
def program(device):
    return cl.Program(device.queue._context, TEXT).build()


@pytest.fixture
def written(monkeypatch):
    """What pyopencl writes from now on, by the names of kernels."""
    names, write = [], invoker.generate_enqueue_and_set_args

    def writes(name, *given, **named):
        names.append(name)
        return write(name, *given, **named)

    monkeypatch.setattr(invoker, "generate_enqueue_and_set_args", writes)
    return names


def test_handles_share_what_sets_their_arguments_and_no_argument(program, written, device):
    handles._typed.cache_clear()
    queue = device.queue._queue
    out = cl.Buffer(device.queue._context, cl.mem_flags.READ_WRITE, 12)
    made = [handles.new_handle(program, name) for name in ("set_to", "plus", "plus_whole", "plus")]
    types = [(None, np.float32), (None, np.float32), (None, np.int32), (None, np.float32)]
    for handle, of, value in zip(made, types, (2.5, 0.25, 4, 0.125), strict=True):
        handles.tell_types(handle, of)
        handle.set_args(out, value)
    for handle in made:
        cl.enqueue_nd_range_kernel(queue, handle, (3,), None)
    found = np.empty(3, np.float32)
    cl.enqueue_copy(queue, found, out)
    assert found.tolist() == [6.875] * 3
    assert not written
    assert handles._typed.cache_info().misses == 2  # for each list of types


def test_handles_of_others_are_made_as_ever(program, written):
    handles.new_handle(program, "plus")
    for _ in range(2):
        cl.Kernel(program, "plus")
    assert written == ["plus"] * 2


def test_a_kernel_that_is_absent_leaves_pyopencl_as_it_was(program, written):
    before = invoker.generate_enqueue_and_set_args
    with pytest.raises(cl.LogicError):
        handles.new_handle(program, "absent")
    assert invoker.generate_enqueue_and_set_args is before


def test_another_pyopencl_makes_handles_as_it_does(program, monkeypatch):
    monkeypatch.setattr(handles, "_WRITER", "called_otherwise")
    assert handles.new_handle(program, "plus").num_args == 2
    assert not hasattr(invoker, "called_otherwise")


@pytest.mark.parametrize("types", [(None, np.int32), (None, np.uintc), (None, np.void), None])
def test_arguments_of_every_kind_are_set_in_their_places(types, program, device):
    handle = handles.new_handle(program, "plus_whole")
    if types is not None:
        handles.tell_types(handle, types)
    out = cl.Buffer(device.queue._context, cl.mem_flags.READ_WRITE, 4)
    queue, found = device.queue._queue, np.full(1, 0.5, np.float32)
    cl.enqueue_copy(queue, out, found)
    handle.set_args(out, 7 if types not in (None, (None, np.void)) else np.int32(7))
    cl.enqueue_nd_range_kernel(queue, handle, (1,), None)
    cl.enqueue_copy(queue, found, out)
    assert found.tolist() == [7.5]
    with pytest.raises(TypeError):
        handle.set_args(out)
    with pytest.raises(TypeError, match="queues alone"):
        handle(queue, (1,), None, out, 7)


def test_what_is_packed_here_lies_as_pyopencl_packs_it():
    given = []

    class Handle:
        _set_arg_buf_multi = _set_arg_buf_pack_multi = lambda self, each: given.append(each)

    handles._typed((np.int32, np.longlong, np.float16))(Handle(), 1, 2, 0.5)
    assert given == [(1, struct.pack("q", 2), 2, struct.pack("e", 0.5)), (0, b"i", 1)]


def test_types_that_pyopencl_refuses_are_refused_by_it(program):
    with pytest.raises(TypeError, match="length of argument list"):
        handles.tell_types(handles.new_handle(program, "plus"), (None,))
