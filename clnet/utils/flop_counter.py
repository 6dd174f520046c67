"""``utils.flop_counter``: operations of a block, as :func:`clnet.profile` counts them.

Those of products, convolutions, attention and recurrent layers: PyTorch counts no others either.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import ExitStack
from typing import Any

from ..device import Launch, device
from ..profiling import Profile, profile
from ..values import mode

__all__ = ["FlopCounterMode"]

_COUNTED = re.compile(
    r"(^|\+)(linear|matmul|conv[123]d|scaled_dot_product_attention|(lstm|gru|rnn)_)"
)
"""Names of ops that count; a fused one has those of its parts."""


class FlopCounterMode:
    """A block whose operations are counted.

    Args:
        mods: taken: modules are told apart always.
        depth: how many modules deep the table is.
        display: whether a table is printed at the end.
        custom_mapping: taken: ops know what they count.
    """

    def __init__(
        self,
        mods: Any = None,
        depth: int = 2,
        display: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
        custom_mapping: Any = None,
    ) -> None:
        self.depth, self.display = depth, display
        self._profile = Profile()
        self._stack = ExitStack()
        # By module and op: nothing runs there, so none is observed.
        self._on_meta: Counter[tuple[str, str]] = Counter()

    def __enter__(self) -> FlopCounterMode:
        self._profile = self._stack.enter_context(profile())
        self._on_meta.clear()
        queue: Any = device("meta").queue  # no device's own, which has no count
        self._stack.enter_context(queue.counting(self._count_on_meta))
        return self

    def _count_on_meta(self, launch: Launch) -> None:
        self._on_meta[mode.current().module_path, launch.op] += launch.flops

    def __exit__(self, *raised: object) -> None:
        self._stack.close()
        if self.display:
            print(self.get_table())

    def get_total_flops(self) -> int:
        """All of them; complete after the block."""
        return sum(flops for _, _, flops in self._counted())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """By module, ``"Global"`` for all, and op."""
        found: dict[str, dict[str, int]] = {"Global": {}}
        for path, op, flops in self._counted():
            parts = path.split(".") if path else []
            places = ["Global", *(".".join(parts[: i + 1]) for i in range(len(parts)))]
            for place in places:
                ops = found.setdefault(place, {})
                ops[op] = ops.get(op, 0) + flops
        return found

    def _counted(self) -> list[tuple[str, str, int]]:
        """Paths of modules, ops and operations."""
        all_ran = [(c.module_path, c.op, c.flops) for c in self._profile.commands]
        all_ran += [(path, op, flops) for (path, op), flops in self._on_meta.items()]
        return [each for each in all_ran if _COUNTED.search(each[1])]

    def get_table(self, depth: int | None = None) -> str:
        """A row for each module, with its operations and its share."""
        most = self.depth if depth is None else depth
        total = self.get_total_flops() or 1
        sums = {n: sum(ops.values()) for n, ops in self.get_flop_counts().items()}
        rows = [n for n in sums if n == "Global" or n.count(".") < most]
        return "\n".join(f"{sums[n]:>16} {100 * sums[n] / total:6.2f}%  {n}" for n in rows)
