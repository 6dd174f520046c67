"""What programs of others that nobody had run before asked for, beside PyTorch's answers."""

from __future__ import annotations

import copy
import operator
import pickle
import sys
import types
import typing
import warnings
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.compat import library
from clnet.errors import ArgumentError, BuildError, DistributedError, DtypeError
from tests.answers import torch

PAIRS = [(7, 2), (7.5, 2), (-7, 2.0), (True, 2), (3, 2 + 1j)]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "multiply", "true_divide"])
def test_two_numbers_are_a_tensor(name):
    for pair in PAIRS:
        if name == "sub" and pair[0] is True:
            continue  # PyTorch refuses booleans there
        ours, theirs = getattr(clnet, name)(*pair), getattr(torch, name)(*pair)
        assert (ours.shape, ours.dtype.name) == ((), str(theirs.dtype).rpartition(".")[2])
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6)


def test_two_numbers_rounded_and_refused():
    for mode in ("floor", "trunc"):
        ours = clnet.div(-7, 2, rounding_mode=mode)
        assert ours.item() == torch.div(-7, 2, rounding_mode=mode).item()
    assert clnet.floor_divide(-7.5, 2).item() == -4
    assert clnet.add(1, 2, alpha=3).item() == 7
    with pytest.raises(DtypeError, match="one operand is a tensor"):
        clnet.fmod(7, 2)


def test_a_size_is_a_shape_and_a_tuple_is_data():
    x = clnet.ones(2, 3)
    assert x.new(x.size()).shape == (2, 3)
    assert clnet.FloatTensor(x.shape).shape == (2, 3)
    assert x.new((2, 3)).tolist() == [2, 3]
    assert clnet.LongTensor((2, 3)).tolist() == [2, 3]
    assert clnet.FloatTensor().shape == x.new().shape == (0,)


def test_an_output_behind_a_backward_hook_may_be_overwritten():
    def found(lib: Any) -> tuple[Any, list[Any]]:
        layer = lib.nn.Conv1d(2, 3, 1)
        with lib.no_grad():
            layer.weight.copy_(lib.tensor(weight))
            layer.bias.zero_()
        seen: list[Any] = []
        layer.register_backward_hook(lambda module, gin, gout: seen.append(gout[0].tolist()))
        y = lib.nn.functional.relu(layer(lib.tensor(x)), inplace=True)
        y.pow(2).sum().backward()
        return layer.weight.grad.tolist(), seen

    draws = np.random.default_rng(3)
    weight = draws.standard_normal((3, 2, 1)).astype("f4")
    x = draws.standard_normal((2, 2, 4)).astype("f4")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's about the older name
        (ours, our_seen), (theirs, their_seen) = found(clnet), found(torch)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(our_seen, their_seen, rtol=1e-5, atol=1e-6)


def test_methods_that_are_functions():
    x = clnet.tensor([-1.5, 2.5])
    assert clnet.detach(x.requires_grad_()).requires_grad is False
    y = x.detach().clone()
    assert clnet.abs_(y) is y
    assert y.tolist() == [1.5, 2.5]
    assert clnet.fill_(y, 3).tolist() == clnet.zero_(y).add_(3).tolist() == [3, 3]
    assert "detach" in dir(clnet)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_associative_scan(dim, reverse):
    draws = np.random.default_rng(0).uniform(0.5, 1.5, (2, 3, 7, 4))

    def states(lib: Any, scan: Any) -> Any:
        a, b = (lib.tensor(x) for x in draws)

        def combine(left: Any, right: Any) -> Any:
            return {"a": left["a"] * right["a"], "b": right["a"] * left["b"] + right["b"]}

        found = scan(combine, {"a": a, "b": b}, dim, reverse=reverse, combine_mode="generic")
        return found["b"].numpy()

    theirs = states(torch, torch._higher_order_ops.associative_scan)
    np.testing.assert_allclose(states(clnet, clnet.associative_scan), theirs, rtol=1e-12)


def test_associative_scan_has_gradients_and_laws():
    x = clnet.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    clnet._higher_order_ops.associative_scan(lambda p, q: p * q, x, 0)[3].backward()
    assert x.grad.tolist() == [24, 12, 8, 6]
    with pytest.raises(ArgumentError, match="all of one shape"):
        clnet.associative_scan(lambda p, q: p, (clnet.ones(2), clnet.ones(3)), 0)
    with pytest.raises(ArgumentError, match="combine_mode"):
        clnet.associative_scan(lambda p, q: p, x, 0, combine_mode="other")


def test_what_is_not_built_says_so():
    extension = clnet.utils.cpp_extension
    with pytest.raises(BuildError, match=r"nothing of C\+\+ or CUDA is built"):
        extension.load(name="upfirdn2d", sources=["x.cu"])
    assert extension.CUDA_HOME is None
    fsdp = clnet.distributed.fsdp
    assert not isinstance(nn.Linear(1, 1), fsdp.FullyShardedDataParallel)
    with pytest.raises(DistributedError, match=r"Call init_process_group\(\)"):
        fsdp.FullyShardedDataParallel(nn.Linear(1, 1))


def test_settings_of_compilers_are_kept():
    config = clnet._inductor.config
    config.coordinate_descent_tuning = config.triton.unique_kernel_names = True
    assert config.coordinate_descent_tuning
    assert clnet.zeros in clnet.utils._device._device_constructors()


def test_branches_of_transformer_layers_are_overridden():
    def found(lib: Any) -> list[Any]:
        class Plain(lib.nn.TransformerEncoderLayer):
            def _sa_block(self, x: Any, *masks: Any, **given: Any) -> Any:
                return x * 2

        class Decoded(lib.nn.TransformerDecoderLayer):
            def _mha_block(self, x: Any, mem: Any, *masks: Any, **given: Any) -> Any:
                return x + mem

            def _ff_block(self, x: Any) -> Any:
                return -x

        layers = [Plain(4, 2, 8, dropout=0.0), Decoded(4, 2, 8, dropout=0.0, norm_first=True)]
        draws = np.random.default_rng(5)
        for layer in layers:
            with lib.no_grad():
                for p in layer.parameters():
                    p.copy_(lib.tensor(draws.standard_normal(p.shape).astype("f4")))
        x = lib.tensor(draws.standard_normal((3, 2, 4)).astype("f4"))
        encoder = lib.nn.TransformerEncoder(layers[0], 2, enable_nested_tensor=False)
        y = encoder(x)
        return [y.tolist(), lib.nn.TransformerDecoder(layers[1], 2)(x, y).tolist()]

    for ours, theirs in zip(found(clnet), found(torch), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_settings_that_nothing_reads():
    x = clnet.arange(12.0).view(1, 12)
    assert nn.functional.pad(x, (1, 1), "reflect", value=0.0)[0, 0] == 1
    with pytest.raises(ArgumentError, match="has a value but 0"):
        nn.functional.pad(x, (1, 1), "reflect", value=2.0)
    given: dict[str, Any] = {"center": False, "pad_mode": None, "return_complex": True}
    assert clnet.stft(x, 4, **given).shape == (1, 3, 9)


def test_a_factor_that_lies_on_the_device():
    def found(lib: Any) -> list[Any]:
        a, x, y = lib.tensor(2.0), lib.ones(3), lib.arange(3.0)
        results = [x.add(y, alpha=a), x.sub(y, alpha=a), x.clone().add_(y, alpha=-a)]
        results += [x.bfloat16().sub(y.bfloat16(), alpha=a), lib.arange(3).add(1, alpha=a.long())]
        return [(r.tolist(), str(r.dtype).rpartition(".")[2]) for r in results]

    assert found(clnet) == found(torch)

    @clnet.compile(fullgraph=True)
    def step(p: Any, grad: Any, rate: Any) -> None:
        p.add_(grad, alpha=-rate)

    p = clnet.ones(3)
    for rate in (0.5, 0.25):
        step(p, clnet.ones(3), clnet.tensor(rate))
    assert p.tolist() == [0.25] * 3


def test_arange_by_its_end():
    assert clnet.arange(end=3).tolist() == torch.arange(end=3).tolist()
    assert clnet.arange(start=1, end=6, step=2).tolist() == [1, 3, 5]
    with pytest.raises(ArgumentError, match="an end is given"):
        clnet.arange()


def test_passes_that_packages_make():
    from clnet.utils.data import dataloader  # noqa: PLC0415 - by PyTorch's name

    class Loader:
        dataset = range(5)
        _dataset_kind = dataloader._DatasetKind.Map
        _auto_collation, _index_sampler, drop_last = True, [[0, 1], [4]], False
        collate_fn = staticmethod(sum)

    made = dataloader._SingleProcessDataLoaderIter(Loader())
    assert isinstance(made, dataloader._BaseDataLoaderIter)
    assert (len(made), list(made)) == (2, [1, 4])
    Loader._dataset_kind, Loader.drop_last = dataloader._DatasetKind.Iterable, True
    Loader._index_sampler = [[0] * 2] * 9
    assert list(dataloader._MultiProcessingDataLoaderIter(Loader())) == [1, 5]
    Loader._auto_collation, Loader.collate_fn = False, str
    assert list(dataloader._SingleProcessDataLoaderIter(Loader()))[-1] == "4"


def test_a_sigmoid_stays_within():
    values = [-200.0, -3.0, 0.0, 40.0]
    ours, theirs = (lib.distributions.transforms.SigmoidTransform() for lib in (clnet, torch))
    y, expected = ours(clnet.tensor(values)), theirs(torch.tensor(values))
    np.testing.assert_allclose(y.numpy(), expected.numpy(), rtol=1e-6)
    ends = ours.inv(clnet.tensor([0.0, 1.0])).numpy()
    np.testing.assert_allclose(ends, theirs.inv(torch.tensor([0.0, 1.0])).numpy(), rtol=1e-6)


def test_annotations_of_losses_are_read_elsewhere():
    known = {"Tensor": clnet.Tensor}  # what a package has among its own names
    for layer in (nn.CrossEntropyLoss(), nn.BCEWithLogitsLoss(), nn.ELU()):
        assert typing.get_type_hints(layer, known)


def test_a_subclass_that_calls_its_base():
    def found(lib: Any) -> list[str]:
        class Kept(lib.Tensor):
            def clone(self, **given: Any) -> Any:
                return self.as_subclass(lib.Tensor).clone(**given).as_subclass(type(self))

        x = lib.ones(2).as_subclass(Kept)
        parts = (x.as_subclass(lib.Tensor), x.clone(), x + 1)
        return [type(part).__name__ for part in parts]

    assert found(clnet) == found(torch) == ["Tensor", "Kept", "Kept"]


def test_stages_of_scaling_have_names():
    assert clnet.amp.grad_scaler.OptState.READY.value == 0


def test_torchaudio_does_without_its_library(monkeypatch):
    operators = library.operators
    operators.load_library("/site-packages/torchaudio/lib/_torchaudio.so")
    with pytest.raises(OSError, match=r"nothing of C\+\+ is loaded"):
        operators.load_library("/site-packages/other/lib/_other.so")
    assert operators._torchaudio.is_align_available() is False
    loops = types.SimpleNamespace(_lfilter_core_generic_loop=lambda x, a, y: (x, a, y))
    monkeypatch.setitem(sys.modules, "torchaudio.functional.filtering", loops)
    assert operators.torchaudio._lfilter_core_loop(1, 2, 3) == (1, 2, 3)
    with pytest.raises(OSError, match="operators of C"):
        operators.torchaudio.forced_align(1)


def test_modules_that_set_their_state():
    class Layer(nn.Linear):
        def __setstate__(self, state: Any) -> None:
            super().__setstate__(state)
            self.seen = True

    copied = copy.deepcopy(Layer(2, 3))
    assert (copied.seen, copied.weight.shape) == (True, (3, 2))
    assert pickle.loads(pickle.dumps(nn.Linear(1, 2))).weight.shape == (2, 1)


def test_operators_turned_round():
    class Parts(tuple[Any, ...]):
        def __rmul__(self, other: Any) -> Any:
            return Parts(other * part for part in self)

        def __rmatmul__(self, other: Any) -> Any:
            return NotImplemented

    def found(lib: Any) -> Any:
        x = lib.tensor([1.0, 2.0])
        return [part.tolist() for part in x * Parts((x, x + 1))]

    assert found(clnet) == found(torch) == [[1, 4], [2, 6]]
    with pytest.raises(TypeError, match="'Tensor' and 'Parts'"):
        clnet.ones(2) @ Parts()
    with pytest.raises(TypeError, match="an operand is a tensor or a number"):
        clnet.ones(2) * [1, 2]


_OPERATORS = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()


@pytest.mark.parametrize("name", _OPERATORS)
def test_each_operator_is_turned_round(name):
    turned = type("Turned", (), {f"__r{name}__": lambda self, other: other.tolist()})()
    operation = getattr(operator, name + "_" * (name in ("and", "or")))
    assert operation(clnet.tensor([1, 2]), turned) == [1, 2]


@pytest.mark.parametrize("name", [*_OPERATORS, "lt", "le", "gt", "ge", "eq", "ne"])
def test_operators_leave_unknown_classes_to_python(name):
    compared = name in ("lt", "le", "gt", "ge", "eq", "ne")
    for x in (clnet.tensor([1, 2]), clnet.tensor(True)):
        for prefix in ("",) if compared else ("", "r", "i") if name != "matmul" else ("", "r"):
            found = [getattr(x, f"__{prefix}{name}__")(object()) for _ in range(2)]  # also by habit
            assert found == [NotImplemented] * 2


def test_functions_of_operators_repeat_and_ask_nobody():
    n = clnet.tensor(2)
    assert n * [1] == [1, 1]
    turned = type("Turned", (), {"__rmul__": lambda self, other: "turned"})()
    assert n * turned == "turned"
    for other in ([1], turned):
        with pytest.raises(TypeError, match="mul: an operand is a tensor or a number"):
            clnet.mul(n, other)


def test_new_tensors_by_size():
    x = clnet.ones(1, dtype=clnet.float64)
    made = [x.new_ones(size=(2, 1)), x.new_zeros(2, 1), x.new_empty(size=[2, 1])]
    assert {(y.shape, y.dtype) for y in made} == {((2, 1), clnet.float64)}
    assert isinstance(x.device, clnet.DeviceObjType)


def test_states_of_generators_are_the_hosts():
    assert clnet.cuda._initialized is False  # reversible layers ask it before they keep states
