"""Models that are read, run and trained, and what is said of those that cannot be."""

from __future__ import annotations

import io

import numpy as np
import pytest

import clnet
from clnet.errors import ArgumentError, OnnxError
from clnet.onnx import handler, load
from tests.onnx.graphs import helper, made, node, numpy_helper, onnx

RNG = np.random.default_rng(0)


def test_a_model_gives_what_its_nodes_say(perceptron):
    model, weights = perceptron
    x = RNG.normal(size=(4, 5)).astype(np.float32)
    wanted = np.maximum(x @ weights["fc.weight"].T + weights["fc.bias"], 0)
    module = load(model)
    np.testing.assert_allclose(
        module(clnet.tensor(x)).detach().numpy(), wanted, rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(module(x=x).detach().numpy(), wanted, rtol=1e-5, atol=1e-6)
    assert (module.input_names, module.output_names) == (("x",), ("y",))


def test_a_file_and_its_bytes_are_models(perceptron, tmp_path):
    model, _ = perceptron
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    x = np.ones((1, 5), np.float32)
    assert np.array_equal(load(path).numpy(x)[0], load(path.read_bytes()).numpy(x)[0])


def of_types(op, inputs, **settings):
    """What a node gives, its inputs NumPy's; those that end in ``_c`` are constants."""
    constants = {n: a for n, a in inputs.items() if n.endswith("_c")}
    given = {n: a for n, a in inputs.items() if n and n not in constants}
    graph = helper.make_graph(
        [helper.make_node(op, list(inputs), ["y"], **settings)],
        "g",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in given.items()
        ],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    return load(model).numpy(**given)[0]


BOOLS = np.array([[1, 0, 1], [0, 1, 0]], bool)
MANY = (np.arange(600) % 7).astype(np.int8).reshape(1, 1, -1)
EDGES, TWICE = np.uint8([[0, 250, 3, 255, 255, 0]]), np.float32([1, 2])
BOUNDS = {"x": np.uint32([1, 9]), "low": np.uint32(2), "high": np.uint32(5)}
ALONE = {"x": np.float32([[[3], [5]]]), "scale": TWICE, "bias": TWICE}
ONCE = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
TYPES = [
    (
        "ReverseSequence",
        {"x": BOOLS, "s": np.int64([3, 2])},
        {"batch_axis": 0, "time_axis": 1},
        [[1, 0, 1], [1, 0, 0]],
    ),
    ("Compress", {"x": BOOLS, "which": np.array([True, False, True])}, {"axis": 1}, BOOLS[:, ::2]),
    (
        "Resize",
        {"x": MANY, "": None, "s": np.float32([1, 1, 1.5])},
        ONCE,
        MANY[:, :, (np.arange(900) / 1.5).astype(int)],
    ),
    (
        "Resize",
        {"x": EDGES, "": None, "s": TWICE},
        {"mode": "cubic"},
        [[0, 65, 219, 212, 41, 34, 189, 255, 255, 197, 58, 0]],
    ),
    ("Clip", BOUNDS, {}, [2, 5]),
    ("Gemm", {"a": np.int64([[1, 2]]), "b": np.int64([[3], [4]])}, {"alpha": 2.0}, [[22]]),
    (
        "MatMulInteger",
        {"a_c": np.uint8([[5, 7]]), "b_c": np.int8([[1], [2]]), "z_c": np.uint8(1)},
        {},
        [[16]],
    ),
    ("Hardmax", {"x": np.zeros((2, 0), np.float32)}, {}, np.zeros((2, 0))),
    ("InstanceNormalization", ALONE, {}, [[[1], [2]]]),
    ("GroupNormalization", ALONE, {"num_groups": 2}, [[[1], [2]]]),
    (
        "RNN",  # only LeakyRelu takes a setting
        {"x": np.float32([[[-2]]]), "w": np.ones((2, 1, 1), "f"), "r": np.zeros((2, 1, 1), "f")},
        {
            "activations": ["Relu", "LeakyRelu"],
            "activation_alpha": [0.5],
            "direction": "bidirectional",
        },
        [[[[0]], [[-1]]]],
    ),
    (
        "LSTM",  # the state 1.26 is clipped to 1 before its tangent, too
        {
            "x": np.ones((3, 1, 1), "f"),
            "w": np.full((1, 4, 1), 9, "f"),
            "r": np.zeros((1, 4, 1), "f"),
        },
        {"clip": 1.0, "hidden_size": 1},
        (np.tanh([0.5567700, 0.9637955, 1]) / (1 + np.exp(-1))).reshape(3, 1, 1, 1),
    ),
]


@pytest.mark.parametrize(("op", "inputs", "settings", "wanted"), TYPES)
def test_nodes_of_types_and_sizes_that_are_rare(op, inputs, settings, wanted):
    made = of_types(op, inputs, **settings)
    np.testing.assert_allclose(made, wanted, rtol=1e-5)
    whole = {"Gemm": np.int64, "MatMulInteger": np.int32}
    assert made.dtype == whole.get(op, next(iter(inputs.values())).dtype)


def test_initialisers_are_trained(perceptron):
    model, weights = perceptron
    module = load(model)
    assert dict(module.named_parameters()).keys() == {"fc_weight", "fc_bias"}
    x = RNG.normal(size=(4, 5)).astype(np.float32)
    module(x).sum().backward()
    active = (x @ weights["fc.weight"].T + weights["fc.bias"] > 0).astype(np.float32)
    np.testing.assert_allclose(module.fc_bias.grad.numpy(), active.sum(0))
    np.testing.assert_allclose(module.fc_weight.grad.numpy(), active.T @ x, rtol=1e-5, atol=1e-6)
    step = clnet.optim.SGD(module.parameters(), lr=0.1)
    step.step()
    assert not np.array_equal(module.fc_bias.detach().numpy(), weights["fc.bias"])


def test_a_model_is_compiled_with_shapes_that_it_computes():
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Concat", "n minus", "shape", axis=0),
        node("Reshape", "x shape", "flat"),
        node("MatMul", "flat w", "y"),
    ]
    w = RNG.normal(size=(6, 2)).astype(np.float32)
    weights = {"w": w, "zero": np.array([0]), "minus": np.array([-1])}
    module = load(made(nodes, [("x", ["n", 2, 3])], ["y"], weights))
    compiled = clnet.compile(module)
    for n in (1, 4):
        x = RNG.normal(size=(n, 2, 3)).astype(np.float32)
        y = compiled(clnet.tensor(x)).detach().numpy()
        np.testing.assert_allclose(y, x.reshape(n, 6) @ w, rtol=1e-5, atol=1e-6)


def test_nodes_may_stand_in_any_order(perceptron):
    model, _ = perceptron
    first, second = model.graph.node
    swapped = made([second, first], [("x", [1, 5])], ["y"], perceptron[1])
    x = np.ones((1, 5), np.float32)
    assert np.array_equal(load(swapped).numpy(x)[0], load(model).numpy(x)[0])


def test_a_circle_is_refused():
    nodes = [node("Add", "x b", "a"), node("Relu", "a", "b")]
    with pytest.raises(OnnxError, match="in a circle"):
        load(made(nodes, [("x", [1])], ["b"]))


def test_all_that_is_missing_is_counted():
    nodes = [
        node("Mystery", "x", "a", domain="far.away"),
        node("Mystery", "a", "b", domain="far.away"),
        node("Relu", "b", "c", surprise=1),
        node("Lo\nop", "c", "d"),
    ]
    with pytest.raises(OnnxError) as raised:
        load(made(nodes, [("x", [1])], ["d"], domains=["far.away"]))
    assert "\n" not in str(raised.value)  # a damaged name, neither
    assert "far.away.Mystery of opset 1 (2x)" in str(raised.value)
    assert "attribute surprise of Relu (1x)" in str(raised.value)


def test_ops_are_registered():
    @handler("Halve", domain="tests")
    def halve(x, *, times=1):
        return x * 0.5**times

    model = made([node("Halve", "x", "y", domain="tests", times=2)], [("x", [2])], ["y"],
                 domains=["tests"])  # fmt: skip
    assert np.array_equal(load(model)(np.array([4, 8], np.float32)).numpy(), [1, 2])


def test_functions_of_a_model_are_run_with_their_attributes():
    inner = [
        helper.make_node("Constant", [], ["a"]),
        node("Mul", "v a", "w"),
    ]
    inner[0].attribute.append(onnx.AttributeProto(name="value_float", ref_attr_name="by", type=1))
    function = helper.make_function(
        "tests", "Times", ["v"], ["w"], inner, [helper.make_opsetid("", 20)], ["by"]
    )
    nodes = [node("Times", "x", "y", domain="tests", by=3.0)]
    model = made(nodes, [("x", [2])], ["y"], functions=[function], domains=["tests"])
    assert np.array_equal(load(model)(np.array([1, 2], np.float32)).numpy(), [3, 6])


def test_a_function_that_calls_itself_is_refused():
    inner = [helper.make_node("Again", ["v"], ["w"], domain="tests")]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("tests", 1)]
    function = helper.make_function("tests", "Again", ["v"], ["w"], inner, opsets)
    nodes = [node("Again", "x", "y", domain="tests")]
    with pytest.raises(OnnxError, match="deep at most"):
        load(made(nodes, [("x", [2])], ["y"], functions=[function], domains=["tests"]))


def test_a_node_without_an_input_that_it_needs_is_refused():
    nodes = [helper.make_node("MatMul", ["", "x"], ["y"], "product")]
    with pytest.raises(OnnxError, match="MatMul has its input 0; got node='product'"):
        load(made(nodes, [("x", [2, 2])], ["y"]))


def test_inputs_are_given_once(perceptron):
    module = load(perceptron[0])
    for args, named in [((), {}), ((1, 2), {}), ((1,), {"x": 1}), ((), {"z": 1})]:
        with pytest.raises(ArgumentError, match="takes each of its inputs once; got inputs=x"):
            module(*args, **named)


def test_a_failing_node_is_named():
    module = load(made([helper.make_node("MatMul", ["x", "x"], ["y"], "product")], [("x", [2, 3])],
                       ["y"]))  # fmt: skip
    with pytest.raises(clnet.errors.ClnetError, match="MatMul 'product'"):
        module(np.ones((2, 3), np.float32))


def test_what_is_no_model_is_refused(tmp_path):
    path = tmp_path / "x.onnx"
    with pytest.raises(OnnxError, match="can be read"):
        load(path)
    path.write_bytes(b"no model at all")
    with pytest.raises(OnnxError, match="it is an ONNX model"):
        load(path)
    path.write_bytes(b"")
    with pytest.raises(OnnxError, match="a model has a graph"):
        load(path)
    with pytest.raises(OnnxError, match="a model has a graph"), path.open("rb") as file:
        load(file)
    for nothing in (3, io.StringIO("text")):
        with pytest.raises(ArgumentError, match="a model is a file, its bytes or"):
            load(nothing)


def test_sparse_initialisers_are_made_dense():
    values = numpy_helper.from_array(np.array([2, 3], np.float32), "w")
    places = numpy_helper.from_array(np.array([[0, 1], [1, 2]]), "w_places")
    model = made([node("Add", "x w", "y")], [("x", [2, 3])], ["y"])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [2, 3]))
    y = load(model).numpy(np.ones((2, 3), np.float32))[0]
    assert np.array_equal(y, [[1, 3, 1], [1, 1, 4]])
    for dims, law in [([2**20, 2**20], "at most 2"), ([2, 2], "lie in its shape")]:
        del model.graph.sparse_initializer[0].dims[:]
        model.graph.sparse_initializer[0].dims.extend(dims)
        with pytest.raises(OnnxError, match=law):
            load(model)


@pytest.mark.parametrize(
    ("spoil", "law"),
    [
        (lambda model: model.graph.node[0].ClearField("output"), "Constant has an output"),
        (lambda model: model.graph.node[1].ClearField("output"), "Softmax has an output"),
        (lambda model: setattr(model.graph.node[0].attribute[0], "type", 5), "value_ints of Const"),
        (lambda model: setattr(model.graph.node[1].attribute[0], "type", 7), "axis of Softmax is"),
        (lambda model: setattr(model.opset_import[0], "version", 2**40), "have 31 bits"),
    ],
)
def test_damaged_nodes_are_told_in_a_line(spoil, law):
    """Each ended inside, with an ``IndexError`` or a ``TypeError``."""
    nodes = [
        helper.make_node("Constant", [], ["c"], value_ints=[1, 2]),
        helper.make_node("Softmax", ["x"], ["y"], axis=1),
    ]
    model = made(nodes, [("x", [2, 3])], ["y", "c"])
    spoil(model)
    with pytest.raises(OnnxError, match=law):
        load(model)


def test_names_that_are_no_text_are_refused(perceptron):
    data = perceptron[0].SerializeToString().replace(b"Relu", b"Re\xff\xfe")
    with pytest.raises(OnnxError, match=r"names are of UTF-8|it is an ONNX model"):
        load(data)


@pytest.mark.parametrize("dims", [[2**40, 2**40], [-1, 3], [4, 4]])
def test_shapes_that_the_data_does_not_fill_are_refused(perceptron, dims):
    model = perceptron[0]
    del model.graph.initializer[0].dims[:]
    model.graph.initializer[0].dims.extend(dims)
    with pytest.raises(OnnxError, match=r"fills its shape|0 or more|cannot be read"):
        load(model)


def test_settings_and_statistics_are_no_parameters():
    weights = {
        "scale": np.ones(2, np.float32),
        "bias": np.zeros(2, np.float32),
        "mean": np.array([1.0, 2.0], np.float32),
        "var": np.array([4.0, 9.0], np.float32),
        "scales": np.array([1, 1, 2, 2], np.float32),
        "power": np.array(2.0, np.float32),
    }
    nodes = [
        node("BatchNormalization", "x scale bias mean var", "n", epsilon=0.0),
        helper.make_node("Resize", ["n", "", "scales"], ["r"], mode="nearest"),
        node("Pow", "r power", "y"),
    ]
    module = load(made(nodes, [("x", [1, 2, 2, 2])], ["y"], weights))
    assert sorted(name for name, _ in module.named_parameters()) == ["bias", "scale"]
    x = RNG.normal(size=(1, 2, 2, 2)).astype(np.float32)
    normed = (x - [[[[1]], [[2]]]]) / [[[[2]], [[3]]]]
    wanted = np.repeat(np.repeat(normed, 2, 2), 2, 3) ** 2
    for run in (module, clnet.compile(module)):
        y = run(clnet.tensor(x))
        np.testing.assert_allclose(y.detach().numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_between_0_and_6_a_clip_has_the_gradient_of_relu6():
    weights = {"low": np.float32(0), "high": np.float32(6), "top": np.float32(5)}
    nodes = [node("Clip", "x low high", "y"), node("Clip", "x low top", "z")]
    module = load(made(nodes, [("x", [4])], ["y", "z"], weights))
    x = clnet.tensor(np.array([-1, 0, 3, 6], np.float32), requires_grad=True)
    y, z = module(x)
    assert y.detach().numpy().tolist() == [0, 0, 3, 6]
    assert z.detach().numpy().tolist() == [0, 0, 3, 5]
    y.sum().backward()
    assert x.grad.numpy().tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32])
def test_products_of_whole_numbers_wrap_around(dtype):
    limits = np.iinfo(dtype)
    a = RNG.integers(limits.min, limits.max, (2, 3, 17), dtype=dtype, endpoint=True)
    b = RNG.integers(limits.min, limits.max, (17, 4), dtype=dtype, endpoint=True)
    weights = {"a": a, "b": b, "v": b[:, 0].copy()}
    module = load(
        made([node("MatMul", "a b", "y"), node("MatMul", "a v", "z")], [], ["y", "z"], weights)
    )
    y, z = module.numpy()
    np.testing.assert_array_equal(y, a @ b)
    np.testing.assert_array_equal(z, a @ b[:, 0])
    assert y.dtype == dtype


def test_maxima_of_regions():
    x = RNG.normal(size=(2, 3, 9, 8)).astype(np.float32)
    rois = np.array(
        [[0, 0, 0, 7, 8], [1, 2, 3, 5, 7], [1, 6, 6, 20, 20], [0, 30, 30, 31, 31]], np.float32
    )
    scale = 0.75
    nodes = [node("MaxRoiPool", "x rois", "y", pooled_shape=[2, 3], spatial_scale=scale)]
    found = load(made(nodes, [("x", [2, 3, 9, 8])], ["y"], {"rois": rois})).numpy(x)[0]
    wanted = np.zeros((4, 3, 2, 3), np.float32)
    for k, (image, *corners) in enumerate(rois):
        x1, y1, x2, y2 = (int(np.floor(v * scale + 0.5)) for v in corners)
        for i in range(2):
            for j in range(3):
                high, wide = max(y2 - y1 + 1, 1) / 2, max(x2 - x1 + 1, 1) / 3
                rows = slice(y1 + int(np.floor(i * high)), y1 + int(np.ceil((i + 1) * high)))
                columns = slice(x1 + int(np.floor(j * wide)), x1 + int(np.ceil((j + 1) * wide)))
                cell = x[int(image), :, rows, columns]
                if cell.size:
                    wanted[k, :, i, j] = cell.max((1, 2))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("axis", [1, [1]])
def test_the_axis_of_sums_is_a_number_or_one_of_a_row(axis):
    """As onnxruntime has it; PyTorch writes the row."""
    model = made([node("CumSum", "x axis", "y")], [("x", [2, 3])], ["y"], {"axis": np.array(axis)})
    assert load(model)(np.ones((2, 3), np.float32)).tolist() == [[1, 2, 3]] * 2


@pytest.mark.parametrize("x", [np.array(["a"]), np.array([b"a"]), None, [[1.0], [2.0, 3.0]]])
def test_what_is_no_array_of_numbers_is_refused(perceptron, x):
    with pytest.raises(ArgumentError, match="input 'x' is a tensor or an array of numbers"):
        load(perceptron[0]).numpy(x=x)


@pytest.mark.parametrize("shape", [(3,), ()])
def test_an_initialiser_among_the_inputs_is_replaced_by_name(shape):
    model = made(
        [node("Add", "x w", "y")],
        [("x", [3]), ("w", shape)],
        ["y"],
        {"w": np.ones(shape, np.float32)},
    )
    module, x = load(model), np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(module.numpy(x)[0], x + 1)
    np.testing.assert_array_equal(module.numpy(x, w=np.full(shape, 5, np.float32))[0], x + 5)
    np.testing.assert_array_equal(module.numpy(x)[0], x + 1)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_of_an_even_number_of_neighbouring_channels_one_more_is_behind(size):
    x = RNG.normal(size=(2, 6, 3)).astype(np.float32)
    model = made([node("LRN", "x", "y", size=size, alpha=0.7)], [("x", [2, 6, 3])], ["y"])
    squares = np.zeros_like(x)
    for c in range(6):
        squares[:, c] = (x[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1] ** 2).sum(1)
    wanted = x / (1 + 0.7 / size * squares) ** 0.75
    np.testing.assert_allclose(load(model).numpy(x)[0], wanted, rtol=1e-5)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
def test_of_no_elements_none_are_distinct(shape):
    names = "y first which counts"
    model = made([node("Unique", "x", names)], [("x", list(shape))], names.split())
    for result in load(model).numpy(np.zeros(shape, np.float32)):
        assert result.shape == (0,)


@pytest.mark.parametrize("x", [-(2**60) - 1, 2**60 + 1, -7])
def test_quotients_of_sizes_are_exact_and_towards_zero(x):
    weights = {"a": np.array([x]), "b": np.array([7])}
    nodes = [node("Div", "a b", "c"), node("Sub", "c c", "zero"), node("Add", "c zero", "y")]
    found = load(made(nodes, [], ["y"], weights)).numpy()[0]
    assert found.tolist() == [abs(x) // 7 * (1 if x > 0 else -1)]
