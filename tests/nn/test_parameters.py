"""Parameters together, their containers, and hooks of modules."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError, BoundsError, DtypeError, ShapeError

pytestmark = pytest.mark.device


def with_gradients(lib, hosts):
    made = []
    for host in hosts:
        p = lib.tensor(host, requires_grad=True)
        p.grad = lib.tensor(3 * host)
        made.append(p)
    return made


HOSTS = [
    np.random.default_rng(i).standard_normal(s).astype("f4") for i, s in enumerate([(4, 3), (5,)])
]


@pytest.mark.parametrize("norm_type", [2.0, 1.0, 0.0, 3, float("inf"), "inf"])
@pytest.mark.parametrize("max_norm", [0.5, 1000.0])
def test_clipped_norms_agree_with_pytorch(norm_type, max_norm):
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    ours, theirs = with_gradients(clnet, HOSTS), with_gradients(torch, HOSTS)
    ours.append(clnet.ones(2, requires_grad=True))
    a = nn.utils.clip_grad_norm_(ours, max_norm, norm_type)
    b = torch.nn.utils.clip_grad_norm_(theirs, max_norm, norm_type)
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)
    for p, q in zip(ours, theirs, strict=False):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-5)


def test_many_gradients_are_clipped_in_few_launches():
    """Also those that lie otherwise, of two dtypes, empty, and large."""
    rng = np.random.default_rng(3)
    shapes = [(4, 3), (70_000,), (0, 2), (5, 6), *[(n,) for n in range(1, 40)]]
    hosts = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    params = [clnet.zeros(s, requires_grad=True) for s in shapes]
    params[3] = clnet.zeros(shapes[3], dtype=clnet.float64, requires_grad=True)
    for p, host in zip(params, hosts, strict=True):
        p.grad = clnet.tensor(host).to(p.dtype)
    params[0].grad = clnet.tensor(hosts[0].T.copy()).T
    norm = np.sqrt(sum((h.astype(np.float64) ** 2).sum() for h in hosts))
    with clnet.profile() as profile:
        found = nn.utils.clip_grad_norm_(params, 2.0)
    assert found.dtype is clnet.float64
    np.testing.assert_allclose(found.item(), norm, rtol=1e-6)
    for p, host in zip(params, hosts, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), host * (2.0 / norm), rtol=1e-5)
    kernels = [c.name for c in profile.commands]
    assert kernels.count("reduce_many") == 3
    assert kernels.count("pointwise_many") == 3  # two of updates, one of the norms in a row
    assert len(kernels) < 25


def test_squares_of_half_precision_are_added_up_in_single():
    p = clnet.zeros(1000, dtype=clnet.float16, requires_grad=True)
    p.grad = clnet.full((1000,), 100.0, dtype=clnet.float16)
    norm = nn.utils.clip_grad_norm_(p, 1.0)
    assert norm.dtype is clnet.float16
    assert norm.item() == np.float16(1e5**0.5 * 10)
    np.testing.assert_allclose(p.grad.numpy(), 1000**-0.5, rtol=2e-3)


def test_clipped_values_and_norms_that_are_not_finite():
    p, q = with_gradients(clnet, HOSTS)
    nn.utils.clip_grad_value_([p, q], 0.7)
    np.testing.assert_allclose(p.grad.numpy(), np.clip(3 * HOSTS[0], -0.7, 0.7))
    p.grad = clnet.full((4, 3), float("nan"))
    with pytest.raises(ArgumentError, match="the norm is finite"):
        nn.utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)
    with pytest.raises(ArgumentError, match=r"norm_type is a number; got norm_type='fro'"):
        nn.utils.clip_grad_norm_(p, 1.0, "fro")
    assert nn.utils.clip_grad_norm_([clnet.ones(2)], 1.0).item() == 0


def test_a_norm_is_taken_once_and_clipped_by_later():
    p, q = with_gradients(clnet, HOSTS)
    grads = [x.grad.clone() for x in (p, q)]
    norm = nn.utils.get_total_norm(grads, 2.0)
    nn.utils.clip_grads_with_norm_([p, q], 0.5, norm)
    others = with_gradients(clnet, HOSTS)
    expected = nn.utils.clip_grad_norm_(others, 0.5)
    assert norm.item() == expected.item()
    for x, y in zip((p, q), others, strict=True):
        np.testing.assert_array_equal(x.grad.numpy(), y.grad.numpy())
    assert nn.utils.get_total_norm([]).item() == 0
    with pytest.raises(ArgumentError, match="get_total_norm: the norm is finite"):
        nn.utils.get_total_norm([clnet.tensor([np.inf])], error_if_nonfinite=True)


def test_a_vector_of_all_parameters_and_back():
    net, other = nn.Linear(3, 2), nn.Linear(3, 2)
    vector = nn.utils.parameters_to_vector(net.parameters())
    assert vector.shape == (8,)
    nn.utils.vector_to_parameters(vector, other.parameters())
    assert np.array_equal(other.weight.detach().numpy(), net.weight.detach().numpy())
    assert np.array_equal(other.bias.detach().numpy(), net.bias.detach().numpy())
    with pytest.raises(ShapeError, match="vector_to_parameters"):
        nn.utils.vector_to_parameters(clnet.ones(7), other.parameters())


def test_lists_and_dictionaries_of_parameters():
    listed = nn.ParameterList([clnet.ones(2)]).append(clnet.zeros(3))
    assert list(listed.state_dict()) == ["0", "1"]
    assert len(listed) == 2
    assert listed[-1].shape == (3,)
    listed[0] = nn.Parameter(clnet.ones(4))
    assert [p.shape for p in listed] == [(4,), (3,)]
    with pytest.raises(BoundsError, match="inside the list"):
        listed[2]
    named = nn.ParameterDict({"a": clnet.ones(2)})
    named["b"] = clnet.ones(3)
    assert list(named) == list(named.keys()) == list(named.state_dict()) == ["a", "b"]
    assert "a" in named
    assert len(list(named.values())) == len(list(named.items())) == 2
    del named["a"]
    assert [n for n, _ in named.named_parameters()] == ["b"]


def test_containers_hold_other_values_too():
    """As PyTorch's: of a tensor a parameter, of a module a part, others as they are."""
    inner = nn.ParameterList([clnet.ones(2)])
    outer = nn.ParameterList([inner, clnet.zeros(3), 5, None])
    assert list(outer.state_dict()) == ["1", "0.0"]
    assert outer[0] is inner
    assert outer[2:][0] == 5
    assert [type(x).__name__ for x in outer] == ["ParameterList", "Parameter", "int", "NoneType"]
    assert "(2): Object of type: int" in repr(outer)
    for wrong in (clnet.ones(2), 3):
        with pytest.raises(DtypeError, match="a sequence of parameters"):
            nn.ParameterList().extend(wrong)


def test_dictionaries_of_parameters_are_dictionaries():
    assert list(nn.ParameterDict({"b": clnet.ones(2), "a": 1})) == ["a", "b"]
    named = nn.ParameterDict([("b", clnet.ones(2)), ("a", 1)])
    assert list(reversed(named)) == ["a", "b"]
    other = named.copy()
    assert other["b"] is named["b"]
    assert other.popitem() == ("a", 1)
    assert list(named | nn.ParameterDict({"c": None})) == ["b", "a", "c"]
    other |= named
    assert other.setdefault("d", 7) == other.get("d") == other.pop("d") == 7
    assert other.get("d") is None
    assert list(named.fromkeys("xy", 3).items()) == [("x", 3), ("y", 3)]
    other.clear()
    assert len(other) == len(other.state_dict()) == 0
    for missing in (lambda: other["b"], lambda: other.pop("b"), other.popitem):
        with pytest.raises(KeyError):
            missing()


def test_ones_are_flags_of_layers_and_not_of_functions():
    assert nn.Linear(2, 3, 1).bias is not None
    assert nn.Conv2d(1, 1, 1, bias=0).bias is None
    with pytest.raises(DtypeError, match="keepdim is a bool"):
        clnet.ones(2).sum(0, keepdim=1)


def test_hooks_see_and_replace_arguments_and_results():
    net = nn.Identity()
    seen = []
    before = net.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    with net.register_forward_hook(lambda module, args, result: seen.append((args, result))):
        assert net(1) == 2
    assert seen == [((2,), 2)]
    after = net.register_forward_hook(lambda module, args, result: result * 10)
    assert net(1) == 20
    before.remove()
    before.remove()
    after.remove()
    assert net(1) == 1


def test_a_new_hook_makes_compiled_functions_trace_again():
    net = nn.Linear(3, 2)
    version = net._clnet_version
    handle = net.register_forward_hook(lambda *_: None)
    assert net._clnet_version != version
    version = net._clnet_version
    handle.remove()
    assert net._clnet_version != version


def test_shared_weights_are_one_parameter():
    a, b = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
    b.weight = a.weight
    net = nn.Sequential(a, b)
    assert len(list(net.parameters())) == 1
    assert list(net.state_dict()) == ["0.weight", "1.weight"]


def test_lists_are_cut_extended_and_shown():
    listed = nn.ParameterList([clnet.ones(2), clnet.zeros(3, 1), clnet.ones(())])
    part = listed[1:]
    assert isinstance(part, nn.ParameterList)
    assert part[0] is listed[1]
    assert len(part) == 2
    part += [clnet.ones(4)]
    assert [tuple(p.shape) for p in part] == [(3, 1), (), (4,)]
    assert repr(listed[:2]) == (
        "ParameterList(\n"
        "    (0): Parameter containing: [clnet.float32 of size 2]\n"
        "    (1): Parameter containing: [clnet.float32 of size 3x1]\n)"
    )
    held = nn.Sequential()
    held.by_name = nn.ParameterDict({"a": clnet.ones(2)})
    assert "(a): Parameter containing: [torch.FloatTensor of size 2]" in repr(held.by_name)
    assert "ParameterDict" in repr(held)


def test_a_module_is_made_without_first_values():
    layer = nn.utils.skip_init(nn.Linear, 3, 2, bias=False)
    assert layer.weight.shape == (2, 3)
    assert layer.weight.device is clnet.device()
    assert not layer.weight.is_meta
    nn.init.ones_(layer.weight)
    assert layer(clnet.ones(3)).tolist() == [3.0, 3.0]
