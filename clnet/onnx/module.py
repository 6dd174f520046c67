"""A model as a module: floating initialisers are parameters, but for settings and statistics."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..creation import as_tensor
from ..errors import ArgumentError
from ..nn.module import Module
from ..nn.parameter import Parameter
from ..tensor import Tensor
from .elements import Carried, Known, Laid, by_numpy, to_device, to_host
from .program import Program

__all__ = ["ImportedModule"]


class ImportedModule(Module):
    """A model from a file of ONNX; :func:`clnet.onnx.load` makes it.

    Called with inputs in the graph's order or by name, tensors or NumPy arrays. It computes what
    the file says, in training as in evaluation. Parameters are named as the initialisers, with
    ``_`` for what Python's names do not have.

    Args:
        program: the graph, ready to run.
        weights: its floating initialisers.
        input_names: of what a caller gives.
        optional: inputs that have an initialiser as default, which a caller may replace by name.
        defaults: those of them that are no parameters.
        input_specs: what the file says of the inputs.

    Attributes:
        input_names: of the graph, in order.
        output_names: of the graph, in order.
        input_specs: name, dtype and sizes of each input.
    """

    def __init__(
        self,
        program: Program,
        weights: dict[str, np.ndarray],
        input_names: tuple[str, ...],
        optional: frozenset[str] = frozenset(),
        input_specs: tuple[Any, ...] = (),
        defaults: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.input_names = input_names
        self.output_names = program.outputs
        self.input_specs = input_specs
        self._program = program
        self._optional = optional
        self._defaults = dict(defaults or {})
        self._names: dict[str, str] = {}
        for name, array in weights.items():
            attribute = _attribute(name, self._names)
            self._names[attribute] = name
            self.register_parameter(attribute, Parameter(as_tensor(array)))

    def forward(self, /, *args: Any, **named: Any) -> Any:
        """The outputs of a call.

        Args:
            *args: inputs in order.
            **named: inputs by name.

        Returns:
            The output, a tuple of them if there are several. What the model leaves on the host
            (texts) stays there; a sequence is a list.

        Raises:
            ArgumentError: if inputs are missing, unknown or given twice.
        """
        made = self.run(self._given(args, named))
        outputs = tuple(_plain(value) for value in made.values())
        return outputs[0] if len(outputs) == 1 else outputs

    def _given(self, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        given = dict(zip(self.input_names, args, strict=False))
        twice = sorted({*given} & {*named})
        unknown = sorted({*named} - {*self.input_names} - self._optional)
        missing = [n for n in self.input_names if n not in {*given, *named}]
        if len(args) > len(self.input_names) or twice or unknown or missing:
            raise ArgumentError(
                "onnx",
                "a model takes each of its inputs once",
                inputs=", ".join(self.input_names),
                given=", ".join([*given, *named]) or "none",
            )
        return {**given, **named}

    @property
    def initialiser_names(self) -> dict[str, str]:
        """For each parameter the name that it has in the file."""
        return dict(self._names)

    def run(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Outputs by name, in the types of ONNX; those unknown to clnet come as ``Carried``."""
        weights = {name: getattr(self, a) for a, name in self._names.items()}
        tensors = [v for v in (*inputs.values(), *weights.values()) if isinstance(v, Tensor)]
        device = tensors[0].device if tensors else None
        dtypes = {spec.name: spec.dtype for spec in self.input_specs}
        arrays = {n: _checked(n, v, dtypes.get(n)) for n, v in inputs.items()}
        given = {
            **self._defaults,
            **weights,
            **{name: _input(value, device) for name, value in arrays.items()},
        }
        made = self._program.run([], given, device)
        return dict(zip(self.output_names, made, strict=True))

    def numpy(self, /, *args: Any, **named: Any) -> list[Any]:
        """The outputs as NumPy arrays in the model's own types; arguments as those of a call."""
        made = self.run(self._given(args, named))
        return [to_host(value) for value in made.values()]


def _attribute(name: str, taken: dict[str, str]) -> str:
    plain = re.sub(r"\W", "_", name) or "weight"
    plain = f"w_{plain}" if plain[0].isdigit() or plain[0] == "_" else plain
    if hasattr(Module, plain) or plain in {
        "training",
        "input_names",
        "output_names",
        "input_specs",
    }:
        plain = f"w_{plain}"
    while plain in taken:
        plain += "_"
    return plain


def _checked(name: str, value: Any, dtype: Any) -> Any:
    """What a caller gives for an input, as an array if it is none.

    Args:
        name: of the input.
        value: what is given.
        dtype: that the model names; None of what is no tensor.

    Raises:
        ArgumentError: if it is no array, or one of texts where numbers are asked for, or the other
            way round.
    """
    if dtype is None or isinstance(value, Carried):
        return value
    if not isinstance(value, Tensor):
        try:
            value = None if value is None else np.asarray(value)
        except ValueError:  # of rows that differ in length
            value = None
    wanted = "texts" if dtype.kind == "O" else "numbers"
    got = None if value is None else value.dtype
    of_texts = isinstance(value, np.ndarray) and value.dtype.kind in "OUST"
    if value is None or of_texts != (dtype.kind == "O"):
        law = f"input {name!r} is a tensor or an array of {wanted}"
        raise ArgumentError("onnx", law, dtype=got, wanted=dtype)
    return value


def _input(value: Any, device: Any) -> Any:
    if isinstance(value, list):
        return [_input(part, device) for part in value]
    if isinstance(value, Tensor | Carried) or value is None:
        return value
    array = np.asarray(value)
    return array.astype(object) if by_numpy(array.dtype).dtype is None else to_device(array, device)


def _plain(value: Any) -> Any:
    """A result as a caller has it: on the device, carried types as the tensors that hold them."""
    if isinstance(value, Known):
        value = value.on(None)
    if isinstance(value, Laid):
        value = value.plain()
    if isinstance(value, np.ndarray):
        value = to_device(value)
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value.tensor if isinstance(value, Carried) else value
