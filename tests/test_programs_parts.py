"""What packages written for PyTorch lean on: lists of tensors, questions about other processes."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError, DeviceError, DistributedError

pytestmark = pytest.mark.device

VALUES = [np.array([[1.0, -2.0]], np.float32), np.array([0.5, 3.0, 4.0], np.float32)]


def lists(library, count: int = 3):
    return [[library.tensor(v * (k + 1)) for v in VALUES] for k in range(count)]


CALLS = [
    ("_foreach_add_", lambda f, x, y, z: f(x, y, alpha=-0.5)),
    ("_foreach_add", lambda f, x, y, z: f(x, 2.0)),
    ("_foreach_mul_", lambda f, x, y, z: f(x, [0.5, 3.0])),
    ("_foreach_lerp_", lambda f, x, y, z: f(x, y, 0.25)),
    ("_foreach_addcmul_", lambda f, x, y, z: f(x, y, z, 0.1)),
    ("_foreach_addcdiv_", lambda f, x, y, z: f(x, y, z, value=-0.1)),
    ("_foreach_addcdiv", lambda f, x, y, z: f(x, y, z, [0.1, 0.2])),
    ("_foreach_maximum_", lambda f, x, y, z: f(x, 0.75)),
    ("_foreach_clamp_min", lambda f, x, y, z: f(x, 0.75)),
    ("_foreach_norm", lambda f, x, y, z: f(x, ord=2)),
    ("_foreach_sqrt", lambda f, x, y, z: f([t * t for t in x])),
    ("_foreach_sign_", lambda f, x, y, z: f(x)),
    ("_foreach_zero_", lambda f, x, y, z: f(x)),
    ("_foreach_copy_", lambda f, x, y, z: f(x, y)),
    ("_foreach_pow", lambda f, x, y, z: f(2.0, x)),
    ("_foreach_clone", lambda f, x, y, z: f(x)),
    ("_foreach_powsum", lambda f, x, y, z: f(x, 3)),
    ("_foreach_clamp_max", lambda f, x, y, z: f([t.long() for t in x], 0.75)),
    ("_foreach_maximum", lambda f, x, y, z: f([t.long() for t in x], [0.5, 3])),
    ("_foreach_sub", lambda f, x, y, z: f(self=x, other=y)),
    ("_foreach_div_", lambda f, x, y, z: f(x, scalar=4.0)),
    ("_foreach_mul", lambda f, x, y, z: f(x, scalars=[0.5, 3.0])),
]


@pytest.mark.parametrize(("name", "call"), CALLS, ids=[name for name, _ in CALLS])
def test_lists_of_tensors_are_pytorchs(name, call):
    torch = pytest.importorskip("torch")
    found = []
    for library in (clnet, torch):
        x, y, z = lists(library)
        made = call(getattr(library, name), x, y, z)
        assert type(made) is (list if name.endswith("_") else tuple)
        found.append([t.numpy() for t in (*x, *(made or ()))])
    for got, expected in zip(found[0], found[1], strict=False):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_a_tensor_holds_the_numbers_of_a_list_of_tensors():
    x, y, z = lists(clnet)
    numbers = clnet.tensor([0.5, -2.0])
    for name in ("_foreach_addcmul", "_foreach_addcdiv"):
        f = getattr(clnet, name)
        for a, b in zip(f(x, y, z, numbers), f(x, y, z, [0.5, -2.0]), strict=True):
            assert a.equal(b)
        assert f(x, y, z, scalars=[0.5, -2.0])[1].equal(f(x, y, z, numbers)[1])


@pytest.mark.parametrize("longer", [0, 1])
def test_lists_of_tensors_have_one_length(longer):
    x, y, _ = lists(clnet)
    with pytest.raises(ArgumentError, match="as many elements"):
        clnet._foreach_add_(x[: 2 - longer], y[: 1 + longer])
    assert x[0].numpy().tolist() == VALUES[0].tolist()


def test_there_is_no_list_of_what_is_no_op():
    with pytest.raises(AttributeError, match="_foreach_nothing"):
        clnet._foreach_nothing  # noqa: B018


def test_lists_are_cut_by_device_and_dtype():
    module = importlib.import_module("clnet.utils._foreach_utils")
    a, b, c = clnet.ones(1), clnet.ones(2, dtype=clnet.int32), clnet.ones(3)
    found = module._group_tensors_by_device_and_dtype([[a, b, c], [c, None, a]], True)
    assert found[a.device, clnet.float32] == ([[a, c], [c, a]], [0, 2])
    assert found[a.device, clnet.int32] == ([[b], [None]], [1])


def test_the_order_of_old_is_taken():
    x, y = clnet.tensor([1.0, 2.0]), clnet.tensor([3.0, 5.0])
    assert x.clone().add_(2, y).tolist() == [7, 12]
    assert x.clone().addcmul_(2, y, y).tolist() == [19, 52]
    assert x.clone().addcdiv_(-1, x, x).tolist() == [0, 1]
    assert clnet.tensor([-2.0, 0.0]).sgn_().tolist() == [-1, 0]


def test_random_numbers_below_a_named_end():
    assert clnet.randint_like(clnet.ones(3), high=1).tolist() == [0, 0, 0]
    assert clnet.randint_like(clnet.ones(2), 4, 5).tolist() == [4, 4]
    with pytest.raises(ArgumentError, match="high is given"):
        clnet.randint_like(clnet.ones(2))


def test_there_is_one_process():
    distributed = importlib.import_module("clnet.distributed")
    assert distributed is clnet.distributed
    assert not distributed.is_available()
    assert not distributed.is_initialized()
    tensors = importlib.import_module("clnet.distributed.tensor")
    assert not isinstance(clnet.ones(1), tensors.DTensor)
    assert distributed.ReduceOp.SUM is not distributed.ReduceOp.AVG
    with pytest.raises(DistributedError, match=r"all_reduce: .* ask is_initialized\(\) first"):
        distributed.all_reduce(clnet.ones(1))


def test_a_wrapper_for_devices_computes_what_the_module_does():
    layer = nn.Linear(2, 1)
    wrapped = nn.DataParallel(layer, device_ids=[0])
    x = clnet.ones(3, 2)
    assert wrapped(x).tolist() == layer(x).tolist()
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]
    with pytest.raises(DeviceError, match="not found; got number=99"):
        nn.DataParallel(layer, device_ids=[0, 99])
    with pytest.raises(DistributedError, match="Call init_process_group"):
        nn.parallel.DistributedDataParallel(layer)


def test_names_that_old_packages_import():
    module = importlib.import_module("clnet.optim.optimizer")
    assert repr(module.required) == "<required parameter>"
    assert module._params_t is module.ParamsT


@pytest.mark.parametrize("size", [1, 3, 4, 5])
def test_responses_across_maps(size):
    x = np.random.default_rng(0).standard_normal((2, 7, 3, 2))
    reach = (size - 1) // 2
    squares = [(x[:, max(c - reach, 0) : c + reach + 1] ** 2).sum(1) for c in range(7)]
    expected = x / (2 + 0.5 / size * np.stack(squares, 1)) ** 0.6
    layer = nn.CrossMapLRN2d(size, 0.5, 0.6, 2)
    np.testing.assert_allclose(layer(clnet.tensor(x)).numpy(), expected, rtol=1e-12)
    assert repr(layer) == f"CrossMapLRN2d({size}, alpha=0.5, beta=0.6, k=2)"


def test_names_that_packages_import():
    x = clnet.tensor([0.125, 1.0])
    kept = str(x)
    with clnet._tensor_str.printoptions(precision=1, sci_mode=True):
        assert str(x) == "tensor([1.2e-01, 1.0e+00])"
    with pytest.raises(ZeroDivisionError), clnet._tensor_str.printoptions(profile="short"):
        raise ZeroDivisionError
    assert str(x) == kept
    gelu = clnet.nn.modules.transformer._get_activation_fn("gelu")
    assert gelu(x).tolist() == clnet.nn.functional.gelu(x).tolist()
    with pytest.raises(ArgumentError, match="'relu', 'gelu'"):
        clnet.nn.modules.transformer._get_activation_fn("tanh")
    batch = clnet.utils.data._utils.collate.collate_tensor_fn([x, x + 1])
    assert batch.tolist() == [[0.125, 1.0], [1.125, 2.0]]
    assert clnet.cuda.get_arch_list() == []
    kind = clnet.ones(1).device.type
    assert clnet._C._get_accelerator().type == clnet._C._get_default_device() == kind
