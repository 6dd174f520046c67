"""First weights as the papers of the networks chose them; the layers' own default otherwise."""

from __future__ import annotations

from contextlib import AbstractContextManager

from .. import nn
from ..nn import init
from ..values import mode


def drawn_later(*, all_of_them: bool = True) -> AbstractContextManager[object]:
    """Layers made in the body draw no weights: :func:`he_normal` will.

    Random streams go on as if they had, so that a seed gives the same weights either way.

    Args:
        all_of_them: whether that is certain; if not, they draw.
    """
    return mode.using(undrawn=all_of_them)


def he_normal(model: nn.Module, *, linear_std: float | None = None) -> None:
    """Draw convolutions so that ReLUs keep the gradient's variance (He et al. 2015).

    Their biases become 0.

    Args:
        model: whose layers are drawn anew, in the order of ``modules()``.
        linear_std: the deviation of dense layers, whose biases then become 0; None leaves them.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, nn.Linear) and linear_std is not None:
            init.normal_(module.weight, 0.0, linear_std)
        else:
            continue
        zero(module.bias)


def zero(parameter: nn.Parameter | None) -> None:
    """Fill a parameter with 0, if the layer has it."""
    if parameter is not None:
        init.zeros_(parameter)
