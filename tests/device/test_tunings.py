"""Files of measured choices, and which of them a device goes by."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clnet.device import DeviceKind, DeviceTraits, Tunings
from clnet.device.traits import DeviceIdentity
from clnet.device.tunings import SHIPPED, Database, Entry, Subject, load, tunings_of

IDENTITY = DeviceIdentity("Portable", "1", "a processor", "a vendor", "1", "1")
TRAITS = DeviceTraits(
    DeviceKind.CPU, 2, 16, 4096, 2**21, False, 2**34, 2**33, 128, True, False, True
)
SUBJECT = Subject.of(IDENTITY, TRAITS)


def entry(m: int, rows: int = 1, *, version: int = 1, kernel: str = "a") -> Entry:
    return Entry(kernel, version, {"dtype": "float32", "m": m}, {"rows": rows}, 1.5, 2.5)


names = st.text(max_size=5)
values = st.integers(-9, 2**40) | st.booleans() | names
entries = st.lists(
    st.builds(
        Entry,
        names,
        st.integers(0, 9),
        st.dictionaries(names, values, max_size=3),
        st.dictionaries(names, values, max_size=3),
        st.floats(1e-9, 1e9),
        st.floats(1e-9, 1e9),
    ),
    max_size=4,
)


@given(entries)
def test_a_file_gives_back_what_was_written(given_entries):
    database = Database(SUBJECT).updated(given_entries)
    assert Database.parse(database.text()) == database


def test_a_file_is_sorted_by_sizes_whatever_came_first():
    some = [entry(m, kernel=kernel) for kernel in "ba" for m in (16, 9, 128)]
    text = Database(SUBJECT).updated(some).text()
    assert text == Database(SUBJECT).updated(reversed(some)).text()
    order = [(e.kernel, e.problem["m"]) for e in Database.parse(text).entries.values()]
    assert order == [(kernel, m) for kernel in "ab" for m in (9, 16, 128)]
    assert len(text.splitlines()) == 7


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"clnet tunings": 2}',
        Database(SUBJECT).text() + "{}",
        Database(SUBJECT).text().replace('"simd_width": 16', '"simd_width": null'),
        Database(SUBJECT).updated([entry(1)]).text().replace("1.5", '"fast"'),
        Database(SUBJECT).updated([entry(1)]).text()[:-20],
    ],
)
def test_a_file_that_cannot_be_understood_is_reported_and_ignored(text, tmp_path):
    path = tmp_path / "broken.jsonl"
    path.write_text(text)
    with pytest.warns(RuntimeWarning, match=r"tunings .*broken\.jsonl: ignored: "):
        assert list(load([path])) == []


def near(identity: DeviceIdentity = IDENTITY, **changes: object) -> Tunings:
    """The tunings of another device, where (16, rows 7) was measured on ``SUBJECT``."""
    subject = Subject.of(identity, replace(TRAITS, **changes))
    return Tunings(subject, [Database(SUBJECT).updated([entry(16, 7)])])


@pytest.mark.parametrize(
    ("tunings", "expected"),
    [
        (near(), [(True, 7)]),
        (near(replace(IDENTITY, name="another processor")), [(False, 7)]),
        (near(replace(IDENTITY, platform="another platform", name="another")), [(False, 7)]),
        (near(local_memory_bytes=2**20), [(False, 7)]),
        (near(global_memory_bytes=2**30), [(True, 7)]),
        (near(compute_units=4), []),
        (near(simd_width=8), []),
        (near(dedicated_local_memory=True), []),
        (near(asynchronous_copies=True), []),
        (Tunings(), []),
    ],
    ids=[
        *("itself", "another name", "another platform", "local memory", "global memory"),
        *("units", "vectors", "dedicated memory", "asynchronous copies", "nothing measured"),
    ],
)
def test_choices_carry_over_to_devices_that_are_alike(tunings, expected):
    found = tunings.find("a", {"m": 16, "dtype": "float32"})
    assert [(own, e.choice["rows"]) for own, e in found] == expected
    assert list(tunings.find("a", {"m": 17, "dtype": "float32"})) == []
    assert list(tunings.find("b", {"m": 16, "dtype": "float32"})) == []


def test_the_nearest_comes_first():
    other = SUBJECT._replace(name="another", traits={**SUBJECT.traits, "local_memory_bytes": 2**20})
    far, nearer, own = (
        Database(subject).updated([entry(16, rows)])
        for subject, rows in ((other, 1), (SUBJECT._replace(name="another"), 2), (SUBJECT, 3))
    )
    tunings = Tunings(SUBJECT, [far, nearer, own])
    assert [e.choice["rows"] for _, e in tunings.find("a", entry(16).problem)] == [3, 2, 1]


def test_what_is_added_is_found_at_once_and_by_later_processes(tmp_path):
    first, second = (tunings_of(IDENTITY, TRAITS, tmp_path) for _ in range(2))
    first.add([entry(16, 7), entry(8, 1)])
    second.add([entry(16, 9), entry(32, 2)])  # of another process, which has not seen the first
    assert [e.choice["rows"] for _, e in second.find("a", entry(16).problem)] == [9]
    assert [e.choice["rows"] for _, e in second.find("a", entry(8).problem)] == [1]
    third = tunings_of(IDENTITY, TRAITS, tmp_path)
    assert [(own, e.choice["rows"]) for own, e in third.find("a", entry(16).problem)] == [(True, 9)]
    (path,) = tmp_path.iterdir()
    assert path == third.path
    assert path.name == "portable-a-processor-2x16.jsonl"


def test_files_that_clnet_ships_can_be_read():
    paths = sorted(SHIPPED.glob("*.jsonl"))
    assert len(list(load(paths))) == len(paths)
    for path in paths:
        text = Path(path).read_text(encoding="utf-8")
        assert Database.parse(text).text() == text, "clnet tune --export writes them"
