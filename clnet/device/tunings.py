"""Measured choices of kernels' parameters: their files, and those that a device goes by.

A file holds what was measured on one device: JSON lines, the first of which says which device, each
other one a problem of a kernel and what was best for it, sorted. What the names in it mean is the
kernels' business.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, log2
from pathlib import Path
from threading import RLock
from typing import Any

from ..errors import shortened
from ..values.atomic import replacing
from ..values.record import NamedTuple
from .traits import DeviceIdentity, DeviceTraits

SHIPPED = Path(__file__).parents[1] / "tunings"
_FORMAT = 1
# How much a trait that is twice as large makes a device another one; a choice measured on one
# serves devices nearer than _FARTHEST.
_WEIGHTS = {
    "simd_width": 4.0,
    "compute_units": 3.0,
    "local_memory_bytes": 0.5,
    "large_local_memory_bytes": 0.5,
    "max_group_size": 0.1,
}
_MUST_AGREE = ("dedicated_local_memory", "asynchronous_copies")
_OTHER_PLATFORM, _OTHER_NAME = 0.5, 0.1
_FARTHEST = 1.0


class Subject(NamedTuple):
    """The device that choices were measured on, as far as choices depend on it.

    Attributes:
        platform: name of its OpenCL platform.
        name: its name.
        traits: the numbers that choices depend on, by name.
    """

    platform: str
    name: str
    traits: dict[str, Any]

    @staticmethod
    def of(identity: DeviceIdentity, traits: DeviceTraits) -> Subject:
        """The subject that a device is."""
        numbers = {name: getattr(traits, name) for name in (*_MUST_AGREE, *_WEIGHTS)}
        return Subject(identity.platform, identity.name, numbers)

    def distance(self, other: Subject) -> float:
        """How different another one is: 0 for the same, infinite where nothing carries over."""
        mine, its = self.traits, other.traits
        if any(mine[name] != its[name] for name in _MUST_AGREE):
            return inf
        apart = sum(
            weight * abs(log2(mine[name] + 1) - log2(its[name] + 1))
            for name, weight in _WEIGHTS.items()
        )
        apart += _OTHER_PLATFORM * (self.platform != other.platform)
        return apart + _OTHER_NAME * (self.name != other.name)


class Entry(NamedTuple):
    """What was best for a problem.

    Attributes:
        kernel: the kernel's name.
        version: of its declaration, when this was measured.
        problem: what was computed, by name.
        choice: the parameters, by name.
        us: microseconds with them.
        default_us: microseconds with those that the kernel takes by itself.
    """

    kernel: str
    version: int
    problem: dict[str, Any]
    choice: dict[str, Any]
    us: float
    default_us: float

    @property
    def key(self) -> tuple[str, str]:
        """What it answers; entries are sorted by it."""
        return _key(self.kernel, self.problem)


@dataclass(frozen=True)
class Database:
    """The choices measured on one device.

    Attributes:
        subject: the device.
        entries: by kernel and problem.
    """

    subject: Subject
    entries: dict[tuple[str, str], Entry] = field(default_factory=dict[tuple[str, str], Entry])

    def updated(self, entries: Iterable[Entry]) -> Database:
        """With these entries, in the place of older ones for the same problems."""
        return Database(self.subject, {**self.entries, **{e.key: e for e in entries}})

    def text(self) -> str:
        """The file."""
        head = {"clnet tunings": _FORMAT, **self.subject._asdict()}
        rows = [entry._asdict() for _, entry in sorted(self.entries.items(), key=_by_numbers)]
        return "".join(f"{json.dumps(row)}\n" for row in (head, *rows))

    @staticmethod
    def parse(text: str) -> Database:
        """What :meth:`text` gave.

        Raises:
            ValueError: if the text is no such file; it says where.
        """
        head, *lines = text.splitlines() or [""]
        entries: list[Entry] = []
        try:
            fields = json.loads(head)
            if fields.pop("clnet tunings") != _FORMAT:
                raise ValueError("another format")
            subject = Subject(**fields)
            subject.distance(subject)  # every trait is there, and a number
            entries.extend(_checked(Entry(**json.loads(line))) for line in lines)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            place = f"entry {len(entries) + 1}, or the head"
            raise ValueError(f"{place}: {shortened(error)}") from error
        return Database(subject).updated(entries)

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all.

        Raises:
            OSError: if the folder cannot be written.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(self.text().encode())


class Tunings:
    """The measured choices that a device goes by: its own, then those of the most alike.

    Args:
        subject: the device; None: nothing was measured on any like it.
        databases: what was measured, here or elsewhere; of those equally near the first counts.
        path: the file of what is measured on this device.

    Attributes:
        tuner: what measures at first use, once it was needed.
        notes: what was found to fit no more, each once.
        lock: held while something is measured.
    """

    def __init__(
        self,
        subject: Subject | None = None,
        databases: Sequence[Database] = (),
        path: Path | None = None,
    ) -> None:
        self.subject = subject
        self.path = path
        near = [(subject.distance(d.subject), d) for d in databases] if subject else []
        near = sorted((pair for pair in near if pair[0] < _FARTHEST), key=lambda pair: pair[0])
        self._databases = tuple(near)
        self.tuner: Any = None
        self.lock = RLock()
        self.notes: list[str] = []

    def __bool__(self) -> bool:
        return any(database.entries for _, database in self._databases)

    def find(self, kernel: str, problem: Mapping[str, Any]) -> Iterator[tuple[bool, Entry]]:
        """What was measured for a problem, the most trustworthy first.

        Args:
            kernel: its name.
            problem: by name.

        Yields:
            Whether it was measured on just this device, and the entry.
        """
        key = _key(kernel, problem)
        for distance, database in self._databases:
            entry = database.entries.get(key)
            if entry is not None:
                yield distance == 0, entry

    def fixed(self) -> Tunings:
        """The same choices, to which nothing is added."""
        return Tunings(self.subject, [database for _, database in self._databases])

    def note(self, text: str) -> None:
        """Say once that something does not fit any more."""
        if text not in self.notes:
            self.notes.append(text)
            warnings.warn(text, RuntimeWarning, stacklevel=2)

    def add(self, entries: Iterable[Entry]) -> None:
        """Keep what was measured on this device, in its file, too.

        Raises:
            OSError: if the file cannot be written.
        """
        if self.subject is None or self.path is None:
            return
        new = list(entries)
        # Read again: other processes may have written since.
        kept = next(load([self.path]), Database(self.subject)).updated(new)
        own = Database(self.subject, kept.entries)
        own.write(self.path)
        self._databases = ((0.0, own), *self._databases)


def load(paths: Iterable[Path]) -> Iterator[Database]:
    """The databases of files; one that cannot be understood is reported and left out."""
    for path in paths:
        database = _read(path) if path.is_file() else None
        if database is not None:
            yield database


def _read(path: Path) -> Database | None:
    try:
        return Database.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        warnings.warn(f"tunings {path}: ignored: {error}", RuntimeWarning, stacklevel=4)
        return None


def tunings_of(identity: DeviceIdentity, traits: DeviceTraits, folder: Path) -> Tunings:
    """The tunings of a device: its file, those of others beside it, then those that clnet ships.

    Args:
        identity: who it is.
        traits: its numbers.
        folder: the user's files.
    """
    subject = Subject.of(identity, traits)
    words = f"{identity.platform} {identity.name} {traits.compute_units}x{traits.simd_width}"
    path = folder / f"{re.sub(r'[^a-z0-9]+', '-', words.lower()).strip('-')}.jsonl"
    own = [path, *(p for p in sorted(folder.glob("*.jsonl")) if p != path)]
    return Tunings(subject, [*load([*own, *sorted(SHIPPED.glob("*.jsonl"))])], path)


def _key(kernel: str, problem: Mapping[str, Any]) -> tuple[str, str]:
    return kernel, json.dumps(problem, sort_keys=True)


def _by_numbers(item: tuple[tuple[str, str], Entry]) -> tuple[str, list[tuple[str, str, float]]]:
    """By kernel, then by the problem's values as they are listed, numbers by size."""
    entry = item[1]
    values = ((n, v) for n, v in entry.problem.items())
    return entry.kernel, [
        (n, "", float(v)) if isinstance(v, int | float) else (n, str(v), 0.0) for n, v in values
    ]


def _checked(entry: Entry) -> Entry:
    """The entry; raises a TypeError where a field is of another type."""
    wanted = (str, int, dict, dict, (int, float), (int, float))
    for name, value, kind in zip(entry._fields, entry, wanted, strict=True):
        if not isinstance(value, kind):
            raise TypeError(f"{name} is {value!r}")
    if not (0 < entry.us < inf and 0 < entry.default_us < inf):
        raise ValueError(f"times are {entry.us} and {entry.default_us}")
    return entry
