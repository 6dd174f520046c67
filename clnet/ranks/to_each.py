"""From each rank to each: parts of tensors, by PyTorch's names."""

# ruff: noqa: D417, FBT001, FBT002 - PyTorch's signatures; what functions share stands once

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import DistributedError
from ..tensor import Tensor
from .hosted import apart, checked_tensor, checked_tensors, split_rows
from .membership import group_of
from .moves import exchange, exchange_any, told_sizes
from .routes import Move, begin_move, to_each_other
from .work import Work
from .world import Group

__all__ = ["all_to_all", "all_to_all_single"]


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: Group | None = None,
    async_op: bool = False,
) -> Work | None:
    """Each rank sends the tensor in another's place of a list to it.

    Args:
        output_tensor_list: a tensor for each rank, overwritten with what that rank has for this, of
            as many elements.
        input_tensor_list: a tensor for each rank; all of one dtype, on all ranks.
        group, async_op: as for :func:`.all_reduce`.

    Raises:
        DistributedError: if a list has not a tensor for each rank, or what is sent to a rank does
            not fit where it goes.
    """
    name = "all_to_all"
    members = group_of(name, group)
    if members is None:
        return None
    if not input_tensor_list:
        raise DistributedError(name, "input_tensor_list holds a tensor for each rank", given=0)
    x, count = (
        checked_tensor(name, input_tensor_list[0], "input_tensor_list", traced=True),
        members.size(),
    )
    sources, targets = (
        checked_tensors(name, given, what, count=count, like=x, sizes=False, traced=True)
        for what, given in (
            ("input_tensor_list", input_tensor_list),
            ("output_tensor_list", output_tensor_list),
        )
    )
    return _each_to_each(name, members, sources, targets, async_op)


def _each_to_each(
    name: str,
    members: Group,
    sources: Sequence[Tensor],
    targets: Sequence[Tensor],
    async_op: bool,
) -> Work | None:
    """Exchange parts of any sizes; ranks that expect others get an error, all of them."""
    given = [apart(source, *targets) for source in sources]
    counts = [x.numel() for x in given], [y.numel() for y in targets]
    itemsize, found = given[0].dtype.itemsize, list[tuple[int, int, float]]()

    def agree(wish: int = 0) -> set[int]:
        return members.agree(name, dtype=given[0].dtype.name, wish=wish)

    def sizes() -> tuple[int, float]:
        least = members.device_sums.least_bytes(given[0].device)
        found[:] = [told_sizes(name, members, *counts, least)]
        return found[0][1] * itemsize, found[0][2]

    def by_host(parts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> None:
        ((smallest, largest, _),) = found
        if smallest == largest:
            exchange(members, parts, rows)
        else:
            exchange_any(members, parts, rows, largest * itemsize)

    move = Move(name, members, given, targets, agree, by_host, sizes=sizes)
    move = move._replace(**to_each_other(members.rank(), members.size()))
    return begin_move(move, [*targets], async_op=async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,  # noqa: A002 - PyTorch's
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group | None = None,
    async_op: bool = False,
) -> Work | None:
    """As :func:`all_to_all`, of one tensor whose parts lie behind each other.

    Args:
        output: overwritten.
        input: of its dtype.
        output_split_sizes, input_split_sizes: rows of each rank's part, along the first axis; None:
            all parts are of one size. Either all ranks give some, or none does.
        group, async_op: as for :func:`.all_reduce`.

    Raises:
        DistributedError: if tensors or sizes do not fit.
    """
    name = "all_to_all_single"
    members = group_of(name, group)
    x = checked_tensor(name, input, "input", traced=True)
    y = checked_tensor(name, output, "output", traced=True)
    if members is None:
        return None
    if output_split_sizes or input_split_sizes:
        sources = split_rows(name, "input", x, input_split_sizes, members.size())
        targets = split_rows(name, "output", y, output_split_sizes, members.size())
        if x.dtype is not y.dtype:
            law = "input and output have one dtype"
            raise DistributedError(name, law, input=x.dtype, output=y.dtype)
        return _each_to_each(name, members, sources, targets, async_op)
    if x.numel() != y.numel() or x.dtype is not y.dtype or x.numel() % members.size():
        raise DistributedError(
            name,
            "input and output have one size, of a part for each rank, and one dtype",
            input=(tuple(x.shape), x.dtype),
            output=(tuple(y.shape), y.dtype),
            ranks=members.size(),
        )
    x = apart(x, y)

    def agree(wish: int = 0) -> set[int]:
        return members.agree(name, dtype=x.dtype.name, shape=x.shape, size=x.numel(), wish=wish)

    def by_host(parts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> None:
        if parts[0].size:
            count = members.size()
            exchange(members, *([*host.reshape(count, -1)] for (host,) in (parts, rows)))

    move = Move(name, members, [x], [y], agree, by_host, whole=True)
    move = move._replace(**to_each_other(members.rank(), members.size()))
    return begin_move(move, [y], async_op=async_op)
