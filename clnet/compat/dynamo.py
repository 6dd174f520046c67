"""``torch._dynamo`` and ``torch.compiler``: marks for PyTorch's compiler, which is not here."""

from __future__ import annotations

from types import ModuleType
from typing import Any

__all__ = ["allow_in_graph", "config", "disable", "is_compiling", "mark_dynamic", "reset", "utils"]


def disable(fn: Any = None, **given: Any) -> Any:
    """The function as it is; a decorator without one."""
    return fn if callable(fn) else _as_it_is


def _as_it_is(function: Any) -> Any:
    return function


allow_in_graph = disallow_in_graph = forbid_in_graph = run = _as_it_is


def is_compiling() -> bool:
    """False."""
    return False


def mark_dynamic(t: Any, index: Any, **given: Any) -> None:
    """Taken: a compiled function has a plan for each shape."""


mark_static = maybe_mark_dynamic = mark_dynamic


def reset() -> None:
    """There is nothing to forget."""


graph_break = cudagraph_mark_step_begin = reset
is_dynamo_compiling = is_exporting = is_compiling
assume_constant_result = substitute_in_graph = allow_in_graph


def set_stance(*args: Any, **kwargs: Any) -> None:
    """Taken: ``clnet.compile`` has one."""


def is_compile_supported(device_type: Any) -> bool:
    """False: of PyTorch's compiler."""
    return False


class _Config(ModuleType):
    """Settings that are kept and change nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


config = _Config("torch._dynamo.config", "Settings that are kept.")
utils = ModuleType("torch._dynamo.utils", "Of PyTorch's compiler.")
utils.__dict__["is_compile_supported"] = is_compile_supported
eval_frame = ModuleType("torch._dynamo.eval_frame", "Of that, too.")
eval_frame.__dict__["OptimizedModule"] = type("OptimizedModule", (), {"__doc__": "None is."})
