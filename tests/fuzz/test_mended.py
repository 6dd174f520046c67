"""Drawn calls that once ended in an internal error, a hang or a silent difference, now right."""

from __future__ import annotations

import math

import numpy as np
import pytest

import clnet
from clnet.errors import ArgumentError, DtypeError, RangeError, ShapeError
from clnet.nn import functional as F

from .evaluate import REFUSED, clnet_outcome
from .refused_calls import REFUSED_CALLS

pytestmark = pytest.mark.device


@pytest.mark.parametrize("text", REFUSED_CALLS)
def test_a_call_is_refused_and_the_error_names_it(text):
    outcome, _ = clnet_outcome(text, grad=False)
    assert outcome.kind == REFUSED, outcome


def test_sources_of_scatter_reduce_have_the_index_axes():
    x, index = clnet.zeros(3, 4), clnet.zeros(3, 2, dtype=clnet.int64)
    for kind in ("sum", "prod", "mean", "amax", "amin"):
        for src in (clnet.ones(4), clnet.ones(3, 1), clnet.ones(2, 2)):
            with pytest.raises(ShapeError, match="scatter_reduce: the index has as many axes"):
                clnet.scatter_reduce(x, 0, index, src, kind)


def test_bounds_in_the_wrong_order():
    x = clnet.tensor([-3.0, 0.0, 1.5, 3.0])
    assert x.clamp(2, 1).tolist() == [1.0] * 4
    held = clnet.tensor([0.1, 0.9]).logit(0.75).tolist()
    np.testing.assert_allclose(held, [np.log(3), -np.log(3)], rtol=1e-6)


def test_a_comparison_is_written_as_numbers():
    x = clnet.tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
    for other in (clnet.tensor([0.0, 5, 10, 11]), 5.0):
        out = clnet.zeros(3, 4)
        clnet.eq(x, other, out=out)
        np.testing.assert_array_equal(out.numpy(), clnet.eq(x, other).numpy())


def test_weights_of_bincount_are_summed_as_pytorch_does():
    x = clnet.tensor([0, 2, 2])
    for given, wanted in (
        (clnet.float32, clnet.float32),
        (clnet.int32, clnet.float64),
        (clnet.float16, clnet.float64),
    ):
        y = x.bincount(clnet.tensor([1, 2, 3]).to(given), 4)
        assert (y.dtype, y.tolist()) == (wanted, [1, 0, 5, 0])
    none = clnet.bincount(x[:0], clnet.ones(0), 2)
    assert (none.dtype, none.tolist()) == (clnet.int64, [0, 0])


def test_the_covariance_of_one_variable_has_no_axes():
    x = clnet.tensor([[1.0, 2.0, 4.0]])
    np.testing.assert_allclose(x.cov().numpy(), np.cov(x.numpy()), rtol=1e-6)
    assert x.cov().shape == x.corrcoef().shape == ()
    assert x.T.cov().shape == (3, 3)


def test_a_tensor_without_axes_is_no_axis_of_max():
    x = clnet.tensor([[1.0, 5.0], [7.0, 2.0]])
    assert x.max(clnet.tensor(3)).tolist() == [[3, 5], [7, 3]]
    assert clnet.min(x, clnet.tensor(3)).tolist() == [[1, 3], [3, 2]]
    assert x.max(1)[1].tolist() == x.max(np.int64(1))[1].tolist() == [1, 0]


def test_python_numbers_keep_their_digits_in_float64():
    for make in (clnet.tensor, clnet.as_tensor, clnet.asarray):
        assert make([0.1, -1e39], dtype=clnet.float64).tolist() == [0.1, -1e39]
        assert make([0.1]).dtype is clnet.float32


def test_targets_do_not_widen_the_loss():
    x, y = (clnet.ones(3, 4, dtype=clnet.bfloat16) for _ in range(2))
    signs = clnet.tensor([1.0, -1.0, 1.0])
    assert F.cosine_embedding_loss(x, y, signs).dtype is clnet.bfloat16
    assert F.hinge_embedding_loss(x[:, 0], signs).dtype is clnet.bfloat16
    assert F.soft_margin_loss(x[:, 0], signs).dtype is clnet.bfloat16
    assert F.hinge_embedding_loss(x[:, 0].float(), signs.long()).dtype is clnet.float32


def test_iterables_are_looked_at_where_they_stay_whole():
    ones = [clnet.ones(2, requires_grad=True)]
    clnet.nn.utils.clip_grad_norm_(iter(ones), 1.0)
    with pytest.raises(DtypeError, match=r"clip_grad_norm_: parameters is a tensor or a sequence"):
        clnet.nn.utils.clip_grad_norm_([1], 1.0)
    with pytest.raises((ArgumentError, DtypeError), match="params"):
        clnet.optim.SGD(np.array(0.5), lr=0.1)


def test_whole_numbers_beyond_a_dtype_wrap_around():
    x = clnet.ones(3, dtype=clnet.int16)
    assert (x + 10**9).tolist() == [np.array(10**9 + 1).astype(np.int16)] * 3
    assert clnet.add(x, 10**9, alpha=2).dtype is clnet.int16
    assert (x.to(clnet.int32) + 2**40).tolist() == [1] * 3
    for refused in (lambda: x.clamp(max=10**9), lambda: x.masked_fill(x > 0, 10**9)):
        with pytest.raises(ArgumentError, match=r"int16 holds"):
            refused()


def test_no_axes_are_not_all_where_truths_are_looked_for():
    x = clnet.tensor([[0.0, 2.0], [3.0, 0.0]])
    for f in (clnet.any, clnet.all):
        assert f(x, dim=()).tolist() == [[False, True], [True, False]]
        assert f(x.to(clnet.uint8), []).dtype is clnet.uint8


def test_bytes_do_not_wrap_around_in_logsumexp():
    x = clnet.tensor([0, 255, 254], dtype=clnet.uint8)
    assert x.logsumexp(0).item() == pytest.approx(255 + np.log1p(np.exp(-1)), rel=1e-6)


def test_settings_of_whole_ranges_are_cut_to_whole_numbers():
    assert clnet.arange(0.5, 3, 1.5, dtype=clnet.int64).tolist() == [0, 1, 2]


def test_a_correction_beyond_the_count():
    x = clnet.tensor([1.0, 2.0, 4.0])
    assert x.var(0, correction=300).item() == x.std(0, correction=3).item() == float("inf")
    assert np.isnan(clnet.ones(3).var(0, correction=4).item())
    assert clnet.tensor([1, 3]).diff(n=0, append=clnet.ones(2)).dtype is clnet.int64


def test_derivatives_of_functions_are_on_the_tape_of_their_arguments():
    x = clnet.tensor([0.5, 2.0], requires_grad=True)
    y, along = clnet.func.jvp(lambda a: a**3, (x,), (clnet.ones(2),))
    value, back = clnet.func.vjp(lambda a: a**3, x)
    for found, wanted in (
        (y, 3 * x.detach() ** 2),
        (along, 6 * x.detach()),
        (value, 3 * x.detach() ** 2),
        (back(clnet.ones(2))[0], 6 * x.detach()),
    ):
        x.grad = None
        found.sum().backward(retain_graph=True)
        np.testing.assert_allclose(x.grad.numpy(), wanted.numpy(), rtol=1e-6)
    plain = clnet.func.jvp(lambda a: a**3, (x.detach(),), (clnet.ones(2),))
    assert not plain[0].requires_grad
    assert not plain[1].requires_grad


def test_powers_of_the_complex_number_0():
    exponents = [0j, 2, 1 + 1j, 1j, -1, -1 + 1j]
    found = clnet.pow(clnet.zeros(6, dtype=clnet.complex64), clnet.tensor(exponents)).numpy()
    np.testing.assert_array_equal(found[:3], [1, 0, 0])
    assert np.isnan(found[3:]).all()


def test_an_infinite_spread_where_the_correction_is_no_number():
    assert clnet.tensor([1.0, 2.0]).std(correction=float("nan")).item() == float("inf")


def test_quantiles_of_a_number():
    q = clnet.tensor([0.2, 0.5])
    assert clnet.quantile(clnet.tensor(0.5), q, 0, keepdim=True).tolist() == [0.5, 0.5]


def test_what_is_written_to_booleans_is_true_where_it_is_not_0():
    x = clnet.tensor([[0.5, 0.0], [-0.3, 2.0]])
    found = clnet.zeros(2, 2, dtype=clnet.bool)
    assert found.copy_(x).tolist() == [[True, False], [True, True]]
    found[:, :1] = x[:, :1] * 0
    assert found.tolist() == [[False, False], [False, True]]
    assert clnet.zeros(2, dtype=clnet.bool).copy_(clnet.tensor([1j, 0])).tolist() == [True, False]


def test_equal_elements_share_the_gradient_of_the_median_of_all():
    nan = float("nan")
    for name, given, wanted in (
        ("median", [1.0, 2.0, 2.0, 5.0], [0, 0.5, 0.5, 0]),
        ("median", [1.0, nan, 2.0, nan], [0, 0.5, 0, 0.5]),
        ("nanmedian", [3.0, nan, 3.0, 7.0], [0.5, 0, 0.5, 0]),
        ("max", [1.0, nan, 2.0, nan], [0, 0.5, 0, 0.5]),
    ):
        x = clnet.tensor(given, requires_grad=True)
        getattr(clnet, name)(x).backward()
        assert x.grad.tolist() == wanted, name


def test_gradients_of_spreads_whose_correction_is_above_the_count():
    x = clnet.tensor([1.0, 2.0, 6.0], requires_grad=True)
    x.var(correction=4).backward()
    np.testing.assert_allclose(x.grad.numpy(), [4, 2, -6], rtol=1e-6)  # 2 (x - 3) / -1


def test_circular_padding_is_of_what_negative_numbers_leave():
    x = clnet.arange(1, 6).float()[None, None]
    assert F.pad(x, (-1, 2), "circular").tolist() == [[[2, 3, 4, 5, 2, 3]]]


def test_bounds_that_are_nan_take_over_and_softplus_of_beta_0_has_a_slope():
    x = clnet.tensor([-2.0, 0.0, 3.0], requires_grad=True)
    held = F.hardtanh(x, float("nan"), 0.5)
    assert np.isnan(held.detach().numpy()).all()
    held.sum().backward()
    assert x.grad.tolist() == [1, 1, 0]
    x.grad = None
    F.softplus(x, 0).sum().backward()
    assert x.grad.tolist() == [0.5, 0.5, 0.5]


def test_strides_on_the_tape_are_those_of_the_memory():
    x = clnet.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    assert x.T.as_strided((3,), (1,)).tolist() == [1, 2, 3]
    source = clnet.zeros(2, requires_grad=True)
    y = clnet.as_strided_scatter(x, source, (2,), (3,))
    assert y.tolist() == [[0, 2], [3, 0]]
    y.sum().backward()
    assert (x.grad.tolist(), source.grad.tolist()) == ([[0, 1], [1, 0]], [1, 1])
    with pytest.raises(ShapeError, match="as_strided: on the tape elements are those"):
        x[1:].as_strided((2,), (1,), 0)


def test_rows_that_do_not_ascend_are_searched_in_pytorchs_steps():
    nan = float("nan")
    edges = clnet.tensor([0.7, -0.5, 1.0, 0.2])
    x = clnet.tensor([0.0, 0.8, nan, -1.0])
    assert clnet.bucketize(x, edges).tolist() == [2, 2, 4, 0]
    assert clnet.searchsorted(clnet.tensor([1.0, nan]), x).tolist() == [2, 2, 2, 2]
    found = clnet.histogram(x[:2], clnet.tensor([0.5, -0.5, 1.0])).hist
    assert found.tolist() == [0, 1]


def test_further_calls_of_drawn_rows():
    x = clnet.tensor([[1.0, 4.0, 2.0]])
    assert clnet.quantile(x, [], 1).shape == (0, 1)
    values, places = clnet.adaptive_max_pool1d(x, 1)
    assert (values.tolist(), places.tolist()) == ([[4]], [[1]])
    assert f"{x[0, 0]:.1f}" == "1.0"
    for call, error in (
        (lambda: F.one_hot(clnet.tensor([1]), -129), "one_hot: the number of classes is 0 or more"),
        (lambda: clnet.diff(x, 0, prepend=x[:, None]), "cat"),
        (lambda: f"{x:same}", "format: the specification"),
    ):
        with pytest.raises((ArgumentError, ShapeError), match=error):
            call()


def test_milestones_before_the_beginning():
    schedule, weight = clnet.optim.lr_scheduler, clnet.nn.Parameter(clnet.ones(1))
    o = clnet.optim.SGD([weight], lr=0.5)
    parts = [schedule.ConstantLR(o, 0.1, 2), schedule.ExponentialLR(o, 0.9)]
    assert schedule.SequentialLR(o, parts, [-2]).get_last_lr() == [0.5]


def test_what_has_no_axes_has_one_of_one_element():
    x, place = clnet.tensor(2.0, requires_grad=True), clnet.tensor([0])
    assert x.kthvalue(1).values.item() == x.gather(0, clnet.tensor(0)).item() == 2
    assert x.gather(0, clnet.tensor([0, 0])).tolist() == [2, 2]
    assert clnet.ones(3).gather(0, clnet.tensor(1)).shape == ()
    assert clnet.ones(3).index_select(0, clnet.tensor(1)).shape == (1,)
    assert x.index_fill(0, place, 3).item() == 3
    assert x.index_copy(0, place, clnet.tensor([4.0])).item() == 4
    x.index_select(0, place).backward()
    assert x.grad.item() == 1
    assert x.scatter_reduce(0, clnet.tensor(0), clnet.tensor(5.0), "amax").item() == 5
    with pytest.raises(ShapeError, match="index_select: the index has one axis"):
        x.index_select(0, clnet.tensor([0, 0]))
    with pytest.raises(DtypeError, match="asarray: NumPy has the dtype"):
        x.detach().__array__(10**400)


def test_settings_and_tolerances_that_contradict_each_other():
    weight, x = clnet.nn.Parameter(clnet.ones(2)), clnet.ones(2, 3)
    for call, error in (
        (lambda: clnet.optim.Adam([weight], betas=(0.9,)), "Adam: betas are two"),
        (lambda: clnet.optim.Rprop([weight], etas=(0.5, 1.2, 2.0)), "Rprop: etas are two"),
        (lambda: clnet.optim.Rprop([weight], step_sizes=(1.0,)), "Rprop: step_sizes are two"),
        (lambda: clnet.linalg.pinv(x, 0.1, rtol=0.1), "pinv: the tolerance is given by its old"),
        (lambda: clnet.linalg.matrix_rank(x, 0.1, atol=1), "matrix_rank: the tolerance is given"),
        (lambda: clnet.fft.ihfft2(x[:0]), "ihfft2"),
    ):
        with pytest.raises((ArgumentError, ShapeError), match=error):
            call()


def test_polynomials_have_degrees_that_64_bits_hold():
    x = clnet.tensor([-0.5, 0.5, 2.0])
    t = clnet.special.chebyshev_polynomial_t
    assert t(x, -0.5).tolist() == [1, 1, 1], "fractions are cut off"
    for degree in (float("inf"), float("nan"), 2.0**63, -1):
        assert t(x, degree).tolist() == [0, 0, 0]
    assert np.isnan(t(x, 100_001).numpy()).all()
    np.testing.assert_allclose(t(x[:2], 100_000).numpy(), [-0.5, -0.5], atol=0.02)


def test_the_gamma_function_of_many_dimensions_is_one_sum():
    x = clnet.tensor([2.5, 7.0], requires_grad=True)
    y = x.mvlgamma(3)
    y.sum().backward()
    lgamma = np.vectorize(math.lgamma)
    parts = x.detach().numpy().astype(np.float64)[:, None] - np.arange(3) / 2
    wanted = lgamma(parts).sum(1) + 1.5 * np.log(np.pi)
    np.testing.assert_allclose(y.detach().numpy(), wanted, rtol=1e-6)
    step = (lgamma(parts + 1e-5) - lgamma(parts - 1e-5)).sum(1) / 2e-5
    np.testing.assert_allclose(x.grad.numpy(), step, rtol=1e-5)
    assert np.isfinite(clnet.full((2,), 9e4).mvlgamma(30_000).numpy()).all()


# Made by hand: infinities, equal elements, no elements.


def test_places_that_no_index_names_stay_as_they_are():
    inf = float("inf")
    src, index = clnet.tensor([0.0, -inf]), clnet.tensor([1, 1])
    for kind, middle in (("amax", 0.0), ("amin", -inf)):
        x = clnet.tensor([inf, 0.0, -inf], requires_grad=True)
        found = x.scatter_reduce(0, index, src, kind)
        assert found.tolist() == [inf, middle, -inf], kind
        found.backward(clnet.tensor([2.0, 3.0, 5.0]))
        assert x.grad.tolist() == [2, 1.5 if kind == "amax" else 0, 5]
    found = clnet.ones(2).index_add(0, clnet.tensor([0]), clnet.ones(1), alpha=float("nan"))
    assert np.isnan(found[0].item())
    assert found[1].item() == 1


def test_equal_elements_share_the_gradient_of_what_index_reduce_finds():
    x = clnet.tensor([1.0, 7.0], requires_grad=True)
    src = clnet.tensor([3.0, 1.0, 3.0], requires_grad=True)
    x.index_reduce(0, clnet.tensor([0, 0, 0]), src, "amax").sum().backward()
    assert (x.grad.tolist(), src.grad.tolist()) == ([0, 1], [0.5, 0, 0.5])


@pytest.mark.parametrize("name", ["svdvals", "eigvalsh"])
def test_equal_values_of_a_matrix_have_gradients(name):
    for given in (clnet.eye(3), clnet.zeros(3, 3)):
        x = given.requires_grad_()
        getattr(clnet.linalg, name)(x).sum().backward()
        found = x.grad.numpy()
        np.testing.assert_allclose(found @ found.T, np.eye(3), atol=1e-6)
    tall = clnet.zeros(3, 2, requires_grad=True)
    clnet.linalg.matrix_norm(tall, "nuc").backward()
    np.testing.assert_allclose(tall.grad.T.numpy() @ tall.grad.numpy(), np.eye(2), atol=1e-6)


def test_the_slope_of_a_grid_at_a_pixel_is_towards_the_next_one():
    x = clnet.tensor([[[[1.0, 4.0, 6.0]]]])
    grid = clnet.tensor([[[[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]]], requires_grad=True)
    F.grid_sample(x, grid, align_corners=True).sum().backward()
    # 1 pixel is a half of the way from -1 to 0; beyond the last pixel are zeros.
    assert grid.grad is not None
    assert grid.grad[0, 0, :, 0].tolist() == [3, 2, -6]


def test_infinite_norms_of_windows():
    x = clnet.tensor([[[[1.0, -3.0], [2.0, 0.0]]]])
    inf = float("inf")
    assert F.lp_pool2d(x, inf, 2).item() == 3
    assert F.lp_pool2d(x, -inf, 2).item() == 0
    assert F.lp_pool1d(x[0], inf, 2).tolist() == [[[3], [2]]]
    assert F.lp_pool3d(x[None], inf, (1, 2, 2)).item() == 3


def test_sequences_of_no_steps():
    steps = F.log_softmax(clnet.tensor([[[1.0, 2.0, 3.0]] * 2] * 2), 2)
    labels = clnet.tensor([[1, 2], [1, 2]])
    found = F.ctc_loss(steps, labels, (0, 0), (0, 1), reduction="none")
    assert found.tolist() == [0, float("inf")]


def test_random_whole_numbers_up_to_one():
    x = clnet.empty(200, dtype=clnet.uint8)
    assert 0 <= x.random_(3).min().item() <= x.max().item() == 2
    assert x.random_().max().item() > 200
    assert clnet.empty(50).random_().max().item() <= 2**24


def test_fills_of_booleans_and_names_of_types():
    for pad in (lambda x: F.pad(x, (1, 0), value=0.1), clnet.nn.ConstantPad1d((1, 0), -0.5)):
        assert pad(clnet.tensor([[False]])).tolist() == [[True, False]]
    assert clnet.typename(np.float32) == clnet.typename(np.float32(1)) == "numpy.float32"
    assert (clnet.typename(int), clnet.typename([1])) == ("int", "list")


def test_ranges_of_whole_numbers_between_fractions():
    for dtype, found in ((clnet.int32, [2, 4, 6]), (clnet.int64, [2, 4, 6, 8])):
        assert clnet.arange(2.7, 10, 2.5, dtype=dtype).tolist() == found, "as PyTorch has it"
    assert clnet.arange(0, 2, 0.5, dtype=clnet.int8).tolist() == [0, 0, 0, 0]


def test_unsigned_types_count_settings_below_0_from_their_end():
    x = clnet.tensor([1, 2, 250], dtype=clnet.uint8)
    assert x.sub(x, alpha=2).tolist() == [255, 254, 6]
    assert x.add(x, alpha=-2).tolist() == x.sub_(x.clone(), alpha=2).tolist() == [255, 254, 6]
    assert x.clamp(min=-1).tolist() == clnet.where(x < 7, -1, x.masked_fill(x > 7, -1)).tolist()
    for far in (lambda: x.clamp(max=300), lambda: x.masked_fill(x > 1, -256), lambda: x.pow(300)):
        with pytest.raises(ArgumentError, match="uint8 holds the settings"):
            far()


def test_whole_numbers_that_only_unsigned_types_hold_are_floats():
    x = clnet.tensor([1.0, 3.0])
    assert (x * 2**63 / 2**63).tolist() == x.clamp(max=2**64 - 1).tolist() == [1, 3]
    assert clnet.tensor([1.0, 2**70]).tolist() == [1, 2**70]
    for far in (
        lambda: x * 2**64,
        lambda: clnet.tensor([1]) + 2**63,
        lambda: clnet.tensor([2**63]),
        lambda: clnet.tensor(-(2**70)),
        lambda: clnet.zeros(2**70),
    ):
        for kind in (RangeError, TypeError, ValueError, OverflowError):  # PyTorch's, by the op
            with pytest.raises(kind, match=r"64 bits|int64 holds"):
                far()


def test_derivatives_of_nothing_are_empty():
    none, x = clnet.zeros(0), clnet.ones(3)
    assert clnet.func.hessian(lambda a: (a**3).sum())(none).shape == (0, 0)
    assert clnet.func.jacrev(lambda a: a[:0])(x).shape == (0, 3)


def test_a_tensor_is_a_sequence_of_its_rows():
    x = clnet.arange(6.0).view(2, 3)
    assert clnet.nn.utils.rnn.pad_sequence(x, True).tolist() == x.tolist()
    assert clnet.nn.utils.rnn.pack_sequence(x).data.tolist() == x.T.flatten().tolist()


def test_norms_of_matrices_without_elements_are_0():
    for kind in (1, 2, "nuc", "fro"):
        assert clnet.linalg.matrix_norm(clnet.zeros(2, 3, 0), kind).tolist() == [0, 0]
    assert clnet.linalg.matrix_norm(clnet.zeros(0, 3), float("inf")).item() == 0
    with pytest.raises(ArgumentError, match="an extreme is among elements"):
        clnet.linalg.matrix_norm(clnet.zeros(3, 0), -1)


def test_a_number_is_copied_everywhere():
    assert clnet.zeros(2).copy_(3.5).tolist() == [3.5, 3.5]
    assert clnet.zeros(2, dtype=clnet.int64).copy_(True).tolist() == [1, 1]
