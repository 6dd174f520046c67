"""The script that exports networks, and reads them again."""

from __future__ import annotations

import pytest

from clnet.bench import zoo_networks

pytest.importorskip("onnx", reason="the package onnx is not installed: pip install 'clnet[onnx]'")
roundtrip = pytest.importorskip("ci.onnx_roundtrip", reason="the tests run outside a checkout")


def test_a_network_comes_back_with_its_outputs_and_gradients():
    cases = roundtrip.cases()
    assert cases.keys() > {*zoo_networks.NAMES, "resnet20", "vit_b_16"}
    make, draw = cases["LeNet"]
    found = roundtrip.trip(make, draw(), forward=False, double=True)  # without onnxruntime
    assert len(found) == 2  # outputs and gradients
    assert max(found) < 1e-10
