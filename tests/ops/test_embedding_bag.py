"""Bags of embeddings beside PyTorch's, with offsets and without."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn, ops
from clnet.errors import ArgumentError, BoundsError, DtypeError, ShapeError
from clnet.kernels.grid import in_groups
from tests.opcase import OpCase, every_check, normal

pytestmark = pytest.mark.device

NUMBERS = np.array([[1, 4, 1, 0], [2, 2, 3, 2], [4, 4, 4, 4]])
FLAT, OFFSETS = np.array([1, 4, 1, 0, 3, 2, 2, 4, 4]), np.array([0, 0, 3, 4, 9])


def reference(numbers, table, offsets, mode):
    ends = [*offsets[1:], len(numbers)]
    bags = [table[numbers[a:b]] for a, b in zip(offsets, ends, strict=True)]
    reduce = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
    return np.stack([reduce(bag, 0) if len(bag) else 0 * table[0] for bag in bags])


CASES = [
    OpCase(
        lambda table, mode=mode: ops.embedding_bag(
            clnet.tensor(FLAT), table, clnet.tensor(OFFSETS), mode=mode
        ),
        lambda table, mode=mode: reference(FLAT, table, OFFSETS, mode),
        [normal(5, 3)],
        name="embedding_bag",
        label=mode,
        shapes=[],
        k=5,
    )
    for mode in ("sum", "mean", "max")
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def pytorch(given, table, weights, **options):
    """The bags, and the gradients to the table and the weights."""
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    results = []
    for package, call in ((clnet, ops.embedding_bag), (torch, torch.nn.functional.embedding_bag)):
        numbers, offsets = (None if x is None else package.tensor(x) for x in given)
        leaf = package.tensor(table, requires_grad=True)
        factors = None if weights is None else package.tensor(weights, requires_grad=True)
        y = call(numbers, leaf, offsets, per_sample_weights=factors, **options)
        (y * package.arange(y.numel()).reshape(y.shape)).sum().backward()
        leaves = [leaf] if factors is None else [leaf, factors]
        results.append([y.detach().numpy(), *(x.grad.numpy() for x in leaves)])
    return results


@pytest.mark.parametrize("padding_idx", [None, 4, -3])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize(
    "given",
    [
        (NUMBERS, None),
        (FLAT, OFFSETS),
        (FLAT.astype(np.int32), OFFSETS.astype(np.int32)),
        (np.zeros(0, np.int64), np.zeros(2, np.int64)),
    ],
    ids=["bags of one size", "offsets", "offsets of 32 bits", "no rows"],
)
def test_bags_agree_with_pytorch(given, mode, padding_idx):
    table = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    ours, theirs = pytorch(given, table, None, mode=mode, padding_idx=padding_idx)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("offsets", [None, OFFSETS])
def test_rows_are_never_stored_one_by_one(offsets, compiled, device):
    if in_groups(device.traits):
        pytest.skip("GPUs gather rows, then add them up")
    table = clnet.randn(5, 45, device=device)
    numbers = clnet.tensor(NUMBERS if offsets is None else FLAT, device=device)
    starts = None if offsets is None else clnet.tensor(offsets, device=device)

    def bags(table):
        return ops.embedding_bag(numbers, table, starts, mode="sum")

    call = clnet.compile(bags) if compiled else bags
    call(table)
    with clnet.profile() as profile:
        found = call(table)
    names = str(profile.table())
    assert "bag_sums" in names
    assert "gather" not in names
    where = NUMBERS if offsets is None else FLAT
    expected = (
        table.numpy()[where].sum(1)
        if offsets is None
        else reference(FLAT, table.numpy(), OFFSETS, "sum")
    )
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding_idx", [None, 4])
@pytest.mark.parametrize("given", [(NUMBERS, None), (FLAT, OFFSETS)], ids=["equal", "offsets"])
def test_gradients_of_gradients_of_bags(given, mode, padding_idx):
    numbers, starts = (None if x is None else clnet.tensor(x) for x in given)

    def bags(table):
        return ops.embedding_bag(numbers, table, starts, mode=mode, padding_idx=padding_idx) ** 3

    table = clnet.randn(5, 3, dtype=clnet.float64, requires_grad=True)
    assert clnet.autograd.gradcheck(bags, (table,))
    assert clnet.autograd.gradgradcheck(bags, (table,))


@pytest.mark.parametrize("padding_idx", [None, 4])
@pytest.mark.parametrize("last", [False, True])
def test_weights_and_a_last_offset_agree_with_pytorch(last, padding_idx):
    rng = np.random.default_rng(0)
    table, weights = (rng.standard_normal(s).astype(np.float32) for s in ((5, 3), FLAT.shape))
    how = {"mode": "sum", "include_last_offset": last, "padding_idx": padding_idx}
    ours, theirs = pytorch((FLAT, OFFSETS), table, weights, **how)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_without_rows_are_0(mode):
    for padding_idx in (None, 1):
        y = ops.embedding_bag(
            clnet.zeros(2, 0, dtype=clnet.int64),
            clnet.ones(3, 4),
            mode=mode,
            padding_idx=padding_idx,
        )
        assert y.tolist() == [[0.0] * 4] * 2


def test_layers_of_a_given_table():
    table = clnet.randn(5, 3)
    state = clnet.get_rng_state().tolist()
    bag = nn.EmbeddingBag.from_pretrained(table, mode="sum", padding_idx=-1)
    assert (bag.padding_idx, bag.weight.requires_grad) == (4, False)
    expected = table.numpy()[[1, 1]].sum(0)
    np.testing.assert_allclose(bag(clnet.tensor([[1, 4, 1]])).numpy()[0], expected, rtol=1e-6)
    single = nn.Embedding.from_pretrained(table, freeze=False)
    assert single.weight.requires_grad
    np.testing.assert_array_equal(single(clnet.tensor([3])).detach().numpy()[0], table.numpy()[3])
    assert "5, 3, mode='sum', padding_idx=4" in repr(bag)
    assert (
        clnet.get_rng_state().tolist() == state
    )  # nothing was drawn for a table that is thrown away


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda i, t: ops.embedding_bag(i, t), ArgumentError, "offsets go with one axis"),
        (lambda i, t: ops.embedding_bag(i[None], t, i), ArgumentError, "offsets go with one axis"),
        (lambda i, t: ops.embedding_bag(i[None], t, mode="prod"), ArgumentError, "mode is one of"),
        (
            lambda i, t: ops.embedding_bag(i[None], t, per_sample_weights=t),
            ArgumentError,
            "go with mode='sum'",
        ),
        (
            lambda i, t: ops.embedding_bag(i[None], t, mode="sum", per_sample_weights=t),
            ShapeError,
            "each index has a weight",
        ),
        (lambda i, t: ops.embedding_bag(i[None, None], t), ShapeError, r"\(bags, n\)"),
        (lambda i, t: ops.embedding_bag(i, t, i[None]), ShapeError, r"offsets is \(bags,\)"),
        (lambda i, t: ops.embedding_bag(t, t), DtypeError, "int64 or int32"),
        (lambda i, t: ops.embedding_bag(i, t, t), DtypeError, "int64 or int32"),
        (lambda i, t: ops.embedding_bag(i[None], t, padding_idx=9), BoundsError, "is a row"),
        (lambda i, t: nn.EmbeddingBag(3, 2, padding_idx=3), BoundsError, "one of the rows"),
        (lambda i, t: nn.EmbeddingBag.from_pretrained(i), ShapeError, r"\(rows, width\)"),
        (lambda i, t: nn.Embedding.from_pretrained(i), ShapeError, r"\(rows, width\)"),
    ],
)
def test_errors_name_what_is_wrong(call, error, message):
    with pytest.raises(error, match=message):
        call(clnet.tensor([0, 1]), clnet.ones(3, 2))
