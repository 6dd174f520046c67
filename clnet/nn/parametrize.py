"""Parameters computed from others whenever they are read; ``nn.utils.parametrize`` in PyTorch."""

# It puts what is computed in place of a module's own parameters.
# pyrefly: ignore-errors[protected-access]

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ..autograd import no_grad
from ..errors import ArgumentError
from ..tensor import Tensor
from ..values import mode
from ..values.arguments import checked
from .container import ModuleDict, ModuleList
from .module import Module, Parameter
from .parameter import is_lazy

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "type_before_parametrizations",
]

M = TypeVar("M", bound=Module)

# Where a module has them; Module looks there for what it does not have.
_PLACE = "parametrizations"


class ParametrizationList(ModuleList):
    """What one tensor of a module is computed from, and the modules that compute it in turn.

    Args:
        parametrization: the first of the modules.
        original: what it is applied to; its ``right_inverse``, if it has one, is applied first.

    Attributes:
        original: the tensor that is trained; ``original0``, ``original1`` ... if ``right_inverse``
            gives several.
    """

    computes_a_tensor = True

    def __init__(self, parametrization: Module, original: Tensor) -> None:
        super().__init__([parametrization])
        with no_grad():
            given = _inverted(parametrization, original.detach())
        self.num_originals = len(given) if isinstance(given, tuple) else None
        parts = given if isinstance(given, tuple) else (given,)
        for name, value in zip(self._names(), parts, strict=True):
            if not isinstance(original, Parameter):
                self.register_buffer(name, value)
            elif self.num_originals is None and value.shape == original.shape:
                # The same object: an optimiser may know it already.
                original.data = value
                self.register_parameter(name, original)
            else:
                self.register_parameter(name, Parameter(value, original.requires_grad))

    def forward(self) -> Tensor:
        """The tensor."""
        first, *others = self
        value = first(*(getattr(self, name) for name in self._names()))
        for module in others:
            value = module(value)
        return value

    def value(self) -> Tensor:
        """The tensor, computed now, or earlier in a block of :func:`cached`.

        What was computed for a trace, or without a gradient, serves no one else; a checkpoint,
        which runs twice, computes its own.
        """
        now = mode.current()
        if now.parametrized is None or now.draws is not None:
            return self()
        # The objects themselves, so that none takes the place of another that is gone.
        known = now.parametrized.setdefault((self, now.tracer, now.grad), [])
        if not known:
            known.append(self())
        return known[0]

    @no_grad()
    def assign(self, value: Tensor) -> None:
        """Give the originals the values from which the modules make ``value``.

        Raises:
            ArgumentError: if a module has no ``right_inverse``.
        """
        given: Any = value.detach()
        for module in reversed(list(self)):
            if not hasattr(module, "right_inverse"):
                raise ArgumentError(
                    type(module).__name__,
                    "a tensor is assigned through right_inverse",
                    remedy="Define it, or assign to the original",
                )
            given = _inverted(module, given)
        parts = given if isinstance(given, tuple) else (given,)
        for name, part in zip(self._names(), parts, strict=True):
            getattr(self, name).copy_(part)
        known = mode.current().parametrized or {}
        for key in [key for key in known if key[0] is self]:
            del known[key]

    def _names(self) -> list[str]:
        if self.num_originals is None:
            return ["original"]
        return [f"original{k}" for k in range(self.num_originals)]


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor once in the body, however often it is read there.

    A step of a recurrent model that reads its weight at every element saves as many computations;
    gradients of all readings meet in the one. After an update the body is left and entered again:
    until then the tensors stay what they were.

    Example:
        >>> from clnet import nn
        >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
        >>> with nn.utils.parametrize.cached():
        ...     layer.weight is layer.weight
        True
    """
    outer = mode.current().parametrized
    with mode.using(parametrized={} if outer is None else outer):
        yield


@checked
def register_parametrization(
    module: M, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> M:
    """Compute a parameter or buffer of a module by another module, whenever it is read.

    ``module.weight`` becomes ``parametrization(original)``, behind those that it has already; the
    original is trained, as ``module.parametrizations.weight.original``. What is assigned to
    ``module.weight`` goes through ``parametrization.right_inverse``.

    Args:
        module: whose it is.
        tensor_name: the parameter's or buffer's.
        parametrization: computes a tensor of the same shape and dtype.
        unsafe: let it be of another shape or dtype.

    Returns:
        The module.

    Raises:
        ArgumentError: if there is no such tensor, or what is computed is not like it.

    Example:
        >>> from clnet import nn
        >>> class Symmetric(nn.Module):
        ...     def forward(self, x):
        ...         return x.triu() + x.triu(1).T
        >>> layer = nn.Linear(3, 3)
        >>> _ = nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
        >>> bool((layer.weight == layer.weight.T).all())
        True
    """
    known = is_parametrized(module, tensor_name)
    before = getattr(module, tensor_name, None)
    if not known and tensor_name not in {**module._parameters, **module._buffers}:
        raise ArgumentError(
            "register_parametrization", "it is a parameter or buffer", tensor_name=tensor_name
        )
    if not isinstance(before, Tensor):
        raise ArgumentError(
            "register_parametrization", "there is a tensor", tensor_name=tensor_name
        )
    if is_lazy(before):
        law = "the tensor has its shape, which a lazy layer's has after the first forward"
        raise ArgumentError("register_parametrization", law, tensor_name=tensor_name)
    with no_grad():
        # Tried before anything is changed.
        value = _inverted(parametrization, before.detach())
        _require_tensors(parametrization, "right_inverse", value, several=not known)
        made = parametrization(*value) if isinstance(value, tuple) else parametrization(value)
    if not unsafe:
        _require_tensors(parametrization, "forward", made)
    if not unsafe and (made.shape, made.dtype) != (before.shape, before.dtype):
        raise ArgumentError(
            "register_parametrization",
            "what is computed has shape and dtype of the tensor",
            computed=(made.shape, made.dtype),
            tensor=(before.shape, before.dtype),
            remedy="Pass unsafe=True",
        )
    parametrization.train(module.training)
    if known:
        _lists(module)[tensor_name].append(parametrization)
        return module
    entry = ParametrizationList(parametrization, before)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        module.add_module(_PLACE, ModuleDict())
    _lists(module)[tensor_name] = entry
    return module


@checked
def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module, or one of its tensors, is computed by parametrizations."""
    lists = module._modules.get(_PLACE)
    return isinstance(lists, ModuleDict) and (tensor_name is None or tensor_name in lists)


@checked
def type_before_parametrizations(module: Module) -> type:
    """The class that a module had before its tensors were computed, which here it keeps."""
    return type(module)


@checked
def remove_parametrizations(module: M, tensor_name: str, leave_parametrized: bool = True) -> M:  # noqa: FBT001, FBT002 - PyTorch's
    """Make a computed tensor a parameter or buffer again.

    Args:
        module: whose it is.
        tensor_name: the tensor's name.
        leave_parametrized: with the value computed; False: with the original's.

    Returns:
        The module.

    Raises:
        ArgumentError: if it is not parametrized, or several originals cannot be left.
    """
    if not is_parametrized(module, tensor_name):
        raise ArgumentError(
            "remove_parametrizations", "the tensor is parametrized", tensor_name=tensor_name
        )
    entry: Any = _lists(module)[tensor_name]
    originals = [*entry._parameters.values(), *entry._buffers.values()]
    if not leave_parametrized and entry.num_originals is not None:
        raise ArgumentError(
            "remove_parametrizations",
            "one original is left, not several",
            originals=entry.num_originals,
        )
    result = originals[0]
    with no_grad():
        value = entry() if leave_parametrized else result.detach()
    if entry.num_originals is None and value.shape == result.shape:
        result.data = value
    elif isinstance(result, Parameter):
        result = Parameter(value.clone(), result.requires_grad)
    else:
        result = value.clone()
    lists = _lists(module)
    del lists[tensor_name]
    if not len(lists):
        delattr(module, _PLACE)
    if isinstance(result, Parameter):
        module.register_parameter(tensor_name, result)
    else:
        module.register_buffer(tensor_name, result)
    return module


def _require_tensors(module: Module, method: str, given: Any, *, several: bool = False) -> None:
    """Refuse what is no tensor, nor, of the first parametrization's inverse, a tuple of them."""
    parts = given if several and isinstance(given, tuple) else (given,)
    if not all(isinstance(part, Tensor) for part in parts):
        raise ArgumentError(
            "register_parametrization",
            f"{method} gives a tensor" + (", or several" if several else ""),
            parametrization=type(module).__name__,
            given=[type(part).__name__ for part in parts],
        )


def _lists(module: Module) -> ModuleDict:
    return module._modules[_PLACE]


def _inverted(parametrization: Module, value: Tensor) -> Any:
    """What gives ``value``, as far as the module can tell: a tensor, or a tuple of them."""
    if not hasattr(parametrization, "right_inverse"):
        return value
    try:
        given = parametrization.right_inverse(value)
    except NotImplementedError:
        return value
    return tuple(given) if isinstance(given, tuple | list) else given
