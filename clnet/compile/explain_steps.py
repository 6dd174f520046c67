"""What passes decided about a trace, told when somebody asks: it is found out from the trace.

Each pass decides by a function that names its reason; the same function is asked once more about
the steps that are left. So nothing is kept, and no text made, for those who never ask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from ..ops.conv import Conv2d, ConvInputGrad, ConvWeightGrad
from ..ops.rewritten.blocked import (
    BlockedAlgorithm,
    BlockedConv2d,
    BlockedConvInputGrad,
    BlockedConvWeightGrad,
    BlockedForm,
    ConvObstacle,
    considered,
)
from . import epilogue, fuse, fuse_into_products, merge_updates, prologue
from .convolution import convolution_of, learns
from .fusion_obstacle import UnfusedPair
from .trace import Trace
from .tracer import Step

_MOST_PLACES = 8

_UNFUSED: tuple[tuple[str, Callable[[Trace], Iterator[UnfusedPair]]], ...] = (
    ("fuse", fuse.unfused_pairs),
    ("epilogue", epilogue.unfused_pairs),
    ("fuse_into_products", fuse_into_products.unfused_pairs),
    ("prologue", prologue.unfused_pairs),
)


def reasons(trace: Trace, parted: Sequence[int] = ()) -> list[str]:
    """What was decided and why, a line for each decision, with the steps it is about.

    Args:
        trace: after its passes.
        parted: steps that have more launches for less scratch memory.

    Returns:
        The passes, what is done before the first replay, how convolutions are computed, which steps
        are not fused, and which updates are not merged.
    """
    lines = [f"passes: {', '.join(trace.passes) or 'none'}"]
    if trace.setup:
        names = Counter(step.function.name for step in trace.setup)
        parts = (f"{name} x{count}" for name, count in names.items())
        lines.append(f"once, before the first replay: {', '.join(parts)}")
    found: dict[str, list[str]] = {}

    def tell(text: str, place: str) -> None:
        found.setdefault(text, []).append(place)

    for position, step in trace.ops:
        text = _convolution(trace, step)
        if text:
            tell(text, _name(trace, position))
    for position in parted:
        tell("in more launches, for less scratch memory at the peak", _name(trace, position))
    for name, unfused_pairs in _UNFUSED:
        for first, second, why in unfused_pairs(trace) if name in trace.passes else ():
            pair = f"{_name(trace, first)} into {_name(trace, second)}"
            tell(f"not fused ({why.value})", pair)
    if "merge_updates" in trace.passes:
        for position in merge_updates.alone(trace):
            tell("a launch of its own, being large", _name(trace, position))
    return [*lines, *(f"{text}: {_listed(places)}" for text, places in found.items())]


def _convolution(trace: Trace, step: Step) -> str:
    """How a convolution is computed, and what stands against faster ways."""
    function, target = step.function, trace.device.target
    if isinstance(function, BlockedConv2d | BlockedConvInputGrad | BlockedConvWeightGrad):
        taken = f"blocked by {function.form.block}, {function.form.algorithm.value}"
        packing = learns(trace)
        forms = considered(target, function.geometry, function.direction, packing=packing)
        faster = takewhile(lambda found: found[0] != function.form, forms)
        # A faster form that nothing stands against was forbidden; larger transforms say enough.
        against = (
            _obstacle(form, obstacle or ConvObstacle.FORBIDDEN)
            for form, obstacle in faster
            if form.algorithm is not BlockedAlgorithm.WINOGRAD2
        )
        return "; ".join((taken, *against))
    if not isinstance(function, Conv2d | ConvInputGrad | ConvWeightGrad):
        return ""
    if function.settings.algorithm is not None:
        return f"plain, by {function.settings.algorithm.value}, as was asked for"
    convolution = convolution_of(step)
    if "layout" not in trace.passes:
        return "plain; the layout pass did not run"
    if convolution is None:
        return f"plain; blocked convolutions are of float32, not {step.inputs[0].dtype.name}"
    if target.traits.dedicated_local_memory:
        obstacle = convolution.winograd_obstacle(target)
        return "by winograd" if obstacle is None else f"not winograd ({obstacle.value})"
    if convolution.form(target) is not None:
        return "plain; its result is changed in place, or no dense image"
    forms = (
        _obstacle(form, obstacle)
        for form, obstacle in convolution.considered(target)
        if obstacle is not None and form.algorithm is not BlockedAlgorithm.WINOGRAD2
    )
    return "; ".join(("plain", *forms))


def _obstacle(form: BlockedForm, obstacle: ConvObstacle) -> str:
    return f"not {form.algorithm.value} ({obstacle.value})"


def _name(trace: Trace, position: int) -> str:
    step = trace.steps[position]
    return f"#{position} {step.function.name}" if isinstance(step, Step) else f"#{position}"


def _listed(places: list[str]) -> str:
    more = len(places) - _MOST_PLACES
    return ", ".join(places[:_MOST_PLACES]) + (f" and {more} more" if more > 0 else "")
