"""Which modules of a model are gathered and freed on their own, by PyTorch's names.

A policy is called ``policy(module=m, recurse=..., nonwrapped_numel=n)``: with ``recurse`` whether
to look at what lies below, without whether the module itself is one; ``n`` counts its elements
that no module below has taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..container import ModuleDict, ModuleList
from ..module import Module
from ..transformer import MultiheadAttention

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "chosen_modules",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
]

_WHOLE = (ModuleList, ModuleDict, MultiheadAttention)
"""What is not called itself, or reads parameters of modules below."""


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Every module."""
    return True


def lambda_auto_wrap_policy(
    module: Module,
    recurse: bool,  # noqa: FBT001 - PyTorch's
    nonwrapped_numel: int,
    lambda_fn: Callable[[Module], Any],
) -> bool:
    """Modules of which a function says so."""
    del nonwrapped_numel
    return recurse or bool(lambda_fn(module))


def transformer_auto_wrap_policy(
    module: Module,
    recurse: bool,  # noqa: FBT001 - PyTorch's
    nonwrapped_numel: int,
    transformer_layer_cls: Iterable[type[Module]],
) -> bool:
    """Modules of some classes."""
    del nonwrapped_numel
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,  # noqa: FBT001 - PyTorch's
    nonwrapped_numel: int,
    min_num_params: int = int(1e8),
    force_leaf_modules: Iterable[type[Module]] | None = None,
    exclude_wrap_modules: Iterable[type[Module]] | None = None,
) -> bool:
    """Modules of so many elements at least.

    Args:
        module: the module.
        recurse: whether to look at what lies below.
        nonwrapped_numel: its elements that no module below has taken.
        min_num_params: how many.
        force_leaf_modules: classes below which nobody looks; None: multi-head attention.
        exclude_wrap_modules: classes that are none; None: lists and dicts of modules.
    """
    leaves = _WHOLE[2:] if force_leaf_modules is None else tuple(force_leaf_modules)
    none = _WHOLE[:2] if exclude_wrap_modules is None else tuple(exclude_wrap_modules)
    large = nonwrapped_numel >= min_num_params
    if recurse:
        return large and not isinstance(module, leaves)
    return large and not isinstance(module, none)


class ModuleWrapPolicy:
    """Modules of some classes.

    Args:
        module_classes: which.
    """

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._classes = tuple(module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:  # noqa: FBT001
        """As policies are called."""
        return recurse or isinstance(module, self._classes)


class CustomPolicy:
    """Modules of which a function says so.

    Args:
        lambda_fn: takes a module; gives whether it is one, or a dict of its own settings.
    """

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._choose = lambda_fn

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> Any:  # noqa: FBT001
        """As policies are called; settings count as True."""
        return True if recurse else self._choose(module)


def chosen_modules(
    model: Module, policy: Any, ignored: set[int]
) -> list[tuple[Module, str, Module, dict[str, Any]]]:
    """The modules below a model that a policy chooses, inner ones first.

    Args:
        model: the model, which is none of them.
        policy: as described, or a set of classes.
        ignored: the ``id`` of modules that are left out, with what lies below.

    Returns:
        Of each what it is below, its name there, itself, and settings of its own.
    """
    if isinstance(policy, set | frozenset | list | tuple):
        policy = ModuleWrapPolicy(policy)
    found: list[tuple[Module, str, Module, dict[str, Any]]] = []
    seen: set[int] = set()

    def look(module: Module, owner: Module | None, name: str) -> int:
        """How many elements of a module no chosen one has."""
        own = sum(p.numel() for p in module.parameters())
        if id(module) in ignored or id(module) in seen:
            return own
        seen.add(id(module))
        if policy(module=module, recurse=True, nonwrapped_numel=own):
            taken = 0
            for key, child in list(module.named_children()):
                whole = sum(p.numel() for p in child.parameters())
                taken += whole - look(child, module, key)
            own -= taken
        if owner is None:
            return own
        chosen = policy(module=module, recurse=False, nonwrapped_numel=own)
        if not chosen:
            return own
        found.append((owner, name, module, chosen if isinstance(chosen, dict) else {}))
        return 0

    look(model, None, "")
    return found
