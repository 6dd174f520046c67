"""Matrix products against NumPy; the kernels' own tests are in tests/kernels."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.errors import DtypeError, ShapeError
from tests.opcase import NARROW, OpCase, every_check, expanded, normal, sliced, transposed


def product(*shapes, label, **options):
    """A case of matmul; ``k`` is the inner size."""
    return OpCase(
        ops.matmul,
        np.matmul,
        [normal(*s) for s in shapes],
        k=options.pop("k", shapes[0][-1]),
        label=label,
        layouts=options.pop("layouts", (transposed,)),
        shapes=options.pop("shapes", ()),
        **options,
    )


def affine(x, weight, bias=0.0):
    return x @ weight.T + bias


EDGES = [
    ((0, 33), (33, 5)),
    ((7, 0), (0, 5)),
    ((7, 33), (33, 0)),
    ((1, 1), (1, 1)),
    ((1, 33), (33, 1)),
]

CASES = [
    product(
        (7, 33),
        (33, 5),
        label="",
        layouts=(transposed, sliced, expanded),
        shapes=EDGES,
        grad2=True,
        dtypes=NARROW,
    ),
    product((65, 130), (130, 47), label="off the tiles"),
    product((33,), (33,), label="vectors"),
    product((33,), (33, 5), label="vector, matrix"),
    product((7, 33), (33,), label="matrix, vector"),
    product((3, 7, 33), (33, 5), label="batch, matrix", grad2=True),
    product((7, 33), (3, 33, 5), label="matrix, batch"),
    product((3, 7, 33), (3, 33, 5), label="batches"),
    product((2, 1, 7, 9), (3, 9, 5), label="broadcast batches", grad2=True, dtypes=NARROW),
    product((2, 3, 9), (9,), label="batch, vector"),
    OpCase(
        ops.mm, np.matmul, [normal(7, 33), normal(33, 5)], k=33, layouts=(transposed,), shapes=()
    ),
    OpCase(
        ops.bmm,
        np.matmul,
        [normal(3, 7, 33), normal(3, 33, 5)],
        k=33,
        layouts=(transposed,),
        shapes=(),
    ),
    OpCase(
        ops.linear,
        affine,
        [normal(7, 33), normal(5, 33), normal(5)],
        k=33,
        layouts=(transposed, sliced),
        shapes=[((0, 33), (5, 33), (5,)), ((7, 0), (5, 0), (5,)), ((1, 1), (1, 1), (1,))],
        grad2=True,
        dtypes=NARROW,
    ),
    OpCase(
        ops.linear,
        affine,
        [normal(2, 3, 9), normal(5, 9)],
        k=9,
        layouts=(),
        shapes=(),
        label="no bias",
    ),
    OpCase(
        ops.linear,
        lambda x, weight: x @ weight,
        [normal(2, 3, 9), normal(9)],
        k=9,
        layouts=(),
        shapes=(),
        label="weight of one axis",
    ),
    OpCase(
        ops.linear,
        affine,
        [normal(9), normal(5, 9), normal(5)],
        k=9,
        layouts=(),
        shapes=(),
        label="vector",
    ),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def test_the_same_product_gives_the_same_bits():
    rng = np.random.default_rng(0)
    a, b = (clnet.tensor(rng.standard_normal((130, 130)).astype(np.float32)) for _ in range(2))
    first = (a @ b).numpy()
    assert all(np.array_equal((a @ b).numpy(), first) for _ in range(3))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: clnet.ones(32, 128) @ clnet.ones(64, 10),
            ShapeError,
            "matmul: inner sizes differ, 128 != 64; got a=(32, 128), b=(64, 10)",
        ),
        (
            lambda: clnet.ones(3) @ clnet.ones(4),
            ShapeError,
            "matmul: inner sizes differ, 3 != 4; got a=(3,), b=(4,)",
        ),
        (
            lambda: clnet.ones(()) @ clnet.ones(4),
            ShapeError,
            "matmul: operands have one axis or more; got a=(), b=(4,)",
        ),
        (
            lambda: clnet.ones(2, 3, 4) @ clnet.ones(3, 4, 5),
            ShapeError,
            "matmul: sizes differ at axis -1 and none is 1; got shapes=((2,), (3,))",
        ),
        (
            lambda: clnet.ones(2, 3) @ clnet.ones(3, 4).half(),
            DtypeError,
            "matmul: operands have one dtype; got a=clnet.float32, b=clnet.float16. "
            "Convert one with .to(dtype)",
        ),
        (
            lambda: ops.mm(clnet.ones(2, 3), clnet.ones(3)),
            ShapeError,
            "mm: operands are matrices; got a=(2, 3), b=(3,)",
        ),
        (
            lambda: ops.bmm(clnet.ones(2, 3, 4), clnet.ones(3, 4, 5)),
            ShapeError,
            "bmm: operands are stacks of equally many matrices; got a=(2, 3, 4), b=(3, 4, 5)",
        ),
        (
            lambda: ops.linear(clnet.ones(2, 3), clnet.ones(5, 4)),
            ShapeError,
            "linear: x ends in the weight's in_features; got x=(2, 3), weight=(5, 4)",
        ),
        (
            lambda: ops.linear(clnet.ones(2, 3), clnet.ones(5, 3), clnet.ones(3)),
            ShapeError,
            "linear: the bias has the weight's out_features; got weight=(5, 3), bias=(3,)",
        ),
    ],
)
def test_errors_name_the_law(call, error, message):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value) == message


@pytest.mark.parametrize("dtype", [clnet.float16, clnet.bfloat16])
def test_sums_of_16_bit_floats_are_made_in_32(dtype):
    ones = clnet.ones(1, 5000).to(dtype)
    assert (ones @ ones.T).item() == clnet.tensor(5000.0).to(dtype).item()
    weight = clnet.ones(5000).to(dtype)
    product = clnet.matmul(ones.expand(2, 3, 1, 5000), weight)
    assert (product.dtype, product.shape) == (dtype, (2, 3, 1))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((1, 9, 4, 5, 3), (7, 9, 1, 3, 1)),  # capsules: each axis is one operand's, or both's
        ((7, 1, 4, 5, 3), (1, 9, 4, 3, 2)),
        ((2, 1, 3, 1, 2, 3), (1, 4, 1, 5, 3, 2)),
        ((6, 1, 0, 2, 3), (1, 4, 1, 3, 2)),
    ],
    ids=str,
)
def test_batches_of_many_axes_are_few_launches(left, right):
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(shape).astype(np.float32) for shape in (left, right)]
    a, b = (clnet.tensor(v, requires_grad=True) for v in values)
    with clnet.profile() as seen:
        y = a @ b
        y.detach().numpy()
    if y.numel():
        assert seen.totals(lambda command: command.op)["matmul"].calls == 1
    expected = np.matmul(*(v.astype(np.float64) for v in values))
    np.testing.assert_allclose(y.detach().numpy(), expected, rtol=1e-5, atol=1e-5)
    given = rng.standard_normal(y.shape).astype(np.float32)
    (y * clnet.tensor(given)).sum().backward()
    for x, other in ((a, values[1]), (b, values[0])):
        turned = np.swapaxes(other.astype(np.float64), -1, -2)
        slope = given @ turned if x is a else turned @ given
        kept = tuple(d for d, n in enumerate(x.shape) if n == 1 and slope.shape[d] != 1)
        np.testing.assert_allclose(
            x.grad.numpy(), slope.sum(kept, keepdims=True), rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize(("m", "n", "k"), [(8, 8, 8), (6, 7, 9), (17, 5, 4)])
def test_many_tiny_products_share_groups_on_cpus(m, n, k):
    """With panels, and a group of the launch, for each, 1,024 of 8x8 took five times as long."""
    x, y = clnet.randn(1000, m, k), clnet.randn(1000, k, n)
    with clnet.profile() as seen:
        z = x @ y
    np.testing.assert_allclose(z.numpy(), x.numpy() @ y.numpy(), atol=2e-5)
    if not x.device.traits.dedicated_local_memory:
        assert [c.name for c in seen.commands if c.kind == "kernel"] == ["gemm_unpacked"]
