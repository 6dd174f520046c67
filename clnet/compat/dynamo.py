"""``torch._dynamo`` and ``torch.compiler``: marks for PyTorch's compiler, which is not here.

``torch.compile`` is clnet's, but that the names of a compiled module are PyTorch's, and that what
cannot be traced runs uncompiled, as between PyTorch's breaks of a graph, unless ``fullgraph``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import wraps
from types import ModuleType
from typing import Any

from ..autodiff.decorated import in_mode
from ..compile import Compiled
from ..compile import compile as compiled
from ..errors import ArgumentError
from ..nn import Module
from ..values import mode
from ..values.plain import shown
from . import notice

__all__ = [
    "allow_in_graph",
    "config",
    "disable",
    "explain",
    "is_compiling",
    "mark_dynamic",
    "reset",
    "utils",
]


def disable(fn: Any = None, **given: Any) -> Any:
    """The function as it is; a decorator without one."""
    return fn if callable(fn) else _as_it_is


def explain(f: Any, *args: Any, **kwargs: Any) -> Any:
    """Refuse: there are no graphs of PyTorch's compiler, nor breaks of them.

    Raises:
        ArgumentError: always.
    """
    del args, kwargs
    hint = "Call compiled = clnet.compile(function) once, then print(compiled.explain())"
    law = "PyTorch's compiler, whose graphs are explained, is not here"
    raise ArgumentError("_dynamo.explain", law, function=shown(f), remedy=hint)


def _as_it_is(function: Any) -> Any:
    return function


allow_in_graph = disallow_in_graph = forbid_in_graph = run = _as_it_is


def is_compiling() -> bool:
    """Whether the calling thread traces a function: one that asks leaves out what reads values."""
    return mode.current().tracer is not None


def is_exporting() -> bool:
    """False: who exports to ONNX traces as who compiles does."""
    return False


def mark_dynamic(t: Any, index: Any = None, **given: Any) -> None:
    """Taken: a compiled function has a plan for each shape."""


mark_static = mark_static_address = maybe_mark_dynamic = mark_unbacked = mark_dynamic


def reset() -> None:
    """There is nothing to forget."""


graph_break = cudagraph_mark_step_begin = reset
is_dynamo_compiling = is_compiling
assume_constant_result = substitute_in_graph = allow_in_graph


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """Names that programs give as ``backend``: PyTorch's usual one, which stands for clnet's."""
    del exclude_tags
    return ["inductor"]


class set_stance:  # noqa: N801 - called as a function is
    """From now on, in a block or in a function: ``"force_eager"`` runs what is compiled as it is.

    The other stances say what a compiler does that finds no plan: clnet's makes one.

    Args:
        stance: PyTorch's name of it.
        given: what PyTorch takes beside.
    """

    def __init__(self, stance: str = "default", **given: Any) -> None:
        self._before = mode.current().uncompiled
        self._wanted = stance == "force_eager"
        mode.change(uncompiled=self._wanted)

    def __call__(self, function: Any) -> Any:
        """The function, which runs so; around it all is as before."""
        mode.change(uncompiled=self._before)
        return in_mode(function, uncompiled=self._wanted)

    def __enter__(self) -> None:
        """It is so already."""

    def __exit__(self, *raised: object) -> None:
        mode.change(uncompiled=self._before)


def is_compile_supported(device_type: Any) -> bool:
    """True: ``clnet.compile`` is its own on every device."""
    return True


class _Config(ModuleType):
    """Settings that are kept and change nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


def _settings(name: str, *groups: str) -> ModuleType:
    """Settings, some of which are settings of their own."""
    made = _Config(name, "Settings that are kept.")
    made.__dict__.update({group: _settings(f"{name}.{group}") for group in groups})
    return made


config = _settings("torch._dynamo.config")
# Programs ask for more than these: max(64, config.cache_size_limit).
_FEW, _MANY = 8, 256
config.__dict__.update(cache_size_limit=_FEW, recompile_limit=_FEW)
config.__dict__.update(accumulated_cache_size_limit=_MANY, accumulated_recompile_limit=_MANY)
inductor = ModuleType("torch._inductor", "PyTorch's generator of code, which is not here.")
inductor.__dict__["config"] = _settings(
    "torch._inductor.config", "aot_inductor", "cpp", "cuda", "cutlass", "trace", "triton"
)
utils = ModuleType("torch._dynamo.utils", "Of PyTorch's compiler.")
utils.__dict__.update(is_compile_supported=is_compile_supported, warn_once=notice.warn_once)
utils.__dict__["counters"] = defaultdict(Counter)  # nothing is counted


class Lenient(Compiled):
    """A compiled function that runs uncompiled, with a warning, where it cannot be traced."""

    lenient = True


_OWN = ("_parameters", "_buffers", "_modules", "_clnet_hooks")  # what it has beside the module's


class OptimizedModule(Lenient):
    """A compiled module that holds the module as ``_orig_mod``: checkpoints have that in names.

    Walks and states are those of a module with nothing but that one below; all else is asked of
    the module itself.
    """

    state_dict = Module.state_dict
    load_state_dict = Module.load_state_dict
    named_modules = Module.named_modules
    named_children = Module.named_children
    named_parameters = Module.named_parameters
    named_buffers = Module.named_buffers
    modules = Module.modules
    children = Module.children
    _clnet_below = Module._clnet_below  # pyrefly: ignore[protected-access]
    _clnet_named = Module._clnet_named  # pyrefly: ignore[protected-access]
    _clnet_load_below = Module._clnet_load_below  # pyrefly: ignore[protected-access]

    def __init__(self, module: Module, *args: Any, **given: Any) -> None:
        super().__init__(module, *args, **given)
        own = vars(Module()) | {"_modules": {"_orig_mod": module}}
        vars(self).update({name: own[name] for name in _OWN})

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "_orig_mod":
            super().__setattr__(name, value)
            return
        # Trainers unwrap what is inside: from now on the other module is the compiled one.
        passes, lenient = self._passes, self.lenient
        given = {"recompute": self._recompute, "always": self._always}
        vars(self).clear()
        OptimizedModule.__init__(self, value, passes, **given)
        vars(self)["lenient"] = lenient

    def _save_to_state_dict(self, *args: Any) -> None:
        """Nothing lies in it but the module."""

    def _load_from_state_dict(self, *args: Any) -> None:
        """The module below loads."""


@wraps(compiled)
def compile(model: Any = None, **given: Any) -> Any:  # noqa: A001 - PyTorch's name
    """As clnet's, with PyTorch's names of what a compiled module holds."""
    if model is None:
        return lambda function: compile(function, **given)
    made = compiled(model, **given)
    if type(made) is not Compiled:
        return made
    whole = given.get("fullgraph", False)
    kind = OptimizedModule if isinstance(model, Module) else Compiled if whole else Lenient
    passes, recompute = made._passes, made._recompute  # pyrefly: ignore[protected-access]
    made = kind(model, passes, recompute=recompute, always=whole)
    if whole:
        vars(made)["lenient"] = False
    return made


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
    "eval_frame", OptimizedModule=OptimizedModule, is_dynamo_supported=is_compile_supported
)
exc = _submodule("exc", Unsupported=Unsupported, TorchDynamoException=RuntimeError)
_trace_wrapped_higher_order_op = _submodule(
    "_trace_wrapped_higher_order_op", TransformGetItemToIndex=_InPlace
)
