"""``torch.ao``: packages import its names; quantised modules are :func:`clnet.quantize`'s."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..errors import ArgumentError
from ..nn import Identity

__all__ = ["ao"]


class _Quantization(ModuleType):
    """A module whose names can be imported, and not called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(*args: Any, **kwargs: Any) -> Any:
            del args, kwargs
            raise ArgumentError(
                f"ao.quantization.{name}",
                "there are no quantised types",
                remedy="clnet.quantize(model, loader) makes a module that computes in 8 bits",
            )

        return type(name, (), {"__new__": refuse, "__doc__": "Not here."})


quantization = _Quantization("torch.ao.quantization", "Names without quantised types.")
# Modules that pass on what they are given, as PyTorch's do before they are converted.
quantization.__dict__["__path__"] = []
quantization.__dict__.update(QuantStub=Identity, DeQuantStub=Identity)
ao = ModuleType("torch.ao", "Where PyTorch has its quantised types.")
ao.__dict__["quantization"] = quantization
ao.__dict__["__path__"] = []
