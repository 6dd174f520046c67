"""Ops on shapes against NumPy: values, gradients, and which of them copy."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.autodiff.gradient import grad
from clnet.errors import ArgumentError, BoundsError, DtypeError, ShapeError
from clnet.ops.machinery.function import apply
from clnet.ops.shape import Slice, to_dtype
from clnet.values import dtypes
from tests.opcase import OpCase, every_check, integers, normal, sliced, transposed

pytestmark = pytest.mark.device

X = normal(4, 3, 5)
view = partial(OpCase, layouts=(transposed, sliced), shapes=())


def named(name, fn, ref, label="", inputs=(X,), **options):
    """A case of an op called with settings; the reference gets NumPy arrays."""
    return view(fn, ref, list(inputs), name=name, label=label, **options)


CASES = [
    OpCase(ops.clone, np.copy, [normal(7, 33)], dtypes=["float16", "bfloat16"]),
    OpCase(ops.clone, np.copy, [integers(-9, 9, (7, 33))], grad=False, label="integers"),
    OpCase(ops.contiguous, np.copy, [normal(7, 33)]),
    named("reshape", lambda x: x.reshape(6, 10), lambda x: x.reshape(6, 10)),
    named("reshape", lambda x: ops.reshape(x, (-1, 15)), lambda x: x.reshape(-1, 15), "inferred"),
    named("reshape", lambda x: x.reshape(()), lambda x: x.reshape(()), "scalar", [normal(1, 1)]),
    view(lambda x: x.view(2, -1), lambda x: x.reshape(2, -1), [X], name="view", layouts=()),
    named("permute", lambda x: x.permute(2, 0, 1), lambda x: x.transpose(2, 0, 1)),
    named("permute", lambda x: x.permute((-1, 0, 1)), lambda x: x.transpose(2, 0, 1), "negative"),
    named("transpose", lambda x: x.transpose(0, -1), lambda x: x.swapaxes(0, -1)),
    named("flatten", lambda x: x.flatten(), np.ravel),
    named("flatten", lambda x: x.flatten(1), lambda x: x.reshape(4, 15), "from 1"),
    named("flatten", lambda x: x.flatten(0, -2), lambda x: x.reshape(12, 5), "to -2"),
    named("squeeze", lambda x: x.squeeze(), lambda x: x.squeeze(), inputs=[normal(1, 5, 1, 3)]),
    named("squeeze", lambda x: x.squeeze(-2), lambda x: x.squeeze(-2), "dim", [normal(1, 5, 1, 3)]),
    named("squeeze", lambda x: x.squeeze(1), lambda x: x, "other size", [normal(1, 5, 1, 3)]),
    named("unsqueeze", lambda x: x.unsqueeze(1), lambda x: np.expand_dims(x, 1)),
    named("unsqueeze", lambda x: x.unsqueeze(-1), lambda x: np.expand_dims(x, -1), "last"),
    named(
        "expand",
        lambda x: x.expand(2, -1, 6, 5),
        lambda x: np.broadcast_to(x, (2, 3, 6, 5)),
        inputs=[normal(3, 1, 5)],
        k=12,
    ),
    named(
        "broadcast_to",
        lambda x: ops.broadcast_to(x, (4, 5)),
        lambda x: np.broadcast_to(x, (4, 5)),
        inputs=[normal(5)],
        k=4,
    ),
    named("narrow", lambda x: x.narrow(-1, 1, 3), lambda x: x[..., 1:4]),
    named("narrow", lambda x: x.narrow(0, 3, 1), lambda x: x[3:], "last"),
    named(
        "sum_to_size",
        lambda x: x.sum_to_size(3, 1),
        lambda x: x.sum((0, 2)).reshape(3, 1),
        k=20,
    ),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x.reshape(6, 10),
        lambda x: x.view(60),
        lambda x: x.permute(2, 0, 1),
        lambda x: x.transpose(0, 1),
        lambda x: x.flatten(),
        lambda x: x.unsqueeze(0),
        lambda x: x.expand(2, 4, 3, 5),
        lambda x: x.narrow(0, 1, 2),
        lambda x: x.contiguous(),
        lambda x: x.detach(),
        lambda x: x.transpose(0, 1).reshape(3, 2, 2, 5),
    ],
)
def test_views_share_memory(look):
    x = clnet.zeros(4, 3, 5)
    y = look(x)
    x.fill_(3.0)
    assert (y.numpy() == 3).all()


def test_reshape_copies_only_when_it_must():
    x = clnet.tensor(np.arange(6.0).reshape(2, 3))
    assert x.T.reshape(6).tolist() == [0, 3, 1, 4, 2, 5]
    assert x.T.reshape(6).array.storage is not x.array.storage
    with pytest.raises(
        ShapeError, match=r"^view: its elements are not laid out for that shape; .* Use reshape"
    ):
        x.T.view(6)


LOOKS = {  # views of (2, 3, 4), and the steps of what keeps their axes in order
    "as it is": (lambda x: x, (12, 4, 1)),
    "turned": (lambda x: x.permute(2, 1, 0), (1, 4, 12)),
    "two axes": (lambda x: x.transpose(1, 2), (12, 1, 4)),
    "every other one": (lambda x: x[:, ::2].transpose(0, 1), (4, 8, 1)),
    "repeated": (lambda x: x[:, :1].expand(2, 3, 4), (12, 4, 1)),
    "turned and repeated": (lambda x: x.permute(2, 0, 1)[:, :1].expand(4, 5, 3), (1, 4, 20)),
}


@pytest.mark.parametrize("look", LOOKS)
def test_copies_keep_the_order_of_axes_in_memory(look):
    make, strides = LOOKS[look]
    x = make(clnet.tensor(np.arange(24, dtype=np.float32).reshape(2, 3, 4)))
    for y in (
        *(
            x.clone(),
            x.to(clnet.float64),
            x.long(),
            x.to(x.device, copy=True),
            x.type_as(x.double()),
        ),
        *(x + 1, x > 3, x.sin() * x, x.double().mul(2), x * clnet.complex(x, x)),
        *(clnet.zeros_like(x), clnet.full_like(x, 2), clnet.empty_like(x), clnet.rand_like(x)),
    ):
        assert (y.shape, y.stride()) == (x.shape, strides)
    assert x.clone().tolist() == x.double().tolist() == x.tolist()
    for y in (
        *(x.contiguous(), x.clone(memory_format=clnet.contiguous_format)),
        *(
            x.to(clnet.int64, memory_format=clnet.contiguous_format),
            x.half(clnet.contiguous_format),
        ),
        clnet.ones_like(x, memory_format=clnet.contiguous_format),
    ):
        assert y.is_contiguous()


@pytest.mark.parametrize(
    ("shapes", "orders", "strides"),  # PyTorch's
    [
        (((4, 5, 6, 7), (7, 1, 1)), ((0, 3, 1, 2), (0, 1, 2)), (210, 1, 42, 7)),
        (((7, 1, 1), (4, 5, 6, 7)), ((0, 1, 2), (0, 3, 1, 2)), (210, 1, 42, 7)),
        (((6, 5), (5, 6)), ((0, 1), (1, 0)), (5, 1)),  # the first operand decides
        (((5, 6), (6, 5)), ((1, 0), (0, 1)), (1, 6)),
        (((1, 5), (6, 1)), ((1, 0), (1, 0)), (6, 1)),
    ],
)
def test_results_of_pointwise_ops_lie_as_their_operands(shapes, orders, strides):
    rng = np.random.default_rng(0)
    hosts = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    turned = [h.transpose(order) for h, order in zip(hosts, orders, strict=True)]
    x, y = (clnet.tensor(h).permute(order) for h, order in zip(hosts, orders, strict=True))
    z = x + y
    assert z.stride() == strides
    assert np.array_equal(z.numpy(), turned[0] + turned[1])
    compiled = clnet.compile(lambda x, y: x + y)(x, y)
    assert np.array_equal(compiled.numpy(), z.numpy())
    z.mul_(x)
    assert np.array_equal(z.numpy(), (turned[0] + turned[1]) * turned[0])


def test_in_a_trace_a_row_major_operand_decides():
    x, y = clnet.randn(6, 5).t(), clnet.randn(5, 6)
    assert (x + y).stride() == (1, 5)
    z = clnet.compile(lambda x, y: x + y)(x, y)
    assert z.stride() == (6, 1)
    assert np.array_equal(z.numpy(), x.numpy() + y.numpy())


def test_copies_of_views_have_gradients_and_are_changed_in_place():
    x = clnet.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    y = (x * 2).T.clone()
    y.mul_(3)
    y[0].add_(1)
    (y * y).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 72 * x.detach().numpy() + [[12, 0, 0]] * 2)
    leaf = clnet.zeros_like(x.T, requires_grad=True)
    assert leaf.is_leaf
    for f in (lambda t: t.T.clone() + 1, lambda t: clnet.ones_like(t.T) * t.T.float()):
        assert clnet.compile(f)(x.detach()).tolist() == f(x).tolist()


def test_empty_narrow_has_an_empty_gradient():
    x = clnet.ones(4, 3, requires_grad=True)
    y = x.narrow(0, 4, 0)
    assert y.shape == (0, 3)
    y.backward(clnet.zeros(0, 3))
    assert x.grad.tolist() == [[0.0] * 3] * 4


def test_slice_gradient_of_gradient_is_the_slice():
    x = clnet.tensor(np.arange(12.0).reshape(3, 4), requires_grad=True)
    y = apply(Slice((1, 0), (1, 2), (2, 2)), x * x)
    (gx,) = grad(y, x, clnet.ones(2, 2), create_graph=True)
    assert gx.detach().tolist() == [[0, 0, 0, 0], [8, 0, 12, 0], [16, 0, 20, 0]]
    (ggx,) = grad(gx, x, clnet.ones(3, 4))
    assert ggx.tolist() == [[0, 0, 0, 0], [2, 0, 2, 0], [2, 0, 2, 0]]


@pytest.mark.parametrize(
    "source", ["float32", "float16", "bfloat16", "int64", "int8", "uint8", "bool"]
)
@pytest.mark.parametrize("target", ["float32", "float16", "bfloat16", "int64", "int32", "bool"])
def test_conversion_equals_numpy(source, target):
    source, target = dtypes.from_name(source), dtypes.from_name(target)
    values = np.array([0, 1, 2, 100, 3.75, 0.1]).astype(source.numpy)
    converted = to_dtype(clnet.tensor(values), target)
    assert converted.dtype is target
    np.testing.assert_array_equal(converted.numpy(), values.astype(target.numpy))


def test_gradient_flows_through_a_conversion():
    x = clnet.ones(3, requires_grad=True)
    (x.half() * 2).backward(clnet.ones(3).half())
    assert x.grad.dtype is clnet.float32
    assert x.grad.tolist() == [2, 2, 2]


def test_copy_converts_and_broadcasts():
    x = clnet.zeros(2, 3)
    assert x.copy_(clnet.tensor([1, 2, 3])) is x
    assert x.tolist() == [[1, 2, 3], [1, 2, 3]]
    with pytest.raises(
        ShapeError, match=r"^copy_: the source does not broadcast to it; got target=.*source="
    ):
        x.copy_(clnet.zeros(4, 2, 3))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: x.reshape(7),
            ShapeError,
            "reshape: it has 7 elements, not 6; got shape=(2, 3), target=(7,)",
        ),
        (
            lambda x: x.reshape(-1, -1),
            ShapeError,
            "reshape: sizes are 0 or more, with at most one -1; got shape=(2, 3), target=(-1, -1)",
        ),
        (
            lambda x: x.reshape(-1, 4),
            ShapeError,
            "reshape: 6 elements do not divide into it; got shape=(2, 3), target=(-1, 4)",
        ),
        (
            lambda x: x.permute(0, 0),
            ShapeError,
            "permute: dims names every axis once; got dims=(0, 0), shape=(2, 3)",
        ),
        (lambda x: x.permute(0, 2), BoundsError, "permute: dim lies in [-2, 2); got dim=2, ndim=2"),
        (
            lambda x: x.transpose(0, 2),
            BoundsError,
            "transpose: dim lies in [-2, 2); got dim=2, ndim=2",
        ),
        (
            lambda x: x.unsqueeze(-4),
            BoundsError,
            "unsqueeze: dim lies in [-3, 3); got dim=-4, ndim=3",
        ),
        (
            lambda x: x.flatten(1, 0),
            ArgumentError,
            "flatten: start_dim comes before end_dim; got start_dim=1, end_dim=0",
        ),
        (
            lambda x: x.expand(2, 4),
            ShapeError,
            "expand: only axes of size 1 repeat; got shape=(2, 3), sizes=(2, 4)",
        ),
        (
            lambda x: x.expand(3),
            ShapeError,
            "expand: it has fewer axes than the tensor; got shape=(2, 3), sizes=(3,)",
        ),
        (
            lambda x: x.narrow(1, 2, 2),
            ShapeError,
            "narrow: start and length lie inside the axis; "
            "got shape=(2, 3), dim=1, start=2, length=2",
        ),
        (
            lambda x: x.narrow(1, 4, 0),
            BoundsError,
            "narrow: start lies in [-3, 3]; got shape=(2, 3), dim=1, start=4",
        ),
        (
            lambda x: x.sum_to_size(4),
            ShapeError,
            "sum_to_size: the size broadcasts to the tensor's shape; got shape=(2, 3), size=(4,)",
        ),
    ],
)
def test_errors_name_the_law(call, error, message):
    with pytest.raises(error) as raised:
        call(clnet.ones(2, 3))
    assert str(raised.value) == message


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int16", "float64", "complex64"])
def test_bytes_are_viewed_as_another_dtype(dtype):
    """In the same memory, against NumPy; wider elements are cut from whole rows."""
    x = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    target = getattr(clnet, dtype)
    part = x[1:, : 4 if target.itemsize > 4 else 3]
    given = clnet.tensor(np.ascontiguousarray(part))
    seen = given.view(target)
    np.testing.assert_array_equal(seen.numpy(), np.ascontiguousarray(part).view(target.numpy))
    assert seen.data_ptr() == given.data_ptr()
    np.testing.assert_array_equal(given.view(dtype=target).view(clnet.float32).numpy(), part)


def test_bits_are_changed_through_a_view():
    x = clnet.randn(4, 3)
    wanted = abs(x.numpy())
    compiled = clnet.compile(lambda y: (y.view(clnet.int32) & 0x7FFFFFFF).view(clnet.float32))
    np.testing.assert_array_equal(compiled(x).numpy(), wanted)
    x.view(clnet.int32).bitwise_and_(0x7FFFFFFF)
    np.testing.assert_array_equal(x.numpy(), wanted)
    weight = clnet.ones(2, requires_grad=True)
    assert not (weight * 2).view(clnet.complex64).requires_grad
    same = weight.view(clnet.float32)
    assert same is not weight
    assert same.data_ptr() == weight.data_ptr()
    assert not same.requires_grad  # as through any dtype


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: clnet.ones(2, 3).T.view(clnet.uint8), "elements of other bytes lie side by side"),
        (lambda: clnet.ones(2, 3).view(clnet.float64), "rows are whole numbers of elements"),
        (lambda: clnet.ones(()).view(clnet.uint8), "elements of other bytes .* x.reshape"),
        (lambda: clnet.ones(2).view(2, dtype=clnet.int32), "it is of a shape or of a dtype"),
    ],
)
def test_views_of_other_bytes_that_are_refused(call, message):
    with pytest.raises(ShapeError, match=f"^view: {message}"):
        call()


def test_sizes_are_looked_at_each_time_however_they_are_given():
    x = clnet.ones(6)
    for _ in range(3):
        for given in ((2, 3), ((2, 3),), ([2, 3],), (clnet.ones(2, 3).shape,)):
            assert x.reshape(*given).shape == (2, 3)
        for given in ((2.0, 3), ((2, 3.0),), ([2.5, 3],), ("6",)):
            with pytest.raises(DtypeError, match="whole number"):
                x.reshape(*given)
        with pytest.raises(ArgumentError, match="64 bits"):
            x.reshape((2**70, 3))
