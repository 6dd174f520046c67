"""Texts: words or characters as numbers, in columns for recurrent models or in windows."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError, DataError, refusal
from .dataset import ArrayDataset, Arrays, Dataset

LEVELS = ("word", "space", "char")
UNKNOWN, END = "<unk>", "<eos>"
# A word with what is bound to it ("don't", "3.5"), or one mark of punctuation.
_WORD = re.compile(r"<\w+>|\w+(?:['.,-]\w+)*|[^\w\s]")
_SPLITS = (
    ("ptb.train.txt", "ptb.valid.txt", "ptb.test.txt"),
    ("train.txt", "valid.txt", "test.txt"),
    ("wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens"),
)


class Texts(NamedTuple):
    """A text's three parts."""

    train: str
    validation: str
    test: str


def tokenize(text: str, level: str = "word") -> list[str]:
    """Cut a text up.

    Args:
        text: any text.
        level: ``"word"``: lower-case words and marks of punctuation, ``<eos>`` at a line's end;
            ``"space"``: what blanks separate, for texts that are cut up already, and ``<eos>``;
            ``"char"``: characters.

    Returns:
        The pieces in their order.

    Raises:
        ArgumentError: if there is no such level.

    Example:
        >>> tokenize("Don't stop.")
        ["don't", 'stop', '.', '<eos>']
    """
    if level not in LEVELS:
        raise ArgumentError("tokenize", f"level is one of {', '.join(LEVELS)}", level=repr(level))
    if level == "char":
        return list(text)
    cut = _WORD.findall if level == "word" else str.split
    lines = (text.lower() if level == "word" else text).splitlines()
    return [piece for line in lines if line.strip() for piece in (*cut(line), END)]


class Vocabulary:
    """Pieces of text by number.

    Args:
        pieces: each once; the place is its number.
        level: how texts are cut up, as :func:`tokenize` takes it.

    Attributes:
        pieces: by number.
        level: as given.

    Raises:
        ArgumentError: if a piece occurs twice, or there is none.

    Example:
        >>> vocabulary = Vocabulary.of("a rose is a rose", most=3)
        >>> vocabulary.pieces
        ('<unk>', 'a', 'rose')
        >>> vocabulary.decode(vocabulary.encode("a red rose"))
        'a <unk> rose <unk>'
    """

    def __init__(self, pieces: Iterable[str], level: str = "word") -> None:
        self.pieces = tuple(pieces)
        self.level = level
        self._numbers = {piece: i for i, piece in enumerate(self.pieces)}
        if not self.pieces or len(self._numbers) < len(self.pieces):
            raise ArgumentError(
                "Vocabulary",
                "pieces are different, and at least one",
                pieces=len(self.pieces),
                different=len(self._numbers),
            )

    @classmethod
    def of(cls, text: str, level: str = "word", *, most: int | None = None) -> Vocabulary:
        """The pieces of a text, the most frequent first, ``<unk>`` before them.

        Args:
            text: any text.
            level: as :func:`tokenize` takes it.
            most: how many there may be, ``<unk>`` included; rarer ones become that. None: all.

        Raises:
            ArgumentError: if ``most`` leaves no room, or ``level`` is unknown.
        """
        if most is not None and most < 2:
            raise ArgumentError("Vocabulary", "most is 2 or more", most=most)
        counts = Counter(tokenize(text, level))
        counts.pop(UNKNOWN, None)
        # Equally frequent ones stand in the order of their first appearance.
        common = counts.most_common(None if most is None else most - 1)
        return cls((UNKNOWN, *(piece for piece, _ in common)), level)

    def __len__(self) -> int:
        return len(self.pieces)

    def encode(self, text: str) -> NDArray[np.int64]:
        """The numbers of a text's pieces; those it does not know are ``<unk>``.

        Raises:
            DataError: if a piece is unknown and the vocabulary has no ``<unk>``.
        """
        rest = self._numbers.get(UNKNOWN, -1)
        pieces = tokenize(text, self.level)
        numbers = np.fromiter((self._numbers.get(p, rest) for p in pieces), np.int64, len(pieces))
        unknown = np.flatnonzero(numbers < 0)
        if unknown.size:
            raise DataError(
                "Vocabulary", "a piece is not in it", piece=repr(pieces[unknown[0]]),
                vocabulary=len(self),
            )  # fmt: skip
        return numbers

    def decode(self, numbers: Iterable[int]) -> str:
        """The text of numbers, with blanks between words, and line breaks for ``<eos>``."""
        pieces = [self.pieces[int(i)] for i in numbers]
        if self.level == "char":
            return "".join(pieces)
        return re.sub(r" ?\n ?", "\n", " ".join("\n" if p == END else p for p in pieces))


def load_text(
    path: str | os.PathLike[str], *, validation: float = 0.05, test: float = 0.05
) -> Texts:
    """Read a text in three parts.

    Args:
        path: a file, whose end is held out; or a folder with ``ptb.train.txt``, ``ptb.valid.txt``
            and ``ptb.test.txt``, or the same without ``ptb.``.
        validation: the part of a file to measure while training.
        test: the part of a file to measure at the end, its last.

    Returns:
        The parts; those of a file are cut at line ends where there are any.

    Raises:
        ArgumentError: if the parts are not between 0 and 1, or leave nothing to train.
        DataError: if the file is absent, empty or not UTF-8, or the folder lacks one.
    """
    source = Path(path)
    if source.is_dir():
        for names in _SPLITS:
            if (source / names[0]).is_file():
                return Texts(*(_read(source / name) for name in names))
        raise DataError(str(source), "no training text in it", expected=[n[0] for n in _SPLITS])
    if min(validation, test) < 0 or validation + test >= 1:
        raise ArgumentError(
            "load_text", "parts lie in [0, 1) and leave a rest", validation=validation, test=test
        )
    text = _read(source)
    first, second = (
        _line_end(text, int(len(text) * part)) for part in (1 - validation - test, 1 - test)
    )
    return Texts(text[:first], text[first:second], text[second:])


def columns(numbers: NDArray[Any], count: int) -> ArrayDataset:
    """A text as parallel columns, for models whose state is carried from batch to batch.

    Example ``i`` is row ``i``: the ``i``-th piece of each of ``count`` equal stretches of the text,
    and the pieces that follow. A loader's batch, in order, is so many steps of all of them.

    Args:
        numbers: ``(n,)``, the text; its end is left out where the stretches do not come out even.
        count: stretches.

    Returns:
        Rows ``(count,)`` and what follows each, ``(count,)``.

    Raises:
        DataError: if the text is too short for a row.

    Example:
        >>> data = columns(np.arange(9), 2)
        >>> [(x.tolist(), y.tolist()) for x, y in (data[0], data[1])]
        [([0, 4], [1, 5]), ([1, 5], [2, 6])]
    """
    if count < 1:
        raise ArgumentError("columns", "count is 1 or more", count=count)
    steps = (len(numbers) - 1) // count
    if steps < 1:
        raise DataError(
            "columns", "the text is too short", pieces=len(numbers), columns=count,
            remedy="Use fewer columns (a smaller batch) or a longer text",
        )  # fmt: skip
    used = numbers[: steps * count + 1]
    inputs, targets = (part.reshape(count, steps).T for part in (used[:-1], used[1:]))
    return ArrayDataset(np.ascontiguousarray(inputs), np.ascontiguousarray(targets))


class Windows(Dataset):
    """A text as pieces of one length, for models that see so much at once.

    Args:
        numbers: ``(n,)``, the text.
        length: of a window.
        stride: from window to window; None: the length.

    Raises:
        ArgumentError: if a size is below 1.
        DataError: if the text is too short for a window.

    Example:
        >>> data = Windows(np.arange(7), 3)
        >>> [(x.tolist(), y.tolist()) for x, y in data]
        [([0, 1, 2], [1, 2, 3]), ([3, 4, 5], [4, 5, 6])]
    """

    def __init__(self, numbers: NDArray[Any], length: int, *, stride: int | None = None) -> None:
        self.numbers = numbers
        self.length = length
        self.stride = length if stride is None else stride
        if length < 1 or self.stride < 1:
            raise ArgumentError("Windows", "sizes are 1 or more", length=length, stride=self.stride)
        if len(numbers) <= length:
            raise DataError(
                "Windows", "the text is too short", pieces=len(numbers), length=length,
                remedy="Use shorter windows or a longer text",
            )  # fmt: skip

    def __len__(self) -> int:
        return (len(self.numbers) - 1 - self.length) // self.stride + 1

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        start = self._position(index) * self.stride
        window = self.numbers[start : start + self.length + 1]
        return window[:-1], window[1:]

    def fetch(self, indices: NDArray[Any]) -> Arrays:
        """One gather for both."""
        starts = np.asarray(indices)[:, None] * self.stride
        windows = self.numbers[starts + np.arange(self.length + 1)]
        return windows[:, :-1], windows[:, 1:]


def _read(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(str(path), "the file cannot be read", error=refusal(error)) from error
    except UnicodeDecodeError as error:
        raise DataError(str(path), "the text cannot be read as UTF-8", error=error) from error
    if not text.strip():
        raise DataError(str(path), "the text is empty", characters=len(text))
    return text


def _line_end(text: str, place: int) -> int:
    """The end of the line around a place; the place itself in the only line."""
    end = text.find("\n", max(place - 1, 0))
    return place if end < 0 or end + 1 == len(text) else end + 1
