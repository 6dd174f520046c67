"""Ways to damage bytes: by accident, and by somebody who knows what readers trust."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

_NAMES = (b"../../../../etc/passwd", b"/etc/passwd", b"..\\..\\x", b"\0", b"\xff\xfe", b"a" * 300)
_NUMBERS = (b"-1", b"0", b"1e999", b"99999999999999999999999999", b"NaN", b"4294967295", b'"7"')
_WORDS = (b"null", b"true", b"{}", b"[]", b'""', b"-Infinity", b"\\ud800", b"[" * 10**5)
_INTEGERS = (0, 1, 0x7F, 0xFF, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)


def _place(rng: random.Random, data: bytes) -> int:
    """A byte; as often as not one of the first or last, where heads and directories lie."""
    if not data:
        return 0
    which = rng.random()
    if which < 0.3:
        return rng.randrange(min(len(data), 64))
    if which < 0.5:
        return len(data) - 1 - rng.randrange(min(len(data), 64))
    return rng.randrange(len(data))


def _block(rng: random.Random, data: bytes) -> tuple[int, int]:
    begin = _place(rng, data)
    return begin, min(len(data), begin + rng.choice((1, 2, 4, 8, 16, 64, 512, 4096)))


def flip(rng: random.Random, data: bytes) -> bytes:
    """Some bits."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8, 64))):
        if out:
            out[_place(rng, data)] ^= 1 << rng.randrange(8)
    return bytes(out)


def truncate(rng: random.Random, data: bytes) -> bytes:
    """The beginning alone."""
    return data[: _place(rng, data)]


def behead(rng: random.Random, data: bytes) -> bytes:
    """The end alone."""
    return data[_place(rng, data) :]


def insert(rng: random.Random, data: bytes) -> bytes:
    """Bytes too many."""
    at = rng.choice((_place(rng, data), len(data)))
    return data[:at] + rng.randbytes(rng.choice((1, 2, 4, 8, 100, 5000))) + data[at:]


def delete(rng: random.Random, data: bytes) -> bytes:
    """Bytes too few."""
    begin, end = _block(rng, data)
    return data[:begin] + data[end:]


def duplicate(rng: random.Random, data: bytes) -> bytes:
    """A block twice, or all of it."""
    begin, end = rng.choice((_block(rng, data), (0, len(data))))
    return data[:end] + data[begin:end] + data[end:]


def swap(rng: random.Random, data: bytes) -> bytes:
    """Two blocks in each other's place."""
    (a, b), (c, d) = sorted((_block(rng, data), _block(rng, data)))
    if b > c:
        return flip(rng, data)
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def overwrite(rng: random.Random, data: bytes) -> bytes:
    """A block of one value, or of noise."""
    begin, end = _block(rng, data)
    size = end - begin
    filling = rng.choice((bytes(size), b"\xff" * size, b" " * size, rng.randbytes(size)))
    return data[:begin] + filling + data[end:]


def integer(rng: random.Random, data: bytes) -> bytes:
    """An extreme number in the place of a binary one."""
    size, order = rng.choice((1, 2, 4, 8)), rng.choice(("little", "big"))
    at = _place(rng, data)
    number = rng.choice(_INTEGERS) & (2 ** (8 * size) - 1)
    return data[:at] + number.to_bytes(size, order) + data[at + size :]


def _replaced(rng: random.Random, data: bytes, what: bytes, by: tuple[bytes, ...]) -> bytes:
    found = list(re.finditer(what, data[: 2**16]))
    if not found:
        return flip(rng, data)
    match = rng.choice(found)
    return data[: match.start()] + rng.choice(by) + data[match.end() :]


def number(rng: random.Random, data: bytes) -> bytes:
    """An extreme number in the place of one in digits."""
    return _replaced(rng, data, rb"\d+(?:\.\d+)?", _NUMBERS)


def name(rng: random.Random, data: bytes) -> bytes:
    """A name that leads elsewhere."""
    return _replaced(rng, data, rb"[A-Za-z_][\w./-]{2,}", _NAMES)


def value(rng: random.Random, data: bytes) -> bytes:
    """Another kind of value in a text."""
    return _replaced(rng, data, rb"\"[^\"]*\"|\d+|\[[^\[\]]*\]", _WORDS)


def nothing(rng: random.Random, data: bytes) -> bytes:
    """No byte, or noise alone."""
    return rng.choice((b"", rng.randbytes(len(data)), bytes(len(data))))


MUTATIONS: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    *(flip, flip, truncate, behead, insert, delete, duplicate, swap, overwrite),
    *(integer, number, name, value, nothing),
)


def mutated(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    """Damaged bytes, and by what."""
    names: list[str] = []
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        mutation = rng.choice(MUTATIONS)
        names.append(mutation.__name__)
        data = mutation(rng, data)
    return "+".join(names), data
