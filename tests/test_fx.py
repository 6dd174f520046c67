"""``clnet.fx`` beside PyTorch's: functions taken apart, changed, and run again."""

from __future__ import annotations

import copy
import operator
import pickle
import time
from threading import Thread
from typing import Any

import numpy as np
import pytest

import clnet
from clnet.compat import fx
from clnet.errors import ArgumentError
from tests.answers import torch


def network(lib: Any) -> Any:
    nn = lib.nn

    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(lib.ones(4) * 2)

        def forward(self, x: Any) -> Any:
            return x * self.weight

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(3, 4)
            self.inner = Inner()
            self.rest = nn.Sequential(nn.ReLU(), nn.Linear(4, 2))
            self.register_buffer("shift", lib.ones(2))
            with lib.no_grad():
                for k, p in enumerate(self.parameters()):
                    p.copy_(lib.arange(p.numel()).reshape(p.shape).sin() + k)

        def forward(self, x: Any, scale: float = 2.0) -> Any:
            y = self.inner(self.first(x)) + 1
            y = lib.cat([y, -y], 0)
            a, b = y.chunk(2)
            y = nn.functional.relu(a) - b.sigmoid().mean(dim=-1, keepdim=True)
            y = self.rest(y)[:, :2]
            return {"out": y * scale + self.shift, "rows": (y.shape[0], 1 - y)}

    return Network()


def traced(lib: Any) -> tuple[Any, Any, Any]:
    trace = fx.symbolic_trace if lib is clnet else torch.fx.symbolic_trace
    net = network(lib)
    return net, trace(net), lib.arange(6.0).reshape(2, 3)


def test_nodes_are_those_of_pytorch():
    def named(graph: Any) -> list[Any]:
        def of(node: Any) -> Any:
            target = node.target if isinstance(node.target, str) else node.target.__name__
            return node.op, node.name, target, [str(n) for n in node.all_input_nodes]

        return [of(node) for node in graph.nodes]

    assert named(traced(clnet)[1].graph) == named(traced(torch)[1].graph)


@pytest.mark.parametrize("how", ["module", "copied", "interpreted", "transformed"])
def test_a_graph_computes_what_the_network_does(how):
    net, graph, x = traced(clnet)
    _, _, tx = traced(torch)
    run = {
        "module": graph,
        "copied": copy.deepcopy(graph),
        "interpreted": fx.Interpreter(graph).run,
        "transformed": fx.Transformer(graph).transform(),
    }[how]
    found, expected = run(x), network(torch)(tx)
    np.testing.assert_allclose(found["out"].tolist(), expected["out"].tolist(), rtol=1e-5)
    assert found["rows"][0] == 2
    np.testing.assert_array_equal(found["rows"][1].tolist(), net(x)["rows"][1].tolist())


def test_gradients_come_to_the_same_parameters():
    net, graph, x = traced(clnet)
    graph(x)["out"].sum().backward()
    found = [p.grad.numpy() for p in net.parameters()]
    assert {k for k, _ in graph.named_parameters()} == {k for k, _ in net.named_parameters()}
    net.zero_grad()
    net(x)["out"].sum().backward()
    for got, p in zip(found, net.parameters(), strict=True):
        np.testing.assert_array_equal(got, p.grad.numpy())


def test_nodes_are_exchanged_and_erased():
    graph = fx.symbolic_trace(lambda x: (x + 1) * 3)
    (add,) = graph.graph.find_nodes(op="call_function", target=operator.add)
    with graph.graph.inserting_after(add):
        made = graph.graph.call_function(operator.sub, add.args)
    with pytest.raises(ArgumentError, match="is not read"):
        graph.graph.erase_node(add)
    assert len(add.replace_all_uses_with(made)) == 1
    graph.graph.erase_node(add)
    graph.graph.lint()
    graph.recompile()
    assert graph(clnet.ones(2) * 3).tolist() == [6, 6]
    assert "x - 1" in graph.code


def test_dead_nodes_go_and_writes_in_place_stay():
    def f(x: Any) -> Any:
        y = x + 1
        y.add_(1)
        _ = x * 3
        return x

    graph = fx.symbolic_trace(f).graph
    assert graph.eliminate_dead_code()
    assert [n.name for n in graph.nodes] == ["x", "add", "add_", "output"]
    graph.output_node().prepend(next(iter(graph.nodes)))
    with pytest.raises(ArgumentError, match="before their readers"):
        graph.lint()


def test_a_part_is_replaced_wherever_it_occurs():
    def f(x: Any, w: Any) -> Any:
        return clnet.relu(x + w) + clnet.relu(clnet.relu(w + x) + x)

    graph = fx.symbolic_trace(f)
    found = fx.replace_pattern(
        graph, lambda a, b: clnet.relu(a + b), lambda a, b: clnet.sigmoid(a - b)
    )
    assert len(found) == 3
    x, w = clnet.arange(3.0), clnet.ones(3)
    expected = (x - w).sigmoid() + ((w - x).sigmoid() - x).sigmoid()
    np.testing.assert_array_equal(graph(x, w).numpy(), expected.numpy())
    assert not fx.replace_pattern(graph, lambda a: clnet.tanh(a), lambda a: a)


def test_what_depends_on_values_is_refused():
    def branches(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    def loops(x: Any) -> Any:
        return [row + 1 for row in x]

    for function in (branches, loops):
        with pytest.raises(fx.TraceError, match=r"concrete_args|wrap"):
            fx.symbolic_trace(function)
    assert not isinstance(clnet.nn.Module.__call__, type(None))
    assert clnet.nn.ReLU()(clnet.ones(1)).tolist() == [1]


def doubled(x: Any) -> Any:
    return x * 2 if x.sum() > 0 else x


fx.wrap("doubled")


def test_a_wrapped_function_is_one_node():
    graph = fx.symbolic_trace(lambda x: doubled(x) + 1)
    assert next(n.target for n in graph.graph.nodes if n.op == "call_function") is doubled
    assert graph(clnet.ones(1)).tolist() == [3]
    assert doubled(clnet.ones(1)).tolist() == [2]


def test_a_graph_is_written_by_hand():
    graph = fx.Graph()
    x = fx.Proxy(graph.placeholder("x"))
    y = clnet.einsum("ij->i", x.relu()) + clnet.nn.functional.softmax(x, dim=1)[:, 0]
    graph.output(y.node)
    module = fx.GraphModule({}, graph)
    assert module(clnet.ones(2, 2)).tolist() == [2.5, 2.5]
    with pytest.raises(ArgumentError, match="known kind"):
        graph.create_node("call", "x")
    with pytest.raises(ArgumentError, match="each argument is given"):
        fx.Interpreter(module).run()


def test_known_arguments_are_values():
    def f(x: Any, double: bool) -> Any:
        return x * 2 if double else x

    graph = fx.symbolic_trace(f, {"double": True})
    assert graph(clnet.ones(1), True).tolist() == [2]


def test_shapes_are_noted_and_operands_come_one_by_one():
    _, graph, x = traced(clnet)
    fx.graph_module.ShapeProp(graph).propagate(x)
    shapes = {n.name: n.meta["tensor_meta"] for n in graph.graph.nodes if "tensor_meta" in n.meta}
    assert shapes["cat"].shape == (4, 4)
    assert [m.shape for m in shapes["chunk"]] == [(2, 4), (2, 4)]
    joined = fx.symbolic_trace(lambda a, b: clnet.einsum("ij,ij->i", [a, b]))
    (call,) = joined.graph.find_nodes(op="call_function")
    assert [str(v) for v in call.args] == ["ij,ij->i", "a", "b"]
    assert joined(x, x).tolist() == [5, 50]


def test_a_module_of_a_graph_can_be_pickled():
    net = clnet.nn.Sequential(clnet.nn.Linear(3, 4), clnet.nn.ReLU()).eval()
    traced = clnet.fx.symbolic_trace(net)
    again = pickle.loads(pickle.dumps(traced))
    x = clnet.ones(2, 3)
    assert again(x).tolist() == net(x).tolist()
    assert (again.code, again.training) == (traced.code, False)
    assert isinstance(x.max(1), clnet.return_types.max)


def test_negative_numbers_in_code_are_operands():
    x = clnet.tensor([2.0, 3.0])
    traced = clnet.fx.symbolic_trace(lambda x: (-2.0) ** x)
    assert "(-2.0) ** x" in traced.code
    assert traced(x).tolist() == [4, -8]


def test_threads_take_modules_apart_while_another_computes():
    """What is patched meanwhile is of one thread alone, and as before in the end."""

    class Slow(clnet.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = clnet.nn.Linear(2, 2)

        def forward(self, x):
            time.sleep(2e-3)  # the others come meanwhile
            return self.layer(x)

    call, found, left = clnet.nn.Module.__call__, [], []
    plain, x = clnet.nn.Linear(2, 2), clnet.ones(1, 2)

    def take_apart():
        found.extend([n.op for n in fx.symbolic_trace(Slow()).graph.nodes] for _ in range(5))

    threads = [Thread(target=take_apart) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        left.append(type(plain(x)))
    for thread in threads:
        thread.join()
    assert found == [["placeholder", "call_module", "output"]] * 15
    assert set(left) == {clnet.Tensor}
    assert clnet.nn.Module.__call__ is call


def test_a_graphs_class_is_known_by_its_name_and_may_get_another_forward():
    x, traced = clnet.ones(2, 3), [fx.symbolic_trace(clnet.nn.Linear(3, 3)) for _ in range(2)]
    first, second = (g(x).tolist() for g in traced)
    assert "GraphModuleImpl" in str(type(traced[0]))  # packages know it by this
    assert type(traced[0]).__name__ == "Linear"
    type(traced[0]).forward = lambda self, x: x
    assert traced[0](x).tolist() == x.tolist()
    assert traced[1](x).tolist() == second
    traced[0].recompile()
    assert traced[0](x).tolist() == first
