"""Sequences of several lengths: padded to one, or packed step by step; ``nn.utils.rnn``."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import ops
from ..errors import ArgumentError, ShapeError
from ..tensor import Tensor, tensor
from ..values.arguments import checked, integers

__all__ = [
    "PackedSequence",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]

Sizes = tuple[int, ...]
Lengths = Any
"""A tensor of whole numbers, whose reading waits for the device, or a sequence of them."""


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None


class PackedSequence(_Packed):
    """Sequences sorted by length, the longest first: all first steps, all second steps ...

    Attributes:
        data: ``(steps of all sequences, ...)``.
        batch_sizes: how many sequences have a first, a second ... step; int64, on the device of
            ``data`` (PyTorch's lies on the CPU), as are both others.
        sorted_indices: where each sequence was before they were sorted, None if they were.
        unsorted_indices: where each went, the inverse.
    """

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Any,
        sorted_indices: Any = None,
        unsorted_indices: Any = None,
    ) -> PackedSequence:
        """Of tensors or, but for ``data``, sequences of numbers."""
        if unsorted_indices is None and sorted_indices is not None:
            places = _read(sorted_indices)
            of_device = isinstance(places, Tensor)
            unsorted_indices = ops.argsort(places) if of_device else np.argsort(places).tolist()
        rest = (batch_sizes, sorted_indices, unsorted_indices)
        return super().__new__(cls, data, *(_kept(data, given) for given in rest))

    def _with(self, data: Tensor) -> PackedSequence:
        if data is self.data:
            return self
        rest = (x if x is None else _kept(data, x) for x in self[1:])
        return PackedSequence(data, *rest)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same sequences, ``data`` as its own ``to`` gives it."""
        return self._with(self.data.to(*args, **kwargs))

    def cpu(self) -> PackedSequence:
        """On the host's processor."""
        return self._with(self.data.cpu())

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """On a graphics card."""
        return self._with(self.data.cuda(*args, **kwargs))

    def double(self) -> PackedSequence:
        """In float64."""
        return self._with(self.data.double())

    def float(self) -> PackedSequence:
        """In float32."""
        return self._with(self.data.float())

    def half(self) -> PackedSequence:
        """In float16."""
        return self._with(self.data.half())

    def long(self) -> PackedSequence:
        """In int64."""
        return self._with(self.data.long())

    def int(self) -> PackedSequence:
        """In int32."""
        return self._with(self.data.int())

    def short(self) -> PackedSequence:
        """In int16."""
        return self._with(self.data.short())

    def char(self) -> PackedSequence:
        """In int8."""
        return self._with(self.data.char())

    def byte(self) -> PackedSequence:
        """In uint8."""
        return self._with(self.data.byte())

    @property
    def is_cuda(self) -> bool:
        """Whether it is on a graphics card."""
        return self.data.is_cuda

    @property
    def sizes(self) -> Sizes:
        """``batch_sizes`` as numbers of the host, also while a function is traced."""
        return tuple(_numbers(self.batch_sizes))


class _Known(NamedTuple):
    """The elements of a tensor that was made of numbers, as long as nobody writes to it."""

    numbers: tuple[int, ...]
    version: int


def _kept(data: Tensor, given: Any) -> Any:
    """Numbers as an int64 tensor beside ``data`` that knows them: loops over steps need them."""
    if isinstance(given, Tensor):
        if given.device is data.device:
            return given
    elif not isinstance(given, tuple | list):
        return given  # None; a stand-in, where a compiled function takes its result apart
    numbers = tuple(_numbers(given))
    made = tensor(np.array(numbers, np.int64), device=data.device)
    vars(made)["_clnet_known"] = _Known(numbers, made.array.storage.version)
    return made


@checked
def pack_padded_sequence(
    input: Tensor,  # noqa: A002 - PyTorch's name
    lengths: Lengths,
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """Padded sequences without what was padded.

    Args:
        input: ``(steps, n, ...)``.
        lengths: of the sequences, each 1 or more.
        batch_first: ``input`` is ``(n, steps, ...)``.
        enforce_sorted: they have to come the longest first; else they are sorted here.

    Returns:
        What recurrent layers take instead of a tensor.

    Raises:
        ArgumentError: if they are not sorted, though they have to be.
        ShapeError: if there is not one length for each, within the steps.
    """
    if input.ndim < 2:
        raise ShapeError("pack_padded_sequence", "input is (steps, n, ...)", input=input.shape)
    if input.numel() == 0:
        raise ShapeError("pack_padded_sequence", "there are elements to pack", input=input.shape)
    steps, n = input.shape[:2][:: -1 if batch_first else 1]
    sizes = _numbers(lengths)
    if len(sizes) != n or not all(1 <= size <= steps for size in sizes):
        raise ShapeError(
            "pack_padded_sequence", "each sequence has a length, from 1 to the steps",
            input=input.shape, lengths=sizes,
        )  # fmt: skip
    order = np.argsort([-size for size in sizes], kind="stable")
    in_order = bool((order == np.arange(n)).all())
    if enforce_sorted and not in_order:
        raise ArgumentError(
            "pack_padded_sequence", "the longest come first", lengths=sizes,
            remedy="Pass enforce_sorted=False",
        )  # fmt: skip
    batch_sizes = [sum(size > step for size in sizes) for step in range(max(sizes))]
    of = np.concatenate([order[:size] for size in batch_sizes])
    step = np.repeat(np.arange(len(batch_sizes)), batch_sizes)
    rows = of * steps + step if batch_first else step * n + of
    flat = ops.reshape(input, (steps * n, *input.shape[2:]))
    data = ops.index_select(flat, 0, tensor(rows, device=input.device))
    if enforce_sorted:
        return PackedSequence(data, batch_sizes)
    places = order.tolist(), np.argsort(order).tolist()
    return PackedSequence(data, batch_sizes, *places)


@checked
def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The inverse of :func:`pack_padded_sequence`.

    Args:
        sequence: what is packed.
        batch_first: whether the result is ``(n, steps, ...)`` instead of ``(steps, n, ...)``.
        padding_value: what follows the end of a sequence.
        total_length: the steps of the result, None for those of the longest sequence.

    Returns:
        The sequences, in the order they had, and their lengths, int64.

    Raises:
        ArgumentError: if the longest is longer than ``total_length``.
    """
    data, batch_sizes = sequence.data, np.array(sequence.sizes)
    longest, n = len(batch_sizes), sequence.sizes[0]
    steps = longest if total_length is None else total_length
    if steps < longest:
        raise ArgumentError(
            "pad_packed_sequence", "total_length holds the longest", total_length=steps,
            longest=longest,
        )  # fmt: skip
    lengths = (np.arange(n)[:, None] < batch_sizes).sum(1)
    starts = np.concatenate([[0], np.cumsum(batch_sizes)])
    rows = np.full((steps, n), len(data))  # one row of padding follows the data
    for step, size in enumerate(batch_sizes):
        rows[step, :size] = starts[step] + np.arange(size)
    if sequence.unsorted_indices is not None:
        back = _numbers(sequence.unsorted_indices)
        rows, lengths = rows[:, back], lengths[back]
    rows = rows.T if batch_first else rows
    padding = data.detach().new_full((1, *data.shape[1:]), padding_value)
    index = tensor(np.ascontiguousarray(rows).reshape(-1), device=data.device)
    flat = ops.index_select(ops.cat([data, padding]), 0, index)
    return ops.reshape(flat, (*rows.shape, *data.shape[1:])), tensor(lengths)


@checked
def pad_sequence(
    sequences: Sequence[Tensor] | Tensor,
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences of several lengths in one tensor.

    Args:
        sequences: ``(steps, ...)`` each, alike but for the steps, or a tensor of them; the dtype is
            the first's.
        batch_first: whether the result is ``(n, steps, ...)`` instead of ``(steps, n, ...)``.
        padding_value: what fills the shorter ones up.
        padding_side: ``"right"``: behind their end; ``"left"``: before they begin.

    Raises:
        ArgumentError: if there is no such side.
        ShapeError: if there is no sequence, or they differ in another axis.
    """
    if padding_side not in ("left", "right"):
        raise ArgumentError("pad_sequence", "padding_side is left or right", got=padding_side)
    for s in sequences:
        if s.ndim == 0:
            raise ShapeError("pad_sequence", "a sequence has an axis of steps", sequence=s.shape)
    longest = max((s.shape[0] for s in sequences), default=0)
    padded: list[Tensor] = []
    for s in sequences:
        missing = longest - s.shape[0]
        ends = (missing, 0) if padding_side == "left" else (0, missing)
        steps = ops.pad(s, (0, 0) * (s.ndim - 1) + ends, value=padding_value)
        padded.append(steps.to(sequences[0].dtype))
    return ops.stack(padded, 0 if batch_first else 1)


@checked
def unpad_sequence(
    padded_sequences: Tensor, lengths: Lengths, batch_first: bool = False
) -> list[Tensor]:
    """The inverse of :func:`pad_sequence`: each sequence without its padding, as a view."""
    rows = padded_sequences if batch_first else ops.transpose(padded_sequences, 0, 1)
    sizes = _numbers(lengths)
    if len(sizes) != rows.shape[0]:
        law = "there is a length for each sequence"
        raise ShapeError("unpad_sequence", law, sequences=rows.shape[0], lengths=sizes)
    return [ops.narrow(rows[i], 0, 0, size) for i, size in enumerate(sizes)]


@checked
def pack_sequence(
    sequences: Sequence[Tensor] | Tensor, enforce_sorted: bool = True
) -> PackedSequence:
    """Sequences of several lengths, packed; arguments as :func:`pack_padded_sequence`'s."""
    padded = pad_sequence(sequences)
    lengths = [s.shape[0] for s in sequences]
    return pack_padded_sequence(padded, lengths, enforce_sorted=enforce_sorted)


@checked
def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The inverse of :func:`pack_sequence`: each sequence, in the order they had."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


def _numbers(lengths: Lengths) -> list[int]:
    found = _read(lengths)
    found = found.tolist() if isinstance(found, Tensor) else found
    return list(integers("lengths", "lengths", found))


def _read(given: Any) -> Any:
    """The numbers of a tensor whose numbers are known; else what is given."""
    if not isinstance(given, Tensor):
        return given
    known = vars(given).get("_clnet_known")
    if known is not None and known.version == given.array.storage.version:
        return list(known.numbers)
    return given
