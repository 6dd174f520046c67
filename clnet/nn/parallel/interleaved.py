"""Schedules of processes that have several stages each, by PyTorch's names.

Stage ``i`` of so many is on rank ``i`` modulo the ranks, so that a part comes round to each process
several times (Narayanan et al., "Efficient large-scale language model training", 2021).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...errors import ArgumentError
from ...tensor import Tensor
from .pipeline import Action, PipelineStage, Schedule

__all__ = ["ScheduleInterleaved1F1B", "ScheduleLoopedBFS"]


class _Looped(Schedule):
    """A batch's way through several stages of this process."""

    def __init__(
        self,
        stages: Sequence[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable[..., Tensor] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
    ) -> None:
        specs = args_chunk_spec, kwargs_chunk_spec, output_merge_spec
        super().__init__(stages, n_microbatches, loss_fn, specs=specs, scale_grads=scale_grads)
        if self._stages[0].group.size() == 1:
            raise ArgumentError(
                type(self).__name__,
                "stages are on several ranks",
                ranks=1,
                remedy="Call the stages one behind the other",
            )


class ScheduleLoopedBFS(_Looped):
    """All parts go through a process's stages one after another, then back, the last part first.

    Args:
        stages: this process's, in order.
        n_microbatches: in so many parts a batch is divided, evenly.
        loss_fn: of a result and its targets, a mean over the examples.
        args_chunk_spec, kwargs_chunk_spec, output_merge_spec: taken, None: along the first axis.
        scale_grads: whether gradients are means over the parts, and not sums.
    """

    def actions(self) -> list[Action]:
        parts, places = range(self._number), [stage.stage_index for stage in self._stages]
        there = [Action(place, part, forward=True) for place in places for part in parts]
        return there + [
            Action(place, part, forward=False)
            for place in reversed(places)
            for part in reversed(parts)
        ]


class ScheduleInterleaved1F1B(_Looped):
    """A part goes back as soon as it can, through one of a process's stages after another.

    Arguments are those of :class:`ScheduleLoopedBFS`. Parts go in rounds of as many as ranks, or
    more where they are no multiple of it; gradients are added in the parts' order.

    Raises:
        ArgumentError: if rounds of equal sizes have not all parts.
    """

    def __init__(
        self,
        stages: Sequence[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable[..., Tensor] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
    ) -> None:
        specs = args_chunk_spec, kwargs_chunk_spec, output_merge_spec
        super().__init__(stages, n_microbatches, loss_fn, *specs, scale_grads)
        rounds = max(1, n_microbatches // self._stages[0].group.size())
        if n_microbatches % rounds:
            raise ArgumentError(
                "ScheduleInterleaved1F1B",
                "rounds have the same number of parts",
                n_microbatches=n_microbatches,
                rounds=rounds,
                remedy="Take a multiple of the number of ranks",
            )
        self._in_round = n_microbatches // rounds

    def actions(self) -> list[Action]:
        stages, group = self._stages, self._stages[0].group
        total, in_round = len(stages) * self._number, self._in_round
        ahead = (len(stages) - 1) * in_round + 2 * (group.size() - 1 - group.rank())
        ahead = min(ahead, total)
        counts = {(stage.stage_index, way): 0 for stage in stages for way in (True, False)}

        def next_part(turn: int, *, forward: bool) -> Action:
            place = turn // in_round % len(stages)
            stage = stages[place if forward else -1 - place].stage_index
            part = counts[stage, forward]
            counts[stage, forward] += 1
            return Action(stage, part, forward)

        done = [next_part(turn, forward=True) for turn in range(ahead)]
        for turn in range(total):
            if ahead + turn < total:
                done.append(next_part(ahead + turn, forward=True))
            done.append(next_part(turn, forward=False))
        return done
