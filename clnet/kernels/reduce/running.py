"""How kernels of running values are laid over lines: an item goes along one, on GPUs a group."""

from __future__ import annotations

from math import prod
from typing import Any

from ...array import Array
from ...device import Launch, Target
from ...values.dtypes import DType, float32, float64
from ...values.record import NamedTuple
from ..grid import group_of_line, in_groups, items
from ..kernel import Constraint, Kernel

# An item is through with so many elements before a group has met.
_FEW = 32


def running_dtype(target: Target, dtype: DType) -> DType:
    """The dtype of an item's running values: a CPU adds doubles as fast as floats, one by one."""
    wide = target.traits.float64 and not in_groups(target.traits)
    return float64 if dtype is float32 and wide else dtype


class Running(NamedTuple):
    """The kernels of one running value.

    Attributes:
        items: an item a line, whose neighbours may lie between its elements.
        group: a group a line, whose elements lie side by side.
    """

    items: Kernel
    group: Kernel

    @classmethod
    def of(cls, name: str, template: str) -> Running:
        """The defs ``<name>_items`` and ``<name>_group`` of a template."""
        doubled = Constraint("group & (group - 1) == 0", "steps are doubled")
        return cls(Kernel(f"{name}_items", template), Kernel(f"{name}_group", template, (doubled,)))

    def launch(
        self,
        target: Target,
        params: dict[str, Any],
        arrays: dict[str, Array],
        *,
        dim: int,
        flops: int,
        of_items: dict[str, Any] | None = None,
    ) -> Launch:
        """The launch along an axis.

        Args:
            target: what to choose the kernel for.
            params: of both kernels.
            arrays: by the names of the kernels' arguments; dense, of one shape, not empty.
            dim: the axis.
            flops: operations of an element.
            of_items: parameters that only the kernel of items has.
        """
        x = next(iter(arrays.values()))
        n, inner = x.shape[dim], prod(x.shape[dim + 1 :])
        lines = x.size // n
        cost: dict[str, Any] = {
            "flops": flops * x.size,
            "bytes": sum(a.nbytes for a in arrays.values()),
        }
        if inner > 1 or n <= _FEW or not in_groups(target.traits):
            args = {"lines": lines, "n": n, "inner": inner, **arrays}
            own = {**params, **(of_items or {})}
            return self.items.launch(own, args, **items(target, lines), **cost)
        group = group_of_line(target, n)
        return self.group.launch(
            {**params, "group": group},
            {"n": n, **arrays},
            global_size=(lines * group,),
            local_size=(group,),
            **cost,
        )
