"""``clnet.autograd.Function``: gradients that users write, eager, compiled and once more."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from clnet.autograd.function import once_differentiable

import clnet
from clnet.autograd import Function, grad, gradcheck
from clnet.errors import ArgumentError, GradientError

pytestmark = pytest.mark.device


def batch(*shape: int, seed: int = 0, dtype=np.float32, requires_grad=True) -> clnet.Tensor:
    values = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return clnet.tensor(values, requires_grad=requires_grad)


class Scaled(Function):
    """``factor * x * y``, saved inputs and a plain argument between them."""

    @staticmethod
    def forward(ctx, x, factor, y):
        ctx.save_for_backward(x, None, y)
        ctx.factor = factor
        return factor * x * y

    @staticmethod
    def backward(ctx, grad):
        x, nothing, y = ctx.saved_tensors
        assert nothing is None
        left = grad * y * ctx.factor if ctx.needs_input_grad[0] else None
        return left, None, (grad * x * ctx.factor).sum_to_size(y.shape)


class Exp(Function):
    """``exp(x)``: saves its result, in the later style."""

    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, args, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y


class Between(Function):
    """``sin(x)**2``: saves what is neither argument nor result."""

    @staticmethod
    def forward(ctx, x):
        s = x.sin()
        ctx.save_for_backward(x, s)
        return s * s

    @staticmethod
    def backward(ctx, grad):
        x, s = ctx.saved_tensors
        return 2 * s * x.cos() * grad


class Split(Function):
    """Two results, a count that has no gradient, and a plain value."""

    @staticmethod
    def forward(ctx, x, materialize):
        ctx.set_materialize_grads(materialize)
        first, last, order = x[:2] * 2, x[2:] * 3, x * 1
        ctx.mark_non_differentiable(order)
        return first, last, order, "plain"

    @staticmethod
    def backward(ctx, first, last, order, plain):
        assert plain is None
        Split.got = (first, last)
        first = clnet.zeros(2) if first is None else first
        return clnet.cat([first * 2, last * 3]), None


@pytest.mark.parametrize("shape", [(3, 1), (0,), (1,), (5, 4)])
def test_a_written_gradient_is_the_derived_one(shape):
    x, y = batch(*shape), batch(*shape, seed=1)
    Scaled.apply(x, 3.0, y).sum().backward()
    wanted = grad((3.0 * x * y).sum(), [x, y])
    np.testing.assert_array_equal(x.grad.numpy(), wanted[0].numpy())
    np.testing.assert_array_equal(y.grad.numpy(), wanted[1].numpy())


def test_needs_are_told_and_gradients_that_nobody_wants_dropped():
    x, y = batch(4, requires_grad=False), batch(4)
    Scaled.apply(x, 1.0, y).sum().backward()
    assert x.grad is None
    np.testing.assert_array_equal(y.grad.numpy(), x.numpy())


def test_nothing_is_recorded_where_nobody_asks():
    assert not Exp.apply(batch(2, requires_grad=False)).requires_grad
    with clnet.no_grad():
        assert not Exp.apply(batch(2)).requires_grad
    assert Exp.apply(batch(2)).requires_grad


def test_gradients_of_gradients():
    x, y = batch(3), batch(3, seed=1)
    (first,) = grad(Exp.apply(x).sum(), x, create_graph=True)
    (second,) = grad(first.sum(), x)
    np.testing.assert_allclose(second.numpy(), np.exp(x.detach().numpy()), rtol=1e-6)
    (first,) = grad(Scaled.apply(x, 3.0, y).sum(), x, create_graph=True)
    (second,) = grad(first.sum(), y)
    np.testing.assert_array_equal(second.numpy(), [3, 3, 3])


@pytest.mark.parametrize("own", [Exp, Between], ids=lambda own: own.__name__)
def test_differences_agree(own, device):
    if not device.traits.float64:
        pytest.skip("differences need double precision")
    assert gradcheck(own.apply, batch(3, dtype=np.float64))


def test_a_compiled_step_has_the_same_bits():
    def step(x, y):
        loss = (Scaled.apply(Exp.apply(x), 2.0, y) + Between.apply(x)).sum()
        return (loss.detach(), *grad(loss, [x, y]))

    compiled = clnet.compile(step)
    for seed in range(3):
        x, y = batch(4, 3, seed=seed), batch(4, 3, seed=seed + 9)
        for got, wanted in zip(compiled(x, y), step(x, y), strict=True):
            np.testing.assert_array_equal(got.numpy(), wanted.numpy())


@pytest.mark.parametrize("materialize", [True, False])
def test_several_results(materialize):
    x = batch(5)
    first, last, order, plain = Split.apply(x, materialize)
    assert plain == "plain"
    assert (first.requires_grad, last.requires_grad, order.requires_grad) == (True, True, False)
    last.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0, 0, 3, 3, 3])
    assert (Split.got[0] is not None) == materialize


def test_an_argument_given_back_is_another_tensor():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 7

    x = batch(3)
    y = Same.apply(x)
    assert y is not x
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [7, 7, 7])


def test_a_saved_tensor_that_changed_is_refused():
    for own in (Exp, Scaled):
        x = batch(3, requires_grad=False)
        y = batch(3)
        out = own.apply(y) if own is Exp else own.apply(x, 1.0, y)
        with clnet.no_grad():
            (out if own is Exp else x).add_(1)
        with pytest.raises(GradientError, match=f"backward of {own.__name__}.*changed in place"):
            out.sum().backward()


def test_a_second_walk_needs_the_graph():
    out, ones = Between.apply(batch(3)), clnet.ones(3)
    out.backward(ones, retain_graph=True)
    out.backward(ones)
    with pytest.raises(GradientError, match=r"Between.*freed.*retain_graph"):
        out.backward(ones)


def test_what_was_saved_goes_with_the_walk():
    x = batch(3)
    out = Between.apply(x)
    kept = weakref.ref(out.node.kept_inputs[1].tensor)
    assert kept() is not None
    gc.disable()
    try:
        out.sum().backward()
        assert kept() is None
    finally:
        gc.enable()


def returning(found, x=None):
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, grad):
            return found

    return Wrong.apply(batch(3) if x is None else x, batch(3)).sum()


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (clnet.zeros(3), r"Wrong\.backward: .*for each argument.*arguments=2.*returned=1"),
        ((None, None, clnet.zeros(3)), r"returned=3"),
        ((clnet.zeros(2), None), r"argument's shape.*argument=0.*shape=\(3,\).*gradient=\(2,\)"),
        ((None, 3.0), r"argument=1.*gradient=float"),
    ],
    ids=["too few", "too many", "shape", "type"],
)
def test_wrong_gradients_are_named(found, message):
    with pytest.raises(GradientError, match=message):
        returning(found).backward()


def test_trailing_nones_do_no_harm():
    x = batch(3)
    returning((clnet.full(3, 5.0), None, None), x).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [5, 5, 5])


def test_only_tensors_are_saved():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(3)
            return x

    with pytest.raises(ArgumentError, match=r"save_for_backward.*int.*attribute of ctx"):
        Wrong.apply(batch(2))


def test_methods_that_are_missing_are_named():
    with pytest.raises(NotImplementedError, match="forward"):
        Function.apply(batch(2))


def test_vjp_is_another_name_of_backward():
    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def vjp(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * g * x * x

    class Both(Cube):
        @staticmethod
        def backward(ctx, g):
            return g

    x = batch(3)
    (found,) = grad(Cube.apply(x).sum(), x)
    np.testing.assert_allclose(found.numpy(), 3 * x.detach().numpy() ** 2, rtol=1e-6)
    with pytest.raises(GradientError, match="one of backward and vjp"):
        Both.apply(x).sum().backward()


class Written(Function):
    """The square, with a gradient that nobody may differentiate."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x)
        return x * x * y

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        assert not clnet.is_grad_enabled()
        return g * 2 * ctx.saved_tensors[0], None


def test_what_is_once_differentiable_is_so_once():
    x = batch(3)
    (g,) = grad(Written.apply(x, 1).sum(), x)
    np.testing.assert_array_equal(g.numpy(), 2 * x.detach().numpy())
    (g,) = grad(Written.apply(x, 1).sum(), x, create_graph=True)
    np.testing.assert_array_equal(g.detach().numpy(), 2 * x.detach().numpy())
    with pytest.raises(GradientError, match=r"once_differentiable: .*Leave the mark out"):
        g.sum().backward()


@pytest.mark.parametrize("dtype", [clnet.float64, clnet.float16, clnet.complex64])
def test_a_gradient_of_another_dtype_is_made_its_arguments(dtype):
    class Doubled(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return (grad * 2).to(dtype)

    x = clnet.ones(3, requires_grad=True)
    Doubled.apply(x).sum().backward()
    assert x.grad.dtype is clnet.float32
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def batches(lib: Any) -> list[Any]:
    """Of written functions what ``vmap`` gives, and gradients within and outside of it."""

    class Own(lib.autograd.Function):
        """With a rule for batches of its own."""

        @staticmethod
        def forward(x, w):
            return (x * w).sin()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            d = (x * w).cos() * g
            return d * w, d * x

        @staticmethod
        def vmap(info, in_dims, x, w):
            assert (info.batch_size, info.randomness) == (2, "error")
            assert in_dims[0] == 0
            return Own.apply(x, w), 0

    class Made(Own):
        """With one that is made for it."""

        generate_vmap_rule = True
        vmap = lib.autograd.Function.vmap

    x = lib.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    w = lib.tensor([1.0, 2.0, 3.0])
    found: list[Any] = []
    for kind in (Own, Made):
        found.append(lib.func.vmap(kind.apply, (0, None))(x, w))
        found.append(lib.func.vmap(lib.func.grad(lambda a, k=kind: k.apply(a, w).sum()))(x))
        leaves = [a.clone().requires_grad_() for a in (x, w)]
        lib.func.vmap(kind.apply, (0, None))(*leaves).sum().backward()
        found += [leaf.grad for leaf in leaves]
    return [y.detach().tolist() for y in found]


def test_written_functions_of_batches_are_pytorchs():
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    for ours, theirs in zip(batches(clnet), batches(torch), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_written_function_has_one_rule_for_batches():
    class Both(clnet.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def vmap(info, in_dims, x):
            return x, 0

    with pytest.raises(ArgumentError, match="not both"):
        clnet.vmap(Both.apply)(clnet.ones(2))


def test_what_was_saved_by_its_oldest_name():
    class Swish(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x.sigmoid()

        @staticmethod
        def backward(ctx, g):
            with pytest.warns(DeprecationWarning, match="saved_tensors"):
                x = ctx.saved_variables[0]
            s = x.sigmoid()
            return g * (s * (1 + x * (1 - s)))

    x = batch(5)
    Swish.apply(x).sum().backward()
    (wanted,) = grad(clnet.nn.functional.silu(x).sum(), x)
    np.testing.assert_allclose(x.grad.numpy(), wanted.numpy(), rtol=1e-5)


def test_tangents_that_are_not_there_are_zeros_for_jvp():
    class Product(Function):
        @staticmethod
        def forward(ctx, x, y, factor):
            ctx.save_for_forward(x, y)
            return x * y * factor

        @staticmethod
        def jvp(ctx, tx, ty, nothing):
            x, y = ctx.saved_tensors
            assert nothing is None
            return 3 * (tx * y + x * ty)

    ad = clnet.autograd.forward_ad
    x, y, tangent = batch(3), batch(3, seed=1), batch(3, seed=2, requires_grad=False)
    with ad.dual_level():
        out = Product.apply(ad.make_dual(x, tangent), y, 3)
        found = ad.unpack_dual(out).tangent.detach().numpy()
    np.testing.assert_allclose(found, 3 * tangent.numpy() * y.detach().numpy(), rtol=1e-6)


def test_setup_context_has_all_arguments():
    class Power(Function):
        @staticmethod
        def forward(x, y=3):
            return x**y

        @staticmethod
        def setup_context(ctx, args, output):
            x, ctx.y = args
            ctx.save_for_backward(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * ctx.y * x ** (ctx.y - 1), None

    x = clnet.tensor(2.0, requires_grad=True)
    assert [grad(y, x)[0].item() for y in (Power.apply(x), Power.apply(x, y=2))] == [12, 4]
    with pytest.raises(ArgumentError, match="by place"):
        Scaled.apply(x, 2.0, y=x)


class Added(Function):
    """``x + y``, in the memory of ``x``."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        x.add_(y)
        return x

    @staticmethod
    def backward(ctx, g):
        return g, g


@pytest.mark.parametrize("base", [lambda x: x * 1, lambda x: clnet.zeros(3, 4)], ids=["on", "off"])
def test_a_view_that_is_overwritten_is_part_of_what_it_is_a_view_of(base):
    x, y = batch(3, 4), batch(2, seed=1)
    whole = base(x)
    row = whole[1]
    Added.apply(whole[1:, 1:3], y)
    (whole * clnet.arange(4.0)).sum().backward()
    assert y.grad.tolist() == [2, 4]
    assert row.requires_grad
    with pytest.raises(GradientError, match="leaf that requires gradients"):
        Added.apply(x[0], clnet.ones(4))
