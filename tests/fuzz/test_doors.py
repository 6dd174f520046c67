"""Arguments that once passed a door where PyTorch's does not let them."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.nn import functional as F
from clnet.optim.lr_scheduler import MultiStepLR, StepLR

from .evaluate import REFUSED, clnet_outcome

pytestmark = pytest.mark.device

REFUSALS = """
run(nn.LSTM(4, 5, np.bool_(True)), t)
x.sum(np.array(True))
run(nn.ReplicationPad3d(-2), volume)
run(nn.ReflectionPad1d((-4, 0)), x)
m.tensordot(x, t, dims=-1)
m.device(type=0, index=places)
m.device('cpu', places)
m.cdist(x, y, float('nan'))
m.pdist(x, float('nan'))
F.smooth_l1_loss(x, y, beta=float('nan'))
m.normal(x, float('nan'))
x.var(True, False)
run(nn.Sequential(nn.ReLU(), None), x)
m.empty(2, 3).uniform_(0, 1e300)
m.empty(2, 3).uniform_(-3e38, 3e38)
F.conv3d(volume, kernel[:, :, None], padding=2 ** 31)
rates(schedule.PolynomialLR(o, float('nan'), 2.0))
rates(schedule.CosineAnnealingLR(o, float('nan')))
rates(schedule.CyclicLR(o, 0.1, 1.0, 0, cycle_momentum=False))
rates(schedule.CyclicLR(o, 0.1, 1.0, float('nan'), cycle_momentum=False))
rates(schedule.CyclicLR(o, 0.1, 1.0, 2, -1, cycle_momentum=False))
F.batch_norm(image, m.ones(3), None, training=True)
F.batch_norm(image, index, index, training=True)
m.Generator(device=(10 ** 5, 10 ** 5))
m.normal(x, 1.0, device=10 ** 9)
x[..., :0].scatter_reduce(1, places // 2, y, 'amax')
x[..., :0].scatter_add(1, places // 2, y)
m.gradient(m.tensor(0.5), dim=-1)
F.celu(x, 0)
run(nn.CELU(0.0), x)
F.one_hot(m.tensor([2, -1]))
nn.utils.skip_init(3, 1)
F.binary_cross_entropy(u[0], u[0], u2)
F.binary_cross_entropy_with_logits(x[0], u[0], pos_weight=u2)
m.selu(i[:0])
F.silu(i[:0])
F.logsigmoid(i[:0])
"""


@pytest.mark.parametrize("text", REFUSALS.strip().split("\n"))
@pytest.mark.filterwarnings("ignore")
def test_the_door_refuses(text):
    found = clnet_outcome(text, grad=False)[0]
    assert found.kind == REFUSED, found


@pytest.mark.parametrize(
    ("step_size", "drops"), [(1.5, [0, 0, 1, 1, 1, 2]), (2.0, [0, 1, 1, 2, 2, 3]), (1e400, [0] * 6)]
)
def test_a_rate_drops_at_whole_multiples_of_the_step_size(step_size, drops):
    weight = clnet.nn.Parameter(clnet.zeros(1))
    optimiser = clnet.optim.SGD([weight], lr=1.0)
    schedule, found = StepLR(optimiser, step_size, gamma=0.5), []
    for _ in drops:
        optimiser.step()
        schedule.step()
        found.append(optimiser.param_groups[0]["lr"])
    assert found == [0.5**n for n in drops]


def test_milestones_before_the_start_are_never_met():
    weight = clnet.nn.Parameter(clnet.zeros(1))
    optimiser = clnet.optim.SGD([weight], lr=1.0)
    MultiStepLR(optimiser, [-1, 5], gamma=0.5)
    assert optimiser.param_groups[0]["lr"] == 1.0


def test_bounds_that_are_nan_hold_nothing():
    x = clnet.tensor([0.25, 0.5], requires_grad=True)
    clnet.logit(x, float("nan")).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [16 / 3, 4], rtol=1e-6)


def test_exponents_of_distances_beyond_the_range_of_floats():
    x, y = clnet.tensor([[0.0, 3.0]]), clnet.tensor([[4.0, 3.0], [2.0, 2.0]])
    assert clnet.cdist(x, y, 1e300).tolist() == [[4, 2]]
    assert clnet.cdist(x, y, 1e-320).tolist() == [[1, 2]]
    assert clnet.pdist(y, 1e300).tolist() == [2]


@pytest.mark.parametrize("dtype", [clnet.float32, clnet.float64])
def test_logits_of_certain_events_lie_a_step_inside(dtype):
    step = clnet.finfo(dtype).eps
    probs = clnet.tensor([0.0, 1.0], dtype=dtype)
    far = np.log1p(-step) - np.log(step)
    logits = clnet.distributions.Bernoulli(probs).logits
    np.testing.assert_allclose(logits.numpy(), [-far, far], rtol=1e-5)
    found = clnet.distributions.Categorical(probs).logits
    np.testing.assert_allclose(found.numpy()[0], np.log(step), rtol=1e-6)


def test_exponents_of_pooled_norms_beyond_the_range_of_floats():
    x = clnet.tensor([[[1.0, -3.0, 0.5, 0.25]]])
    assert clnet.nn.functional.lp_pool1d(x, 1e300, 2).tolist() == [[[3, 0.5]]]
    assert clnet.nn.functional.lp_pool1d(x, -1e39, 2).tolist() == [[[1, 0.25]]]


def test_whole_numbers_shrink_to_floats():
    x = clnet.tensor([-1, 0, 2])
    found = F.tanhshrink(x)
    np.testing.assert_allclose(found.numpy(), x.numpy() - np.tanh(x.numpy()), rtol=1e-6)
    assert F.tanhshrink(x[:0]).dtype is found.dtype is clnet.float32


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax", "amin", "var", "logsumexp"])
def test_a_reduction_reads_its_operand_before_it_is_written(name):
    reduce = getattr(clnet, name)
    wanted = reduce(clnet.arange(1.0, 7).reshape(2, 3), 1, keepdim=True)
    x = clnet.arange(1.0, 7).reshape(2, 3)
    with pytest.warns(UserWarning, match=r"takes that of the result, \(2, 1\)"):
        found = reduce(x, 1, keepdim=True, out=x)
    assert found is x
    assert found.tolist() == wanted.tolist()


@pytest.mark.filterwarnings("ignore:.* takes that of the result")
def test_what_is_picked_or_multiplied_may_be_written_over():
    for call in (
        lambda x, **out: clnet.gather(x, 1, clnet.tensor([[2, 0], [1, 1]]), **out),
        lambda x, **out: clnet.masked_select(x, x > 2, **out),
        lambda x, **out: clnet.matmul(x, clnet.ones(3, 3), **out),
        lambda x, **out: clnet.cat([x, x + 1], **out),
    ):
        x = clnet.arange(6.0).reshape(2, 3)
        wanted = call(x).tolist()
        assert call(x, out=x).tolist() == wanted


def test_slopes_of_settings_without_end():
    inf, nan = float("inf"), float("nan")
    for call, wanted in (
        (lambda x: F.celu(x, inf), [nan, 1]),
        (lambda x: F.celu(x, 1e-320), [nan, 1]),
        (lambda x: F.leaky_relu(x, inf), [inf, 1]),
        (lambda x: clnet.renorm(x[None], 2, 0, inf), [1, 1]),
        (lambda x: F.triplet_margin_loss(x, x * 2, x * 3, margin=nan), [0, 0]),
    ):
        x = clnet.tensor([-0.5, 2.0], requires_grad=True)
        call(x).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), wanted)
    x = clnet.tensor([0.0, 2.0])
    assert np.isnan(F.gaussian_nll_loss(x, x + 1, x + 1, eps=nan).item())


def test_slopes_beside_what_is_infinite():
    inf = float("inf")
    x = clnet.tensor([inf, 2.0, 0.0, -1.0], requires_grad=True)
    for slope, slopes in ((inf, [1, 1, inf, inf]), (0.5, [1, 1, 0.5, 0.5])):
        weight = clnet.tensor([slope], requires_grad=True)
        gx, gweight = clnet.autograd.grad(F.prelu(x, weight).sum(), [x, weight])
        assert gx.tolist() == slopes
        assert gweight.tolist() == [-1]
    var = clnet.tensor([inf, 4.0, 1e-9], requires_grad=True)
    zeros = clnet.zeros(3)
    losses = F.gaussian_nll_loss(zeros, zeros, var, reduction="none")
    losses.sum().backward()
    np.testing.assert_allclose(losses.tolist(), 0.5 * np.log([inf, 4, 1e-6]), rtol=1e-6)
    np.testing.assert_allclose(var.grad.numpy(), [0, 0.125, 5e5], rtol=1e-6)
    for bounds in ((0.0, inf), (-inf, 0.0)):
        with pytest.raises(clnet.errors.ArgumentError, match="finite"):
            F.rrelu(zeros, *bounds)


def test_a_slope_does_not_read_the_value_between_its_neighbours():
    inf = float("inf")
    assert clnet.gradient(clnet.tensor([1.0, inf, 3.0, 4.0]))[0].tolist() == [inf, 1, -inf, 1]
    places = clnet.tensor([0.0, 1.0, 3.0])
    (found,) = clnet.gradient(clnet.tensor([0.0, 1.0, 9.0]), spacing=[places])
    np.testing.assert_allclose(found.numpy(), np.gradient([0.0, 1, 9], [0.0, 1, 3]), rtol=1e-6)


@pytest.mark.parametrize("order", [1, 2])
def test_steps_of_a_gradient_may_be_infinite_or_0(order):
    x = clnet.tensor([1.0, 2.0, 4.0, 9.0])
    (found,) = clnet.gradient(x, spacing=0.5, edge_order=order)
    np.testing.assert_allclose(found.numpy(), np.gradient(x.numpy(), 0.5, edge_order=order))
    assert clnet.gradient(x, spacing=float("inf"), edge_order=order)[0].tolist() == [0] * 4
    steepest = clnet.gradient(x, spacing=0.0, edge_order=order)[0].tolist()
    assert steepest == [float("inf")] * 4


def test_padded_sequences_have_the_dtype_of_the_first():
    whole, parts = clnet.tensor([1, 2]), clnet.tensor([0.5])
    pad = clnet.nn.utils.rnn.pad_sequence
    assert pad([whole, parts], True).tolist() == [[1, 2], [0, 0]]
    assert pad([parts, whole], True).tolist() == [[0.5, 0], [1, 2]]
