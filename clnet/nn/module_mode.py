"""Training or evaluation for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .module import Module

__all__ = ["in_mode"]


@contextmanager
def in_mode(model: Module, *, training: bool) -> Iterator[None]:
    """Have a module and all below it in training, or in evaluation, while the body runs.

    Afterwards each is in the mode it was in, also one that was in another than the modules around
    it, such as a norm that is kept from learning. Both ways go by ``train``, which modules
    override.

    Args:
        model: the module.
        training: in training; False: in evaluation.
    """
    before = [(module, module.training) for module in model.modules()]
    model.train(training)
    try:
        yield
    finally:
        for module, mode in before:  # those above come first, and change those below
            if module.training != mode:
                module.train(mode)
