"""What loaders, graphs and adapters of packages asked for that was missing or refused."""

from __future__ import annotations

import copy
import io
import itertools
import pickle
import weakref
from collections.abc import MutableMapping
from typing import Any, ClassVar

import pytest

import clnet
from clnet import nn
from clnet.errors import CheckpointError
from clnet.utils.data import IterableDataset, TensorDataset, dataloader

pytestmark = pytest.mark.device


class Stored(MutableMapping):
    """A mapping that refers to its holder weakly, and says what is kept of it."""

    def __init__(self, holder: Any, **given: Any) -> None:
        self.given, self.holder = given, weakref.ref(holder)

    def __getitem__(self, key: str) -> Any:
        return self.given[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.given[key] = value

    def __delitem__(self, key: str) -> None:
        del self.given[key]

    def __iter__(self) -> Any:
        return iter(self.given)

    def __len__(self) -> int:
        return len(self.given)

    def __getstate__(self) -> dict[str, Any]:
        return {"given": self.given, "holder": self.holder()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.given, self.holder = state["given"], weakref.ref(state["holder"])


class Example:
    """An example as packages of graphs have it."""

    def __init__(self, **given: Any) -> None:
        self.store = Stored(self, **given)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


class Half:
    """Says what is kept of it, and not how it is taken back."""

    def __getstate__(self) -> int:
        return 1


def test_objects_that_say_what_is_kept_of_them():
    examples = [Example(x=clnet.ones(2)), Example(x=clnet.zeros(3))]
    file = io.BytesIO()
    clnet.save([*examples, examples[0]], file)
    file.seek(0)
    found = clnet.load(file, weights_only=False)
    assert [type(e) for e in found] == [Example] * 3
    assert [e.store["x"].tolist() for e in found] == [[1, 1], [0, 0, 0], [1, 1]]
    assert found[2] is found[0]
    assert all(e.store.holder() is e for e in found)
    with pytest.raises(CheckpointError, match="cannot be stored"):
        clnet.save(Half(), io.BytesIO())


def test_classes_that_a_program_calls_safe():
    file = io.BytesIO()
    clnet.save((Example(x=clnet.ones(2)), Example), file)

    def read() -> Any:
        file.seek(0)
        return clnet.load(file, weights_only=True)

    with pytest.raises(CheckpointError, match="weights_only"):
        read()
    with clnet.serialization.safe_globals([Example]), pytest.raises(CheckpointError, match="Store"):
        read()
    with clnet.serialization.safe_globals([Example, (Stored, "a.name")]):
        made, kind = read()
        assert kind is Example
        assert made.store["x"].tolist() == [1, 1]
        assert clnet.serialization.get_safe_globals() == [Example, Stored]
    assert clnet.serialization.get_safe_globals() == []
    clnet.serialization.add_safe_globals([Example, Stored])
    try:
        assert read()[1] is Example
    finally:
        clnet.serialization.clear_safe_globals()
    with pytest.raises(CheckpointError, match="weights_only"):
        read()


class Stream(IterableDataset):
    """A stream that knows where it is."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> Any:
        while self.at < 7:
            self.at += 1
            yield clnet.tensor(self.at)


class Kept(dataloader._BaseDataLoaderIter):
    """A pass of a package's own, which counts and can go on at a place."""

    def __init__(self, loader: Any, skipped: int = 0) -> None:
        super().__init__(loader)
        assert (self._timeout, self._num_workers, self._pin_memory) == (0, 0, False)
        self._sampler_iter = itertools.islice(self._index_sampler, skipped, None)
        self._fetcher = dataloader._DatasetKind.create_fetcher(
            self._dataset_kind,
            self._dataset,
            self._auto_collation,
            self._collate_fn,
            self._drop_last,
        )

    def _next_data(self) -> Any:
        return self._fetcher.fetch(self._next_index())


def test_a_pass_of_a_package_goes_on_at_its_place():
    loader = clnet.utils.data.DataLoader(TensorDataset(clnet.arange(7)), batch_size=2)
    made = Kept(loader)
    assert [next(made)[0].tolist(), next(made)[0].tolist()] == [[0, 1], [2, 3]]
    assert made._num_yielded == 2
    assert [x.tolist() for (x,) in Kept(loader, skipped=2)] == [[4, 5], [6]]
    made._reset(loader)
    assert (made._num_yielded, next(made)[0].tolist()) == (0, [0, 1])
    with pytest.raises(NotImplementedError, match="_next_data"):
        next(dataloader._BaseDataLoaderIter(loader))


@pytest.mark.parametrize(
    ("given", "batches"),
    [
        ({"batch_size": 3}, [[1, 2, 3], [4, 5, 6], [7]]),
        ({"batch_size": 3, "drop_last": True}, [[1, 2, 3], [4, 5, 6]]),
        ({"batch_size": None}, [1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_a_pass_of_a_package_over_a_stream(given, batches):
    loader = clnet.utils.data.DataLoader(Stream(), **given)
    assert isinstance(loader.sampler, dataloader._InfiniteConstantSampler)
    assert loader._dataset_kind == dataloader._DatasetKind.Iterable
    assert [x.tolist() for x in Kept(loader)] == batches
    made = clnet.utils.data.DataLoader(Stream(), **given)
    assert [x.tolist() for x in made] == batches


def test_a_context_by_name_is_one():
    data = TensorDataset(clnet.arange(4))
    loader = clnet.utils.data.DataLoader(data, num_workers=1, multiprocessing_context="spawn")
    assert loader.multiprocessing_context.get_start_method() == "spawn"
    with pytest.raises(ValueError, match="context"):
        clnet.utils.data.DataLoader(data, num_workers=1, multiprocessing_context="thread")


def test_workers_of_packages_say_who_they_are(monkeypatch):
    worker = clnet.utils.data._utils.worker
    info = worker.WorkerInfo(id=1, num_workers=2, seed=3, dataset=None)
    assert clnet.utils.data.get_worker_info() is None
    monkeypatch.setattr(worker, "_worker_info", info)
    assert clnet.utils.data.get_worker_info() is info
    assert worker.ManagerWatchdog().is_alive()
    shares, begun = [], []

    class Shared(clnet.utils.data.IterDataPipe):
        def apply_sharding(self, count: int, index: int) -> None:
            shares.append((count, index))

    info = worker.WorkerInfo(id=1, num_workers=2, seed=3, dataset=Shared())
    monkeypatch.setattr(worker, "_worker_info", info)
    dataloader._sharding_worker_init_fn(begun.append, 3, 2, 1)
    assert (shares, begun) == ([(6, 5)], [1])


def test_a_computed_weight_whose_data_was_added_to_keeps_its_history():
    """As adapters of attention merge a second one: ``weight.data += delta``, on the tape."""
    base, delta = clnet.ones(3, 3), nn.Parameter(clnet.ones(3, 3))
    weight = base + delta * 2
    weight.data += delta * 5
    (weight * 1).sum().backward()
    assert delta.grad is not None
    assert delta.grad.tolist() == [[2.0] * 3] * 3
    assert weight.tolist() == [[8.0] * 3] * 3


def kept(x: Any) -> Any:
    """Written down as a call where it is wrapped."""
    return x * 2


class Two(nn.Module):
    """Two layers, a wrapped function, and an argument by name."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, 3), nn.Linear(3, 1)

    def forward(self, x: Any, *, scale: Any = 1.0) -> Any:
        return kept(self.second(self.first(x).relu())) * scale


class Copied(clnet.fx.Tracer):
    """A tracer of a package, which has a copy of PyTorch's ``trace``."""

    @clnet.fx._symbolic_trace.compatibility(is_backward_compatible=True)
    def trace(self, root: Any, concrete_args: Any = None) -> Any:
        st = clnet.fx._symbolic_trace
        self.root, self.graph, cache = root, clnet.fx.Graph(tracer_cls=type(self)), {}
        fn, args = self.create_args_for_root(type(root).forward, True, concrete_args)

        @st.functools.wraps(st._orig_module_getattr)
        def read(mod: Any, name: str) -> Any:
            return self.getattr(name, st._orig_module_getattr(mod, name), cache)

        @st.functools.wraps(st._orig_module_call)
        def called(mod: Any, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return st._orig_module_call(mod, *args, **kwargs)

            st._autowrap_check(patcher, type(mod).forward.__globals__, self._autowrap_function_ids)
            return self.call_module(mod, forward, args, kwargs)

        with st._Patcher() as patcher:
            patcher.patch_method(nn.Module, "__getattr__", read, deduplicate=False)
            patcher.patch_method(nn.Module, "__call__", called, deduplicate=False)
            st._patch_wrapped_functions(patcher)
            for table in (type(root).forward.__globals__, *map(vars, self._autowrap_search)):
                st._autowrap_check(patcher, table, self._autowrap_function_ids)
            self.create_node("output", "output", (self.create_arg(fn(*args)),), {}, type_expr=None)
        return self.graph


@pytest.mark.parametrize("kind", [clnet.fx.Tracer, Copied])
def test_a_tracer_with_a_copy_of_pytorchs_trace(kind):
    model, before = Two(), (nn.Module.__call__, nn.Module.__getattr__, kept)
    graph = kind(autowrap_functions=(kept,)).trace(model)
    assert (nn.Module.__call__, nn.Module.__getattr__, kept) == before
    assert [(n.op, str(n.target)) for n in graph.nodes if n.op != "call_function"] == [
        ("placeholder", "x"),
        ("placeholder", "scale"),
        ("call_module", "first"),
        ("call_method", "relu"),
        ("call_module", "second"),
        ("output", "output"),
    ]
    assert kept in [n.target for n in graph.nodes]
    x = clnet.ones(4, 2)
    made = clnet.fx.GraphModule(model, graph)
    assert made(x, scale=3.0).tolist() == model(x, scale=3.0).tolist()


def test_the_default_generator_is_found_beside_its_functions():
    generator = clnet.random.default_generator
    assert generator is clnet.default_generator
    clnet.manual_seed(3)
    assert generator.initial_seed() == 3


class Described(clnet.Tensor):
    """A tensor of a package, which is made of another and a description."""

    @staticmethod
    def __new__(cls: Any, x: Any, text: str) -> Any:
        made = clnet.as_tensor(x).as_subclass(cls)
        made.text = [text]
        return made


class Quoted(nn.Parameter):
    """A parameter of a package with a scale."""

    def __new__(cls, data: Any, scale: float) -> Any:
        del data, scale
        return object.__new__(cls)

    def __init__(self, data: Any, scale: float) -> None:
        super().__init__(data)
        self.scale = scale


@pytest.mark.parametrize("made", [Described([1.0, 2.0], "a"), Quoted(clnet.ones(2), 3.0)])
@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_of_classes_whose_constructors_take_more(made, again):
    found = again(made)
    assert type(found) is type(made)
    assert found.tolist() == made.tolist()
    assert vars(found) == vars(made)
    assert found.requires_grad is made.requires_grad


class Told(clnet.Tensor):
    """Keeps what it was told by."""

    calls: ClassVar[list[Any]] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls.append(func)
        return super().__torch_function__(func, types, args, kwargs)


def test_the_function_unbind_is_not_the_method():
    """A class that splits a batch by the function where the method was called, else never ends."""
    x = clnet.arange(4.0).reshape(2, 2).as_subclass(Told)
    Told.calls.clear()
    parts = clnet.unbind(x)
    assert clnet.unbind in Told.calls
    assert clnet.Tensor.unbind not in Told.calls
    Told.calls.clear()
    again = x.unbind(dim=0)
    assert clnet.Tensor.unbind in Told.calls
    assert clnet.unbind not in Told.calls
    assert [p.tolist() for p in (*parts, *again)] == [[0, 1], [2, 3]] * 2
    assert all(isinstance(p, Told) for p in (*parts, *again))
