"""Texts, which no device holds: their ops work on the host, as the texts themselves lie there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import OnnxError, shortened
from ..registry import Host, handler

_MOST_COLUMNS = 2**24


def is_text(value: Any) -> bool:
    """Whether a value is an array of texts."""
    return isinstance(value, np.ndarray) and value.dtype.kind == "O"


def _each(function: Any, x: np.ndarray, kind: Any = object) -> np.ndarray:
    flat = [function(text) for text in np.asarray(x).reshape(-1)]
    made = np.empty(len(flat), dtype=kind)
    made[:] = flat
    return made.reshape(np.shape(x))


@handler("StringConcat", since=20)
def string_concat(x: Host, other: Host) -> Host:
    """One text behind the other."""
    return np.asarray(np.add(x.astype(object), other.astype(object)), dtype=object)


@handler("RegexFullMatch", since=20)
def regex_full_match(x: Host, *, pattern: str) -> Host:
    """Whether the whole text is of a pattern."""
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise OnnxError("onnx", f"a pattern is a regular expression: {shortened(error)}") from error
    return _each(lambda text: found.fullmatch(text) is not None, x, np.bool_)


@handler("StringSplit", since=20)
def string_split(
    x: Host, *, delimiter: str | None = None, maxsplit: int | None = None
) -> tuple[Host, Host]:
    """The parts of each text, filled up with empty ones, and how many they are."""
    most = -1 if maxsplit is None else maxsplit
    parts = [text.split(delimiter or None, most) for text in np.asarray(x).reshape(-1)]
    counts = np.array([len(p) for p in parts], dtype=np.int64).reshape(np.shape(x))
    widest = int(counts.max(initial=0))
    made = np.full((len(parts), widest), "", dtype=object)
    for row, texts in zip(made, parts, strict=True):
        row[: len(texts)] = texts
    return made.reshape((*np.shape(x), widest)), counts


@handler("StringNormalizer", since=10)
def string_normalizer(
    x: Host,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: str = "",
    stopwords: Sequence[str] = (),
) -> Host:
    """Texts in upper or lower case, without those that are to go."""
    change = {"LOWER": str.lower, "UPPER": str.upper, "NONE": str}.get(case_change_action)
    if change is None:
        raise OnnxError("onnx", "the case is LOWER, UPPER or NONE", given=case_change_action)
    gone = {*stopwords} if is_case_sensitive else {word.lower() for word in stopwords}
    flat = [str(text) for text in np.asarray(x).reshape(-1)]
    kept = [t for t in flat if (t if is_case_sensitive else t.lower()) not in gone]
    made = np.array([change(t) for t in kept] or [""], dtype=object)
    return made if np.ndim(x) == 1 else made.reshape(1, -1)


def _sequences(line: list[Any], lengths: Iterable[int], gap: int) -> Iterator[tuple[Any, ...]]:
    """Members of a row, so many, with up to ``gap`` others between each two."""
    for length in lengths:
        steps = 1 if length == 1 else min(gap + 1, len(line))
        for step in range(1, steps + 1):
            for at in range(len(line) - (length - 1) * step):
                yield tuple(line[at : at + (length - 1) * step + 1 : step])


@handler("TfIdfVectorizer", since=9)
def tf_idf_vectorizer(
    x: Host,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Sequence[int],
    ngram_indexes: Sequence[int],
    pool_int64s: Sequence[int] | None = None,
    pool_strings: Sequence[str] | None = None,
    weights: Sequence[float] | None = None,
) -> Host:
    """How often sequences of a pool occur in each row, with gaps between their members."""
    pool = list(pool_strings if pool_strings is not None else pool_int64s or ())
    grams: dict[tuple[Any, ...], int] = {}
    ends = [*ngram_counts[1:], len(pool)]
    for length, (start, end) in enumerate(zip(ngram_counts, ends, strict=True), 1):
        for at in range(start, end, length):
            if min_gram_length <= length <= max_gram_length:
                grams[tuple(pool[at : at + length])] = len(grams)
            else:
                grams[(None, at)] = len(grams)
    if not 0 <= min(ngram_indexes) <= max(ngram_indexes) < _MOST_COLUMNS:
        raise OnnxError(
            "onnx", f"columns are numbered below {_MOST_COLUMNS}", got=max(ngram_indexes)
        )
    given = np.asarray(x)
    rows = given.reshape(1, -1) if given.ndim == 1 else given
    counts = np.zeros((len(rows), max(ngram_indexes) + 1), dtype=np.float32)
    lengths = range(min_gram_length, max_gram_length + 1)
    for row, line in zip(counts, rows.tolist(), strict=True):
        for sequence in _sequences(line, lengths, max_skip_count):
            if (found := grams.get(sequence)) is not None:
                row[ngram_indexes[found]] += 1
    scale = np.ones(counts.shape[1], np.float32)
    if weights is not None:
        scale[list(ngram_indexes)] = weights
    if mode == "IDF":
        counts = (counts > 0) * scale
    elif mode == "TFIDF":
        counts = counts * scale
    made = counts.astype(np.float32)
    return made[0] if given.ndim == 1 else made


@handler("LabelEncoder", domain="ai.onnx.ml", since=4)
def label_encoder(
    x: Host,
    *,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    default_tensor: Host | None = None,
    keys_floats: Sequence[float] | None = None,
    keys_int64s: Sequence[int] | None = None,
    keys_strings: Sequence[str] | None = None,
    keys_tensor: Host | None = None,
    values_floats: Sequence[float] | None = None,
    values_int64s: Sequence[int] | None = None,
    values_strings: Sequence[str] | None = None,
    values_tensor: Host | None = None,
) -> Host:
    """Each label's value in a table."""
    keys: Any = next(
        list(k) for k in (keys_floats, keys_int64s, keys_strings, keys_tensor) if k is not None
    )
    if values_tensor is not None:
        values, kind = list(values_tensor), values_tensor.dtype
        missing: Any = (
            np.zeros(1, kind)[0] if default_tensor is None else default_tensor.reshape(-1)[0]
        )
    elif values_floats is not None:
        values, kind, missing = list(values_floats), np.dtype(np.float32), default_float
    elif values_int64s is not None:
        values, kind, missing = list(values_int64s), np.dtype(np.int64), default_int64
    else:
        values, kind, missing = list(values_strings or ()), np.dtype(object), default_string
    table = dict(zip(map(_key, keys), values, strict=True))
    return _each(lambda label: table.get(_key(label), missing), x, kind)


def _key(label: Any) -> Any:
    """A label that finds itself: NaN too, and numbers of any width."""
    if isinstance(label, str):
        return label
    return "NaN of numbers" if label != label else np.float32(label).item()
