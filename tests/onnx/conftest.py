"""What tests of several files load."""

from __future__ import annotations

import pytest


@pytest.fixture
def perceptron():
    """A model of two nodes, and its weights by name."""
    return pytest.importorskip("tests.onnx.graphs").perceptron()
