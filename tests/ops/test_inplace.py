"""Methods that overwrite: the same results as the ops, in the same memory, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn, ops
from clnet.errors import DtypeError, GradientError, ShapeError
from clnet.nn import functional as F
from clnet.ops.inplace import ACTIVATIONS, OVERWRITING

pytestmark = pytest.mark.device

OTHERWISE_TESTED = {
    **{f"{name}_": "test_a_method_overwrites_with_its_op" for name in OVERWRITING},
    **{f"{name}_": "test_an_activation_overwrites" for name in ACTIVATIONS},
    **dict.fromkeys(("tril_", "triu_"), "test_a_triangle_is_kept"),
}
OTHER_ARGUMENTS = {
    **dict.fromkeys(("add", "sub", "mul", "div", "fmod", "remainder", "floor_divide"), (2,)),
    **dict.fromkeys(("pow", "atan2", "hypot", "copysign", "xlogy"), ("other",)),
    **dict.fromkeys((n for n in OVERWRITING if n.startswith(("bitwise_", "logical_"))), ("other",)),
    **dict.fromkeys(("bitwise_not", "logical_not"), ()),
    "clamp": (0.2, 0.6),
    "lerp": ("other", 0.3),
    "addcmul": ("other", "other"),
    "addcdiv": ("other", "other"),
}


@pytest.mark.parametrize("name", OVERWRITING)
def test_a_method_overwrites_with_its_op(name):
    bits = name.startswith("bitwise")
    values = np.array([1, 5, 7]) if bits else np.array([0.1, 0.5, 0.8], np.float32)
    if name == "acosh":
        values += 1
    x, other = clnet.tensor(values), clnet.tensor(values[::-1].copy())
    given = OTHER_ARGUMENTS.get(name, ())
    given = [other if isinstance(a, str) else a for a in given]
    expected = getattr(ops, name)(x, *given).numpy().astype(values.dtype)
    version, storage = x.array.storage.version, x.array.storage
    assert getattr(x, f"{name}_")(*given) is x
    assert x.array.storage is storage
    assert storage.version == version + 1
    np.testing.assert_array_equal(x.numpy(), expected)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_overwrites(name):
    x = clnet.tensor([-0.5, 0.25, 3.0])
    given = (0.1, 5.0) if name == "threshold" else ()
    expected = getattr(F, name)(x, *given).tolist()
    assert getattr(F, f"{name}_")(x, *given) is x
    assert x.tolist() == expected


def test_a_triangle_is_kept():
    x = clnet.ones(2, 2)
    assert x.clone().tril_().tolist() == [[1, 0], [1, 1]]
    assert x.triu_(1) is x
    assert x.tolist() == [[0, 1], [0, 0]]


LAYERS = [
    *(nn.ReLU(True), nn.ReLU6(True), nn.LeakyReLU(0.2, True), nn.ELU(0.5, True), nn.SELU(True)),
    *(nn.CELU(0.5, True), nn.SiLU(True), nn.Mish(True), nn.Hardtanh(-0.5, 0.5, True)),
    *(
        nn.Hardsigmoid(True),
        nn.Hardswish(True),
        nn.Threshold(0.1, 2.0, True),
        nn.RReLU(inplace=True),
    ),
    *(nn.Dropout(0.5, True), nn.Dropout1d(0.5, True), nn.Dropout2d(0.5, True)),
    *(nn.Dropout3d(0.5, True), nn.AlphaDropout(0.5, True), nn.FeatureAlphaDropout(0.5, True)),
]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_a_layer_in_place_gives_its_input_back(layer):
    host = np.random.default_rng(0).standard_normal((2, 3, 4, 2)).astype(np.float32)
    host = host[None] if type(layer).__name__ == "Dropout3d" else host
    host = host[..., 0] if type(layer).__name__ == "Dropout1d" else host
    leaf, apart = (clnet.tensor(host, requires_grad=True) for _ in range(2))
    x = leaf * 2
    clnet.manual_seed(1)
    assert layer(x) is x
    layer.inplace = False
    clnet.manual_seed(1)
    expected = layer(apart * 2)
    layer.inplace = True
    np.testing.assert_array_equal(x.detach().numpy(), expected.detach().numpy())
    (x * x).sum().backward()
    (expected * expected).sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), apart.grad.numpy())


def test_a_view_is_overwritten_in_its_tensor():
    x = clnet.zeros(2, 3)
    x[:, 1].add_(5).mul_(2)
    assert x.tolist() == [[0, 10, 0], [0, 10, 0]]


def test_operands_that_share_memory_are_read_first():
    x = clnet.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.add_(x.T).tolist() == [[2, 5], [5, 8]]
    assert x.sub_(x[0]).tolist() == [[0, 0], [3, 3]]


def test_a_bias_broadcasts_into_whole_numbers():
    x = clnet.tensor([[1, 2], [3, 4]])
    assert x.add_(clnet.tensor([10, 20])).tolist() == [[11, 22], [13, 24]]


def test_out_takes_the_result():
    out = clnet.zeros(2)
    assert clnet.exp(clnet.zeros(2), out=out) is out
    assert out.tolist() == [1, 1]
    clnet.add(clnet.ones(2), 1, alpha=3, out=out)
    assert out.tolist() == [4, 4]


def test_parameters_are_overwritten_without_gradients():
    weight = clnet.ones(2, requires_grad=True)
    with pytest.raises(GradientError, match=r"^add: a leaf that requires gradients is not changed"):
        weight.add_(1)
    with clnet.no_grad():
        weight.add_(1)
    assert weight.detach().tolist() == [2, 2]


def test_a_result_that_does_not_fit_is_refused():
    whole = clnet.tensor([1, 2])
    with pytest.raises(DtypeError) as raised:
        whole.div_(2)
    assert str(raised.value) == (
        "div: the result does not fit the dtype of what is overwritten; "
        "got out=clnet.int64, result=clnet.float32. Use the op that returns a new tensor"
    )
    for x in (clnet.ones(3), clnet.ones(1, 3).expand(2, 3)):
        with pytest.raises(
            ShapeError, match=r"^add: what is overwritten has the result's shape and no repeated"
        ):
            x.add_(clnet.ones(2, 3))


def test_a_compiled_step_overwrites_at_every_call():
    x = clnet.zeros(2)

    @clnet.compile
    def step(y):
        x.add_(y)
        return x * 1

    for count in (1, 2, 3):
        assert step(clnet.ones(2)).tolist() == [count, count]


def test_an_out_of_no_elements_takes_the_results_shape():
    out = clnet.empty(0)
    assert clnet.mul(clnet.ones(2, 3), 2, out=out) is out
    assert out.tolist() == [[2, 2, 2], [2, 2, 2]]
    assert clnet.exp(clnet.zeros(2), out=clnet.empty(0, 3)).tolist() == [1, 1]
    with pytest.raises(ShapeError, match=r"^add"):  # what is changed in place keeps its shape
        clnet.empty(0).add_(clnet.ones(3))


@pytest.mark.parametrize("name", ["i0_", "polygamma_", "igamma_", "lgamma_", "sin_"])
def test_broken_numbers_do_not_overwrite_whole_ones(name):
    x = clnet.tensor([1, 2, 3])
    given = {"polygamma_": (1,), "igamma_": (clnet.ones(3),)}.get(name, ())
    with pytest.raises(DtypeError, match="does not fit the dtype of what is overwritten"):
        getattr(x, name)(*given)
    assert x.tolist() == [1, 2, 3]
