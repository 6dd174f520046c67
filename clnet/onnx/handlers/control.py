"""Control flow: branches and loops over graphs, and optional values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ... import ops
from ...errors import ArgumentError, OnnxError
from ...tensor import Tensor
from ..elements import Carried, to_device
from ..registry import Host, handler
from .cast import plain
from .text import is_text

Branch = Callable[..., list[Any]]


class Body(Protocol):
    """A graph that runs in rounds."""

    def __call__(self, *inputs: Any) -> list[Any]:
        """One round."""
        ...

    def no_rounds(self, first: int) -> list[Any]:
        """Outputs from a place on, stacked over no rounds."""
        ...


_MOST_ROUNDS = 2**31


@handler("If")
def if_(condition: Host, *, then_branch: Branch, else_branch: Branch) -> tuple[Any, ...]:
    """The results of one of two graphs."""
    return tuple((then_branch if bool(np.asarray(condition).reshape(-1)[0]) else else_branch)())


@handler("Loop")
def loop(
    rounds: Host | None = None, condition: Host | None = None, *carried: Any, body: Body
) -> tuple[Any, ...]:
    """A graph run again and again: values carried on, and results of each round stacked."""
    limit = _MOST_ROUNDS if rounds is None else int(np.asarray(rounds).reshape(-1)[0])
    going = condition is None or bool(np.asarray(condition).reshape(-1)[0])
    state, made = list(carried), None
    i = 0
    while going and i < limit:
        results = body(np.array(i, dtype=np.int64), np.array(going), *state)
        going = bool(_number(results[0]))
        state, scanned = results[1 : 1 + len(state)], results[1 + len(state) :]
        made = [[] for _ in scanned] if made is None else made
        for row, value in zip(made, scanned, strict=True):
            row.append(value)
        i += 1
    if made is None:
        return (*state, *body.no_rounds(1 + len(state)))
    return (*state, *(stacked(row, 0) for row in made))


def _number(value: Any) -> Any:
    host = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
    return host.reshape(-1)[0]


def stacked(values: Sequence[Any], axis: int) -> Any:
    """Values along a new axis: texts and shapes on the host, tensors on the device."""
    if not values:
        raise OnnxError("onnx", "what is stacked has one part or more")
    if all(isinstance(v, np.ndarray) for v in values):
        return np.stack(values, axis)
    if is_text(values[0]):
        return np.stack(list(values), axis)
    element = values[0].element if isinstance(values[0], Carried) else None
    y = ops.stack([plain(v) for v in values], axis)
    return y if element is None else Carried(y, element)


@handler("Scan")
def scan_old(
    lengths: Host | None,
    *values: Any,
    body: Body,
    num_scan_inputs: int,
    directions: Sequence[int] | None = None,
) -> tuple[Any, ...]:
    """A graph run along the second axis, for each element of the first.

    Elements have lengths of their own on demand; behind them nothing is read, and results are 0.
    """
    states = len(values) - num_scan_inputs
    longest = values[states].shape[1]
    counts = [longest] * values[0].shape[0] if lengths is None else [int(n) for n in lengths]
    rows: list[tuple[Any, ...]] = []
    for b, count in enumerate(counts):
        given = [ops.select(v, 0, b) for v in values]
        made = scan(
            *(v if i < states else ops.narrow(v, 0, 0, count) for i, v in enumerate(given)),
            body=body,
            num_scan_inputs=num_scan_inputs,
            scan_input_directions=directions,
        )
        rows.append((*made[:states], *(_lengthened(v, longest) for v in made[states:])))
    return tuple(stacked(column, 0) for column in zip(*rows, strict=True))


def _lengthened(x: Any, count: int) -> Any:
    """With zeros behind the first axis."""
    missing = count - x.shape[0]
    return ops.cat([x, ops.new_zeros(x, (missing, *x.shape[1:]))], 0) if missing else x


@handler("Scan", since=9)
def scan(
    *values: Any,
    body: Body,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] | None = None,
    scan_input_directions: Sequence[int] | None = None,
    scan_output_axes: Sequence[int] | None = None,
    scan_output_directions: Sequence[int] | None = None,
) -> tuple[Any, ...]:
    """A graph run along an axis: values carried on, and results of each step stacked."""
    count = len(values) - num_scan_inputs
    state, inputs = list(values[:count]), [_on_device(v) for v in values[count:]]
    axes = list(scan_input_axes or [0] * len(inputs))
    backwards = list(scan_input_directions or [0] * len(inputs))
    sizes = {x.shape[a] for x, a in zip(inputs, axes, strict=True)}
    if len(sizes) != 1:
        raise ArgumentError("onnx", "what is scanned has one length", sizes=sorted(sizes))
    length = sizes.pop()
    made: list[list[Any]] = []
    for i in range(length):
        parts = [
            ops.select(x, a, length - 1 - i if back else i)
            for x, a, back in zip(inputs, axes, backwards, strict=True)
        ]
        results = body(*state, *parts)
        state, scanned = results[:count], results[count:]
        made = made or [[] for _ in scanned]
        for row, value in zip(made, scanned, strict=True):
            row.append(value)
    if length == 0:
        return (*state, *_along(body.no_rounds(count), scan_output_axes))
    out_axes = list(scan_output_axes or [0] * len(made))
    out_back = list(scan_output_directions or [0] * len(made))
    joined = [
        stacked(row[::-1] if back else row, axis)
        for row, axis, back in zip(made, out_axes, out_back, strict=True)
    ]
    return (*state, *joined)


def _along(values: list[Any], axes: Sequence[int] | None) -> list[Any]:
    """Outputs of no steps, whose first axis goes where a node wants it."""
    wanted = axes or [0] * len(values)
    return [ops.movedim(plain(v), 0, a) for v, a in zip(values, wanted, strict=True)]


def _on_device(value: Any) -> Any:
    return to_device(value) if isinstance(value, np.ndarray) else value


@handler("Optional")
def optional(x: Any = None, *, type_: Any = None) -> Any:
    """A value that may be absent."""
    return x


@handler("OptionalHasElement")
def optional_has_element(x: Any = None) -> Host:
    """Whether an optional value is there."""
    return np.array(x is not None)


@handler("OptionalGetElement")
def optional_get_element(x: Any) -> Any:
    """An optional value."""
    if x is None:
        raise OnnxError("onnx", "an optional value that is asked for is there")
    return x
