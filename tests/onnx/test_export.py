"""Modules and functions as models of ONNX: run by onnxruntime, read again, refused by name."""

from __future__ import annotations

import importlib
import io
from importlib.util import find_spec

import numpy as np
import pytest

import clnet
import clnet.nn.functional as F
from clnet import models, nn
from clnet.errors import ArgumentError, OnnxError
from clnet.onnx.sizes import Dynamic

onnx = pytest.importorskip(
    "onnx", reason="the package onnx is not installed: pip install 'clnet[onnx]'"
)

pytestmark = pytest.mark.device
RNG = np.random.default_rng(0)


def drawn(*shape):
    return clnet.tensor(RNG.normal(size=shape).astype(np.float32))


def leaves(value):
    return [leaf for v in value for leaf in leaves(v)] if isinstance(value, tuple) else [value]


def same_everywhere(function, *args, more=(), tolerance=1e-5, **settings):
    """Outputs of the function, of the model read again, and of onnxruntime where that is."""
    file = io.BytesIO()
    proto = clnet.onnx.export(function, args, file, **settings)
    names = [value.name for value in proto.graph.input]
    again = clnet.onnx.load(file.getvalue())
    for given in (args, *more):
        with clnet.no_grad():
            wanted = [y.numpy() for y in leaves(function(*given))]
            found = [leaves(again(*given))]
        arrays = [[y.numpy() for y in each] for each in found]
        if find_spec("onnxruntime") is not None:
            session = importlib.import_module("onnxruntime").InferenceSession(
                file.getvalue(), providers=["CPUExecutionProvider"]
            )
            fed = dict(zip(names, (x.numpy() for x in given), strict=True))
            arrays.append(session.run(None, fed))
        for each in arrays:
            for y, want in zip(each, wanted, strict=True):
                assert (y.dtype, y.shape) == (want.dtype, want.shape)
                np.testing.assert_allclose(y, want, rtol=tolerance, atol=tolerance)
    return proto


def ops_of(proto):
    return [node.op_type for node in proto.graph.node]


@pytest.fixture
def network():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 5),
        nn.LayerNorm(5),
        nn.GELU(),
    )


def test_a_network_is_written_layer_by_layer(network):
    network[1].running_mean.fill_(0.3)
    network[1].running_var.fill_(2.0)
    network.train()
    proto = clnet.onnx.export(network, drawn(2, 3, 8, 8))
    assert all(module.training for module in network.modules())
    wanted = "Conv BatchNormalization Relu MaxPool Reshape Gemm LayerNormalization Gelu"
    assert ops_of(proto) == wanted.split()
    names = {t.name for t in proto.graph.initializer}
    state = {name for name in network.state_dict() if "num_batches" not in name}
    assert {n for n in names if not n.startswith("constant")} == state
    assert proto.graph.input[0].name == "input"
    same_everywhere(network.eval(), drawn(2, 3, 8, 8))


def test_gradients_of_what_is_read_again_are_the_originals(network, tmp_path):
    network.eval()
    x, path = drawn(3, 3, 8, 8), tmp_path / "model.onnx"
    clnet.onnx.export(network, x, path)
    again = clnet.onnx.load(path)
    weight = drawn(3, 5)
    (network(x) * weight).sum().backward()
    (again(x) * weight).sum().backward()
    wanted = {n: p.grad.numpy() for n, p in network.named_parameters()}
    found = {again.initialiser_names[n]: p.grad.numpy() for n, p in again.named_parameters()}
    assert found.keys() == wanted.keys()
    for name, grad in wanted.items():
        np.testing.assert_allclose(found[name], grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "shapes"),
    [
        (lambda: models.CNN((1, 28, 28), 10), [(2, 1, 28, 28)]),
        (lambda: models.resnet14_bn(), [(1, 3, 32, 32)]),
        (lambda: models.VAE(), [(2, 784), (2, 20)]),
    ],
    ids=["cnn", "resnet14_bn", "vae"],
)
def test_networks_are_exported(make, shapes):
    same_everywhere(make().eval(), *(drawn(*s).sigmoid() for s in shapes), tolerance=1e-4)


FUNCTIONS = {
    "views": (lambda x: (x[:, 1:], x.T, x[::2, None], x.expand(2, 3, 4), x.reshape(-1)), (3, 4)),
    "moves": (lambda x: (x.flip(0), x.roll(2, 1), clnet.cat([x, x], 1), F.pad(x, (1, 2))), (3, 4)),
    "windows": (lambda x: (x.unfold(1, 3, 2), x.unfold(0, 2, 1)), (3, 9, 2)),
    "spreads": (lambda x: (x.var(0), x.std((0, 1), keepdim=True), x.logsumexp(1)), (3, 4)),
    "blocks": (
        lambda x: (clnet.block_diag(x, x[1:], x[0]), clnet.block_diag(x > 0, x < 1)),
        (3, 4),
    ),
    "narrow": (
        lambda x: (
            x.half().sum(0).float(),
            x.half().amax(1).float(),
            F.layer_norm(x.half(), (4,)).float(),
            F.rms_norm(x.half(), (4,), x[0].half()).float(),
            F.softmax(x.half(), 1).float(),
        ),
        (3, 4),
    ),
    "sums": (lambda x: (x.sum(), x.mean(1), x.amax(0), x.std(), x.prod(1), (x > 0).any(1)), (3, 4)),
    "order": (lambda x: (x.sort(-1).values, x.argmax(1), x.cumsum(1), x.max(1).indices), (3, 4)),
    "rounding": (lambda x: (x.floor(), x.trunc(), x % 0.7, x // 0.7, x.fmod(0.7)), (3, 4)),
    "logarithms": (lambda x: (x.expm1(), x.abs().log1p(), x.erf(), x.exp2(), x.sign()), (3, 4)),
    "logic": (lambda x: clnet.where((x > 0) | (x < -1) & ~(x == 0), x, x.clamp(-2, 0.5)), (3, 4)),
    "activations": (
        lambda x: (F.silu(x), F.hardswish(x), F.hardsigmoid(x), F.elu(x), F.relu6(4 * x)),
        (3, 4),
    ),
    "more activations": (
        lambda x: (F.leaky_relu(x, 0.2), F.softplus(x), F.mish(x), F.gelu(x, approximate="tanh")),
        (3, 4),
    ),
    "dtypes": (
        lambda x: (x.half().float(), x.long() // 2, x.int() % 3, x.bool(), x.double()),
        (9,),
    ),
    "norms": (lambda x: (F.instance_norm(x), F.group_norm(x, 2), F.rms_norm(x, (5,))), (2, 4, 5)),
    "pools": (
        lambda x: (F.max_pool2d(x, 3, 2, 1, ceil_mode=True), F.avg_pool2d(x, 3, 2, 1)),
        (2, 2, 8, 8),
    ),
    "adaptive": (lambda x: (F.adaptive_avg_pool2d(x, s) for s in (1, (4, 2), 3)), (2, 2, 8, 8)),
    "resized": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (1, 2, 3, 4)),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), (1, 2, 3, 4)),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), (1, 2, 5, 4)),
    "masked": (
        lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=x[0, 0] > 0),
        (1, 2, 4, 4),
    ),
    "columns": (
        lambda x: F.fold(
            F.unfold(x, (2, 3), 2, (1, 2), (2, 1)).exp(), (7, 6), (2, 3), 2, (1, 2), (2, 1)
        ),
        (2, 1, 7, 6),
    ),
    "places": (
        lambda x: (
            *F.max_pool2d(x, 3, 2, 1, return_indices=True),
            *F.max_pool3d(x, 2, return_indices=True),
        ),
        (2, 2, 4, 7, 8)[1:],
    ),
    "unpooled": (lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), (2, 4, 6)),
    "adaptive maxima": (
        lambda x: (F.adaptive_max_pool2d(x, (4, 2)), F.adaptive_max_pool1d(x[0], 8)),
        (2, 2, 8, 8),
    ),
    "added": (
        lambda x: (
            clnet.zeros(3, 4).scatter_add(1, (x.abs() * 9).long() % 4, x),
            clnet.zeros(3, 4).index_add(0, clnet.tensor([2, 0, 2]), x),
        ),
        (3, 4),
    ),
    "bags": (
        lambda x: F.embedding_bag(
            clnet.tensor([1, 0, 2, 1]), x, clnet.tensor([0, 3]), mode="sum", padding_idx=0
        ),
        (3, 4),
    ),
    "angles": (
        lambda x: (clnet.atan2(x, x.flip(1)), clnet.atan2(x * 0, x), clnet.copysign(x, x.flip(0))),
        (3, 4),
    ),
    "diagonals": (lambda x: (x.diagonal(), x.diagonal(-1, 0, 2), x.diagonal(1, 1, 2)), (3, 4, 5)),
    "argument": (lambda x: (x, x + 1, x + 1, clnet.ones(2)), (3,)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_exported(name):
    function, shape = FUNCTIONS[name]
    same_everywhere(
        lambda x: tuple(function(x)) if name == "adaptive" else function(x), drawn(*shape)
    )


# What was written otherwise before opsets 14 (hard swish), 15 (shapes), 17 (layer norm), 18 (axes).
OLDER = ("sums", "spreads", "norms", "narrow", "activations", "more activations", "order", "views")


@pytest.mark.parametrize("name", OLDER)
def test_functions_are_exported_in_an_older_opset(name):
    function, shape = FUNCTIONS[name]
    x = drawn(*shape)
    proto = same_everywhere(function, x, opset_version=13)
    assert proto.opset_import[0].version == 13
    evaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator(proto)
    found = evaluator.run(None, {proto.graph.input[0].name: x.numpy()})
    for y, wanted in zip(found, leaves(function(x)), strict=True):
        np.testing.assert_allclose(y, wanted.numpy(), rtol=1e-5, atol=1e-5)


def test_sequences_and_dynamic_axes_are_exported_in_an_older_opset():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    axes = ({0: "n", 1: "t"},)
    sizes = {"more": [(drawn(4, 6, 8),)], "dynamic_shapes": axes, "opset_version": 13}
    same_everywhere(layer, drawn(1, 3, 8), **sizes)
    lstm = nn.LSTM(3, 4)
    same_everywhere(lambda x: lstm(x)[0], drawn(3, 2, 3), opset_version=13)


def test_what_an_older_opset_lacks_is_named():
    function, shape = FUNCTIONS["added"]
    law = r"ScatterElements with reduction: not in opset 13, but with a newer .*\(2x\)"
    with pytest.raises(OnnxError, match=law):
        clnet.onnx.export(function, drawn(*shape), opset_version=13)


def test_a_transposed_convolution_and_rows_by_index():
    layer, table = nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1), drawn(5, 3)
    same_everywhere(layer, drawn(1, 3, 4, 4))
    same_everywhere(
        lambda i: (table[i], F.embedding(i.abs(), table)), clnet.tensor([[0, 2], [-1, 1]])
    )


def test_a_sequence_without_a_layer_of_its_dtype_is_written_step_by_step():
    lstm = nn.LSTM(3, 4).double()
    proto = same_everywhere(lambda x: lstm(x)[0], drawn(3, 2, 3).double())
    assert {"weight_ih_l0", "weight_hh_l0"} <= {t.name for t in proto.graph.initializer}
    assert "LSTM" not in ops_of(proto)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("settings", [{"num_layers": 2}, {"bidirectional": True, "bias": False}])
def test_sequences_of_any_length_are_layers(kind, settings):
    layer = kind(3, 4, batch_first=True, **settings)
    axes = ({0: "n", 1: "t"},)
    proto = same_everywhere(
        layer, drawn(2, 5, 3), more=[(drawn(3, 1, 3),), (drawn(1, 7, 3),)], dynamic_shapes=axes
    )
    assert ops_of(proto).count(kind.__name__) == 2
    assert "Gemm" not in ops_of(proto)
    assert "weight_hh_l0" in {t.name for t in proto.graph.initializer}


def test_a_plain_recurrent_layer_is_exported():
    same_everywhere(nn.RNN(3, 4, bidirectional=True), drawn(5, 2, 3))


def test_axes_that_are_dynamic():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    proto = same_everywhere(
        layer,
        drawn(1, 3, 8),
        more=[(drawn(4, 6, 8),)],
        input_names=["words"],
        output_names=["found"],
        dynamic_axes={"words": {0: "batch", 1: "length"}},
    )
    (given,), (made,) = proto.graph.input, proto.graph.output
    for value in (given, made):
        sizes = value.type.tensor_type.shape.dim
        assert [d.dim_param or d.dim_value for d in sizes] == ["batch", "length", 8]
    assert (given.name, made.name) == ("words", "found")


def test_sizes_that_follow_from_dynamic_ones():
    def function(x):
        n, t, c = x.shape
        y = (x.reshape(n * t, c) @ clnet.ones(c, 3)).reshape(n, t, 3)
        causal = F.scaled_dot_product_attention(y[None], y[None], y[None], is_causal=True)
        numbers = clnet.arange(2 * t + 1).float() + clnet.zeros(n, 1)
        return clnet.cat([y.flatten(1), causal[0].flatten(1), numbers], 1)

    same_everywhere(
        function, drawn(2, 3, 4), more=[(drawn(5, 7, 4),)], dynamic_shapes=({0: "n", 1: "t"},)
    )


def test_polynomials_of_sizes():
    sizes = Dynamic({"n": 2, "t": 6})
    of = [4 * p["n"] * p["t"] // 3 + p["n"] + 5 for p in sizes.points]
    assert sizes.size(of).at({"n": 7, "t": 9}) == 4 * 7 * 9 / 3 + 7 + 5
    assert sizes.size([p["t"] for p in sizes.points]).symbol == "t"
    assert sizes.size([3] * len(sizes.points)).number == 3
    with pytest.raises(OnnxError, match="no polynomial"):
        sizes.size([p["n"] ** 2 for p in sizes.points])


def test_sizes_that_are_others_at_odd_ones():
    with pytest.raises(OnnxError, match="another at odd sizes"):
        clnet.onnx.export(
            lambda x: x[: (x.shape[0] + 1) // 2], drawn(4, 3), dynamic_axes={"x": [0]}
        )
    pool = nn.MaxPool2d(2, ceil_mode=True)
    with pytest.raises(OnnxError, match="nor at some sizes alone"):
        clnet.onnx.export(pool, drawn(1, 1, 4, 4), input_names=["x"], dynamic_axes={"x": [2, 3]})
    with pytest.raises(OnnxError, match=r"it does other ops.*'x_axis_0': 9"):
        clnet.onnx.export(
            lambda x: x if x.shape[0] % 2 == 0 else x + 1, drawn(4, 3), dynamic_axes={"x": [0]}
        )
    same_everywhere(
        lambda x: F.pixel_unshuffle(x, 2),  # which takes no odd sizes
        drawn(1, 2, 4, 4),
        more=[(drawn(1, 2, 8, 6),)],
        dynamic_axes={"x": {2: "h", 3: "w"}},
    )
    layers = nn.Sequential(nn.Conv2d(1, 2, 3, 2, 1), nn.MaxPool2d(2), nn.Flatten(2))
    odd = [(drawn(2, 1, 13, 11),)]
    axes = {"x": {0: "n", 2: "h", 3: "w"}}
    same_everywhere(layers, drawn(1, 1, 8, 8), more=odd, input_names=["x"], dynamic_axes=axes)


def test_functions_where_their_parts_overflow_or_round():
    x = clnet.tensor([-1e30, -200.0, -120.0, -99.0, -1.0, 1e-6, 0.0, 50.0])
    same_everywhere(lambda x: (clnet.expm1(x), F.selu(x)), x)
    a = clnet.tensor([1.0, 1.0, -1.0, 1.0, 0.3, 1e8, -7.0, 0.0])
    b = clnet.tensor([0.1, float("inf"), float("inf"), 0.0, -0.1, 0.3, 2.0, 3.0])
    same_everywhere(lambda a, b: (a // b, a % b), a, b)


def test_products_of_whole_numbers():
    x = clnet.tensor([[2, -3, 5], [7, 1, 2]], dtype=clnet.int32)
    same_everywhere(lambda x: (x.prod(), x.prod(1), (x > 1).prod(0)), x)


def test_what_is_compiled_is_exported_as_it_is():
    layer = nn.Linear(3, 2)
    function = clnet.compile(lambda x: layer(x).relu())
    proto = same_everywhere(function, drawn(4, 3), opset_version=18)
    assert {t.name for t in proto.graph.initializer} == {"weight", "bias"}
    assert same_everywhere(clnet.compile(layer), drawn(4, 3)).opset_import[0].version == 20


def test_tensors_in_a_file_of_their_own(tmp_path):
    layer, x = nn.Linear(64, 32), drawn(1, 64)
    clnet.onnx.export(layer, x, tmp_path / "m.onnx", external_data=True)
    assert (tmp_path / "m.onnx.data").stat().st_size >= 64 * 32 * 4
    assert np.array_equal(
        clnet.onnx.load(tmp_path / "m.onnx").numpy(x)[0], layer(x).detach().numpy()
    )
    clnet.onnx.export(nn.ReLU(), x, tmp_path / "m.onnx", external_data=True)  # has no large ones
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]
    assert clnet.onnx.load(tmp_path / "m.onnx")(x).tolist() == x.relu().tolist()


def test_all_that_has_no_node_is_named():
    def function(x):
        return clnet.linalg.svd(x).S + clnet.linalg.svd(x.T).S + clnet.randn(3)

    with pytest.raises(OnnxError, match=r"no node for all of it: .*householder \(2x\)") as raised:
        clnet.onnx.export(function, drawn(3, 3))
    assert "random numbers are (1x)" in str(raised.value)
    with pytest.raises(OnnxError, match="index_fill_ in place"):
        clnet.onnx.export(lambda x: x.clone().index_fill_(0, clnet.tensor([0]), 1.0), drawn(3, 3))


def test_a_function_that_is_another_at_other_sizes():
    def function(x):
        return x.relu() if x.shape[0] < 5 else x.exp()

    with pytest.raises(OnnxError, match="the function is another: relu is exp there"):
        clnet.onnx.export(function, drawn(3, 3), dynamic_axes={"x": [0]})
    with pytest.raises(OnnxError, match="at other sizes of its dynamic axes the function fails"):
        clnet.onnx.export(lambda x: x.reshape(3, 3), drawn(3, 3), dynamic_axes={"x": [0]})


def test_settings_that_programs_give_pytorchs_exporter_are_taken():
    settings = {
        "export_params": True,
        "do_constant_folding": True,
        "verbose": True,
        "dynamo": False,
        "training": clnet.onnx.TrainingMode.EVAL,
        "operator_export_type": clnet.onnx.OperatorExportTypes.ONNX,
    }
    made = clnet.onnx.export(nn.Linear(3, 2), drawn(4, 3), **settings)
    assert [node.op_type for node in made.graph.node] == ["Gemm"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"opset_version": 9}, "opset_version is 13 to 26"),
        ({"opset_version": "20"}, "opset_version is 13 to 26"),
        ({"input_names": "x"}, "names are a list of texts"),
        ({"output_names": [3]}, "names are a list of texts"),
        ({"dynamic_axes": ["x"]}, "axes by the names of inputs"),
        ({"dynamic_shapes": {"y": {0: "n"}}}, "dynamic_shapes name tensors"),
        ({"dynamic_shapes": ({0: "n"}, {0: "n"})}, "for each argument its names by axis"),
        ({"input_names": ["a", "b"]}, "a name of its own"),
        ({"output_names": ["a", "b"]}, "each result has a name"),
        ({"dynamic_axes": {"x": {4: "n"}}}, "a dynamic axis is one of its input"),
        ({"dynamic_axes": {"y": {0: "n"}}}, "dynamic_axes names inputs"),
        ({"dynamic_axes": {"x": 3}}, "names by axis, or a list"),
        ({"dynamic_axes": {"x": {0: "n", 1: "n"}}}, "axes of one name have one size"),
        ({"dynamic_axes": {"x": [0]}, "dynamic_shapes": ({0: "n"},)}, "the same twice"),
        ({"export_params": False, "training": 2}, r"asked=\['export_params', 'training'\]"),
        ({"f": "/nowhere/at/all.onnx"}, "the file can be written"),
        ({"f": "/dev/full"}, "the file can be written; got f=/dev/full, error=No space left"),
    ],
)
def test_arguments_that_do_not_fit(settings, message):
    with pytest.raises(ArgumentError, match=message):
        clnet.onnx.export(nn.Linear(3, 2), drawn(4, 3), **settings)


def test_tensors_in_containers_are_inputs():
    lstm, x, state = nn.LSTM(3, 4), drawn(5, 2, 3), (drawn(1, 2, 4), drawn(1, 2, 4))
    label = {1: "n"}
    proto = clnet.onnx.export(lstm, (x, state), dynamic_shapes=(label, (label, label)))
    assert [i.name for i in proto.graph.input] == ["input", "hx_0", "hx_1"]
    given = [t.repeat(1, 3, 1) for t in (x, *state)]
    found = clnet.onnx.load(proto)(*given)
    y, (h, c) = lstm(given[0], tuple(given[1:]))
    for one, wanted in zip(found, (y, h, c), strict=True):
        np.testing.assert_allclose(one.detach(), wanted.detach(), atol=1e-6)
    proto = clnet.onnx.export(
        lambda xs, more: clnet.cat(xs) + more["x"],
        ([drawn(2, 3), np.ones((2, 3), np.float32)],),
        kwargs={"more": {"x": drawn(4, 3)}},
    )
    assert [i.name for i in proto.graph.input] == ["xs_0", "xs_1", "more_0"]


def test_tensors_in_sets_are_no_constants_unnoticed():
    with pytest.raises(ArgumentError, match=r"would be constants; got arguments=\[0\]"):
        clnet.onnx.export(lambda xs: clnet.stack(list(xs)), ({drawn(2, 3)},))


def test_what_is_read_again_needs_as_many_launches():
    layers, x = nn.Sequential(nn.Linear(64, 32), nn.GELU(), nn.Linear(32, 3)).eval(), drawn(4, 64)
    again = clnet.onnx.load(clnet.onnx.export(layers, x))
    launches: list[int] = []
    with clnet.no_grad():
        for module in (layers, again):
            compiled = clnet.compile(module)
            compiled(x)
            launches.append(compiled.plans[-1].num_launches)
    assert launches[0] == launches[1]
