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


mark_static = mark_static_address = maybe_mark_dynamic = mark_unbacked = mark_dynamic


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


class OptimizedModule:
    """What PyTorch's ``compile`` makes of a module: none is."""


class Unsupported(RuntimeError):
    """What PyTorch's compiler raises."""


class _InPlace:
    """A block in which subscripts are what they are."""

    def __enter__(self) -> None:
        """Nothing changes."""

    def __exit__(self, *raised: object) -> None:
        """Nothing was changed."""


def _submodule(name: str, **members: Any) -> ModuleType:
    made = ModuleType(f"torch._dynamo.{name}", "Of PyTorch's compiler.")
    made.__dict__.update(members)
    return made


eval_frame = _submodule(
    "eval_frame", OptimizedModule=OptimizedModule, is_dynamo_supported=is_compiling
)
exc = _submodule("exc", Unsupported=Unsupported, TorchDynamoException=RuntimeError)
_trace_wrapped_higher_order_op = _submodule(
    "_trace_wrapped_higher_order_op", TransformGetItemToIndex=_InPlace
)
