"""``clnet.kernel``: kernels that users write, eager, compiled, in the tape and in profiles."""

from __future__ import annotations

import re

import numpy as np
import pytest

import clnet
from clnet.autograd import Function, gradcheck
from clnet.errors import (
    ArgumentError,
    BuildError,
    DeviceError,
    DtypeError,
    GradientError,
    ShapeError,
    TemplateError,
)

pytestmark = pytest.mark.device

SAXPY = """
// y = a * x + y, and a comment (with a parenthesis) before __kernel void no(int n) {
__kernel void saxpy(__global const float *restrict x, const __global float* y, /* it */ float a,
                    const int n, __global float *const z)
{
    const int i = get_global_id(0);
    if (i < n) z[i] = a * x[i] + y[i];
}
"""
SQUARES = """
float squared(const float x) { return x * x; }
kernel void squares(global const double *x, global double *y, uint n)
{
    const uint i = get_global_id(0);
    if (i < n) y[i] = ${power} * x[i] * x[i];
}
"""
# A tile of a transposed matrix goes through local memory.
TRANSPOSE = """
#define TILE 8
__kernel void transposed(__global const float *x, const int rows, const int columns,
                         __global float *y, __global int *place)
{
    __local float tile[TILE][TILE + 1];
    const int row = get_global_id(1), column = get_global_id(0);
    const int r = get_local_id(1), c = get_local_id(0);
    if (row < rows && column < columns) tile[r][c] = x[row * columns + column];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (row < rows && column < columns) {
        y[column * rows + row] = tile[r][c];
        place[column * rows + row] = row * columns + column;
    }
}
"""


@pytest.fixture(scope="module")
def saxpy():
    return clnet.kernel(SAXPY)


def test_it_computes_on_tensors_and_views_of_any_layout(saxpy):
    whole = clnet.arange(24.0).reshape(4, 6)
    for x, y in ((whole, -whole), (whole[1:], whole[:3]), (whole[:, ::2], whole.T[1:4].T)):
        z = saxpy(x, y, np.float32(2.5), np.int64(x.numel()))
        assert z.shape == x.shape
        assert z.is_contiguous()
        np.testing.assert_array_equal(z.numpy(), 2.5 * x.numpy() + y.numpy())
    assert saxpy(whole, whole, 1, 24, shape=(2, 12)).shape == (2, 12)
    assert saxpy(whole, whole, 1, 24, shape=24).shape == (24,)
    assert saxpy(whole, whole, 1, 0, shape=(0,)).numel() == 0
    assert repr(saxpy) == "clnet.kernel(saxpy: x, y, a, n, z)"


def test_a_compiled_function_launches_it_in_its_place(saxpy):
    def step(x, y):
        return saxpy(x.relu(), y + 1, 3.0, x.numel()).sum()

    x, y = clnet.randn(300), clnet.randn(300)
    compiled = clnet.compile(step)
    for _ in range(3):
        assert compiled(x, y).item() == step(x, y).item()


def test_a_function_of_autograd_gives_its_gradient():
    source = """
    __kernel void cubed(__global const double *x, const int n, const double a, __global double *y)
    {
        const int i = get_global_id(0);
        if (i < n) y[i] = a * x[i] * x[i] * x[i];
    }"""
    kernel = clnet.kernel(source)

    class Cubed(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return kernel(x, x.numel(), 1.0)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 3 * x * x * grad

    x = clnet.tensor([[0.5, -1.0], [2.0, 0.0]], dtype=clnet.float64, requires_grad=True)
    assert gradcheck(Cubed.apply, [x])
    with pytest.raises(GradientError, match=r"clnet\.autograd\.Function"):
        kernel(x, 4, 1.0).sum().backward()


def test_groups_share_local_memory_and_there_are_several_results():
    kernel = clnet.kernel(TRANSPOSE)
    x = clnet.arange(5.0 * 11).reshape(5, 11)
    y, place = kernel(x, 5, 11, shape=[(11, 5), (11, 5)], global_size=(11, 5), local_size=(8, 8))
    np.testing.assert_array_equal(y.numpy(), x.numpy().T)
    assert place.dtype is clnet.int32
    np.testing.assert_array_equal(place.numpy(), np.arange(55).reshape(5, 11).T)


def test_the_source_may_be_a_template_and_hold_several_kernels():
    source = f"{SAXPY}\n{SQUARES}"
    kernel = clnet.kernel(source, name="squares", params={"power": 3}, options=["-DNOTHING"])
    x = clnet.tensor([1.0, -2.0], dtype=clnet.float64)
    assert kernel(x, 2).tolist() == [3.0, 12.0]
    with pytest.raises(TemplateError, match="power"):
        clnet.kernel(source, name="squares", params={})
    with pytest.raises(ArgumentError, match=r"saxpy.*squares"):
        clnet.kernel(source)


def test_numbers_have_the_range_of_their_parameter():
    source = """
    __kernel void filled(__global const uchar *x, const uchar x_offset, unsigned int b,
                         short c, ulong d, __global long *y)
    { y[get_global_id(0)] = (long)x[get_global_id(0)] + x_offset + b + c + (long)d; }"""
    kernel = clnet.kernel(source)
    x = clnet.tensor([True, False])
    assert kernel(x, 255, 2**32 - 1, -5, 7, local_size=1).tolist() == [2**32 + 257, 2**32 + 256]
    for wrong in ((256, 0, 0, 0), (-1, 0, 0, 0), (0, -1, 0, 0), (0, 0, 2**15, 0), (0, 0, 0, -1)):
        with pytest.raises(ArgumentError, match="is from"):
            kernel(x, *wrong)
    with pytest.raises(DtypeError, match="x_offset is a whole number"):
        kernel(x, 1.5, 0, 0, 0)


def test_it_is_in_profiles(saxpy):
    x = clnet.randn(1000)
    with clnet.profile() as profile:
        saxpy(x, x, 2.0, 1000, flops=2000)
    total = profile.totals()["saxpy"]
    assert (total.calls, total.flops, total.bytes) == (1, 2000, 12000)


def test_wrong_calls_are_refused_by_name(saxpy):
    x = clnet.ones(4)
    with pytest.raises(ArgumentError, match="parameters=x, y, a, n"):
        saxpy(x, x, 2.0)
    with pytest.raises(ArgumentError, match="y is a tensor"):
        saxpy(x, np.ones(4, np.float32), 2.0, 4)
    with pytest.raises(DtypeError, match=r"x leads to .*float32"):
        saxpy(x.double(), x, 2.0, 4)
    with pytest.raises(ShapeError, match="results=z"):
        saxpy(x, x, 2.0, 4, shape=[(4,), (4,)])
    with pytest.raises(ShapeError, match="0 or more"):
        saxpy(x, x, 2.0, 4, shape=(-1,))
    with pytest.raises(ArgumentError, match="1 to 3 sizes"):
        saxpy(x, x, 2.0, 4, global_size=(1, 1, 1, 1))
    with pytest.raises(ArgumentError, match="dimensions of the grid"):
        saxpy(x, x, 2.0, 4, local_size=(1, 1))
    with pytest.raises(ArgumentError, match="than the device allows"):
        saxpy(x, x, 2.0, 4, local_size=2**30)


def test_wrong_sources_are_refused_by_name():
    for source, said in (
        ("void nothing() {}", "one __kernel"),
        ("__kernel void f(__global float *y) {}", "that it reads"),
        ("__kernel void f(__global const float *x) {}", "that it writes"),
        ("__kernel void f(__global const float4 *x, __global float *y) {}", "float4"),
        ("__kernel void f(__local float *x, __global float *y) {}", "__local"),
        ("__kernel void f(__global const ushort *x, __global float *y) {}", "ushort"),
    ):
        with pytest.raises(ArgumentError, match=said):
            clnet.kernel(source)
    kernel = clnet.kernel(
        "__kernel void broken(__global const float *x,\n__global float *y)\n{\n  y[0] = x[0] +;\n}"
    )
    with pytest.raises(BuildError, match="broken") as raised:
        kernel(clnet.ones(1))
    assert re.search(r"y\[0\] = x\[0\] \+;", str(raised.value))


@pytest.mark.multi
def test_tensors_are_on_one_device(saxpy, part_of_device):
    with pytest.raises(DeviceError, match="on one device"):
        saxpy(clnet.ones(2), clnet.ones(2, device=part_of_device), 1.0, 2)
