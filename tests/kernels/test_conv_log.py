"""``CLNET_LOG=conv``."""

from __future__ import annotations

from dataclasses import replace

import pytest

import clnet
from clnet import nn
from clnet.values.settings import SETTINGS

pytestmark = pytest.mark.device


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_each_convolution_is_told_once(compiled, monkeypatch, capsys):
    place = "clnet.kernels.conv.conv_log"
    monkeypatch.setattr(f"{place}._told", set())
    layer = nn.Conv2d(16, 32, 3, padding=1)

    def gradient(x):
        y = layer(x)
        return y.detach(), *clnet.autograd.grad(y.square().sum(), [x, layer.weight])

    run = clnet.compile(gradient) if compiled else gradient
    x = clnet.randn(2, 16, 8, 8, requires_grad=True)
    gradient(clnet.randn(1, 16, 8, 8, requires_grad=True))
    assert capsys.readouterr().err == ""  # nobody asked
    monkeypatch.setattr(f"{place}.SETTINGS", replace(SETTINGS, log=("conv",)))
    run(x)
    run(x)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(set(lines)) == 3, lines
    for direction in ("forward", "input_grad", "weight_grad"):
        (line,) = (each for each in lines if each.startswith(f"conv {direction} float32: "))
        assert "x (2, 16, 8, 8), weight (32, 16, 3, 3), y (8, 8), stride (1, 1)" in line
        assert line.rpartition("groups 1: ")[2]
