"""Tangents that ops carry along, beside PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet

torch: Any = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")


def moved(lib: Any) -> list[Any]:
    """Results and tangents of some ops, a module, a written function; a slope of a tangent."""
    ops, fw = lib.nn.functional, lib.autograd.forward_ad
    rng = np.random.default_rng(0)

    def t(*shape: int) -> Any:
        return lib.tensor(rng.standard_normal(shape, dtype=np.float32))

    x, move, w, filters, image, image_move = (
        *(t(4, 5), t(4, 5), t(3, 5)),
        *(t(4, 3, 3, 3), t(2, 3, 6, 6), t(2, 3, 6, 6)),
    )
    classes = lib.tensor(rng.integers(0, 5, 4))

    class Power(lib.autograd.Function):
        """A power, with a tangent of its own."""

        @staticmethod
        def forward(ctx, a, k):
            ctx.save_for_forward(a)
            ctx.k = k
            return a**k

        @staticmethod
        def jvp(ctx, ta, _):
            (a,) = ctx.saved_tensors
            return ctx.k * a ** (ctx.k - 1) * ta

    found: list[Any] = []
    with fw.dual_level():
        dual = fw.make_dual(x, move)
        for f in (
            lambda a: a.sin() * a,
            lambda a: ops.linear(a, fw.make_dual(w, w * 2)),
            lambda a: ops.layer_norm(a.softmax(-1), (5,)),
            lambda a: ops.cross_entropy(a, classes),
            lambda a: lib.cat([a.max(1)[0], a.var(0), a[1:, ::2].reshape(-1)]),
            lambda a: lib.linalg.inv(a @ a.T + lib.eye(4)),
            lambda a: Power.apply(a, 3),
        ):
            found += fw.unpack_dual(f(dual))
        found += fw.unpack_dual(
            ops.max_pool2d(ops.conv2d(fw.make_dual(image, image_move), filters), 2)
        )
        assert fw.unpack_dual(x).tangent is None
        leaf = x.clone().requires_grad_()
        fw.unpack_dual(fw.make_dual(leaf, move) ** 3).tangent.sum().backward()
        found.append(leaf.grad)
        for wrong in (lambda: fw.make_dual(x, move[0]), fw.enter_dual_level):
            with pytest.raises(RuntimeError):
                wrong()
        with pytest.raises(ValueError, match="float"):
            fw.make_dual(lib.arange(3), lib.arange(3))
    with pytest.raises(RuntimeError):
        fw.make_dual(x, move)
    return [y.detach().numpy() for y in found]


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_tangents_are_pytorchs():
    for ours, theirs in zip(moved(clnet), moved(torch), strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


def test_what_a_tangent_is_not_for_is_refused():
    fw = clnet.autograd.forward_ad
    with fw.dual_level():
        x = fw.make_dual(clnet.ones(2), clnet.ones(2))
        with pytest.raises(clnet.errors.GradientError, match="unpack_dual"):
            (x * 2).sum().backward()
    with pytest.raises(clnet.errors.GradientError, match=r"was entered\. Use dual_level"):
        fw.exit_dual_level()


def overwritten(lib: Any) -> list[Any]:
    """Values and tangents of what is changed in place."""
    fw, found = lib.autograd.forward_ad, list[Any]()

    def half(x):
        part = x[:2]
        part.mul_(3)
        return part

    for write in (
        lambda x: x.add_(1),
        lambda x: x.mul_(x.clone()).sub_(2).relu_(),
        lambda x: x.copy_(lib.ones(1, dtype=lib.float64)),
        lambda x: x.copy_((x * x)[1]),
        lambda x: x.zero_(),
        lambda x: lib.nn.functional.relu(x - 3, inplace=True),
        half,
    ):
        with fw.dual_level():
            x = lib.tensor([1.0, 2.0, 3.0], dtype=lib.float64)
            x = fw.make_dual(x, lib.tensor([1.0, 10.0, 100.0], dtype=lib.float64))
            found.append([part.tolist() for part in fw.unpack_dual(write(x * 1))])
    return found


def test_tangents_of_what_is_overwritten_are_pytorchs():
    assert overwritten(clnet) == overwritten(torch)


def test_who_shares_memory_that_was_overwritten_has_no_tangent_any_more():
    fw = clnet.autograd.forward_ad
    with fw.dual_level():
        x = fw.make_dual(clnet.ones(3), clnet.ones(3))
        y = x * 2
        part = y[:2]
        y.mul_(3)
        with pytest.raises(clnet.errors.GradientError, match="written through another"):
            part.sum()
        part = y[:2]
        part.mul_(3)
        with pytest.raises(clnet.errors.GradientError, match="written through another"):
            fw.unpack_dual(y)
        with pytest.raises(clnet.errors.GradientError, match="without a tangent"):
            clnet.zeros(3).copy_(x)


def graph(lib: Any) -> list[Any]:
    """What hooks of nodes and of several gradients see."""
    tools, said = lib.autograd.graph, list[Any]()
    x, w, other = (lib.tensor(v, requires_grad=True) for v in ([1.0, 2.0], [3.0, 4.0], [1.0, 1.0]))
    y = x * w
    z = y * 3
    y.grad_fn.register_hook(lambda given, arrived: said.append((len(given), arrived[0].tolist())))
    pre = y.grad_fn.register_prehook(lambda arrived: (arrived[0] * 2,))

    def together(grads: Any) -> None:
        said.append([None if g is None else g.tolist() for g in grads])

    hook = tools.register_multi_grad_hook([x, w, y, other], together)
    first = tools.register_multi_grad_hook([x, w], lambda g: said.append(g.shape[0]), mode="any")
    z.sum().backward(retain_graph=True)
    for handle in (hook, first, pre):
        handle.remove()
    z.sum().backward()
    said.append(x.grad.tolist())
    y.grad_fn.metadata["key"] = 1
    said.append(y.grad_fn.metadata)
    accumulate = (x * 1).grad_fn.next_functions[0][0]
    accumulate.register_hook(lambda *_: said.append("accumulated"))
    (x * 1).sum().backward()
    inner = x * 3
    edges = [tools.get_gradient_edge(x), tools.get_gradient_edge(inner)]
    said.append([g.tolist() for g in lib.autograd.grad((inner * inner).sum(), edges)])
    with tools.allow_mutation_on_saved_tensors():
        a = lib.tensor([1.0, 2.0], requires_grad=True)
        b = a.clone()
        c = b**2
        b.sin_()
        c.sum().backward()
    said.append(a.grad.tolist())
    return said


def test_hooks_of_the_graph_are_pytorchs():
    assert graph(clnet) == graph(torch)


def order_at_a_leaf(lib: Any) -> list[Any]:
    """What hooks of a leaf and of the place where its gradient is added are given, in order."""
    x = lib.tensor([1.0, 2.0], requires_grad=True)
    said: list[Any] = []
    place = (x * 1).grad_fn.next_functions[0][0]

    def halved(grads: Any) -> Any:
        said.append(("before", [g.tolist() for g in grads]))
        return (grads[0] / 2,)

    place.register_prehook(halved)
    place.register_hook(lambda none, g: said.append((len(none), g[0].tolist(), x.grad.tolist())))
    x.register_hook(lambda g: g * 10)
    for factor in (1.0, 3.0):
        (x * factor).sum().backward()
    return said


def test_a_place_of_accumulation_sees_what_is_added_behind_the_leafs_own_hooks():
    found = order_at_a_leaf(clnet)
    assert found[0] == ("before", [[10.0, 10.0]])
    assert found[-1] == (0, [15.0, 15.0], [20.0, 20.0])
    assert found == order_at_a_leaf(torch)


def hooks_on_the_way(lib: Any) -> list[str]:
    """Which hooks ``grad`` and ``backward`` call, where they stop at an inner tensor and not."""
    a = lib.tensor([1.0], requires_grad=True)
    b, said = a.clone(), []
    c = b.clone()
    b.register_hook(lambda g: said.append("tensor"))
    b.grad_fn.register_prehook(lambda g: said.append("before"))
    b.grad_fn.register_hook(lambda g, arrived: said.append("behind"))
    for inputs in ((b,), (a, b)):
        lib.autograd.grad(c, inputs, retain_graph=True)
        said.append("|")
        c.backward(inputs=inputs, retain_graph=True)
        said.append("|")
    place = b.grad_fn.next_functions[0][0]
    place.metadata["key"] = "noted"
    return [*said, b.grad_fn.next_functions[0][0].metadata["key"]]


def test_a_nodes_hooks_wait_for_a_walk_that_comes_through():
    found = hooks_on_the_way(clnet)
    assert found[:2] == ["tensor", "|"]
    assert found == hooks_on_the_way(torch)


def test_an_edge_has_no_zeros():
    x, y = (clnet.ones(2, requires_grad=True) * 1 for _ in range(2))
    edge = clnet.autograd.graph.get_gradient_edge(y)
    with pytest.raises(clnet.errors.GradientError, match="an edge has no shape"):
        clnet.autograd.grad(x.sum(), (x, edge), materialize_grads=True)


def test_a_tangent_has_no_tangent():
    fw = clnet.autograd.forward_ad
    x, t, other = clnet.ones(2), clnet.ones(2), clnet.ones(2)
    with fw.dual_level():
        moved = fw.make_dual(x, t)
        for pair in ((moved, other), (other, moved)):
            with pytest.raises(clnet.errors.GradientError, match="nor its tangent"):
                fw.make_dual(*pair)


def test_a_walk_goes_in_its_own_thread_whatever_is_said_of_threads():
    x = clnet.ones(2, requires_grad=True)
    with clnet.autograd.set_multithreading_enabled(mode=False):
        x.sum().backward()
    assert x.grad.tolist() == [1, 1]
    with pytest.raises(clnet.errors.ArgumentError, match="mode is a bool"):
        clnet.autograd.set_multithreading_enabled("no")


def test_hooks_of_the_graph_are_checked():
    x = clnet.ones(2, requires_grad=True)
    y = x * 2
    y.node.register_prehook(lambda g: (g[0], g[0]))
    with pytest.raises(clnet.errors.GradientError, match="as many gradients"):
        y.sum().backward()
    with pytest.raises(clnet.errors.ArgumentError, match="'all' or 'any'"):
        clnet.autograd.graph.register_multi_grad_hook([x], print, mode="some")
    with pytest.raises(clnet.errors.GradientError, match="requires a gradient"):
        clnet.autograd.graph.get_gradient_edge(clnet.ones(1))
    version = x._version
    clnet.autograd.graph.increment_version(x)
    assert x._version == version + 1


def told_after_a_failure(lib: Any) -> list[Any]:
    """What a hook of two tensors is given in the walk behind one that failed between them."""
    x = lib.ones(2, requires_grad=True)
    y, z = x * 2, x * 3
    said: list[Any] = []

    def fail(grad: Any) -> None:
        raise ValueError("planted")

    failing = y.register_hook(fail)
    lib.autograd.graph.register_multi_grad_hook([y, z], lambda grads: said.append(grads))
    with pytest.raises(ValueError, match="planted"):
        (y + z).sum().backward(retain_graph=True)
    failing.remove()
    (y * 5).sum().backward(retain_graph=True)
    (y * 7 + z).sum().backward()
    return [[None if g is None else g.tolist() for g in grads] for grads in said]


def test_hooks_of_several_tensors_forget_a_walk_that_failed():
    assert told_after_a_failure(clnet) == told_after_a_failure(torch)


@pytest.mark.parametrize(
    "length",
    [
        lambda x: x.norm(),
        lambda x: clnet.linalg.vector_norm(x, dim=1).sum(),
        lambda x: clnet.linalg.matrix_norm(x),
    ],
)
def test_tangents_of_lengths_at_0_are_0(length):
    x = clnet.zeros(2, 2)
    assert clnet.func.jvp(length, (x,), (clnet.ones(2, 2),))[1].item() == 0  # as PyTorch's


def test_tangents_of_deviations_of_equal_numbers_are_0():
    x = clnet.ones(3)
    assert clnet.func.jvp(clnet.std, (x,), (clnet.tensor([1.0, 2, 4]),))[1].item() == 0
