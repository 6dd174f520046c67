"""DTensors are computed with as PyTorch's are: values, gradients and errors."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.ranks.both import clnets, near, pytorchs
from tests.ranks.launch import passed

pytestmark = pytest.mark.device

PROGRAM = "placed_program.py"


def differing(found: dict[str, Any]) -> list[str]:
    """Cases whose shape, values or gradients are not those of whole tensors."""
    return [name for name, (_, own, wanted) in found.items() if not near(own, wanted)]


# Where two operands lie otherwise PyTorch takes what it thinks to exchange fewest bytes. Maxima of
# parts, and means, are parts of such there.
OTHERWISE = re.compile(r"(amax|flatten|mean1?|linear|matmul|add|div|bmm3) .*S\d|mean1? P")


@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_what_is_computed_is_what_whole_tensors_give(ranks):
    found = clnets(PROGRAM, ranks)
    assert len(found) == 150
    assert differing(found) == []
    found["exp S0"][1][2][5] += 1e-3
    assert differing(found) == ["exp S0"]


@pytest.mark.slow
def test_it_lies_and_is_what_pytorch_computes():
    wanted, found = pytorchs(PROGRAM, 2), clnets(PROGRAM, 2)
    assert found.keys() == wanted.keys()
    assert [name for name in wanted if not near(found[name][1], wanted[name][1])] == []
    other = [name for name in wanted if found[name][0] != wanted[name][0]]
    assert [name for name in other if not OTHERWISE.match(name)] == []
    assert len(other) < len(wanted) / 8


def test_errors_name_what_is_wrong_and_layers_take_and_give_dtensors():
    assert passed(2, "placed_refused") == ["rank 0 is done", "rank 1 is done"]
