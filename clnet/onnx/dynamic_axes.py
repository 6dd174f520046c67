"""Which axes of a model's inputs are dynamic, as callers say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ArgumentError
from ..values.arguments import shown
from .sizes import Dynamic

__all__ = ["DynamicInputs", "dynamic_sizes"]


@dataclass(frozen=True)
class DynamicInputs:
    """Dynamic axes of inputs.

    Attributes:
        dynamic: the sizes by name.
        sources: for each an input and an axis that has it.
        axes: for each input the names of its dynamic axes.
        given: the inputs' shapes, as they were given.
    """

    dynamic: Dynamic
    sources: dict[str, tuple[str, int]]
    axes: list[dict[int, str]]
    given: list[tuple[int, ...]]

    def shapes(self, point: dict[str, int]) -> list[tuple[int, ...]]:
        """The inputs' shapes at sizes of the dynamic axes."""
        return [
            tuple(point[names[i]] if i in names else n for i, n in enumerate(shape))
            for shape, names in zip(self.given, self.axes, strict=True)
        ]


def dynamic_sizes(
    names: Sequence[str],
    shapes: Sequence[tuple[int, ...]],
    owners: Sequence[int | str],
    dynamic_axes: Mapping[str, Any] | None,
    dynamic_shapes: Any,
) -> DynamicInputs:
    """Read what a caller says.

    Args:
        names: of the inputs.
        shapes: of the inputs.
        owners: for each input the position or name of its argument.
        dynamic_axes: as :func:`clnet.onnx.export` has it.
        dynamic_shapes: as there.

    Raises:
        ArgumentError: if an input or an axis is not there, or axes of one name differ in size.
    """
    if dynamic_axes and dynamic_shapes:
        raise ArgumentError("onnx.export", "dynamic_axes and dynamic_shapes say the same twice")
    said: dict[str, Any] = dict(dynamic_axes or {})
    said = said or _by_argument(names, owners, dynamic_shapes)
    axes = [_axes(name, shape, said.get(name)) for name, shape in zip(names, shapes, strict=True)]
    sizes: dict[str, int] = {}
    sources: dict[str, tuple[str, int]] = {}
    for name, shape, found in zip(names, shapes, axes, strict=True):
        for axis, label in found.items():
            if sizes.setdefault(label, shape[axis]) != shape[axis]:
                raise ArgumentError(
                    "onnx.export",
                    "axes of one name have one size",
                    name=label,
                    sizes=(sizes[label], shape[axis]),
                )
            sources.setdefault(label, (name, axis))
    # An axis of one element would be broadcast; no other size is.
    first = {label: max(size, 2) for label, size in sizes.items()}
    return DynamicInputs(Dynamic(first), sources, axes, list(shapes))


def _by_argument(names: Sequence[str], owners: Sequence[int | str], said: Any) -> dict[str, Any]:
    """``dynamic_shapes`` by the inputs' names."""
    if not said:
        return {}
    if isinstance(said, Mapping):
        unknown = sorted(str(k) for k, v in said.items() if v and k not in {*names, *owners})
        if unknown:
            law = "dynamic_shapes name tensors among the arguments"
            raise ArgumentError("onnx.export", law, unknown=unknown, names=list(names))
        return {n: said.get(n, said.get(o)) for n, o in zip(names, owners, strict=True)}
    places = [o for o in owners if isinstance(o, int)]
    given = list(said) if isinstance(said, list | tuple) else None
    if given is None or any(given[max(places, default=-1) + 1 :]):
        law = "dynamic_shapes are for each argument its names by axis, in order or by name"
        raise ArgumentError("onnx.export", law, dynamic_shapes=shown(said), tensors=len(owners))
    return {
        n: _of_part(given[o], list(owners[:i]).count(o))
        for i, (n, o) in enumerate(zip(names, owners, strict=True))
        if isinstance(o, int) and o < len(given)
    }


def _of_part(said: Any, place: int) -> Any:
    """What is said of one tensor of an argument, which may be a list or tuple of some."""
    nested = isinstance(said, list | tuple) and not any(isinstance(x, int) for x in said)
    return said[place] if nested and place < len(said) else None if nested else said


def _axes(name: str, shape: tuple[int, ...], said: Any) -> dict[int, str]:
    """The dynamic axes of an input with their names."""
    if not said:
        return {}
    try:
        pairs = dict(said) if isinstance(said, Mapping) else dict.fromkeys(said)
        found = {int(axis): label for axis, label in pairs.items()}
    except (TypeError, ValueError) as error:
        law = "dynamic axes of an input are names by axis, or a list of axes"
        raise ArgumentError("onnx.export", law, input=name, given=shown(said)) from error
    if any(not -len(shape) <= axis < len(shape) for axis in found):
        raise ArgumentError("onnx.export", "a dynamic axis is one of its input", input=name,
                            axes=sorted(found), shape=shape)  # fmt: skip
    made: dict[int, str] = {}
    for axis, label in found.items():
        place = axis % len(shape)
        text = label if isinstance(label, str) else getattr(label, "__name__", None)
        made[place] = text or f"{name}_axis_{place}"
    return made
