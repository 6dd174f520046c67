"""Layers whose inputs lie in parts along the sequence, and how modules' inputs and outputs lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ...autodiff.stateless import with_tensors
from ...errors import ArgumentError
from ...ranks.differentiable import copied
from ...ranks.mesh import DeviceMesh
from ...ranks.placement import Placement, placed_otherwise
from ...ranks.world import Group
from ...tensor import Tensor
from ..module import Module
from .tensor_parallel import ParallelStyle

__all__ = [
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "SequenceParallel",
]

Layouts = Sequence[Placement | None] | Placement | None


class SequenceParallel(ParallelStyle):
    """A layer without exchanges of values, such as a norm: each rank computes with a part of words.

    Its parameters are whole on each rank, and their gradients summed.

    Args:
        sequence_dim: taken: inputs come as parts, and stay so.
        use_local_output: taken, True.
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        del use_local_output
        super().__init__()
        self.sequence_dim = sequence_dim

    def divide(self, layer: Module, mesh: DeviceMesh) -> None:
        """Of any layer, all parameters of which are used."""
        vars(layer)["forward"] = partial(_with_summed_gradients, layer, mesh.get_group())


def _with_summed_gradients(layer: Module, group: Group, *args: Any, **kwargs: Any) -> Any:
    """What a layer gives; its parameters' gradients are those of all ranks' parts."""
    whole = {
        name: copied(p, group) if p.requires_grad else p for name, p in layer.named_parameters()
    }
    with with_tensors(layer, whole):
        return type(layer).forward(layer, *args, **kwargs)


class PrepareModuleInput(ParallelStyle):
    """A module's arguments are laid out anew before it is called.

    Args:
        input_layouts: how each positional one lies; None for what stays.
        desired_input_layouts: how each should lie, as many.
        input_kwarg_layouts: how arguments by name lie.
        desired_input_kwarg_layouts: how they should lie, of the same names.
        use_local_output: taken, True.
    """

    def __init__(
        self,
        *,
        input_layouts: Layouts = None,
        desired_input_layouts: Layouts = None,
        input_kwarg_layouts: Mapping[str, Placement] | None = None,
        desired_input_kwarg_layouts: Mapping[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        del use_local_output
        super().__init__()
        name = type(self).__name__
        self.args = _pairs(name, input_layouts, desired_input_layouts)
        given, wanted = input_kwarg_layouts or {}, desired_input_kwarg_layouts or {}
        if set(given) != set(wanted):
            law = "input_kwarg_layouts and desired_input_kwarg_layouts name the same arguments"
            raise ArgumentError(name, law, in_one_alone=sorted(set(given) ^ set(wanted)))
        self.kwargs = {key: (given[key], wanted[key]) for key in given}

    def divide(self, layer: Module, mesh: DeviceMesh) -> None:
        """Of any module."""
        group = mesh.get_group()

        def prepare(module: Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
            del module
            placed = _placed(type(self).__name__, args, self.args, group)
            named = {
                k: _one(v, self.kwargs[k], group) if k in self.kwargs else v
                for k, v in kwargs.items()
            }
            return placed, named

        layer.register_forward_pre_hook(prepare, with_kwargs=True)


class PrepareModuleOutput(ParallelStyle):
    """What a module gives is laid out anew.

    Args:
        output_layouts: how each result lies; None for what stays.
        desired_output_layouts: how each should lie, as many.
        use_local_output: taken, True.
    """

    def __init__(
        self,
        *,
        output_layouts: Layouts,
        desired_output_layouts: Layouts,
        use_local_output: bool = True,
    ) -> None:
        del use_local_output
        super().__init__()
        self.results = _pairs(type(self).__name__, output_layouts, desired_output_layouts)

    def divide(self, layer: Module, mesh: DeviceMesh) -> None:
        """Of any module."""
        group = mesh.get_group()

        def prepare(module: Module, args: Any, result: Any) -> Any:
            del module, args
            several = isinstance(result, tuple)
            given = result if several else (result,)
            placed = _placed(type(self).__name__, given, self.results, group)
            return placed if several else placed[0]

        layer.register_forward_hook(prepare)


class PrepareModuleInputOutput(ParallelStyle):
    """Both :class:`PrepareModuleInput` and :class:`PrepareModuleOutput`, with their arguments."""

    def __init__(
        self,
        *,
        input_layouts: Layouts = None,
        desired_input_layouts: Layouts = None,
        input_kwarg_layouts: Mapping[str, Placement] | None = None,
        desired_input_kwarg_layouts: Mapping[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: Layouts,
        desired_output_layouts: Layouts,
        use_local_output: bool = True,
    ) -> None:
        del use_local_input, use_local_output
        super().__init__()
        self.inputs = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
        )
        self.results = PrepareModuleOutput(
            output_layouts=output_layouts, desired_output_layouts=desired_output_layouts
        )

    def divide(self, layer: Module, mesh: DeviceMesh) -> None:
        """Of any module."""
        self.inputs.divide(layer, mesh)
        self.results.divide(layer, mesh)


Pair = tuple[Placement | None, Placement | None]


def _pairs(name: str, given: Layouts, wanted: Layouts) -> list[Pair]:
    """How each value lies and how it should lie.

    Raises:
        ArgumentError: if they are not as many.
    """
    first, second = (
        [] if each is None else [each] if isinstance(each, Placement) else list(each)
        for each in (given, wanted)
    )
    if len(first) != len(second):
        law = "there is a desired layout for each layout"
        raise ArgumentError(name, law, layouts=len(first), desired=len(second))
    return list(zip(first, second, strict=True))


def _placed(name: str, values: Sequence[Any], pairs: list[Pair], group: Group) -> tuple[Any, ...]:
    if not pairs:
        return tuple(values)
    if len(values) != len(pairs):
        law = "there is a layout, or None, for each value"
        raise ArgumentError(name, law, values=len(values), layouts=len(pairs))
    return tuple(_one(v, pair, group) for v, pair in zip(values, pairs, strict=True))


def _one(value: Any, pair: Pair, group: Group) -> Any:
    given, wanted = pair
    if given is None or wanted is None or not isinstance(value, Tensor):
        return value
    return placed_otherwise(value, given, wanted, group)
