"""Random tensors: shapes, dtypes, ranges, and that a seed decides them."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.errors import ArgumentError, DtypeError
from clnet.values import mode

DRAWS = {
    "rand": lambda **k: clnet.rand(4, 5, **k),
    "randn": lambda **k: clnet.randn((4, 5), **k),
    "normal": lambda **k: clnet.normal(1.0, 2.0, (4, 5), **k),
    "randint": lambda **k: clnet.randint(1000, (4, 5), **k),
    "randperm": lambda **k: clnet.randperm(20, **k),
    "bernoulli": lambda **k: clnet.bernoulli(clnet.full((4, 5), 0.5), **k),
}
EVERY_DRAW = pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())


@EVERY_DRAW
def test_a_seed_decides_the_numbers(draw):
    assert clnet.manual_seed(7).key == clnet.initial_seed() == 7
    first, second = draw().tolist(), draw().tolist()
    assert first != second
    clnet.manual_seed(7)
    assert draw().tolist() == first
    state = clnet.get_rng_state()
    clnet.manual_seed(8)
    assert draw().tolist() != first
    clnet.set_rng_state(state)
    assert draw().tolist() == second


@EVERY_DRAW
def test_a_generator_of_ones_own(draw):
    before = clnet.get_rng_state().tolist()
    first = draw(generator=clnet.Generator(3)).tolist()
    assert draw(generator=clnet.Generator(3)).tolist() == first
    assert draw(generator=clnet.Generator(4)).tolist() != first
    assert clnet.get_rng_state().tolist() == before


def test_a_generator_says_where_it_draws():
    x = clnet.ones(2)
    for made in (clnet.manual_seed(1), clnet.Generator(), clnet.Generator(device=x.device)):
        assert made.device == x.device
        assert clnet.rand(2, generator=made).device.type == made.device.type
    assert clnet.Generator("nobody").device == x.device  # one stream serves all
    assert clnet.Generator("meta").device.type == "meta"


def test_generators_are_made_as_pytorchs_are():
    for made in (clnet.Generator("cpu"), clnet.Generator(device="cpu"), clnet.Generator(None)):
        assert (made.key, made.offset) == (0, 0)
    made = clnet.Generator("cpu").manual_seed(-1)
    assert made.initial_seed() == 2**64 - 1
    assert clnet.manual_seed(2**64 - 1).initial_seed() == 2**64 - 1
    assert clnet.manual_seed(np.int32(5)).initial_seed() == 5
    for wrong in (
        lambda: clnet.Generator(device=clnet.ones(2)),
        lambda: clnet.Generator(clnet.ones(2)),
        lambda: clnet.Generator(2.5),
        lambda: made.manual_seed(1.5),
        lambda: made.manual_seed(True),
        lambda: made.manual_seed(clnet.tensor(3)),
        lambda: made.manual_seed(-(2**63) - 1),
    ):
        with pytest.raises(ArgumentError, match=r"Generator: device is|a seed is a whole number"):
            wrong()


def test_seeds_nobody_chose_differ():
    with mode.using(generator=clnet.Generator()):
        drawn = [clnet.seed() for _ in range(4)]
        for _ in range(4):
            clnet.cuda.seed()
            drawn.append(clnet.initial_seed())
    assert len(set(drawn)) == len(drawn)


@EVERY_DRAW
def test_a_replay_draws_what_eager_calls_would(draw):
    clnet.manual_seed(1)
    eager = [draw().tolist() for _ in range(3)]
    step = clnet.compile(lambda x: draw())
    clnet.manual_seed(1)
    assert [step(clnet.ones(1)).tolist() for _ in range(3)] == eager
    assert step.num_traces == 1


def test_ranges_and_dtypes():
    clnet.manual_seed(0)
    x = clnet.rand(1000, requires_grad=True)
    assert x.dtype is clnet.float32
    assert x.requires_grad
    assert 0 <= x.detach().numpy().min() < 0.01
    assert 0.99 < x.detach().numpy().max() < 1
    whole = clnet.randint(-3, 4, (1000,))
    assert whole.dtype is clnet.int64
    assert set(whole.tolist()) == set(range(-3, 4))
    assert clnet.randint(2, (3,), dtype=clnet.uint8).dtype is clnet.uint8
    assert clnet.randint(1, size=(3,)).tolist() == clnet.randint(high=1, size=(3,)).tolist()
    assert clnet.randint(low=7, high=8, size=[2]).tolist() == [7, 7]
    normal = clnet.normal(5.0, 0.5, (10_000,)).numpy()
    assert abs(normal.mean() - 5) < 5 * 0.5 / 100
    assert abs(normal.std() - 0.5) < 5 * 0.5 / 100 / np.sqrt(2)


def test_like_another_tensor(device):
    if not device.traits.float64:
        pytest.skip("the device has no double precision")
    x = clnet.zeros(2, 3, dtype=clnet.float64)
    for draw in (clnet.rand_like, clnet.randn_like):
        assert draw(x).shape == (2, 3)
        assert draw(x).dtype is clnet.float64
        assert draw(x, dtype=clnet.float32).dtype is clnet.float32


@pytest.mark.parametrize("dtype", [clnet.float16, clnet.bfloat16], ids=repr)
def test_16_bit_numbers_are_rounded_ones(dtype):
    for draw in (clnet.rand, clnet.randn):
        narrow = draw(50, dtype=dtype, generator=clnet.Generator(1))
        wide = draw(50, generator=clnet.Generator(1)).numpy().astype(dtype.numpy)
        if draw is clnet.rand:
            assert 1 in wide  # which is not in [0, 1): the largest number that is stands for it
            wide = np.where(wide == 1, np.nextafter(wide, np.zeros_like(wide)), wide)
        np.testing.assert_array_equal(narrow.numpy(), wide)


def test_normal_takes_tensors():
    mean, std = clnet.tensor([[0.0], [100.0]]), clnet.full((10_000,), 2.0)
    x = clnet.normal(mean, std, generator=clnet.Generator(2))
    assert x.shape == (2, 10_000)
    np.testing.assert_allclose(x.numpy().mean(1), [0, 100], atol=0.1)
    np.testing.assert_allclose(x.numpy().std(1), [2, 2], rtol=0.05)
    assert clnet.normal(mean, 0.0).tolist() == [[0], [100]]
    assert clnet.normal(5.0, clnet.zeros(2)).tolist() == [5, 5]
    assert not clnet.normal(mean.requires_grad_(), std).requires_grad


def test_whole_numbers_like_another_tensor():
    x = clnet.randint_like(clnet.zeros(40, 50), -3, 4)
    assert (x.dtype, x.shape) == (clnet.float32, (40, 50))
    assert set(np.unique(x.numpy())) == set(range(-3, 4))
    assert clnet.randint_like(x, 2, dtype=clnet.int8).numpy().max() == 1


def test_probabilities_of_the_elements():
    clnet.manual_seed(0)
    p = clnet.tensor([0.0, 0.2, 1.0]).expand(4000, 3)
    drawn = clnet.bernoulli(p).numpy()
    assert set(np.unique(drawn)) == {0.0, 1.0}
    assert drawn[:, 0].max() == 0
    assert drawn[:, 2].min() == 1
    assert abs(drawn[:, 1].mean() - 0.2) < 5 * np.sqrt(0.2 * 0.8 / 4000)


@pytest.mark.parametrize("n", [0, 1, 2, 255, 256, 257, 5000])
def test_a_permutation_holds_every_number_once(n):
    order = clnet.randperm(n)
    assert order.dtype is clnet.int64
    assert sorted(order.tolist()) == list(range(n))


def test_every_place_of_a_permutation_is_as_likely():
    clnet.manual_seed(0)
    times = 600
    counts = np.zeros((4, 4))
    for _ in range(times):
        counts[np.arange(4), clnet.randperm(4).numpy()] += 1
    squares = ((counts - times / 4) ** 2 / (times / 4)).sum()
    assert squares < 27.9  # chi-squared of 9 degrees: exceeded once in 1000


@pytest.mark.parametrize(
    ("draw", "error", "message"),
    [
        (
            lambda: clnet.manual_seed(2**64),
            ArgumentError,
            r"a seed is a whole number in \[-2\*\*63, 2\*\*64\); got seed=18446744073709551616",
        ),
        (lambda: clnet.randint(3, 3, (2,)), ArgumentError, "low is below high; got low=3, high=3"),
        (lambda: clnet.randint(0, 3), ArgumentError, "size is a shape; got high=3, size=None"),
        (lambda: clnet.randint(3, (2,), (2,)), ArgumentError, "size is a shape"),
        (lambda: clnet.randint(size=(2,)), ArgumentError, "high is given; got low=None"),
        (lambda: clnet.randperm(-1), ArgumentError, r"n lies in \[0, 2\*\*31\); got n=-1"),
        (lambda: clnet.normal(0.0, -1.0, (2,)), ArgumentError, "std is 0 or more; got std=-1"),
        (lambda: clnet.normal(clnet.zeros(2), -1.0), ArgumentError, "std is 0 or more; got std=-1"),
        (lambda: clnet.normal(0.0, 1.0), ArgumentError, "numbers need a size"),
        (lambda: clnet.rand(2, dtype=clnet.int32), DtypeError, "operands are floating"),
    ],
    ids=[
        "seed",
        "range",
        "size",
        "sizes",
        "end",
        "length",
        "deviation",
        "deviations",
        "no size",
        "dtype",
    ],
)
def test_what_cannot_be_drawn(draw, error, message):
    before = clnet.get_rng_state().tolist()
    with pytest.raises(error, match=message):
        draw()
    assert clnet.get_rng_state().tolist() == before


@pytest.mark.device
@pytest.mark.parametrize("dtype", [clnet.float16, clnet.bfloat16], ids=str)
@pytest.mark.parametrize("ends", [(0.0, 1.0), (100.0, 101.0), (0.1, 0.3), (-1.0, 0.0), (1.0, 1.0)])
def test_uniform_numbers_of_two_bytes_stay_below_the_end(dtype, ends):
    low, high = ends
    x = clnet.empty(1 << 16, dtype=dtype).uniform_(low, high).double().numpy()
    assert x.max() < high or low == high
    assert x.min() >= np.float64(clnet.tensor(low, dtype=dtype).item())
    step = clnet.finfo(dtype).eps * max(abs(low), abs(high))  # at most between two neighbours
    assert x.mean() == pytest.approx((low + high) / 2, abs=step / 2 + 0.01)


@pytest.mark.device
def test_a_uniform_number_that_is_0_gives_no_outlier(monkeypatch):
    """It comes once in 2^24 numbers; the next one's logarithm is -16.6."""
    monkeypatch.setattr(clnet.ops, "uniform_", lambda x, **_: x.zero_())
    assert clnet.empty(3).exponential_().max().item() < 17
    assert clnet.empty(3).geometric_(0.5).max().item() <= 24
    assert clnet.empty(3, dtype=clnet.float64).exponential_().max().item() < 37
    assert clnet.empty(3, dtype=clnet.float16).exponential_().max().item() < 17


@pytest.mark.device
@pytest.mark.parametrize("dtype", [clnet.float16, clnet.bfloat16], ids=str)
def test_choices_by_probabilities_of_two_bytes(dtype):
    """Numbers of as few bits would be equal, or 0, once in hundreds."""
    clnet.manual_seed(3)
    sure, rare = (clnet.full((1 << 18,), p, dtype=dtype) for p in (1.0, 2.0**-12))
    assert bool((clnet.bernoulli(sure) == 1).all())
    assert 30 < clnet.bernoulli(rare).float().sum().item() < 100
    weights = clnet.tensor([2.0**-12, 1.0, 1.0], dtype=dtype)
    chosen = clnet.multinomial(weights, 1 << 18, replacement=True)
    assert 10 < (chosen == 0).float().sum().item() < 60


@pytest.mark.device
def test_a_mean_and_a_deviation_without_axes_are_tensors():
    mean, std = clnet.tensor(3.0, dtype=clnet.float64), clnet.tensor(0.0)
    found = clnet.normal(mean, std)
    assert (found.shape, found.item()) == ((), 3)
    assert clnet.normal(clnet.zeros(2, dtype=clnet.float64), std).dtype is clnet.float64


def test_a_generator_goes_on_from_where_the_default_one_stands():
    clnet.manual_seed(7)
    clnet.rand(3)
    generator = clnet.Generator()
    generator.set_state(clnet.get_rng_state())
    assert clnet.rand(4, generator=generator).tolist() == clnet.rand(4).tolist()
    with pytest.raises(ArgumentError, match="16 numbers of uint8"):
        generator.set_state(clnet.zeros(3))


def test_a_generator_is_asked_as_pytorchs_is():
    first, second = clnet.Generator(), clnet.Generator("cpu")
    assert first.seed() != second.seed()
    assert first.initial_seed() != second.initial_seed()
    second.set_state(first.get_state().clone())
    assert second.initial_seed() == first.initial_seed()
    drawn = clnet.rand(3, generator=first).tolist()
    assert clnet.rand(3, generator=second).tolist() == drawn


@pytest.mark.device
def test_coins_are_written_into_any_dtype():
    for dtype in (clnet.int32, clnet.bool):
        out = clnet.zeros(2, dtype=dtype)
        assert clnet.bernoulli(clnet.ones(2), out=out) is out
        assert out.sum().item() == 2
