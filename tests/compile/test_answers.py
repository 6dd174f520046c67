"""Values that a trace knows though nobody computed them: draws beside numbers out of reach."""

from __future__ import annotations

import pytest

import clnet
from clnet import nn
from clnet.errors import TraceError


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda p: p < 0.0, False),
        (lambda p: p < 0, False),
        (lambda p: p < 1.5, True),
        (lambda p: p >= 0.0, True),
        (lambda p: p > -1, True),
        (lambda p: p <= 2, True),
        (lambda p: p <= -0.1, False),
        (lambda p: p > 1.5, False),
        (lambda p: 0.0 > p, False),  # noqa: SIM300 - the other way round
        (lambda p: -0.5 <= p, True),  # noqa: SIM300
    ],
)
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_draw_beside_a_number_out_of_its_reach(ask, answer, shape):
    def step(x):
        return x + 1 if ask(clnet.rand(shape)) else x * 3

    compiled, x = clnet.compile(step), clnet.tensor([2.0, 4.0])
    for _ in range(3):
        assert compiled(x).tolist() == ([3, 5] if answer else [6, 12]) == step(x).tolist()


def test_a_draw_between_other_bounds():
    def step(x):
        p = clnet.empty(()).uniform_(2, 3)
        return x + 1 if p > 1 and not p < 2 else x

    assert clnet.compile(step)(clnet.tensor([2.0])).tolist() == [3]


@pytest.mark.parametrize(
    "drawn",
    [
        lambda: clnet.rand([]) < 0.5,  # either
        lambda: clnet.rand([]).mul_(-1) < 0.0,  # written since
        lambda: clnet.rand([]) - 0.5 < 0.0,
        lambda: clnet.randn([]) < 0.0,
        lambda: clnet.rand(2)[1].neg_() < 0.0,
        lambda: clnet.rand(2)[1] < 0.0,  # one of several: nobody looks there
    ],
)
def test_what_hangs_on_the_draw_is_refused(drawn):
    with pytest.raises(TraceError, match="read on the host"):
        clnet.compile(lambda x: x if drawn() else x * 2)(clnet.ones(2))


def test_layers_that_are_left_out_with_a_probability_of_0():
    """Both runs draw as much: generators stand where they do without compiling."""

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
            self.layerdrop = 0.0

        def forward(self, x):
            for layer in self.layers:
                if self.training and clnet.rand([]) < self.layerdrop:
                    continue
                x = nn.functional.dropout(layer(x), 0.5)
            return x

    model, x = Encoder(), clnet.randn(2, 4)
    found = []
    for run in (model, clnet.compile(model)):
        clnet.manual_seed(3)
        found.append([run(x).tolist() for _ in range(3)])
    assert found[1] == [[pytest.approx(row) for row in y] for y in found[0]]
