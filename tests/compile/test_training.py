"""Networks in training: the losses of a compiled step are eager's."""

from __future__ import annotations

import pytest

import clnet
from clnet.bench.step import CASES, agreement, losses
from clnet.compile.epilogue import epilogue
from clnet.compile.fold import fold
from clnet.compile.fuse import fuse
from clnet.compile.simplify import simplify, with_constants
from clnet.compile.update import merge_updates

pytestmark = pytest.mark.device


@pytest.mark.parametrize("name", ["cnn", "lstm", "gpt"])
def test_losses_are_those_of_eager(name):
    eager, compiled = losses(CASES[name], clnet.device(), 6, 4)
    assert len(set(eager)) == 6
    assert agreement(CASES[name], eager, compiled) < 1e-4
    if CASES[name].exact:
        assert eager == compiled


def test_convolutions_in_eagers_layout_keep_every_bit():
    passes = (simplify, fold, epilogue, fuse, merge_updates, with_constants)
    eager, compiled = losses(CASES["resnet20"], clnet.device(), 3, 2, passes)
    assert len(set(eager)) == 3
    assert eager == compiled


@pytest.mark.slow
@pytest.mark.perf
@pytest.mark.parametrize("name", ["cnn", "lstm", "gpt", "resnet20"])
def test_losses_of_200_steps_are_those_of_eager(name):
    eager, compiled = losses(CASES[name], clnet.device(), 200, 8)
    agreement(CASES[name], eager, compiled)
    assert sum(eager[-20:]) < sum(eager[:20])
