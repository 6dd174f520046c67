"""The base of modules: attributes, names, mode, state; what does not fit leaves it as it was."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError, CheckpointError, DtypeError, MemberNameError, ShapeError


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.last = nn.Sequential(OrderedDict(act=nn.ReLU(), out=nn.Linear(4, 2, bias=False)))
        self.scale = nn.Parameter(clnet.ones(1))

    def forward(self, x):
        return self.last(self.first(x)) * self.scale


NAMES = [
    "scale",
    "first.weight",
    "first.bias",
    "norm.weight",
    "norm.bias",
    "norm.running_mean",
    "norm.running_var",
    "norm.num_batches_tracked",
    "last.out.weight",
]


def values(module):
    return {name: np.asarray(value) for name, value in module.state_dict().items()}


def same(state, other):
    return state.keys() == other.keys() and all(np.array_equal(state[n], other[n]) for n in state)


def test_names_are_dotted_paths():
    net = Net()
    assert list(net.state_dict()) == NAMES
    assert [n for n, _ in net.named_modules()] == [
        "",
        "first",
        "norm",
        "last",
        "last.act",
        "last.out",
    ]
    assert net.get_submodule("last.out") is net.last.out
    assert net.get_parameter("last.out.weight") is net.last.out.weight
    assert net.get_buffer("norm.running_var") is net.norm.running_var


def test_members_before_the_module_is_made_are_an_attribute_error():
    class Early(nn.Module):
        def __init__(self):
            self.layer = nn.ReLU()

    with pytest.raises(AttributeError, match=r"after super\(\)\.__init__\(\)"):
        Early()


@pytest.mark.parametrize(
    ("method", "target", "message"),
    [
        ("get_submodule", "last.gone", "Sequential has no sub-module 'gone'"),
        ("get_parameter", "last.out.bias", "Linear has no parameter 'bias'"),
        ("get_buffer", "first.weight", "Linear has no buffer 'weight'"),
        ("__getattr__", "second", "'Net' object has no attribute 'second'"),
    ],
)
def test_a_name_that_is_not_there(method, target, message):
    with pytest.raises(AttributeError, match=message):
        getattr(Net(), method)(target)


def test_a_module_at_several_places_is_one_child():
    """Found once, and changed once; a state has all its names, as PyTorch's."""
    shared = nn.Linear(2, 2, bias=False)
    net = nn.Sequential(shared, nn.ReLU(), shared)
    assert [n for n, _ in net.named_children()] == ["0", "1"]
    assert list(net.state_dict()) == ["0.weight", "2.weight"]
    assert len(dict(net.named_modules(remove_duplicate=False))) == 4
    seen = []
    net.apply(seen.append)
    assert seen.count(shared) == 1
    before = shared.weight.tolist()
    net._apply(lambda x: x * 2)
    assert shared.weight.tolist() == [[2 * w for w in row] for row in before]
    assert {"weight", "in_features"} <= set(dir(shared))


def test_a_replaced_module_keeps_its_place():
    net = Net()
    net.first = nn.Linear(3, 4)
    assert list(net.state_dict()) == NAMES
    net.first = None  # its place is kept for what comes
    assert getattr(net, "first") is None  # noqa: B009 - a checker would take it for all that follows
    net.first = nn.Linear(3, 4)
    assert list(net.state_dict()) == NAMES


def test_a_buffer_stays_one_when_assigned():
    norm = nn.BatchNorm1d(2)
    norm.running_mean = clnet.full(2, 5.0)
    assert norm.state_dict()["running_mean"].tolist() == [5.0, 5.0]
    norm.running_mean = None
    assert "running_mean" not in norm.state_dict()
    assert norm.running_mean is None


def test_a_buffer_may_stay_out_of_the_state():
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", clnet.arange(3), persistent=False)

    net = nn.Sequential(Positions(), nn.Linear(1, 1, bias=False))
    assert list(net.state_dict()) == ["1.weight"]
    assert [n for n, _ in net.named_buffers()] == ["0.table"]
    net[0].table = clnet.arange(4)
    net.load_state_dict(net.state_dict())
    assert list(net.state_dict()) == ["1.weight"]
    net[0].register_buffer("table", net[0].table)
    assert list(net.state_dict()) == ["0.table", "1.weight"]
    net[0].register_buffer("table", None, persistent=False)
    net[0].table = nn.Parameter(clnet.ones(1))
    assert list(net.state_dict()) == ["0.table", "1.weight"]


def test_a_parameter_is_not_replaced_by_a_plain_tensor():
    layer = nn.Linear(2, 2)
    with pytest.raises(DtypeError, match="a parameter is replaced by a Parameter or None"):
        layer.weight = clnet.zeros(2, 2)  # pyrefly: ignore[bad-assignment] - refused, as tested
    layer.bias = None
    assert list(layer.state_dict()) == ["weight"]
    assert layer(clnet.ones(1, 2)).shape == (1, 2)


def test_attributes_before_the_base_is_set_up():
    class Hasty(nn.Module):
        def __init__(self):
            self.layer = nn.Identity()

    with pytest.raises(ArgumentError, match=r"after super\(\).__init__\(\); got attribute=layer"):
        Hasty()


@pytest.mark.parametrize("name", ["", "a.b"])
def test_a_name_has_no_dot(name):
    with pytest.raises(ArgumentError, match="a name is not empty and has no dot"):
        nn.Module().add_module(name, nn.Identity())


def test_mode_reaches_every_module_and_changes_the_version():
    net = Net()
    version = net.last._clnet_version
    assert net.eval() is net
    assert not any(m.training for m in net.modules())
    assert net.last._clnet_version != version
    version = net.last._clnet_version
    net.eval()
    assert net.last._clnet_version == version


def test_apply_reaches_the_lower_modules_first():
    seen = []
    Net().apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "BatchNorm1d", "ReLU", "Linear", "Sequential", "Net"]


def test_a_shared_parameter_is_given_once_and_saved_under_both_names():
    net = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    net[1].weight = net[0].weight
    assert len(list(net.parameters())) == 1
    assert list(net.state_dict()) == ["0.weight", "1.weight"]
    shared = nn.Linear(3, 3, bias=False)
    assert list(nn.Sequential(shared, shared).state_dict()) == ["0.weight", "1.weight"]


def test_a_state_is_loaded_from_tensors_and_arrays():
    source, target = Net(), Net()
    assert not same(values(source), values(target))
    assert target.load_state_dict(source.state_dict()) == ([], [])
    assert same(values(source), values(target))
    other = Net()
    other.load_state_dict(values(source))
    assert same(values(source), values(other))


def without(state, name):
    return {n: v for n, v in state.items() if n != name}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda s: without(s, "scale"), CheckpointError, r"missing=\['scale'\], unexpected=\[\]"),
        (
            lambda s: {**s, "new": s["scale"]},
            CheckpointError,
            r"missing=\[\], unexpected=\['new'\]. Pass strict=False",
        ),
        (
            lambda s: {**s, "last.out.weight": np.zeros((4, 2), np.float32)},
            CheckpointError,
            r"size mismatch for last.out.weight; got module=\(2, 4\), state=\(4, 2\)",
        ),
        (
            lambda s: {**s, "last.out.weight": np.zeros((2, 4), "datetime64[s]")},
            DtypeError,
            r"NumPy's dtype has no counterpart; got dtype=datetime64",
        ),
    ],
    ids=["missing", "unexpected", "shape", "dtype"],
)
def test_a_state_that_does_not_fit_changes_nothing(change, error, message):
    net, other = Net(), Net()
    before = values(net)
    with pytest.raises(error, match=message):
        net.load_state_dict(change(values(other)))
    assert same(values(net), before)


def test_what_fits_is_loaded_when_not_strict():
    net, other = Net(), Net()
    before, state = values(net), values(other)
    result = net.load_state_dict(
        {**without(state, "first.weight"), "new": state["scale"]}, strict=False
    )
    assert result.missing_keys == ["first.weight"]
    assert result.unexpected_keys == ["new"]
    after = values(net)
    assert np.array_equal(after["first.weight"], before["first.weight"])
    assert np.array_equal(after["first.bias"], state["first.bias"])


def test_programs_name_things_as_they_like():
    """What PyTorch's modules have not is no name of ours: HuggingFace has layers ``summary``."""

    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.summary = nn.Linear(2, 3)
            self.version = 1

        def forward(self, x):
            return self.summary(x)

    net = Named()
    assert net(clnet.ones(1, 2)).shape == (1, 3)
    assert [*net.state_dict()] == ["summary.weight", "summary.bias"]
    net.version += 1
    assert net.version == 2
    net.summary = "of text"
    assert (net.summary, [*net.state_dict()]) == ("of text", [])
    del net.summary
    assert "makes" in str(net.summary.__func__(nn.Linear(2, 3), (1, 2)))


@pytest.mark.parametrize(
    ("register", "law"),
    [
        (lambda net: net.register_buffer("first", clnet.ones(1)), "something else has the name"),
        (lambda net: net.register_parameter("first", None), "something else has the name"),
        (lambda net: net.add_module("scale", nn.ReLU()), "something else has the name"),
        (lambda net: net.register_buffer("training", None), "something else has the name"),
        (lambda net: net.add_module("forward", nn.ReLU()), "something else has the name"),
        (lambda net: net.add_module("a.b", nn.ReLU()), "is not empty and has no dot"),
        (lambda net: net.register_parameter("", None), "is not empty and has no dot"),
    ],
)
def test_names_that_are_taken_or_no_names_are_refused(register, law):
    net = Net()
    before = [*net.state_dict()]
    with pytest.raises(KeyError, match=law) as raised:
        register(net)
    assert isinstance(raised.value, MemberNameError)
    assert [*net.state_dict()] == before
    net.first = nn.ReLU()  # what is assigned takes the place of what was there
    net.scale = nn.Linear(1, 1)
    assert isinstance(net.scale, nn.Linear)
    net.register_buffer("running", clnet.ones(1))
    net.register_buffer("running", clnet.zeros(1))  # of one kind it is replaced
    assert net.running.item() == 0


def test_old_states_have_no_count_of_batches():
    """PyTorch counts them since 0.4.1; a dict without metadata may be older."""
    for norm in (nn.BatchNorm2d(3), nn.InstanceNorm1d(3, track_running_stats=True)):
        norm.num_batches_tracked.fill_(5)
        state = norm.state_dict()
        assert state._metadata[""] == {"version": 2}
        old = without(state, "num_batches_tracked")
        assert norm.load_state_dict(old) == ([], [])
        assert "num_batches_tracked" not in old
        assert norm.num_batches_tracked.item() == 5
        del state["num_batches_tracked"]  # with metadata it is not old
        with pytest.raises(CheckpointError, match=r"missing=\['num_batches_tracked'"):
            norm.load_state_dict(state)


def test_a_state_shares_memory_with_the_module():
    net = Net()
    net.state_dict()["scale"].fill_(7)
    assert net.scale.tolist() == [7.0]


def test_dtype_changes_the_floating_parts_alone(device):
    if not device.traits.float64:
        pytest.skip("the device has no double precision")
    net = Net().to(clnet.float64)
    assert net.first.weight.dtype is clnet.float64
    assert net.norm.running_mean.dtype is clnet.float64
    assert net.norm.num_batches_tracked.dtype is clnet.int64
    assert net(clnet.zeros(2, 3, dtype=clnet.float64)).dtype is clnet.float64


def test_complex_parts_are_converted_by_to_alone(device):
    """As PyTorch's: ``float()`` and its like leave them."""
    if not device.traits.float64:
        pytest.skip("the device has no double precision")
    layer = nn.Linear(2, 3).to(clnet.complex64)
    assert layer.double().weight.dtype is clnet.complex64
    assert layer.to(clnet.complex128).weight.dtype is clnet.complex128


def test_an_error_names_the_module_it_came_from():
    net = Net()
    net.last.out = nn.Linear(5, 2)
    with pytest.raises(ShapeError, match=r"\(in Net.last.out, Linear\)") as caught:
        net(clnet.zeros(1, 3))
    assert caught.value.op == "linear"
    assert caught.value.module == "Net.last.out, Linear"


def test_a_layer_on_its_own_is_named_once():
    with pytest.raises(ShapeError, match=r"\(in Linear\)$"):
        nn.Linear(3, 4)(clnet.zeros(2, 5))


def test_text_nests_and_shows_settings():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Identity()

        def extra_repr(self):
            return "by=2"

    assert repr(Scaled()) == "Scaled(\n  by=2\n  (inner): Identity()\n)"


def test_own_parameters_and_prefixes():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    assert list(model.parameters(recurse=False)) == []
    assert list(model.buffers(recurse=False)) == []
    assert [n for n, _ in model[0].named_parameters("a", recurse=False)] == ["a.weight", "a.bias"]
    assert next(iter(model.named_parameters("top")))[0] == "top.0.weight"
    assert next(iter(model.named_buffers("top")))[0] == "top.1.running_mean"


class _OwnNames(nn.Module):
    """Names that a module of clnet might want for itself, and what comes before its start."""

    def __init__(self):
        self.early = 3
        super().__init__()
        self._hooks, self._path, self._computed, self._register = [], "x", None, 1
        self.layer = nn.Linear(2, 1)

    def _changed(self):
        raise AssertionError("not the program's to call")

    _named = _forget = _take = _get = _changed

    def forward(self, x):
        return self.layer(x) * self.early


def test_programs_have_names_of_their_own():
    net = _OwnNames()
    net.load_state_dict(net.state_dict())
    net.register_forward_hook(lambda module, args, y: y + 1)
    assert net(clnet.zeros(1, 2)).shape == (1, 1)
    assert (net._hooks, net._path, net.early) == ([], "x", 3)
    assert len(list(net.named_parameters())) == 2


def test_parameters_and_modules_come_after_the_start():
    class Early(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(1, 1)

    with pytest.raises(ArgumentError, match="after super"):
        Early()


def test_no_dtype_is_the_usual_one():
    class Own(nn.Conv2d):
        def __init__(self, *sizes, device=None, dtype=None):
            super().__init__(*sizes, device=device, dtype=dtype)

    for layer in (Own(1, 2, 3), nn.Linear(2, 3, dtype=None), nn.BatchNorm1d(2, dtype=None)):
        assert layer.weight.dtype is clnet.float32
    assert nn.LazyLinear(2, dtype=None).weight.dtype is clnet.float32
    assert nn.Embedding(2, 3, dtype=None).weight.dtype is clnet.float32
    assert nn.LayerNorm(2, dtype=None).weight.dtype is clnet.float32
    assert nn.MultiheadAttention(4, 2, dtype=None).in_proj_weight.dtype is clnet.float32
    assert next(nn.LSTM(2, 3, dtype=None).parameters()).dtype is clnet.float32
    assert nn.TransformerEncoderLayer(4, 2, 4, dtype=None).linear1.weight.dtype is clnet.float32


def test_a_prefix_is_taken_off_the_names_of_a_state():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    state = nn.DataParallel(net).state_dict()
    names = list(net.state_dict())
    assert list(state) == [f"module.{name}" for name in names]
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == names
    assert list(state._metadata) == list(net.state_dict()._metadata)
    net.load_state_dict(state)


def test_a_state_that_does_not_fit_is_refused_in_pytorchs_words():
    layer = nn.Linear(2, 3)
    for state, words in (
        ({"bias": clnet.ones(3)}, "Missing key.s. in state_dict; "),
        ({**layer.state_dict(), "x": clnet.ones(1)}, "Unexpected key.s. in state_dict; "),
        ({}, "Missing key.s. in state_dict; got missing="),
        ({"x": clnet.ones(1)}, "Missing key.s. in state_dict and Unexpected key.s. in state_dict"),
    ):
        with pytest.raises(RuntimeError, match=words):
            layer.load_state_dict(state)
    found = layer.load_state_dict({"x": clnet.ones(1)}, strict=False)
    assert repr(found) == (
        "_IncompatibleKeys(missing_keys=['weight', 'bias'], unexpected_keys=['x'])"
    )


class Frozen(nn.Module):
    """Its norm stays in evaluation, and a tensor of its own goes where it goes."""

    def __init__(self):
        super().__init__()
        self.norm, self.beside = nn.BatchNorm1d(2), clnet.ones(2)

    def train(self, mode=True):
        super().train(mode)
        self.norm.eval()
        return self

    def _apply(self, fn, recurse=True):
        self.beside = fn(self.beside)
        return super()._apply(fn, recurse)


def test_what_modules_below_override_is_called():
    frozen = Frozen()
    model = nn.Sequential(nn.Sequential(frozen)).train()
    assert frozen.training
    assert not frozen.norm.training
    model.double()
    assert frozen.beside.dtype is frozen.norm.weight.dtype is clnet.float64
    assert not any(module.training for module in model.eval().modules())
    with pytest.raises(DtypeError, match="a mode is True or False"):
        model.train("eval")


def test_what_names_parameters_decides_which_there_are():
    class Headless(nn.Sequential):
        def named_parameters(self, *args, **kwargs):
            named = super().named_parameters(*args, **kwargs)
            return ((name, p) for name, p in named if not name.startswith("1."))

    model = Headless(nn.Linear(2, 3), nn.Linear(3, 1))
    assert [tuple(p.shape) for p in model.parameters()] == [(3, 2), (3,)]


def test_gradients_go_along_with_parameters():
    layer = nn.Linear(2, 1)
    layer(clnet.ones(1, 2)).sum().backward()
    layer.to("cpu")
    layer.train().to(clnet.float64)
    assert layer.weight.grad.dtype is clnet.float64
    assert layer.weight.grad.tolist() == [[1.0, 1.0]]
    with pytest.raises(DtypeError, match="a name is a string"):
        nn.Module().add_module(None, nn.ReLU())
    with pytest.raises(DtypeError, match="floating or complex"):
        layer.to(clnet.int32)
    assert layer.weight.dtype is clnet.float64


def test_only_parameters_and_tensors_are_registered():
    module = nn.Module()
    for refused in (clnet.ones(1), clnet.ones(1, requires_grad=True) * 2, 1):
        with pytest.raises(DtypeError, match="it is a Parameter"):
            module.register_parameter("a", refused)
    with pytest.raises(DtypeError, match="a buffer is a tensor"):
        module.register_buffer("a", 1)
    assert not module.state_dict()


def test_modules_copied_table_by_table():
    def copied(module):
        twin = module.__new__(type(module))
        twin.__dict__ = module.__dict__.copy()
        twin._parameters = twin._parameters.copy()
        twin._buffers = twin._buffers.copy()
        twin._modules = twin._modules.copy()
        for name, p in module._parameters.items():
            twin._parameters[name] = None if p is None else p.clone()
        for name, b in module._buffers.items():
            twin._buffers[name] = b.clone()
        for name, below in module._modules.items():
            twin._modules[name] = copied(below)
        return twin

    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    twin, x = copied(net), clnet.tensor([[1.0, 2.0], [3.0, -1.0]])
    np.testing.assert_array_equal(twin(x).detach().numpy(), net(x).detach().numpy())
    before = net[1].running_mean.numpy()
    twin(x)
    assert (net[1].running_mean.numpy() == before).all()
    twin(x).square().sum().backward()
    assert net[0].weight.grad is not None
    assert not twin[0].weight.is_leaf


class Behind:
    """A class behind a module's, which is made in its turn where the module says so."""

    def __init__(self, number):
        self.number = number


def test_a_constructor_goes_on_to_the_class_behind_it_on_request():
    class Mixed(nn.Module, Behind):
        def __init__(self, *args):
            super().__init__(*args)
            self.layer = nn.Linear(1, 1)

    assert not hasattr(Mixed(), "number")
    with pytest.raises(TypeError, match="Mixed: Module takes no arguments; got"):
        Mixed(3)
    Mixed.call_super_init = True
    assert Mixed(3).number == 3


def test_a_buffer_is_assigned_where_a_program_registers_buffers_itself():
    class Own(nn.Module):
        def register_buffer(self, name, tensor):
            super().register_buffer(name, tensor + 1)

    net = Own()
    net.held = nn.Buffer(clnet.zeros(2))
    assert net.held.tolist() == [1, 1]
    with pytest.raises(TypeError):  # what is not kept is said
        net.other = nn.Buffer(clnet.zeros(2), persistent=False)
