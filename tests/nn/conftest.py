"""What holds for the comparisons of modules with PyTorch's."""

from __future__ import annotations

import sys
from inspect import signature

import pytest


@pytest.fixture(autouse=True)
def norms_of_the_oracle(request):
    """PyTorch's norms print ``bias=`` in the oracle, 2.13; older ones cannot be compared."""
    torch = sys.modules.get("torch")
    about_norms = any(word in request.node.name for word in ("Norm", "a network"))
    if torch and about_norms and "bias" not in signature(torch.nn.BatchNorm1d).parameters:
        pytest.skip(f"the oracle is PyTorch 2.13, not {torch.__version__}: its norms have bias=")
