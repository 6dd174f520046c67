"""A call of a function with example arguments, traced at the sizes that its inputs may have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..array import Array
from ..autograd import no_grad
from ..compile.record import Recorded, record
from ..creation import as_tensor
from ..device import Device, current_device
from ..errors import ArgumentError, OnnxError, TraceError, shortened
from ..nn.module import Module
from ..tensor import Tensor
from ..values.containers import again
from .dynamic_axes import DynamicInputs

__all__ = ["ExampleCall"]


class ExampleCall:
    """A function with its arguments; the tensors among these are the model's inputs.

    Args:
        function: a module or a function of tensors.
        args: its arguments, a tuple or list of them or one.
        kwargs: further ones, by name.
        input_names: of the first inputs; None: none.

    Attributes:
        names: of the inputs.
        owners: for each the position or name of its argument.
        shapes: of the inputs.

    Raises:
        ArgumentError: if a tensor lies in a container that cannot be made anew with others, or
            there is not a name of its own for each input.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: Any,
        kwargs: Mapping[str, Any] | None,
        input_names: Sequence[str] | None,
    ) -> None:
        self._function = function
        self._args = args if isinstance(args, tuple | list) else (args,)
        self._kwargs = dict(kwargs or {})
        self._every = {**dict(enumerate(self._args)), **self._kwargs}
        if inside := [k for k, v in self._every.items() if _hidden(v)]:
            law = "tensors lie in lists, tuples and dicts: in others they would be constants"
            hint = "Export a function that takes each tensor and makes the container"
            raise ArgumentError("onnx.export", law, arguments=inside, remedy=hint)
        found = [(k, x) for k, v in self._every.items() for x in _tensors(v)]
        self.owners, self._given = [k for k, _ in found], [x for _, x in found]
        self.shapes = [x.shape for x in self._given]
        self.names = self._named(list(input_names or ()))

    def _named(self, first: list[str]) -> list[str]:
        """A name for each input: those that are given for the first ones, then the parameters'.

        Raises:
            ArgumentError: if they are not as many as the inputs, empty, or twice the same.
        """
        parameters = _parameters(self._function)
        names: list[str] = []
        for i, owner in enumerate(self.owners):
            name = owner if isinstance(owner, str) else parameters.get(owner, f"input_{owner}")
            if not isinstance(self._every[owner], Tensor | np.ndarray):  # of several in it
                name = f"{name}_{self.owners[:i].count(owner)}"
            names.append(name)
        names[: len(first)] = first
        if len(names) != len(self.owners) or len({*names}) < len(names) or not all(names):
            raise ArgumentError(
                "onnx.export",
                "each tensor among the arguments has a name of its own",
                input_names=first or None,
                tensors=len(self.owners),
            )
        return names

    def traced(self, dynamic: DynamicInputs) -> list[Recorded]:
        """What the function does at all sizes of its dynamic axes; at odd ones if it takes them.

        Raises:
            OnnxError: if the function fails at sizes that are not the example's.
            TraceError: if it cannot be traced.
        """
        sizes = dynamic.dynamic
        found = [self._traced_at(dynamic.shapes(point)) for point in sizes.points]
        if sizes.first:
            try:
                found.append(self._traced_at(dynamic.shapes(sizes.odd)))
            except OnnxError:  # nor does the function itself: it wants multiples
                return found
        return found

    def _traced_at(self, shapes: Sequence[tuple[int, ...]]) -> Recorded:
        """What the function does with inputs of these shapes."""
        device = self._device()
        inputs = iter(
            Tensor(Array.abstract(shape, x.dtype, device))
            for x, shape in zip(self._given, shapes, strict=True)
        )
        given = {k: _filled(v, inputs) for k, v in self._every.items()}
        args = [given[i] for i in range(len(self._args))]
        named = {k: given[k] for k in self._kwargs}
        try:
            with no_grad():
                return record(
                    self._function, args, named, device, keeps_state=False, as_called=False
                )
        except TraceError:
            raise
        except Exception as error:
            if list(shapes) == self.shapes:
                raise
            raise OnnxError(
                "onnx.export",
                f"at other sizes of its dynamic axes the function fails: {shortened(error)}",
                shapes=list(shapes),
                remedy="Give smaller examples, or fewer dynamic axes",
            ) from error

    def _device(self) -> Device:
        held = [*getattr(self._function, "parameters", list)()]
        tensors = [*self._given, *held]
        return tensors[0].device if tensors else current_device()


def _tensors(value: Any) -> list[Tensor]:
    """The tensors of an argument, in order; arrays are tensors, too."""
    if isinstance(value, Tensor | np.ndarray):
        return [as_tensor(value)]
    if isinstance(value, Mapping):
        return [x for part in value.values() for x in _tensors(part)]
    return [x for part in value for x in _tensors(part)] if isinstance(value, list | tuple) else []


def _filled(value: Any, tensors: Iterator[Tensor]) -> Any:
    """An argument with other tensors in the places of its own."""
    if isinstance(value, Tensor | np.ndarray):
        return next(tensors)
    if isinstance(value, dict):
        return type(value)((k, _filled(part, tensors)) for k, part in value.items())
    if isinstance(value, list | tuple):
        return again(value, [_filled(part, tensors) for part in value])
    return value


def _hidden(value: Any) -> bool:
    """Whether a tensor lies in a container that is not made anew."""
    if isinstance(value, dict):
        return any(map(_hidden, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_hidden, value))
    parts = value.values() if isinstance(value, Mapping) else value
    return isinstance(value, Mapping | set) and any(
        isinstance(x, Tensor | np.ndarray) for x in parts
    )


def _parameters(function: Callable[..., Any]) -> dict[int, str]:
    """The names of a function's positional parameters."""
    called = function.forward if isinstance(function, Module) else function
    try:
        found = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):
        return {}
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return dict(enumerate(p.name for p in found if p.kind in kinds))
