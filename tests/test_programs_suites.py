"""What the test suites of packages asked for, beside what ``test_programs_*`` has."""

from __future__ import annotations

import functools
import io
import math
import pickle
from collections import OrderedDict

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.compat import dynamo, elsewhere
from clnet.distributions import (
    AffineTransform,
    Independent,
    Normal,
    Transform,
    TransformedDistribution,
)
from clnet.errors import ArgumentError, CheckpointError, ShapeError
from clnet.utils.hooks import RemovableHandle

pytestmark = pytest.mark.device


def reloaded(value, **given):
    file = io.BytesIO()
    clnet.save(value, file)
    file.seek(0)
    return clnet.load(file, **given)


def doubled(x):
    return x * 2


class Block(nn.Module):
    """Holds what a constructor was given: classes, functions, parts of both."""

    def __init__(self):
        super().__init__()
        self.norm_layer = functools.partial(nn.LayerNorm, eps=1e-3)
        self.norm, self.kind, self.act = self.norm_layer(2), nn.GELU, doubled
        self.after = functools.partial(nn.functional.softmax, dim=-1)
        self.root, self.number = math.sqrt, int

    def forward(self, x):
        return self.after(self.act(self.norm(x)))


def test_modules_that_hold_classes_and_functions_are_saved():
    net = Block()
    found = reloaded(net, weights_only=False)
    x = clnet.tensor([[1.0, 3.0]])
    assert found(x).tolist() == net(x).tolist()
    assert (found.kind, found.act, found.root, found.number) == (nn.GELU, doubled, math.sqrt, int)
    assert found.norm_layer.keywords == {"eps": 1e-3}
    with pytest.raises(CheckpointError, match="holds a class or a function, and weights_only"):
        reloaded({"kind": nn.GELU})


def test_functions_are_looked_up_and_not_imported(monkeypatch):
    file = io.BytesIO()
    clnet.save({"act": doubled}, file)
    for other in (None, print, functools.partial(doubled), nn.GELU):
        monkeypatch.setitem(globals(), "doubled", other)
        file.seek(0)
        with pytest.raises(CheckpointError, match="it is loaded"):
            clnet.load(file, weights_only=False)


@pytest.mark.parametrize("value", [eval, io.open, pickle.loads, io.BytesIO, lambda: 0, "".join])
def test_what_python_has_is_not_stored(value):
    with pytest.raises(CheckpointError, match="cannot be stored"):
        clnet.save({"a": value}, io.BytesIO())
    with pytest.raises(CheckpointError, match="cannot be stored"):
        clnet.save({"a": functools.partial(value)}, io.BytesIO())


@pytest.mark.parametrize("layout", [clnet.sparse_coo, clnet.sparse_csr, clnet.sparse_csc])
def test_sparse_tensors_are_saved(layout):
    x = clnet.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse(layout=layout).requires_grad_()
    found = reloaded({"x": [x]})["x"][0]
    assert (found.layout, found.requires_grad) == (layout, True)
    assert found.detach().to_dense().tolist() == [[0.0, 2.0], [3.0, 0.0]]


def test_rows_of_a_sparse_product_are_joined():
    x = clnet.tensor([[1.0, -2.0, 0.0], [0.0, 0.0, 0.0], [0.0, 3.0, 0.0]]).to_sparse_csr()
    y = clnet.tensor([[-1.0, 2.0], [3.0, -4.0], [5.0, 6.0]], requires_grad=True)
    wanted = {"mean": [-3.5, 5.0], "amax": [-1.0, 8.0], "amin": [-6.0, 2.0]}
    for reduce, first in wanted.items():
        found = clnet.sparse.mm(x, y, reduce)
        assert found.tolist() == [first, [0.0, 0.0], [9.0, -12.0]]
    assert clnet.sparse.mm(x, y, "max").tolist()[0] == wanted["amax"]
    clnet.sparse.mm(x, y, "amin").sum().backward()
    assert y.grad.tolist() == [[0.0, 1.0], [1.0, 3.0], [0.0, 0.0]]
    assert clnet.dsmm(x, y.detach()).tolist() == [[-7.0, 10.0], [0.0, 0.0], [9.0, -12.0]]
    with pytest.raises(ArgumentError, match="reduce is one of sum, mean"):
        clnet.sparse.mm(x, y, "prod")
    with pytest.raises(ArgumentError, match="the second one dense"):
        clnet.sparse.mm(x, x, "mean")


def test_rows_are_compressed_and_told():
    rows, columns = clnet.tensor([0, 0, 2, 3]), clnet.tensor([4, 5, 6, 7])
    begins = clnet._convert_indices_from_coo_to_csr(rows, 5, out_int32=True)
    assert (begins.tolist(), begins.dtype) == ([0, 2, 2, 3, 4, 4], clnet.int32)
    both = clnet._convert_indices_from_csr_to_coo(begins, columns)
    assert (both.tolist(), both.dtype) == ([[0, 0, 2, 3], [4, 5, 6, 7]], clnet.int64)
    turned = clnet._convert_indices_from_csr_to_coo(begins, columns, transpose=True)
    assert turned.tolist() == both.tolist()[::-1]


class Scaled(Transform, nn.Module):
    """A transform that is a module, whose inverse is only known where it came from."""

    bijective = True

    def __init__(self, cache_size=0):
        super().__init__(cache_size)
        self.scale = nn.Parameter(clnet.tensor([2.0]))

    def _call(self, x):
        return x * self.scale

    def _inverse(self, y):
        raise KeyError("it was not kept")

    def log_abs_det_jacobian(self, x, y):
        return self.scale.log().expand(x.shape)


def test_transforms_are_modules_and_keep_their_last_result():
    kept = Scaled(cache_size=1)
    assert [name for name, _ in kept.named_parameters()] == ["scale"]
    base = Normal(clnet.zeros(1), 1.0)
    y = TransformedDistribution(base, [kept]).rsample((3,))
    assert TransformedDistribution(base, [kept]).log_prob(y).shape == (3, 1)
    x = clnet.ones(1)
    assert kept.inv(kept(x)) is x
    assert kept(x) is kept(x)
    with pytest.raises(KeyError):
        Scaled().inv(x)
    more = AffineTransform(1.0, 2.0).with_cache()
    assert more.inv(more(x)) is x
    assert more == AffineTransform(1.0, 2.0)
    with pytest.raises(ArgumentError, match="cache_size is 0 or 1"):
        Scaled(2)


def test_modules_with_hooks_of_their_state_are_pickled():
    net = nn.Linear(1, 1)
    net._register_load_state_dict_pre_hook(print)
    assert pickle.loads(pickle.dumps(net)).weight.tolist() == net.weight.tolist()


def test_to_empty_asks_what_programs_override():
    class Cached(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.cache = nn.Linear(2, 1, device="meta"), {"a": 1}

        def _apply(self, fn, recurse=True):
            self.cache.clear()
            return super()._apply(fn, recurse)

    net = Cached()
    where = clnet.zeros(0).device
    assert net.to_empty(device=where).inner.weight.device is where
    assert not net.cache


def test_tensors_have_a_number_of_their_own():
    x, y = clnet.ones(1), clnet.ones(1)
    assert x._cdata == x._cdata != y._cdata


def test_what_modules_have_is_named():
    both = nn.Linear(2, 2)
    net = nn.Sequential(both, nn.ModuleList([both, nn.Linear(1, 1, bias=False)]))

    def own(module):
        return module._parameters.items()

    names = ["0.weight", "0.bias", "1.1.weight"]
    assert [name for name, _ in net._named_members(own)] == names
    found = [name for name, _ in net._named_members(own, "a", remove_duplicate=False)]
    assert found == ["a.0.weight", "a.0.bias", "a.1.0.weight", "a.1.0.bias", "a.1.1.weight"]
    assert not list(net._named_members(own, recurse=False))
    fresh = net._named_members(lambda module: ((k, [k]) for k in module._parameters))
    assert [name for name, _ in fresh] == ["0.weight", "0.bias", "1.1.weight", "1.1.bias"]
    assert net[1]._get_abs_string_index(-1) == "1"


def test_classes_below_independent_stay_themselves():
    class Named(Independent):
        pass

    found = Named(Normal(clnet.zeros(2, 3), 1.0), 1).expand((4, 2))
    assert type(found) is Named
    assert (found.batch_shape, found.event_shape) == ((4, 2), (3,))


@pytest.mark.parametrize("dtype", [clnet.float16, clnet.bfloat16], ids=str)
def test_numbers_beside_16_bits_are_rounded_before_they_are_compared(dtype):
    x = clnet.tensor([0.123, 1.1, 3.3], dtype=dtype)
    for k, number in enumerate((0.123, 1.1, 3.3)):
        for other in (number, clnet.tensor(number), clnet.tensor(number, dtype=clnet.float64)):
            assert (x == other).tolist() == [i == k for i in range(3)]
            assert (x != other).tolist() == [i != k for i in range(3)]
            assert (x >= other).tolist() == [i >= k for i in range(3)]
            assert (x < other).tolist() == [i < k for i in range(3)]
            assert clnet.compile(lambda v: v <= other)(x).tolist() == [i <= k for i in range(3)]  # noqa: B023
    assert clnet.fmod(x, 1.1)[1].item() == clnet.remainder(x, 1.1)[1].item() == 0
    assert nn.functional.hardshrink(x, 1.1).tolist() == [0.0, 0.0, x[2].item()]
    whole = clnet.tensor([2048.0], dtype=dtype)
    assert (whole == 2049).tolist() == (whole == clnet.tensor([2049])).tolist() == [True]


def test_ops_that_are_attributes_of_a_class_are_no_methods():
    class Net(nn.Module):
        act, convolve, make = clnet.tanh, nn.functional.conv1d, clnet.zeros
        doubled = doubled

        def forward(self, x):
            y = self.convolve(x.reshape(1, 1, -1), weight=clnet.ones(1, 1, 1))
            return self.act(y).sum() + self.make(1)

    class More(Net):
        act = clnet.relu

    x = clnet.tensor([1.0, -1.0])
    assert (Net()(x).tolist(), More()(x).tolist()) == ([0.0], [1.0])
    with pytest.raises(TypeError):
        Net().doubled(x)  # a program's own function is one


def test_layers_take_sparse_matrices():
    layer = nn.Linear(3, 2)
    x = clnet.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, -1.0]])
    found = layer(x.to_sparse())
    wanted = layer(x)
    np.testing.assert_allclose(found.tolist(), wanted.tolist(), rtol=1e-6)
    (gradient,) = clnet.autograd.grad(found.sum(), layer.weight)
    (other,) = clnet.autograd.grad(wanted.sum(), layer.weight)
    assert gradient.tolist() == other.tolist()


def test_handles_are_of_programs_tables_too():
    table: dict[int, object] = OrderedDict()
    handle = RemovableHandle(table, extra_dict=(other := OrderedDict()))
    table[handle.id], other[handle.id] = print, True
    with handle:
        assert (len(table), len(other)) == (1, 1)
    assert not table
    assert not other


def test_a_seed_may_be_a_tensor():
    first = clnet.manual_seed(clnet.tensor([7])).initial_seed()
    assert first == clnet.manual_seed(7).initial_seed() == 7


def test_segments_take_both_names_of_extremes():
    x = clnet.tensor([3.0, 1.0, 2.0])
    for name, wanted in (("amax", [3.0, 2.0]), ("amin", [1.0, 2.0])):
        found = clnet._segment_reduce(x, name, offsets=clnet.tensor([0, 2, 3]))
        assert found.tolist() == wanted


def test_functions_take_sparse_tensors_that_want_no_gradient():
    class Product(clnet.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x)
            return clnet.dsmm(x, y)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return None, clnet.dsmm(x.t(), g)

    x = clnet.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse()
    y = clnet.ones(2, 1, requires_grad=True)
    Product.apply(x, y).sum().backward()
    assert y.grad.tolist() == [[3.0], [2.0]]


def test_tables_of_functions_by_kind_of_device_can_be_made():
    for absent in (elsewhere.xpu, elsewhere.mps, elsewhere.mtia):
        assert absent.manual_seed(3) is None
        assert absent.empty_cache() is None
        assert (absent.device_count(), absent.memory_allocated()) == (0, 0)
        with pytest.raises(RuntimeError, match="no device goes by this name"):
            absent.synchronize()
        assert not hasattr(absent, "compile_shader")


def test_mixed_precision_of_the_host_goes_by_its_own_name():
    a = clnet.ones(2, 2)
    with elsewhere.cpu.amp.autocast():
        assert (a @ a).dtype is clnet.bfloat16
    with elsewhere.cpu.amp.autocast(enabled=False):
        assert (a @ a).dtype is clnet.float32


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float32", "complex64"])
def test_drawn_tensors_lie_in_their_range(dtype):
    dtype = getattr(clnet, dtype)
    x = clnet.testing.make_tensor((4, 9), dtype=dtype, device=clnet.device())
    assert (x.shape, x.dtype) == ((4, 9), dtype)
    low, high = (0, 2) if dtype is clnet.bool else (0, 10) if dtype is clnet.uint8 else (-9, 10)
    for part in (x.real, x.imag) if dtype.is_complex else (x,):
        assert low <= part.numpy().min() < part.numpy().max() < high
    if dtype is not clnet.bool:
        given = {"low": 1, "high": 3, "noncontiguous": True, "exclude_zero": True}
        y = clnet.testing.make_tensor(3, 5, dtype=dtype, device=x.device, **given)
        assert (y.shape, y.stride(), y.is_contiguous()) == ((3, 5), (10, 2), False)
        assert np.abs(y.numpy()).min() >= 1
    for wrong in ({"low": 3, "high": 1}, {"noncontiguous": True, "memory_format": 0}):
        with pytest.raises(ArgumentError, match="make_tensor: "):
            clnet.testing.make_tensor(2, dtype=dtype, device=x.device, **wrong)
    with pytest.raises(ArgumentError, match="no gradient"):
        clnet.testing.make_tensor(2, dtype=clnet.int8, device=x.device, requires_grad=True)


def test_settings_of_runs_are_in_tensorboards_table(tmp_path):
    board = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    parts = pytest.importorskip("tensorboard.plugins.hparams.plugin_data_pb2")
    settings = {"rate": 0.1, "deep": True, "kind": "sgd", "none": None, "size": clnet.tensor(4)}
    kinds = {"kind": ["sgd", "adam"]}
    with clnet.utils.tensorboard.SummaryWriter(tmp_path) as writer:
        writer.add_hparams(settings, {"loss": 2.0}, kinds, run_name="first")
        for one in clnet.utils.tensorboard.summary.hparams({"rate": 1}, {}):  # as trainers do
            writer._get_file_writer().add_summary(one)
    found = {}
    for folder in (tmp_path, tmp_path / "first"):
        events = board.EventAccumulator(str(folder)).Reload()
        assert events.Tags()["scalars"] == (["loss"] if folder != tmp_path else [])
        data = events.PluginTagToContent("hparams")
        start = data["_hparams_/session_start_info"]
        found[folder.name] = parts.HParamsPluginData.FromString(start).session_start_info.hparams
    wanted = {"rate": 0.1, "deep": 1.0, "size": 4.0}
    written = found["first"]
    assert {name: written[name].number_value for name in wanted} == wanted
    assert written["kind"].string_value == "sgd"
    assert "none" not in written
    experiment = parts.HParamsPluginData.FromString(data["_hparams_/experiment"]).experiment
    (kind,) = (s for s in experiment.hparam_infos if s.name == "kind")
    assert [v.string_value for v in kind.domain_discrete.values] == ["sgd", "adam"]
    assert [m.name.tag for m in experiment.metric_infos] == ["loss"]
    for wrong in (({"a": []}, {}), ([], {}), ({}, 1), ({"a": 1}, {}, {"a": ["b"]})):
        with pytest.raises(ArgumentError, match="hparams: "):
            clnet.utils.tensorboard.summary.hparams(*wrong)


def test_what_is_written_into_an_open_file_can_be_read_by_its_name(tmp_path):
    with (tmp_path / "x.pt").open("wb") as file:
        clnet.save({"x": clnet.ones(3)}, file)
        assert clnet.load(tmp_path / "x.pt")["x"].tolist() == [1, 1, 1]


def test_another_module_can_be_put_into_a_compiled_one():
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    made = dynamo.compile(nn.Sequential(first))
    made._orig_mod = second  # as trainers do, which take wrappers off
    assert made._orig_mod is second
    assert list(made.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
    x = clnet.ones(1, 2)
    np.testing.assert_allclose(made(x).tolist(), second(x).tolist(), rtol=1e-6)


def test_tensors_without_elements_have_no_address():
    x = clnet.empty(4, 2, device="meta")
    assert x.data_ptr() == x[1:].data_ptr() == x.untyped_storage().data_ptr() == 0


def test_sparse_zeros_are_of_a_size_by_name():
    x = clnet.sparse_coo_tensor(size=(2, 3))
    assert (x.shape, x._nnz(), x.to_dense().tolist()) == ((2, 3), 0, [[0] * 3] * 2)
    with pytest.raises(ArgumentError, match="or a size"):
        clnet.sparse_coo_tensor()


def test_what_is_no_number_is_no_scalar_of_a_curve(tmp_path):
    pytest.importorskip("tensorboard")
    with clnet.utils.tensorboard.SummaryWriter(tmp_path) as writer:
        with pytest.raises(NotImplementedError):
            writer.add_scalar("x", [1.0, 2.0])
        writer.add_scalar("x", clnet.tensor([2.0]))


def test_packages_ask_whether_data_are_a_shuffled_pipe():
    data = clnet.utils.data
    found = data.datapipes.iter.combinatorics.ShufflerIterDataPipe(range(9), buffer_size=4)
    assert isinstance(found, data.IterDataPipe)
    assert isinstance(found, data.IterableDataset)
    orders = [list(found.set_seed(seed)) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(found) == sorted(orders[0]) == list(range(9))
    assert list(data.graph_settings.apply_shuffle_settings(found, shuffle=False)) == list(range(9))


def test_figures_may_be_written_and_flushed_behind_the_end(tmp_path):
    board = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    writer = clnet.utils.tensorboard.SummaryWriter(tmp_path)
    writer.add_scalar("x", 1.0, 0)
    for _ in range(2):  # as lightning's logger ends, and saves once more
        writer.close()
        writer.flush()
    writer.add_scalar("x", 2.0, 1)
    writer.close()
    assert len(list(tmp_path.iterdir())) == 2
    events = board.EventAccumulator(str(tmp_path)).Reload().Scalars("x")
    assert [event.value for event in events] == [1.0, 2.0]


@pytest.mark.parametrize("where", ["meta", None])
def test_operations_of_products_are_counted(where):
    x, model = clnet.empty(2, 32, device=where), nn.Linear(32, 2, device=where)
    flops = []
    for walks_back in (False, True):
        with clnet.utils.flop_counter.FlopCounterMode(display=False) as counter:
            y = model(x * 3).softmax(1)
            if walks_back:
                y.sum().backward()
        flops.append(counter.get_total_flops())
        counts = counter.get_flop_counts()
        assert {*counts["Global"]} == {"linear", "linear_backward"} if walks_back else {"linear"}
        assert counts["Linear"]["linear"] == flops[0] == 2 * 2 * 32 * 2
    assert flops[1] == 2 * flops[0]


def test_trainers_end_a_profiler_that_records(tmp_path):
    assert not clnet.autograd._profiler_enabled()
    running = clnet.profiler.profiler.profile()
    running.start()
    clnet.ones(2) + 1
    assert clnet.autograd._profiler_enabled()
    clnet.autograd._disable_profiler()
    assert not clnet.autograd._profiler_enabled()
    events = running.function_events  # as trainers print them
    assert "Name" in events.key_averages(group_by_input_shapes=True).table(row_limit=2)
    events.export_chrome_trace(str(tmp_path / "trace.json"))
    assert (tmp_path / "trace.json").stat().st_size
    with pytest.raises(ArgumentError, match="sums by name"):
        events.key_averages().export_chrome_trace("nowhere")


def test_sequences_are_repeated_by_a_tensor_and_take_its_elements():
    n = clnet.tensor(2)
    assert ([1] * n, n * [1], (1,) * n, "a" * n, b"a" * n) == ([1, 1], [1, 1], (1, 1), "aa", b"aa")
    found = [1]
    found += clnet.tensor([2, 3])
    assert [int(x) for x in found] == [1, 2, 3]
    for _ in range(2):  # the second time such operands are known
        with pytest.raises(TypeError, match="a tensor or a number"):
            clnet.ones(2) * [1, 2]
    assert n * [1] == [1, 1]
    for wrong in (lambda: [1] * clnet.tensor(2.0), lambda: [1] * clnet.tensor([2, 3])):
        with pytest.raises((TypeError, ShapeError)):
            wrong()
    for wrong in (lambda: (1,) - n, lambda: [1] - n, lambda: n - [1]):
        with pytest.raises(TypeError):
            wrong()


class Foreign:
    def __rand__(self, other):
        return "and"

    def __gt__(self, other):
        return "greater"


def test_comparisons_and_bits_are_turned_round():
    x = clnet.tensor([1, 2])
    assert (x & Foreign(), x < Foreign()) == ("and", "greater")
    for wrong in (lambda: x | Foreign(), lambda: x > Foreign()):
        with pytest.raises(TypeError):
            wrong()


def test_axes_are_given_one_by_one():
    x = clnet.ones(1, 1, 2, 3)
    assert x.squeeze(0, 1).shape == x.clone().squeeze_(0, 1).shape == (2, 3)
    assert x.squeeze(0, 2).shape == (1, 2, 3)
    assert x.count_nonzero(2, 3).tolist() == [[6]]


def test_what_is_compiled_runs_as_it_is_while_eager_is_forced():
    calls = []

    @clnet.compile
    def double(x):
        calls.append(1)
        return x * 2

    x, stance = clnet.ones(2), clnet.compiler.set_stance
    double(x), double(x)
    traced = len(calls)
    with stance("force_eager"):
        double(x), double(x)
        assert len(calls) == traced + 2
    double(x)
    assert len(calls) == traced + 2
    forced = stance("force_eager")(lambda: double(x))
    double(x)
    assert len(calls) == traced + 2
    assert forced().tolist() == [2.0, 2.0]
    assert len(calls) == traced + 3
    stance("force_eager")
    double(x)
    stance()
    double(x)
    assert len(calls) == traced + 4


def test_annotations_name_torchscripts_parts():
    assert all(isinstance(getattr(clnet._C, name), type) for name in ("Graph", "Node", "Value"))


def test_tables_are_given_and_frozen():
    table = clnet.arange(6.0).reshape(3, 2)
    layer = nn.Embedding(3, 2, 0, _weight=table, _freeze=True)
    assert layer.weight.tolist() == table.tolist()
    assert not layer.weight.requires_grad
    assert nn.Embedding(3, 2).weight.requires_grad
    with pytest.raises(ShapeError, match="a row of that width"):
        nn.Embedding(2, 2, _weight=table)


def test_an_expanded_shape_by_name():
    assert clnet.ones(2, 1).expand(size=(3, 2, 4)).shape == (3, 2, 4)
