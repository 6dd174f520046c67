"""``clnet.summary``: a model's layers with their shapes, parameters, operations and memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any, NamedTuple

from ..autodiff.structure import taken_apart
from ..autodiff.tape import no_grad
from ..creation import zeros
from ..device import AbsentDevice, Launch, device
from ..errors import ArgumentError
from ..nn import Module
from ..tensor import Tensor
from ..values import mode
from ..values.dtypes import DType, float32
from ..values.generator import Generator
from .memory_plan import on_absent

_MIB = 2**20
_TITLES = ("layer", "makes", "parameters", "MFLOP", "MiB")


class LayerSummary(NamedTuple):
    """What one layer is.

    Attributes:
        path: in the model; "" of the model itself.
        kind: its class.
        output_shape: of its first output; () before it was ever called.
        parameters: elements, those of layers inside it included, each tensor once.
        flops: floating-point operations of one forward pass, inside it too; a multiplication and
            an addition are two.
        output_bytes: of what it makes.
        calls: how often the model calls it in a forward pass.
    """

    path: str
    kind: str
    output_shape: tuple[int, ...]
    parameters: int
    flops: int
    output_bytes: int
    calls: int

    @property
    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        depth = self.path.count(".") + bool(self.path)
        name = self.path.rpartition(".")[2]
        times = f" x{self.calls}" if self.calls > 1 else ""
        shape = " x ".join(map(str, self.output_shape)) if self.calls else "not called"
        return (
            f"{'  ' * depth}{f'{name}: ' if name else ''}{self.kind}{times}",
            shape,
            f"{self.parameters:,}",
            f"{self.flops / 1e6:,.2f}",
            f"{self.output_bytes / _MIB:,.2f}",
        )


@dataclass(frozen=True)
class ModelSummary:
    """What :func:`summary` found; ``str()`` of it is a table, notebooks show HTML.

    Attributes:
        layers: the model first, then its layers as they are nested.
        trainable: elements of parameters that want a gradient.
        parameter_bytes: of parameters and buffers.
    """

    layers: tuple[LayerSummary, ...]
    trainable: int
    parameter_bytes: int

    @property
    def parameters(self) -> int:
        """Elements of all parameters."""
        return self.layers[0].parameters

    @property
    def flops(self) -> int:
        """Floating-point operations of one forward pass."""
        return self.layers[0].flops

    def __str__(self) -> str:
        rows = [_TITLES, *(layer.cells for layer in self.layers)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if at < 2 else cell.rjust(width)
                for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, self._totals()])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{title}</th>" for title in _TITLES)
        body = "".join(
            "<tr>"
            + "".join(f"<td style='white-space: pre'>{escape(c)}</td>" for c in layer.cells)
            + "</tr>"
            for layer in self.layers
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"{table}<p>{escape(self._totals())}</p>"

    def _totals(self) -> str:
        return (
            f"{self.parameters:,} parameters ({self.trainable:,} trainable), with buffers "
            f"{self.parameter_bytes / _MIB:,.2f} MiB; {self.flops / 1e9:,.3f} GFLOP forward"
        )


def summary(
    model: Module, input_shape: Sequence[int], *, input_dtype: DType = float32
) -> ModelSummary:
    """A model's layers with the shapes they make, parameters, operations and memory.

    Nothing is computed, compiled or changed; the model runs on a device without elements.

    Args:
        model: the model.
        input_shape: of a batch.
        input_dtype: of the inputs.

    Returns:
        The figures; ``print`` shows a table.

    Raises:
        ArgumentError: ``model`` is no module.
        ClnetError: whatever the model raises for such inputs.

    Example:
        >>> import clnet
        >>> print(clnet.summary(clnet.nn.Linear(100, 10), (64, 100)))
        layer   makes    parameters  MFLOP   MiB
        Linear  64 x 10       1,010   0.13  0.00
        1,010 parameters (1,010 trainable), with buffers 0.00 MiB; 0.000 GFLOP forward
    """
    if not isinstance(model, Module):
        raise ArgumentError("summary", "model is a module", model=type(model).__name__)
    absent = AbsentDevice(device("meta").traits)
    absent.pool.limit = None
    seen = _Seen()
    with (
        mode.using(device=absent, generator=Generator(), tracer=None),
        no_grad(),
        on_absent(model, absent),
        seen.watching(model, absent),
    ):
        model(zeros(*input_shape, dtype=input_dtype))
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    held = sum(t.array.nbytes for t in (*model.parameters(), *model.buffers()))
    return ModelSummary(tuple(seen.layers(model)), trainable, held)


class _Seen:
    """What layers made and launched while the model ran."""

    def __init__(self) -> None:
        self._made: dict[str, list[Tensor]] = defaultdict(list)
        self._flops: dict[str, int] = defaultdict(int)
        self._open: list[str] = []

    @contextmanager
    def watching(self, model: Module, absent: AbsentDevice) -> Iterator[None]:
        """Look on at the model while the body runs."""
        handles = [
            handle
            for path, layer in model.named_modules()
            for handle in (
                layer.register_forward_pre_hook(partial(self._enter, path)),
                layer.register_forward_hook(partial(self._leave, path)),
            )
        ]
        try:
            with absent.queue.counting(self._count):
                yield
        finally:
            for handle in handles:
                handle.remove()

    def layers(self, model: Module) -> Iterator[LayerSummary]:
        """A row for each layer."""
        for path, layer in model.named_modules():
            made = self._made.get(path, [])
            yield LayerSummary(
                path,
                type(layer).__name__,
                tuple(made[-1].shape) if made else (),
                sum(p.numel() for p in layer.parameters()),
                self._flops[path],
                sum(y.array.nbytes for y in made),
                len(made),
            )

    def _enter(self, path: str, *_: Any) -> None:
        self._open.append(path)

    def _leave(self, path: str, layer: Any, inputs: Any, output: Any) -> None:
        del layer, inputs
        while self._open and self._open.pop() != path:
            pass
        self._made[path].append(_first(output))

    def _count(self, launch: Launch) -> None:
        for path in {*self._open}:
            self._flops[path] += launch.flops


def _first(output: Any) -> Tensor:
    """The first tensor of what a layer returned; one without elements if there is none."""
    if isinstance(output, Tensor):
        return output
    made: list[Tensor] = []
    taken_apart(output, made)
    return next((t for t in made if t.ndim or t.numel()), zeros(0))
