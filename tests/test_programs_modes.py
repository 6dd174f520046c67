"""Modes that are asked about functions, hooks of optimisers' states, names of programs."""

from __future__ import annotations

import copy
import importlib
import threading
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.compat.overrides import TorchFunctionMode
from clnet.errors import ArgumentError, DtypeError, GradcheckError
from clnet.utils import _python_dispatch
from tests.answers import torch


def names_asked(lib: Any, mode: type) -> tuple[list[str], Any]:
    seen: list[str] = []

    class Counts(mode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    with Counts():
        y = lib.nn.functional.gelu(lib.ones(2)).mul(2) + lib.cat([lib.ones(2)])
    y.exp()
    return seen, y.tolist()


def test_a_mode_is_asked_about_each_function():
    ours, y = names_asked(clnet, TorchFunctionMode)
    theirs, expected = names_asked(torch, torch.overrides.TorchFunctionMode)
    assert ours == theirs
    np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_modes_within_each_other_are_asked_from_inside():
    order: list[int] = []

    class Named(TorchFunctionMode):
        def __init__(self, number: int) -> None:
            self.number = number

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            order.append(self.number)
            return func(*args, **(kwargs or {}))

    x = clnet.ones(2)
    with Named(1), Named(2):
        x.sin()
    assert order == [2, 1]
    x.sin()
    assert order == [2, 1]


def test_a_mode_gives_another_result_and_leaves_when_it_raises():
    class Zero(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            if func.__name__ == "sin":
                return 0
            raise KeyError(func.__name__)

    x = clnet.ones(2)
    with Zero():
        assert x.sin() == 0
        with pytest.raises(KeyError):
            x.cos()
    assert x.cos().shape == (2,)


def test_a_mode_is_asked_in_its_own_thread_alone():
    class Refuses(TorchFunctionMode):
        pass

    x, found = clnet.ones(2), list[Any]()
    with Refuses():
        other = threading.Thread(target=lambda: found.append(x.sin().shape))
        other.start()
        other.join()
        with pytest.raises(NotImplementedError):
            x.sin()
    assert found == [(2,)]


def test_a_mode_below_the_functions_is_refused():
    with pytest.raises(ArgumentError, match="no operators below"):
        _python_dispatch.TorchDispatchMode().__enter__()


def hooks_of(lib: Any, optimizer: str) -> list[str]:
    p = lib.nn.Parameter(lib.ones(2))
    o = getattr(lib.optim, optimizer)([p], lr=0.1)
    seen: list[str] = []
    o.register_state_dict_pre_hook(lambda opt: seen.append("before"))
    o.register_state_dict_post_hook(lambda opt, state: {**state, "more": 1})
    first = o.register_state_dict_post_hook(lambda opt, state: seen.append("first"), prepend=True)
    o.register_load_state_dict_pre_hook(
        lambda opt, state: {k: v for k, v in state.items() if seen.append(k) or k != "more"}
    )
    o.register_load_state_dict_post_hook(lambda opt: seen.append("loaded"))
    p.sum().backward()
    o.step(*([lambda: p.sum()] if optimizer == "LBFGS" else []))
    o.load_state_dict(o.state_dict())
    first.remove()
    return [*seen, *sorted(o.state_dict())]


@pytest.mark.parametrize("optimizer", ["SGD", "NAdam", "ASGD", "LBFGS"])
def test_hooks_around_an_optimisers_state(optimizer):
    ours, theirs = hooks_of(clnet, optimizer), hooks_of(torch, optimizer)
    assert sorted(ours) == sorted(theirs)
    assert ours[:2] == theirs[:2] == ["before", "first"]


def test_a_copied_optimiser_has_no_hooks_of_its_state():
    o = clnet.optim.SGD([nn.Parameter(clnet.ones(2))], lr=0.1)
    o.register_state_dict_post_hook(lambda opt, state: {"changed": 1})
    assert "changed" in o.state_dict()
    assert "changed" not in copy.deepcopy(o).state_dict()


def swapped(lib: Any) -> Any:
    a, b = lib.nn.Parameter(lib.ones(2)), lib.zeros(3)
    held = [a, b]
    a.sum().backward()
    a.note = "a"
    lib.utils.swap_tensors(a, b)
    assert isinstance(held[1], lib.nn.Parameter)
    assert not isinstance(a, lib.nn.Parameter)
    assert b.note == "a"
    assert not hasattr(a, "note")
    (b * 3).sum().backward()
    return a.tolist(), b.tolist(), a.grad, b.grad.tolist(), a.requires_grad, b.requires_grad


def test_two_tensors_become_each_other():
    assert swapped(clnet) == swapped(torch)
    x = clnet.ones(4, requires_grad=True) * 1
    with pytest.raises(ArgumentError, match="view"):
        clnet.utils.swap_tensors(x[1:], clnet.ones(2))


def test_a_number_is_no_buffer():
    for lib in (clnet, torch):
        module = lib.nn.Module()
        module.register_buffer("count", lib.ones(2))
        with pytest.raises((TypeError, DtypeError)):
            module.count = 3
        module.count = None
        assert not list(module.buffers())


def test_a_statement_is_timed():
    timer = clnet.utils.benchmark.Timer(
        "y = x + 1; n.append(1)", globals={"x": clnet.ones(2), "n": (n := [])}, sub_label="sum"
    )
    found = timer.timeit(5)
    assert len(n) >= 5
    assert found.mean == found.median > 0
    assert found.iqr == 0
    several = timer.blocked_autorange(min_run_time=0.001)
    assert sum(several.raw_times) >= 0.001
    assert "Median" in repr(several)
    assert "sum" in str(clnet.utils.benchmark.Compare([found, several]))


def test_causal_masks_of_fewer_queries_than_keys():
    bias = clnet.nn.attention.bias
    q, k = clnet.randn(1, 1, 3, 4), clnet.randn(1, 1, 5, 4)
    for name, diagonal in (("causal_lower_right", 2), ("causal_upper_left", 0)):
        mask = getattr(bias, name)(3, 5)
        np.testing.assert_array_equal(mask.numpy(), np.tri(3, 5, diagonal, dtype=bool))
        tq, tk = torch.from_numpy(q.numpy()), torch.from_numpy(k.numpy())
        expected = torch.nn.functional.scaled_dot_product_attention(
            tq, tk, tk, attn_mask=torch.from_numpy(np.tri(3, 5, diagonal, dtype=bool))
        )
        got = clnet.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=mask)
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


WHERE = {
    "distributions.multinomial": ("Multinomial", clnet.distributions.Multinomial),
    "functional": ("einsum", clnet.einsum),
    "nn.modules.activation": ("MultiheadAttention", nn.MultiheadAttention),
    "nn.modules.linear": (
        "NonDynamicallyQuantizableLinear",
        type(nn.MultiheadAttention(2, 1).out_proj),
    ),
    "nn.modules.pixelshuffle": ("PixelShuffle", nn.PixelShuffle),
    "utils.tensorboard.writer": ("SummaryWriter", clnet.utils.tensorboard.SummaryWriter),
}


@pytest.mark.parametrize("module", WHERE)
def test_modules_are_where_programs_import_them_from(module):
    name, expected = WHERE[module]
    assert getattr(importlib.import_module(f"clnet.{module}"), name) is expected


def test_what_is_forked_is_waited_for_and_switches_are_kept():
    assert clnet.jit.wait(clnet.jit.fork(lambda x: x + 1, clnet.ones(1))).tolist() == [2]
    flags = clnet.__future__
    for name in ("swap", "overwrite"):
        assert not getattr(flags, f"get_{name}_module_params_on_conversion")()
        getattr(flags, f"set_{name}_module_params_on_conversion")(True)
        assert getattr(flags, f"get_{name}_module_params_on_conversion")()
        getattr(flags, f"set_{name}_module_params_on_conversion")(False)


def test_a_class_takes_over_operands_of_any_kind_behind_plain_ones():
    class Named:
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            return func.__name__

    x = clnet.ones(2)
    assert clnet.einsum("i,i->", x, x).item() == clnet.einsum("i,i->", [x, x]).item() == 2
    for operands in ((Named(), x), ([x, Named()],), (x, Named())):
        assert clnet.einsum("i,i->", *operands) == "einsum"
    assert clnet.einsum("i,i->", [x, x]).item() == 2


def test_gradcheck_in_fewer_places_finds_a_wrong_gradient_still():
    class Wrong(clnet.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3

    x = clnet.randn(40, requires_grad=True)
    assert clnet.autograd.gradcheck(lambda x: x * 2, x, fast_mode=True)
    assert clnet.autograd.gradgradcheck(lambda x: x * x, x, fast_mode=True, nondet_tol=1e-3)
    with pytest.raises(GradcheckError):
        clnet.autograd.gradcheck(Wrong.apply, x, fast_mode=True)
