"""Which way a step is divided: exchanges, schedules and overlaps against sums by hand."""

from __future__ import annotations

import pytest

import clnet
from clnet import nn, optim
from clnet.device import traits_for
from clnet.errors import ArgumentError
from clnet.models import GPT
from clnet.planning.exchange_cost import Link
from clnet.planning.parallel_plan import _balanced, _schedule, best_of, reason, ways
from clnet.planning.step_cost import Launching, Layer, Line, StepCost, Task, figured, measured

MIB = 2**20
NAN = float("nan")


def test_all_reduces_cost_what_thakur_and_others_say():
    a, n = 10e-6, 8e6
    sent, summed = n / 2e9, n / 4e9
    link = Link(2.0, 10.0, 4.0)
    found = link.all_reduces(8, n)
    assert found == pytest.approx(
        {
            "ring": 14 * a + 14 / 8 * sent + 7 / 8 * summed,
            "tree": 6 * (a + sent) + 3 * summed,
            "recursive doubling": 3 * (a + sent + summed),
            "recursive halving": 6 * a + 14 / 8 * sent + 7 / 8 * summed,
        }
    )
    assert link.all_gather(8, n) == pytest.approx(3 * a + 7 / 8 * sent)
    assert link.reduce_scatter(8, n) == pytest.approx(3 * a + 7 / 8 * (sent + summed))
    assert link.send(n) == pytest.approx(a + sent)
    assert link.broadcast(5, n) == pytest.approx(3 * (a + sent))
    assert link.broadcast(5, 0) == 0
    # Three are two, and one that gives its bytes first and gets the sum afterwards.
    assert link.all_reduces(3, n)["recursive doubling"] == pytest.approx(
        (a + sent + summed) + 2 * (a + sent) + summed
    )
    assert link.all_gather(3, n) == pytest.approx(2 * a + 2 / 3 * sent)


def test_short_messages_double_and_long_ones_go_by_parts():
    link = Link(10.0, 20.0)
    assert link.fastest(64, 1000) == "recursive doubling"
    assert link.fastest(64, 100 * MIB) == "recursive halving"
    assert link.fastest(65, 100 * MIB) == "ring"
    for exchange in (link.all_reduce, link.all_gather, link.reduce_scatter):
        assert exchange(1, 100) == 0


@pytest.mark.parametrize(
    "values", [(0, 1), (1, -1), (1, 0, -1), (NAN, 0), (1, NAN), (1, float("inf")), (1, 0, NAN)]
)
def test_a_link_has_a_rate(values):
    with pytest.raises(ArgumentError, match="Link: a link has a rate"):
        Link(*values)


def cost(*layers: Layer, update: float = 0.0, rest: float = 0.0) -> StepCost:
    parameters = sum(x.parameter_bytes for x in layers)
    return StepCost(
        list(layers),
        Line(rest),
        update,
        Line(3 * parameters, 1e6),
        parameters,
        parameters,
        0,
        "given",
    )


def conv(name: str, block: int, mib: int = 1, **sizes: int) -> Layer:
    sizes = {"outputs": 8, "inputs": 8, **sizes}
    times = {"forward": Line(0.0, 1e-3), "backward": Line(0.0, 2e-3)}
    out = {"output_bytes": 4096, "input_bytes": 4096}
    return Layer(name, block, "conv", parameter_bytes=mib * MIB, **sizes, **out, **times)


def test_gradients_go_while_backward_goes_on():
    of = cost(conv("a", 0, 100), conv("b", 1, 30), conv("c", 2, 2), update=5e-3)
    link = Link(MIB * 1e-6)  # a MiB takes a millisecond; two workers send all once
    data = ways(of, 2, 8, link)[0]
    # Four examples each: 4 ms a layer forward, 8 backward; putting all gradients in a row takes 4
    # where the update, which reads and writes five times and not four, takes 5. c's gradient (2
    # MiB) goes from 20 on, b's (30) from 28 on, a's when that is through.
    handled = 4e-3 * 32 / 132
    assert (data.name, data.seconds) == ("data", pytest.approx(28e-3 + handled + 130e-3 + 5e-3))
    assert data.waiting == pytest.approx(data.seconds - 5e-3 - 36e-3 - 4e-3)
    alone = ways(of, 2, 8, link, overlap=False)[0]
    assert alone.seconds == pytest.approx((12 + 24 + 132 + 5 + 4) * 1e-3)
    assert alone.waiting == pytest.approx(132e-3)


def test_sums_beside_computing_are_slower_until_that_ends():
    of = cost(conv("a", 0, 10), conv("b", 1, 40))
    link, busy = Link(MIB * 1e-6), Link(MIB * 0.5e-6)  # a MiB takes a millisecond, and two
    # Computing ends 12 + 12 ms forward and back; b's 40 MiB go from 16 on. In the 8 ms beside a's
    # gradients they send a tenth, the rest at the rate of the idle link; then a's.
    data = ways(of, 2, 8, link, busy=busy)[0]
    assert data.seconds == pytest.approx((24 + 0.9 * 40 + 10) * 1e-3)
    same = ways(of, 2, 8, link, busy=link)[0]
    assert same.seconds == ways(of, 2, 8, link)[0].seconds == pytest.approx((16 + 50) * 1e-3)


def test_a_stage_takes_what_its_host_takes_for_each_part():
    of = cost(conv("a", 0), conv("b", 1))
    fast = Link(1e15)
    # Parts of 4 examples: 4 ms forward and 8 back on each of two stages; of the host 5 and 10.
    assert ways(of, 2, 8, fast, parts=2)[-1].seconds == pytest.approx(36e-3)
    of.launching = Launching(10e-3, 20e-3)
    assert ways(of, 2, 8, fast, parts=2)[-1].seconds == pytest.approx(45e-3)
    assert "2 parts" in ways(of, 2, 8, fast)[-1].note  # more take the host longer


def test_rows_behind_columns_exchange_nothing_between():
    link = Link(1.0)
    a, relu, b = conv("m.0", 0), Layer("m.1", 1), conv("m.2", 2)
    relu.forward = Line(0.0, 1e-3)
    found = {w.name: w for w in ways(cost(a, relu, b), 2, 8, link)}
    tensor = 8 * 4096
    assert found["row-column"].seconds == pytest.approx((24 + 24 + 8) / 2 * 1e-3 + tensor / 1e9)
    # All outputs are gathered (half each way), and the second's input gradient is summed.
    assert found["filter"].waiting == pytest.approx((2 * tensor / 2 + tensor) / 1e9)
    assert found["filter"].seconds > found["row-column"].seconds
    assert found["channel"].waiting == pytest.approx((2 * tensor + tensor / 2) / 1e9)
    assert found["hybrid"].problem == "no dense layers behind convolutions"
    odd = {w.name: w for w in ways(cost(conv("m.0", 0, outputs=7, inputs=7)), 2, 8, link)}
    assert odd["filter"].problem == odd["row-column"].problem == "no layer divides by so many"
    assert odd["pipeline"].problem == "1 parts one behind the other are fewer than devices"
    assert ways(cost(a, b), 16, 8, link)[0].problem == "fewer examples than devices"


def test_stages_are_balanced_and_scheduled():
    assert _balanced([1, 1, 1, 3, 3], 3) == [3, 4, 5]
    assert _balanced([5, 1, 1, 1], 2) == [1, 4]
    # Equal stages: so many parts, and the stages before and behind them.
    for stages, parts in ((2, 4), (4, 8), (3, 2)):
        took = _schedule([1.0] * stages, [2.0] * stages, [0.0] * (stages - 1), parts)
        assert took == pytest.approx(3 * (parts + stages - 1))
    assert _schedule([1.0], [2.0], [], 5) == 15
    # Two stages, one part: there and back, two sends.
    assert _schedule([1.0, 1.0], [2.0, 2.0], [0.5], 1) == pytest.approx(1 + 0.5 + 1 + 2 + 0.5 + 2)


def test_the_fastest_that_fits_is_taken():
    dense = Layer("fc", 1, "dense", 8, 8, 400 * MIB, 4096, 4096, Line(0.0, 1e-4), Line(0.0, 2e-4))
    trunk = conv("a", 0)
    trunk.output_bytes = 1e8
    of = cost(trunk, dense)
    found = ways(of, 2, 8, Link(1.0))
    best = best_of(found, 1e12)
    assert best is not None
    assert best.name == "hybrid"  # 400 MiB of gradients against 32 KiB of activations
    assert reason(found, best, 1e12).startswith(f"hybrid: {best.seconds * 1e3:,.2f} ms")
    assert best_of(found, 1) is None
    (alone,) = ways(of, 1, 8, Link(1.0))
    assert alone.seconds == pytest.approx(of.seconds(8))
    assert best_of([alone], 1e12) is alone
    assert reason([alone], alone, 1e12).endswith("no other way can be")
    with pytest.raises(ArgumentError, match="a device and an example"):
        ways(of, 0, 8, Link(1.0))


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 10)
    )


def momentum(parameters):
    return optim.SGD(parameters, lr=0.1, momentum=0.9)


def test_costs_are_of_the_layers(device):
    def of(gflops):
        given = {"gflops": gflops, "gbytes": 1e9, "launch_us": 0.0}
        return figured(network, Task((8, 3, 8, 8)), traits_for(device), momentum, **given)

    found = of(1.0)
    assert [(x.path, x.kind, x.block) for x in found.layers] == [
        ("0", "conv", 0),
        ("1", "", 1),
        ("2", "", 2),
        ("3", "dense", 3),
    ]
    first, last = found.layers[0], found.layers[3]
    assert (first.outputs, first.inputs, first.output_bytes) == (8, 3, 4 * 8 * 64)
    assert last.parameter_bytes == 4 * (8 * 64 * 10 + 10)
    assert found.parameter_bytes == found.state_bytes == last.parameter_bytes + 4 * 8 * 28
    # A product of 512 inputs and 10 outputs: 2 operations each, at 10^9 a second.
    assert last.forward.at(8) == pytest.approx(8 * 2 * 512 * 10 * 1e-9, rel=0.1)
    assert of(2.0).seconds(8) == pytest.approx(found.seconds(8) / 2, rel=0.05)
    with pytest.raises(ArgumentError, match="a batch has examples"):
        figured(network, Task((0, 3, 8, 8)), traits_for(device), momentum, gflops=1, gbytes=1)


def test_parameters_outside_layers_are_averaged_last():
    of = cost(conv("a", 0, 100), conv("b", 1, 30))
    of.parameter_bytes += 20 * MIB
    link = Link(MIB * 1e-6)  # a MiB takes a millisecond
    assert ways(of, 2, 8, link, overlap=False)[0].waiting == pytest.approx(150e-3)


def test_every_kernel_and_parameter_is_counted_once(device):
    class Tied(nn.Module):
        """Its layers have one weight, and it has numbers of its own."""

        def __init__(self) -> None:
            super().__init__()
            self.shift = nn.Parameter(clnet.zeros(8))
            self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
            self.second.weight = self.first.weight

        def forward(self, x: clnet.Tensor) -> clnet.Tensor:
            return self.second(self.first(x + self.shift))

    figures = {"gflops": 1.0, "gbytes": 1.0, "launch_us": 1.0}
    tied = figured(Tied, Task((4, 8)), traits_for(device), momentum, **figures)
    assert [x.parameter_bytes for x in tied.layers] == [4 * 72, 4 * 8]
    assert tied.parameter_bytes == 4 * (72 + 8 + 8)

    def costs(make):
        return figured(make, Task((4, 8)), traits_for(device), momentum, **figures)

    # A model that is a layer itself takes no longer than one in a row.
    alone = costs(lambda: nn.Linear(8, 4))
    assert alone.seconds(4) == pytest.approx(
        costs(lambda: nn.Sequential(nn.Linear(8, 4))).seconds(4)
    )
    with pytest.raises(ArgumentError, match="a launch takes 0 us or more"):
        figured(
            network,
            Task((1, 3, 8, 8)),
            traits_for(device),
            momentum,
            gflops=1,
            gbytes=1,
            launch_us=NAN,
        )


def test_frozen_parameters_have_neither_gradients_nor_state(device):
    def half() -> nn.Module:
        made = network()
        for parameter in made[0].parameters():
            parameter.requires_grad_(False)
        return made

    found = figured(half, Task((8, 3, 8, 8)), traits_for(device), momentum, gflops=1.0, gbytes=1.0)
    first, last = found.layers[0], found.layers[3]
    assert (first.frozen_bytes, first.trained_bytes) == (4 * 8 * 28, 0)
    assert (found.frozen_bytes, found.trained_bytes) == (4 * 8 * 28, last.parameter_bytes)
    assert found.state_bytes == last.parameter_bytes
    data, *_, pipeline = ways(found, 2, 8, Link(1.0))
    assert data.moved_bytes == last.parameter_bytes  # of two, each sends its gradients once
    assert found.held(0, found.trained_bytes) == 2 * last.parameter_bytes
    stages = found.layers[:3], found.layers[3:]
    assert "2 parts" in ways(found, 2, 2, Link(1.0))[-1].note
    assert pipeline.memory_bytes >= 3 * sum(x.parameter_bytes for x in stages[1])
    for layer in found.layers:
        layer.frozen_bytes = layer.parameter_bytes
    found.frozen_bytes, found.state_bytes = found.parameter_bytes, 0
    assert ways(found, 2, 8, Link(1.0))[0].moved_bytes == 0
    assert all(way.seconds > 0 for way in ways(found, 2, 8, Link(1.0)) if not way.problem)


def test_measured_costs_are_those_of_the_step(device):
    found = measured(network, Task((8, 3, 8, 8)), device, momentum)
    assert found.source == f"kernels measured on {device.name}"
    assert sum(x.forward.at(8) + x.backward.at(8) for x in found.layers) > 0
    assert found.update > 0
    assert min(found.launching) > 0
    assert clnet.device() is device


def test_a_model_that_gives_no_tensor_is_refused(device):
    class Two(nn.Module):
        def forward(self, x):
            return x, x

    with pytest.raises(ArgumentError, match="gives a tensor"):
        figured(
            Two,
            Task((2, 3)),
            traits_for(device),
            lambda _: optim.SGD([clnet.ones(1)]),
            gflops=1,
            gbytes=1,
        )


def test_a_model_of_words_is_divided_within_its_blocks_and_into_stages(device):
    """Each word has a class; what a block's dense layers exchange is summed once."""

    def loss(scores, words):
        return clnet.nn.functional.cross_entropy(scores.flatten(0, 1), words.flatten())

    def make():
        return GPT(vocab_size=16, block_size=8, n_layer=4, n_head=2, n_embd=8)

    task = Task((4, 8), clnet.int64, loss, each_place=True)
    found = figured(make, task, traits_for(device), momentum, gflops=1.0, gbytes=1.0)
    of = {way.name: way for way in ways(found, 4, 16, Link(1.0, 20.0), overlap=True)}
    assert not of["row-column"].problem
    assert not of["pipeline"].problem
    assert of["filter"].problem == ""
    alone = ways(found, 1, 16, Link(1.0, 20.0), overlap=True)[0].seconds
    assert of["row-column"].seconds - of["row-column"].waiting < alone
    # Items of a list have their own times, though nobody calls the list.
    blocks = [sum(x.forward.at(4) for x in found.layers if x.block == i) for i in range(3, 7)]
    assert min(blocks) == pytest.approx(max(blocks))
    assert sum(blocks) > 0.8 * (found.seconds(4) - found.update) / 3
    assert "slowest stage 1." in of["pipeline"].note


@pytest.mark.parametrize("workers", [2, 3])
def test_a_link_of_measured_sums_has_both_figures(workers):
    link = Link(30.0, 100.0)
    points = [(n, link.all_reduce(workers, n)) for n in (4 << 20, 64 << 20)]
    found = Link.of_sums(workers, *points)
    assert (found.gbytes, found.latency_us) == pytest.approx((30.0, 100.0))
