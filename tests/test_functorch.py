"""Names of PyTorch's transforms, results and tables that packages import, beside PyTorch."""

from __future__ import annotations

import copy
import gc
import importlib
import pickle
import subprocess
import sys
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.autodiff import stateless
from clnet.compat import private, quasirandom, return_types
from clnet.errors import ArgumentError
from clnet.utils import _contextlib, _pytree, data, functorch, weak
from tests.answers import torch

pytestmark = [pytest.mark.device, pytest.mark.filterwarnings("ignore:We.ve integrated functorch")]


def network(lib: Any) -> Any:
    net = lib.nn.Sequential(
        lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4), lib.nn.Linear(4, 2)
    ).double()
    with lib.no_grad():
        for k, p in enumerate(net.parameters()):
            p.copy_(lib.arange(p.numel(), dtype=p.dtype).reshape(p.shape).sin() + k)
    return net


def called_functionally(lib: Any, transforms: Any) -> list[Any]:
    net = network(lib)
    x = lib.arange(15.0, dtype=lib.float64).reshape(5, 3).cos()
    function, params, buffers = transforms.make_functional_with_buffers(net)
    y = function(params, buffers, x)
    grads = lib.autograd.grad((y * y).sum(), params)
    _, stacked, _ = transforms.combine_state_for_ensemble([network(lib) for _ in range(2)])
    alone, weights = transforms.make_functional(net[0])
    shape = [tuple(p.shape) for p in stacked]
    return [y.tolist(), [g.tolist() for g in grads], shape, alone(weights, x).tolist()]


def test_networks_as_functions_of_their_tensors():
    pytest.importorskip("torch", reason="functorch comes with PyTorch, of the torch extra")
    ours = called_functionally(clnet, functorch)
    theirs = called_functionally(torch, importlib.import_module("functorch"))
    for a, b in zip(ours[0] + ours[3], theirs[0] + theirs[3], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    assert ours[2] == theirs[2]
    for a, b in zip(ours[1], theirs[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    with pytest.raises(ArgumentError, match="the module has no buffers"):
        functorch.make_functional(network(clnet))


def test_axes_are_not_hidden():
    inner = importlib.import_module("clnet._C._functorch")
    assert not inner.is_batchedtensor(clnet.ones(2))
    with pytest.raises(ArgumentError, match=r"func\.vmap"):
        inner._add_batch_dim(clnet.ones(2), 0, 1)


def test_programs_import_functorch():
    text = (
        "import clnet.torch_compat as t; t.install()\n"
        "import torch, functorch, torch._functorch.vmap, torch._C._functorch, torch.return_types\n"
        "from functorch import vmap, grad, make_functional\n"
        "from torch._functorch.make_functional import FunctionalModule\n"
        "assert torch.__file__\n"
        "try: import functorch.dim\n"
        "except ImportError: print('well')"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "well"


def test_results_are_of_named_classes():
    x = clnet.tensor([[1.0, 2.0], [3.0, 0.0]])
    assert isinstance(x.max(0), return_types.max)
    assert not isinstance(x.max(0), return_types.sort)
    assert isinstance(clnet.linalg.eigh(x @ x.T), return_types.linalg_eigh)
    made = return_types.max((1, 2))
    assert (made.values, made.indices, type(made).__name__) == (1, 2, "max")
    assert pickle.loads(pickle.dumps(copy.deepcopy(made))) == made
    for kind in return_types.all_return_types:
        theirs = getattr(torch.return_types, kind.__name__)
        names = [n for n in dir(theirs) if n.isidentifier() and not n.startswith(("_", "n_"))]
        own = set(names) - {"count", "index"}
        assert own <= set(kind._fields), kind


def test_a_call_with_other_tensors():
    assert nn.utils.stateless is stateless
    net = nn.Linear(2, 1, bias=False)
    x, w = clnet.ones(1, 2), clnet.tensor([[2.0, 3.0]])
    assert stateless.functional_call(net, {"weight": w}, x).item() == 5.0
    before = net.weight
    with stateless._reparametrize_module(net, {"weight": w}):
        assert net(x).item() == 5.0
    assert net.weight is before
    assert stateless.swap_tensor(net, "weight", before) is before
    with pytest.raises(AttributeError, match="nothing"):
        stateless.swap_tensor(net, "nothing", w)
    stateless.set_tensor(net, "more", w)
    assert net.more is w


def test_tables_of_tensors_let_go():
    table = weak.WeakTensorKeyDictionary()
    x, y = clnet.ones(2), clnet.ones(2)
    table[x], table[y] = 1, 2
    assert (len(table), table[x], table[y], clnet.ones(2) in table) == (2, 1, 2, False)
    assert [k is x or k is y for k in table.copy()] == [True, True]
    del x
    gc.collect()
    assert (len(table), [*table.values()]) == (1, [2])
    held = weak.TensorWeakRef(y)
    assert held() is y
    del y
    gc.collect()
    assert held() is None


def test_sobol_s_points():
    def drawn(engine: Any) -> list[Any]:
        one = engine(3)
        found = [one.draw(4).tolist(), one.draw_base2(2).tolist(), repr(one)]
        one.reset().fast_forward(3)
        return [*found, one.draw(2).tolist(), one.num_generated]

    assert drawn(quasirandom.SobolEngine) == drawn(torch.quasirandom.SobolEngine)
    mixed = quasirandom.SobolEngine(2, scramble=True, seed=1)
    points = mixed.draw(64)
    assert abs(points.mean().item() - 0.5) < 0.05
    with pytest.raises(ArgumentError, match="power of two"):
        mixed.draw_base2(5)
    with pytest.raises(ArgumentError, match="from 1 to"):
        quasirandom.SobolEngine(0)


class Pair:
    """An example of a class of its own."""

    def __init__(self, value: int) -> None:
        self.value = value


def test_programs_say_how_their_examples_become_a_batch():
    found = data._utils.collate.default_collate_fn_map
    found[Pair] = lambda batch, collate_fn_map: clnet.tensor([p.value for p in batch])
    try:
        loader = data.DataLoader([Pair(1), Pair(2)], batch_size=2)
        assert next(iter(loader)).tolist() == [1, 2]
    finally:
        del found[Pair]


def test_leaves_repeated_for_a_tree():
    for tree in (0, (0, 1), [0], (0, (1, 2)), ((0, 1), 2)):
        given = (5, (6, {"a": 7}))
        ours = _pytree._broadcast_to_and_flatten(tree, _pytree.tree_structure(given))
        there = torch.utils._pytree
        theirs = there._broadcast_to_and_flatten(tree, there.tree_structure(given))
        assert ours == theirs, tree


def test_errors_of_threads_are_raised_again():
    try:
        raise KeyError("it")
    except KeyError:
        wrapped = private.ExceptionWrapper(where="in a thread")
    with pytest.raises(KeyError, match=r"Caught KeyError in a thread.*Original"):
        wrapped.reraise()


def test_blocks_that_decorate():
    log: list[str] = []

    class Noted(_contextlib._DecoratorContextManager):
        def __enter__(self) -> None:
            log.append("in")

        def __exit__(self, *raised: object) -> None:
            log.append("out")

    @Noted()
    def stepping() -> Any:
        log.append("a")
        got = yield 1
        log.append(str(got))
        return 3

    steps = stepping()
    assert (next(steps), [*log]) == (1, ["in", "a", "out"])
    with pytest.raises(StopIteration):
        steps.send("b")
    assert log[3:] == ["in", "b", "out"]
    assert Noted()(lambda: len(log))() == 7


def test_axes_by_numpy_s_name():
    x, y = clnet.ones(2, 3), clnet.ones(3, 4)
    assert clnet.tensordot(x, y, axes=([1], [0])).shape == (2, 4)
    assert clnet.transpose(clnet.ones(2, 3, 4), (2, 0, 1)).shape == (4, 2, 3)


def test_batch_norms_of_a_batch_write_no_averages_that_are_not_its():
    norm, x = clnet.nn.BatchNorm1d(3), clnet.ones(2, 4, 3)
    with pytest.raises(ArgumentError, match=r"vmap: statistics .*track_running_stats"):
        clnet.vmap(norm)(x)
    mean, var = clnet.zeros(2, 3), clnet.ones(2, 3)
    clnet.vmap(lambda x, m, v: clnet.nn.functional.batch_norm(x, m, v, training=True))(x, mean, var)
    np.testing.assert_allclose(mean.tolist(), [[0.1] * 3] * 2, rtol=1e-6)
    assert clnet.vmap(norm.eval())(x).shape == x.shape


def test_batch_norms_keep_no_averages_where_they_are_replaced():
    net = clnet.nn.Sequential(clnet.nn.Conv2d(3, 4, 3), clnet.nn.BatchNorm2d(4))
    norms = [net[1], clnet.nn.InstanceNorm2d(4, track_running_stats=True)]
    assert clnet.func.replace_all_batch_norm_modules_(net) is net
    clnet.func.replace_all_batch_norm_modules_(norms[1])
    assert [norm.track_running_stats for norm in norms] == [False, True]
    assert norms[0].running_mean is None
    assert "1.num_batches_tracked" not in net.state_dict()
    x = clnet.rand(2, 2, 3, 8, 8)
    np.testing.assert_allclose(clnet.func.vmap(net)(x)[1], net(x[1]), rtol=1e-4, atol=1e-5)


def test_strides_of_elements_of_a_batch():
    x = clnet.arange(12.0).view(2, 6)
    found = clnet.vmap(lambda row: row.as_strided((2, 2), (1, 2)).sum() * row[0])(x)
    assert found.tolist() == [0.0, 180.0]
    slope = clnet.func.grad(lambda row: (row.as_strided((2, 2), (1, 2)) ** 2).sum())
    assert clnet.vmap(slope)(x).tolist() == [[0, 2, 4, 6, 0, 0], [12, 14, 16, 18, 0, 0]]


def test_what_a_function_does_not_read_has_a_gradient_of_zeros():
    x, y = clnet.tensor(1.0), clnet.tensor(2.0)
    func = clnet.func
    assert func.grad(lambda x: y)(x).item() == 0
    assert func.grad(func.grad(lambda x: x * y))(x).item() == 0
    _, back = func.vjp(lambda w, x: (y, y, x), y, x)
    assert [g.item() for g in back((x, x, x))] == [0, 1]
    assert clnet.vmap(func.grad(lambda x: y))(clnet.ones(3)).tolist() == [0, 0, 0]


def test_a_gradient_asked_for_without_a_tape_is_on_none():
    x = clnet.tensor(3.0, requires_grad=True)
    _, back = clnet.func.vjp(lambda x: x**2, x)
    with clnet.no_grad():
        assert not back(clnet.tensor(1.0))[0].requires_grad
    assert back(clnet.tensor(1.0))[0].requires_grad


def test_vmap_refuses_what_its_elements_would_share():
    kept, x = clnet.zeros(3), clnet.arange(6.0).reshape(2, 3)
    for write in (clnet.Tensor.add_, clnet.Tensor.copy_, clnet.Tensor.mul_):
        with pytest.raises(ArgumentError, match="not overwritten by what has it"):
            clnet.vmap(write, in_dims=(None, 0))(kept, x)
    assert kept.tolist() == [0, 0, 0]
    assert clnet.vmap(lambda a, b: a.clone().add_(b), in_dims=(None, 0))(kept, x).equal(x)
    assert clnet.vmap(lambda a, b: b + a.add_(1), in_dims=(None, 0))(kept, x).equal(x + kept)


def test_vmap_keeps_kinds_of_dicts():
    found = clnet.vmap(lambda x: OrderedDict(b=x, a=2 * x))(clnet.ones(2))
    assert type(found) is OrderedDict
    assert list(found) == ["b", "a"]
    with pytest.raises(ArgumentError, match="one argument has a batch"):
        clnet.vmap(lambda x: x, in_dims=None)(clnet.ones(2))
