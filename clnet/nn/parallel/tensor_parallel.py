"""Layers whose parameters lie in parts on several processes: dense, convolutions, tables.

A column-parallel layer computes a part of its features (of a convolution's: filters), of which a
row-parallel one takes a part (channels); between both nothing is exchanged (Shoeybi et al.,
"Megatron-LM", 2019).
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from ... import ops
from ...autodiff.custom import Function
from ...autodiff.divided import NORMS_OF_PARTS
from ...errors import ArgumentError
from ...ops.shape import alias
from ...ranks.differentiable import copied
from ...ranks.mesh import DeviceMesh
from ...ranks.placement import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    distribute_tensor,
    placed_otherwise,
)
from ...ranks.world import Group
from ...tensor import Tensor
from ..conv import Conv1d, Conv2d, Conv3d
from ..linear import Linear
from ..module import Module, Parameter
from ..sparse import Embedding
from .divided import DividedParameter, OfAllParts

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "RowwiseParallel",
    "full_state_dict",
    "gather_batch",
    "parallelize_module",
]

_CONVOLUTIONS = (Conv1d, Conv2d, Conv3d)


class ParallelStyle:
    """How :func:`parallelize_module` divides a layer.

    Args:
        input_layouts: how the ranks' inputs lie; None: as they are needed.
        output_layouts: how their outputs shall lie; None: as they come.
        use_local_output: taken, True: a layer gives tensors.
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        if not use_local_output:
            raise ArgumentError(type(self).__name__, "use_local_output is True")
        for layout in (input_layouts, output_layouts):
            if not isinstance(layout, Placement | None):
                law = "a layout is Replicate(), Shard(dim), Partial() or None"
                raise ArgumentError(type(self).__name__, law, given=layout)
        self.input_layouts, self.output_layouts = input_layouts, output_layouts

    def divide(self, layer: Module, mesh: DeviceMesh) -> None:
        """Give this rank its part of a layer's parameters, and the layer its exchanges."""
        raise NotImplementedError(f"{type(self).__name__}.divide")


class ColwiseParallel(ParallelStyle):
    """Each rank computes a part of the features: rows of ``weight``, filters, columns of a table.

    Its input is by default the same on all ranks, and its output each rank's part of the features
    (``Shard(-1)``; a convolution's channels are axis 1, of one example without a batch axis 0).
    """

    def divide(self, layer: Module, mesh: DeviceMesh) -> None:
        """Of ``Linear``, a convolution of one group, or ``Embedding``."""
        axis = _feature_axis("ColwiseParallel", layer)
        table = isinstance(layer, Embedding)
        own = {"weight": Shard(1 if table else 0)}
        if not table and layer.bias is not None:
            own["bias"] = Shard(0)
        size = layer.weight.shape[own["weight"].dim]
        _give_parts(layer, mesh, own)
        own_part = Shard(axis)
        given, wanted = self.input_layouts or Replicate(), self.output_layouts or own_part
        group = mesh.get_group()
        vars(layer)["forward"] = partial(_columns, layer, given, own_part, wanted, size, group)


# Not closures: a deep copy of a layer computes with its own parameters.


def _columns(
    layer: Module,
    given: Placement,
    made: Shard,
    wanted: Placement,
    size: int,
    group: Group,
    x: Tensor,
) -> Tensor:
    """What a layer gives of which each rank has a part of the features."""
    whole = placed_otherwise(x, given, Replicate(), group)
    y = type(layer).forward(layer, whole if isinstance(layer, Embedding) else copied(whole, group))
    return placed_otherwise(y, made, wanted, group, size=size)


class RowwiseParallel(ParallelStyle):
    """Each rank computes with a part of the input's features; what they give is summed.

    Its input is by default each rank's part (``Shard(-1)``, of a convolution its channels'), its
    output the same on all ranks. The bias is added once, behind the sum.
    """

    def divide(self, layer: Module, mesh: DeviceMesh) -> None:
        """Of ``Linear``, a convolution of one group, or ``Embedding``, by rows of the table."""
        axis = _feature_axis("RowwiseParallel", layer)
        if isinstance(layer, Embedding):
            self._divide_table(layer, mesh)
            return
        parts: dict[str, Placement] = {"weight": Shard(1)}
        if layer.bias is not None:
            parts["bias"] = Replicate()
        _give_parts(layer, mesh, parts)
        taken = Shard(axis)
        given, wanted = self.input_layouts or taken, self.output_layouts or Replicate()
        vars(layer)["forward"] = partial(_rows, layer, given, taken, wanted, mesh.get_group())

    def _divide_table(self, layer: Embedding, mesh: DeviceMesh) -> None:
        if not isinstance(self.input_layouts, Replicate | None):
            law = "words are the same on all ranks where a table's rows are divided"
            raise ArgumentError("RowwiseParallel", law, input_layouts=self.input_layouts)
        rows, wanted = layer.weight.shape[0], self.output_layouts or Replicate()
        _give_parts(layer, mesh, {"weight": Shard(0)})
        vars(layer)["forward"] = partial(_words, layer, wanted, rows, mesh.get_group())


def _words(layer: Any, wanted: Placement, rows: int, group: Group, x: Tensor) -> Tensor:
    """What a table gives of which each rank has some rows: its own words, zeros for others."""
    each = -(-rows // group.size())
    first, held = group.rank() * each, layer.weight.shape[0]
    pad = layer.padding_idx
    pad = None if pad is None or not first <= pad < first + held else pad - first
    if held:
        own = (x >= first) & (x < first + held)
        places = ops.where(own, x - first, ops.zeros_like(x))
        y = ops.embedding(places, layer.weight, padding_idx=pad)
        y = ops.where(own.unsqueeze(-1), y, ops.zeros_like(y))
    else:
        y = layer.weight.new_zeros((*x.shape, layer.weight.shape[1]))
    return placed_otherwise(y, Partial(), wanted, group)


def _rows(
    layer: Module, given: Placement, taken: Shard, wanted: Placement, group: Group, x: Tensor
) -> Tensor:
    """What a layer gives to which each rank gives a part of the input's features."""
    own = vars(layer)["_parameters"]
    bias, own["bias"] = own["bias"], None
    try:
        y = type(layer).forward(layer, placed_otherwise(x, given, taken, group))
    finally:
        own["bias"] = bias
    y = placed_otherwise(y, Partial(), Replicate(), group)
    if bias is not None:
        y = y + bias.reshape(-1, *(1 for _ in range(-1 - taken.dim)))
    return placed_otherwise(y, Replicate(), wanted, group)


def _feature_axis(name: str, layer: Module) -> int:
    """The axis of inputs and outputs that features lie along, counted from the last.

    Raises:
        ArgumentError: if the layer cannot be divided, or is already.
    """
    if "forward" in vars(layer):
        raise ArgumentError(name, "a layer is divided once", layer=layer)
    if isinstance(layer, Embedding) and layer.max_norm is not None:
        raise ArgumentError(name, "a table without max_norm is divided", max_norm=layer.max_norm)
    if isinstance(layer, Linear | Embedding):
        return -1
    if isinstance(layer, _CONVOLUTIONS) and layer.groups == 1:
        return 1 - layer.weight.ndim
    raise ArgumentError(
        name,
        "it divides Linear, Embedding and convolutions of one group",
        layer=type(layer).__name__,
    )


def _give_parts(layer: Module, mesh: DeviceMesh, placements: Mapping[str, Placement]) -> None:
    for name, placement in placements.items():
        whole: Parameter = getattr(layer, name)
        spread = distribute_tensor(whole, mesh, (placement,))
        part = DividedParameter(spread.to_local().detach(), requires_grad=whole.requires_grad)
        layer.register_parameter(name, part)
        vars(part).update(device_mesh=mesh, placements=spread.placements, whole=whole.shape)
        if isinstance(placement, Shard):
            vars(part)[NORMS_OF_PARTS] = OfAllParts(mesh.get_group())


def parallelize_module(
    module: Module,
    device_mesh: DeviceMesh,
    parallelize_plan: ParallelStyle | Mapping[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """Divide layers of a module among the ranks of a mesh; all call it, before optimisers are made.

    The parameters become this rank's parts of those of the first rank: tensors of their own, which
    optimisers take as any others. Those of other layers stay: they begin alike on all ranks, by one
    seed. ``clip_grad_norm_`` and a ``GradScaler`` go by the gradients of the whole; norms of one
    parameter (``optim.Lamb``) are those of its parts.

    Args:
        module: the layer, or what holds it.
        device_mesh: of one axis: ``mesh["tp"]`` of one with several.
        parallelize_plan: how the layer is divided, or for names of layers (``"blocks.*.fc"``) how.
        src_data_rank: 0: the parameters begin as the first rank's.

    Returns:
        The module.

    Raises:
        ArgumentError: if no layer has such a name, or one cannot be divided, or shares a parameter.

    Example:
        ``parallelize_module(mlp, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})``
    """
    name = "parallelize_module"
    if src_data_rank != 0:
        raise ArgumentError(name, "parameters begin as the first rank's", src_data_rank=0)
    if parallelize_plan is None:
        raise ArgumentError(name, "there is a plan: a style, or styles by names of layers")
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.divide(module, device_mesh)
        return module
    if not isinstance(parallelize_plan, Mapping):
        raise ArgumentError(name, "the plan is a style, or styles by names", plan=parallelize_plan)
    layers = dict(module.named_modules())
    for pattern, style in parallelize_plan.items():
        found = [
            n for n in layers if fnmatchcase(n, pattern) and n.count(".") == pattern.count(".")
        ]
        if not found:
            raise ArgumentError(name, "a layer has the name", name=pattern, layers=sorted(layers))
        for each in found:
            _check_own(name, module, each, layers[each])
            style.divide(layers[each], device_mesh)
    return module


def _check_own(name: str, module: Module, path: str, layer: Module) -> None:
    """Refuse a layer that shares a parameter with another, which would go on with the whole."""
    names = [(n, id(p)) for n, p in module.named_parameters(remove_duplicate=False)]
    for own, parameter in layer.named_parameters(recurse=False):
        shared = [n for n, key in names if key == id(parameter)]
        if len(shared) > 1:
            raise ArgumentError(
                name,
                "parameters of a layer that is divided are its own",
                layer=path,
                parameter=own,
                shared=shared,
                remedy="Leave tied layers whole, or give each a parameter before",
            )


def full_state_dict(module: Module) -> dict[str, Tensor]:
    """The state of a module before it was divided, on every rank; all ranks call it.

    It is what the module's own ``load_state_dict`` takes where nothing is divided, or before it is:
    so training goes on with any number of ranks.
    """
    parts = dict(module.named_parameters())
    return {name: _whole(parts.get(name), value) for name, value in module.state_dict().items()}


def _whole(part: Tensor | None, value: Any) -> Tensor:
    if isinstance(value, DTensor):
        return value.full_tensor().detach()
    return part.full_tensor() if isinstance(part, DividedParameter) else value


class _Times(Function):
    """A value whose gradient is multiplied."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: int) -> Tensor:
        """The value."""
        ctx.factor = factor
        return alias(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """So many times the gradient."""
        return grad * ctx.factor, None


def gather_batch(x: Tensor, group: Group) -> Tensor:
    """The rows of all ranks' batches, on every rank, where data parallel layers end.

    Behind them all ranks compute with the whole batch, in layers that are divided (Krizhevsky, "One
    weird trick for parallelizing convolutional neural networks", 2014). The gradient of a rank's
    rows is multiplied by the number of ranks, since :class:`.DistributedDataParallel` averages what
    is a sum here.

    Args:
        x: of one shape on all ranks.
        group: who takes part.
    """
    rows = x.shape[0] * group.size()
    scaled = _Times.apply(x, group.size())
    return placed_otherwise(scaled, Shard(0), Replicate(), group, size=rows)
