"""What ``inference_mode`` made, outside of it."""

from __future__ import annotations

import pytest

import clnet
from clnet import nn
from clnet.errors import GradientError


def test_what_inference_mode_made_is_not_saved():
    w = clnet.ones(2, 2).requires_grad_()
    with clnet.inference_mode():
        x = clnet.ones(2, 2)
        row = (x * 2)[0]
    for call in (
        lambda: w * x,
        lambda: w @ x,
        lambda: w * row,
        lambda: nn.functional.mse_loss(w, x),
    ):
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            call()
    with (
        clnet.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
        pytest.raises(GradientError, match="Inference tensors cannot be saved"),
    ):
        w * x
    ((w + x) * x.clone() + row).sum().backward()  # a sum saves nothing, a copy is another's
    assert w.grad is not None
    assert w.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    with clnet.no_grad():
        assert (w * x).sum().item() == 4.0
    with clnet.inference_mode(), clnet.enable_grad():
        assert (w * x).requires_grad
    part = clnet.ones(3, 2)
    with clnet.inference_mode():
        seen = part[0]
    assert (w * seen).requires_grad


def test_what_inference_mode_made_is_not_overwritten_outside():
    with clnet.inference_mode():
        x = clnet.ones(2, 2)
        x.add_(1)
        layer = nn.Linear(2, 2)
    law = "Inplace update to inference tensor outside InferenceMode is not allowed"
    ones = clnet.ones(2, 2)
    for call in (
        lambda: x.add_(1),
        lambda: x.view(4).mul_(2),
        lambda: x.copy_(ones),
        lambda: x.__setitem__(0, 3.0),
        lambda: clnet.add(ones, ones, out=x),
        x.zero_,
    ):
        for _ in range(2):  # the second one is kept
            with clnet.no_grad(), pytest.raises(GradientError, match=law):
                call()
    assert x.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    with pytest.raises(GradientError, match="Setting requires_grad=True on inference tensor"):
        x.requires_grad_()
    with pytest.raises(GradientError, match="Setting requires_grad=True on inference tensor"):
        nn.Parameter(x)
    assert not x.requires_grad_(False).requires_grad
    for p in layer.parameters():
        p.grad = clnet.ones_like(p)
    with pytest.raises(GradientError, match=law):
        clnet.optim.SGD(layer.parameters(), 0.1).step()
    with clnet.inference_mode():
        assert x.mul_(2).sum().item() == 16.0
    once = clnet.ones(2)
    with clnet.inference_mode():
        once[0] = 3.0
    once.add_(1)
    assert once.tolist() == [4.0, 2.0]
