"""``nn.utils.stateless``: a module called with other tensors than its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..errors import ArgumentError, DtypeError
from ..tensor import Tensor
from ..values.plain import shown

__all__ = ["functional_call", "set_tensor", "swap_tensor", "with_tensors"]


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Mapping[str, Tensor] | tuple[Mapping[str, Tensor], ...],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors in the place of its parameters and buffers.

    Args:
        module: the module; it is as before afterwards.
        parameter_and_buffer_dicts: tensors by dotted name; gradients flow to them.
        args: its arguments: a tuple, or one.
        kwargs: further ones, by name.
        tie_weights: what is given for one name of a tensor that has several is given for all of
            them, but for those that are given themselves.
        strict: every parameter and buffer must be given.

    Raises:
        ArgumentError: if a name is none of the module's, or one is missing that must be there.
        DtypeError: if the tensors are no mapping, or ``module`` is no module.
    """
    several = isinstance(parameter_and_buffer_dicts, tuple)
    given: dict[str, Tensor] = {}
    for part in parameter_and_buffer_dicts if several else (parameter_and_buffer_dicts,):
        if not isinstance(part, Mapping):
            law = "parameter_and_buffer_dicts is a mapping of tensors, or a tuple of such"
            raise DtypeError("functional_call", law, got=shown(part))
        given.update(part)
    if not hasattr(module, "named_parameters"):
        raise DtypeError("functional_call", "module is a module", module=shown(module))
    names = _names(module)
    own = {name: name for name in given}
    tied = _tied(names, given) | own if tie_weights else own
    if unknown := sorted(given.keys() - names.keys()):
        raise ArgumentError("functional_call", "names are the module's", names=unknown)
    if strict and (missing := sorted(names.keys() - tied.keys())):
        law = "with strict every parameter and buffer is given"
        raise ArgumentError("functional_call", law, missing=missing)
    with with_tensors(module, {name: given[source] for name, source in tied.items()}):
        listed = () if args is None else args if isinstance(args, tuple) else (args,)
        return module(*listed, **(kwargs or {}))


@contextmanager
def with_tensors(module: Any, given: Mapping[str, Any]) -> Iterator[None]:
    """A block in which a module has other tensors as its parameters and buffers.

    Args:
        module: the module; it is as before afterwards.
        given: tensors by dotted name.
    """
    before: list[tuple[Any, str, Any]] = []
    try:
        for path, value in given.items():
            place, _, name = path.rpartition(".")
            owner = module.get_submodule(place)
            table = owner._parameters if name in owner._parameters else owner._buffers
            before.append((table, name, table[name]))
            table[name] = value
        yield
    finally:
        for table, name, value in reversed(before):
            table[name] = value


_reparametrize_module = with_tensors


def _names(module: Any) -> dict[str, int]:
    """All names of a module's parameters and buffers, of those that have several too, and whose."""
    every: dict[str, bool] = {"remove_duplicate": False}
    tensors = (*module.named_parameters(**every), *module.named_buffers(**every))
    return {name: id(x) for name, x in tensors}


def _tied(names: Mapping[str, int], given: Iterable[str]) -> dict[str, str]:
    """For each other name of a tensor that is given, by which it was."""
    source = {names[name]: name for name in given if name in names}
    return {name: source[key] for name, key in names.items() if key in source}


def swap_tensor(
    module: Any,
    name: str,
    tensor: Any,
    allow_missing: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
) -> Any:
    """Put a tensor in the place of a module's parameter, buffer or attribute.

    Args:
        module: the module itself, not one above it.
        name: of the place.
        tensor: what is put there.
        allow_missing: whether there may be nothing yet.

    Returns:
        What was there; None if nothing was.

    Raises:
        AttributeError: if there is nothing, and must be.
    """
    for table in (module._parameters, module._buffers):
        if name in table:
            before, table[name] = table[name], tensor
            return before
    before = getattr(module, name, None)
    if before is None and not allow_missing:
        raise AttributeError(f"{type(module).__name__} has no attribute {name!r}")
    setattr(module, name, tensor)
    return before


def set_tensor(module: Any, name: str, tensor: Any) -> None:
    """As :func:`swap_tensor`, where there may be nothing yet."""
    swap_tensor(module, name, tensor, allow_missing=True)
