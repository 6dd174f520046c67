"""Layers and models in PyTorch's names; they compose ops and launch nothing."""

from . import functional
from .module import Module, Parameter

__all__ = ["Module", "Parameter", "functional"]
