"""How the items of a group share the rows of :mod:`.row_norm_grad`."""

from __future__ import annotations

from collections.abc import Sequence

from ...array import Array
from ...device import Launch, Target
from ...values.record import NamedTuple
from ...values.shapes import ceil_div
from ..kernel import Kernel, Named, by_name, nbytes_of
from .row_norm import AT_ONCE, GROUP_ITEMS, group_shape

GROUP = Kernel("row_norm_grad_group", "norm/row_norm_grad_group.mako")
JOIN = Kernel("row_norm_grad_join", "norm/row_norm_grad_group.mako")

# Elements of a row that an item should have in registers, and up to how many it has them of so many
# rows at once: two numbers of each row, and the sums.
_OWN = 8
_LEAST_ITEMS = 8
_ROWS = ((4, 4), (16, 2))
# Neighbouring sums that a group joins.
_JOINED = 8


class Share(NamedTuple):
    """What an item takes of a part of the rows.

    Attributes:
        items: how many share a row.
        parts: of a group, which adds up their sums.
        own: elements of a row that an item has in registers; 0: it reads them again.
        rows: at once.
    """

    items: int
    parts: int
    own: int
    rows: int

    @staticmethod
    def of(target: Target, n: int) -> Share:
        """That of rows of ``n`` elements."""
        most, parts = group_shape(target, n)
        items = min(most, max(_LEAST_ITEMS, 1 << (ceil_div(n, _OWN) - 1).bit_length()))
        own = ceil_div(n, items)
        rows = next((rows for limit, rows in _ROWS if own <= limit), 0)
        if not rows:
            return Share(most, 1, 0, AT_ONCE)
        return Share(items, most * parts // items, own, rows)

    @property
    def group(self) -> int:
        """Items of a group."""
        return self.items * self.parts

    def params(self) -> Named:
        """The kernel's, that say so."""
        return by_name("group reduce_items own rows", self.group, self.items, self.own, self.rows)


def join(target: Target, sums: tuple[Array, Array], partial: Sequence[Array], n: int) -> Launch:
    """Both sums over rows in one launch, of what the groups of :data:`GROUP` left.

    Args:
        target: the device's numbers.
        sums: the gradients of weight and bias, ``(n,)`` each, written.
        partial: of each a row for each group, of ``n`` elements or more.
        n: how many count.
    """
    group = min(GROUP_ITEMS, target.traits.max_group_size)
    kept = min(_JOINED, group)
    groups, step = partial[0].shape
    names = "groups n part_step gweight gbias of_weight of_bias"
    return JOIN.launch(
        by_name("acc group reduce_items", sums[0].dtype.ctype, group, group // kept),
        by_name(names, groups, n, step, *sums, *partial),
        global_size=(ceil_div(2 * n, kept) * group,),
        local_size=(group,),
        flops=2 * groups * n,
        bytes=nbytes_of((*sums, *partial)),
    )
