"""``torch.ao``: packages import its names; quantised modules are :func:`clnet.quantize`'s."""

from __future__ import annotations

from types import ModuleType

from ..nn import Identity, quantized
from .refused import Refused

__all__ = ["ao"]

quantization = Refused(
    "torch.ao.quantization",
    "Names without quantised types.",
    "there are no quantised types",
    "clnet.quantize(model, loader) makes a module that computes in 8 bits",
)
# Modules that pass on what they are given, as PyTorch's do before they are converted.
quantization.__dict__.update(QuantStub=Identity, DeQuantStub=Identity)
ao = ModuleType("torch.ao", "Where PyTorch has its quantised types.")
nn = ModuleType("torch.ao.nn", "Its layers.")
ao.__dict__.update(quantization=quantization, nn=nn, __path__=[])
nn.__dict__.update(quantized=quantized, __path__=[])
