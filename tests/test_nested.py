"""``torch.nested``: what functions give of jagged and strided tensors, beside PyTorch."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import clnet
from clnet.compat import nested
from clnet.compat.nested_rows import NestedTensor
from clnet.errors import ArgumentError, GradientError, ShapeError
from tests.answers import torch

pytestmark = [
    pytest.mark.device,
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
]
RNG = np.random.default_rng(0)
A, B, W = RNG.standard_normal((2, 4)), RNG.standard_normal((3, 4)), RNG.standard_normal((5, 4))
LAYOUTS = ("jagged", "strided")


def made(lib: Any, layout: str) -> tuple[Any, list[Any]]:
    """A nested tensor, and the leaves that it is made of."""
    leaves = [lib.tensor(x, requires_grad=True) for x in (A, B)]
    return lib.nested.as_nested_tensor(leaves, layout=getattr(lib, layout)), leaves


def seen(found: Any) -> Any:
    """What can be compared: lists of numbers, of nested tensors marked as such."""
    if isinstance(found, tuple | list):
        return [seen(x) for x in found]
    if getattr(found, "is_nested", False):
        return {
            "nested": [x.tolist() for x in found.unbind()],
            "dtype": str(found.dtype).partition(".")[2],
        }
    return found.tolist() if hasattr(found, "tolist") else found


def heads(x: Any) -> Any:
    return x.unflatten(-1, (2, 2)).transpose(1, 2)


BOTH: dict[str, Callable[[Any, Any], Any]] = {
    "softmax": lambda lib, x: x.softmax(-1),
    "softmax_ragged": lambda lib, x: lib.softmax(x, 1),
    "one_more": lambda lib, x: 1 + x + 1,
    "product": lambda lib, x: x * x,
    "quotient": lambda lib, x: x / 2,
    "negative": lambda lib, x: -x,
    "element": lambda lib, x: x[-1],
    "row": lambda lib, x: x[0, 1],
    "unbind": lambda lib, x: x.unbind(),
    "chunk": lambda lib, x: x.chunk(2, -1),
    "unsqueeze": lambda lib, x: x.unsqueeze(-1).squeeze(-1),
    "transpose": lambda lib, x: x.transpose(1, 2),
    "view": lambda lib, x: x.view(2, -1, 2, 2),
    "bmm": lambda lib, x: lib.bmm(x, lib.ones(2, 4, 5, dtype=lib.float64)),
    "padded": lambda lib, x: x.to_padded_tensor(0.0),
    "padded_more": lambda lib, x: lib.nested.to_padded_tensor(x, -1.0, output_size=(2, 5, 4)),
    "select": lambda lib, x: x.select(0, 1),
    "ones": lambda lib, x: lib.ones_like(x),
    "clone": lambda lib, x: x.clone(),
    "to": lambda lib, x: x.to(lib.float16).to(lib.float64),
    "masked": lambda lib, x: x.masked_fill(x.detach() > 0, 1.0),
    "linear": lambda lib, x: lib.nn.functional.linear(x, lib.tensor(W)),
    "layer_norm": lambda lib, x: lib.nn.LayerNorm(4, dtype=lib.float64)(x),
    "relu": lambda lib, x: lib.nn.ReLU()(x),
    "gelu": lambda lib, x: lib.nn.functional.gelu(x),
    "dropout": lambda lib, x: lib.nn.Dropout(0.5).eval()(x),
    "grad": lambda lib, x: (x.requires_grad, x.detach().requires_grad),
    "values": lambda lib, x: x.values().numel(),
}
JAGGED: dict[str, Callable[[Any, Any], Any]] = {
    "elements": lambda lib, x: list(x),
    "sigmoid": lambda lib, x: x.sigmoid(),
    "size": lambda lib, x: (x.size(0), x.size(-1), x.dim(), x.numel(), len(x), x.is_nested),
    "sum": lambda lib, x: x.sum(),
    "mean": lambda lib, x: x.mean(),
    "sum_last": lambda lib, x: x.sum(-1),
    "sum_ragged": lambda lib, x: x.sum(1),
    "sum_kept": lambda lib, x: x.sum(dim=1, keepdim=True),
    "amax": lambda lib, x: x.amax(1),
    "argmax": lambda lib, x: x.argmax(-1),
    "row_added": lambda lib, x: x + lib.ones(4, dtype=lib.float64),
    "each_added": lambda lib, x: x + lib.arange(8, dtype=lib.float64).reshape(2, 1, 4),
    "power": lambda lib, x: x**2,
    "clamped": lambda lib, x: x.clamp(min=0),
    "maximum": lambda lib, x: lib.maximum(x, x * 2),
    "where": lambda lib, x: lib.where(x.detach() > 0, x, 0.0),
    "any": lambda lib, x: ((x.detach() > 0).any(), lib.all(x.detach() == x.detach())),
    "cat": lambda lib, x: lib.cat([x, x], -1),
    "split": lambda lib, x: x.split([1, 3], -1),
    "reshape": lambda lib, x: x.reshape(2, x.shape[1], 2, 2).flatten(-2),
    "permute": lambda lib, x: x.permute(0, 2, 1),
    "expand": lambda lib, x: x.unsqueeze(-1).expand(2, x.shape[1], 4, 3),
    "matmul": lambda lib, x: x @ lib.ones(4, 5, dtype=lib.float64),
    "rms_norm": lambda lib, x: lib.nn.functional.rms_norm(x, (4,)),
    "offsets": lambda lib, x: (x.offsets(), x.values()),
    "attention": lambda lib, x: lib.nn.functional.scaled_dot_product_attention(
        heads(x), heads(x * 2), heads(x + 1)
    ),
    "heads": lambda lib, x: heads(x).transpose(1, 2).flatten(-2),
    "shapes": lambda lib, x: (x.shape == (x * 2).shape, x.shape[0], x.shape[2]),
}
NO_GRADIENTS = ("sum_last", "maximum", "softmax_ragged")
"""Of which PyTorch has none, or (the softmax along the ragged axis) others than of each element."""
CASES = [(layout, name) for layout in LAYOUTS for name in BOTH] + [("jagged", n) for n in JAGGED]


@pytest.mark.parametrize(("layout", "name"), CASES)
def test_functions_of_nested_tensors(layout: str, name: str):
    found = []
    for lib in (torch, clnet):
        x, leaves = made(lib, layout)
        y = {**BOTH, **JAGGED}[name](lib, x)
        found.append([seen(y)])
        parts = y.unbind() if getattr(y, "is_nested", False) else []
        if name not in NO_GRADIENTS and any(p.requires_grad for p in parts):
            lib.stack([(p * p).sum() for p in parts]).sum().backward()
            found[-1].append([None if w.grad is None else w.grad.tolist() for w in leaves])
    compare(found[1], found[0])


def compare(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, dict):
        assert ours["dtype"] == theirs["dtype"]
        ours, theirs = ours["nested"], theirs["nested"]
    if isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            compare(a, b)
    elif isinstance(theirs, float):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    else:
        assert ours == theirs


def built(lib: Any) -> list[Any]:
    n = lib.nested
    rows = lib.arange(10.0).reshape(5, 2)
    mask = lib.tensor([[True, False, True], [True, True, True]])
    starts, lengths = lib.tensor([0, 1]), lib.tensor([2, 3])
    table = lib.arange(12.0).reshape(2, 6)
    word = n.nested_tensor([lib.tensor([1, 2]), lib.tensor([3])], layout=lib.jagged)
    return [
        n.nested_tensor_from_jagged(rows, offsets=lib.tensor([0, 2, 5])),
        n.nested_tensor_from_jagged(rows, lengths=lib.tensor([2, 3])),
        n.nested_tensor_from_jagged(rows, lib.tensor([0, 2, 5]), lengths=lib.tensor([1, 2])),
        n.narrow(table, 1, starts, lengths, layout=lib.jagged),
        n.masked_select(lib.arange(6.0).reshape(2, 3), mask),
        lib.nn.functional.embedding(word, lib.tensor(W)),
        n.nested_tensor([[1.0, 2.0], [3.0]], layout=lib.jagged),
        n.as_nested_tensor(table, layout=lib.jagged),
    ]


def test_ways_to_make_one():
    compare([seen(x) for x in built(clnet)], [seen(x) for x in built(torch)])


def test_softmax_along_the_ragged_axis_is_that_of_each_element():
    x, (a, b) = made(clnet, "jagged")
    clnet.stack([(p * p).sum() for p in x.softmax(1).unbind()]).sum().backward()
    for leaf, value in ((a, A), (b, B)):
        alone = torch.tensor(value, requires_grad=True)
        alone.softmax(0).pow(2).sum().backward()
        np.testing.assert_allclose(leaf.grad.numpy(), alone.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_a_leaf_collects_a_nested_gradient():
    for layout in LAYOUTS:
        x = nested.nested_tensor(
            [clnet.tensor(A), clnet.tensor(B)],
            layout=getattr(clnet, layout),
            requires_grad=True,
        )
        y = x * x
        y.backward(clnet.ones_like(y))
        assert x.is_leaf
        for grad, value in zip(x.grad, (A, B), strict=True):
            np.testing.assert_allclose(grad.numpy(), 2 * value, rtol=1e-12)
        x.grad = None
        assert x.grad is None
        with pytest.raises(GradientError, match=r"a gradient is given.*Pass one"):
            y.backward()


def test_what_is_not_ragged_together_is_refused():
    x, _ = made(clnet, "jagged")
    other = nested.nested_tensor([clnet.ones(1, 4), clnet.ones(3, 4)], layout=clnet.jagged)
    with pytest.raises(ShapeError, match="equal sizes"):
        _ = x + other
    with pytest.raises(ShapeError, match="one row where the batch is ragged"):
        _ = x + clnet.ones(2, 3, 4, dtype=clnet.float64)
    with pytest.raises(ArgumentError, match=r"x\.unbind\(\)"):
        x.cumsum(1)
    with pytest.raises(ArgumentError, match="behind the batch's"):
        x.sum(0)
    with pytest.raises(ShapeError, match="ragged axis stays"):
        x.reshape(2, 2, -1, 2)
    with pytest.raises(ArgumentError, match="no array"):
        x.numpy()
    with pytest.raises(ShapeError, match="differs in one axis"):
        nested.nested_tensor([clnet.ones(1, 2), clnet.ones(2, 3)], layout=clnet.jagged)
    with pytest.raises(ArgumentError, match="there is an element"):
        nested.nested_tensor([])
    with pytest.raises(ShapeError, match="holds all elements"):
        x.to_padded_tensor(0.0, output_size=(2, 2, 4))
    strided, _ = made(clnet, "strided")
    with pytest.raises(ShapeError, match="has no shape"):
        _ = strided.shape
    with pytest.raises(ShapeError, match="one size"):
        strided.size(1)


def test_a_nested_tensor_is_a_tensor_of_its_own_kind():
    x, _ = made(clnet, "jagged")
    assert isinstance(x, clnet.Tensor)
    assert clnet.is_tensor(x)
    assert repr(x.shape[1]).startswith("j")
    assert repr(x).startswith("NestedTensor(size=(2, j")
    assert "nested_tensor([" in repr(made(clnet, "strided")[0])
    for again in (copy.deepcopy(x.detach()), pickle.loads(pickle.dumps(x.detach()))):
        assert type(again) is NestedTensor
        assert clnet.equal(again, x)
