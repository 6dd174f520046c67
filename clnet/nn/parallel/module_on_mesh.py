"""A module whose parameters lie on the ranks of a mesh, by PyTorch's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ranks.mesh import DeviceMesh
from ...ranks.placement import distribute_tensor
from ...tensor import Tensor
from ..module import Module

__all__ = ["distribute_module"]


def distribute_module(
    module: Module,
    device_mesh: DeviceMesh,
    partition_fn: Callable[[str, Module, DeviceMesh], Any] | None = None,
    input_fn: Callable[[Module, Any, DeviceMesh], Any] | None = None,
    output_fn: Callable[[Module, Any, DeviceMesh], Any] | None = None,
) -> Module:
    """Have a module's parameters and buffers lie on the ranks of a mesh; all call it.

    What ``partition_fn`` leaves becomes the first rank's, whole on every rank. Layers that compute
    with parts come of :func:`.parallelize_module`.

    Args:
        module: is changed.
        device_mesh: the ranks; of one axis.
        partition_fn: is given the name of each module in it, the module, and the mesh; None: all
            is whole on every rank.
        input_fn: is given the module, its inputs and the mesh before each pass, and gives other
            inputs.
        output_fn: likewise its output, behind each pass.

    Returns:
        The module.
    """
    for name, part in list(module.named_modules()):
        before = _own(part)
        if partition_fn is not None:
            partition_fn(name, part, device_mesh)
        for x in _own(part):
            if any(x is y for y in before):  # else it lies as the caller has it
                x.detach().copy_(distribute_tensor(x.detach(), device_mesh).to_local())
    if input_fn is not None:
        module.register_forward_pre_hook(lambda m, given: input_fn(m, given, device_mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda m, _, found: output_fn(m, found, device_mesh))
    return module


def _own(module: Module) -> list[Tensor]:
    """Parameters and buffers of a module, and not of those within."""
    named = (module.named_parameters(recurse=False), module.named_buffers(recurse=False))
    return [x for some in named for _, x in some]
