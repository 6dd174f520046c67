"""Nested states: an exact round trip, and clear errors."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from clnet.errors import CheckpointError
from clnet.io import load_checkpoint, load_state, save_checkpoint, save_state

STATE = {
    "model": {"conv1.weight": np.ones((2, 3), np.float32), "bn": {"count": np.array(3)}},
    "optimizer": {"lr": 0.1, "betas": (0.9, 0.999), "state": [None, True, {"step": 7}]},
    "loader": {"epoch": 2, "position": 0},
}


def assert_equal(actual: Any, expected: Any) -> None:
    """Equal in value and in type, at every depth; NaN equals NaN, and -0.0 is not 0.0."""
    assert type(actual) is type(expected)
    if isinstance(expected, np.ndarray):
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        assert actual.tobytes() == expected.tobytes()
    elif isinstance(expected, dict):
        assert list(actual) == list(expected)
        for key, value in expected.items():
            assert_equal(actual[key], value)
    elif isinstance(expected, list | tuple):
        assert len(actual) == len(expected)
        for a, b in zip(actual, expected, strict=True):
            assert_equal(a, b)
    elif isinstance(expected, float):
        assert math.isnan(actual) if math.isnan(expected) else repr(actual) == repr(expected)
    else:
        assert actual == expected


ARRAYS = hnp.arrays(
    st.sampled_from([np.float32, np.float64, np.int64, np.uint8, np.bool_]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
TEXTS = st.text(st.characters(), max_size=8)  # surrogates and NUL included
KEYS = st.one_of(TEXTS, st.sampled_from(["$array", "$$", "a.b", "a", "b", "__metadata__", ""]))
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=True), TEXTS, ARRAYS
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(KEYS, inner, max_size=4),
    ),
    max_leaves=12,
)


@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(state=st.dictionaries(KEYS, TREES, max_size=4))
def test_any_state_returns_exactly(tmp_path, state):
    save_checkpoint(tmp_path / "c", state)
    assert_equal(load_checkpoint(tmp_path / "c"), state)


@pytest.mark.parametrize(
    "number",
    [0.1, 5e-324, sys.float_info.max, -0.0, math.inf, -math.inf, math.nan, 2**63, -(2**200), 0],
    ids=repr,
)
def test_numbers_return_exactly(tmp_path, number):
    save_checkpoint(tmp_path / "c", {"x": number})
    assert_equal(load_checkpoint(tmp_path / "c"), {"x": number})


def test_arrays_are_stored_under_their_path(tmp_path):
    save_checkpoint(tmp_path / "c", STATE)
    assert set(load_state(tmp_path / "c").arrays) == {"model.conv1.weight", "model.bn.count"}
    assert_equal(load_checkpoint(tmp_path / "c"), STATE)


def test_paths_that_collide_are_kept_apart(tmp_path):
    state = {"a.b": np.zeros(2), "a": {"b": np.ones(3)}, "__metadata__": np.array(4)}
    save_checkpoint(tmp_path / "c", state)
    assert_equal(load_checkpoint(tmp_path / "c"), state)


def test_metadata_is_strict_json(tmp_path):
    save_checkpoint(tmp_path / "c", {"x": [math.nan, math.inf, 1]})

    def refuse(word):
        raise ValueError(word)

    (text,) = load_state(tmp_path / "c").metadata.values()
    assert json.loads(text, parse_constant=refuse)["x"][2] == 1


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"a": {"b": [1, {2, 3}]}}, r"a\.b\.1 is a builtins\.set"),
        ({"a": np.float64(1)}, r"a is a numpy\.float64"),
        ({"a": {3: "x"}}, "a key of a is no text: 3"),
        ({None: 1}, "a key of the state is no text: None"),
    ],
    ids=["set", "numpy scalar", "number as key", "none as key"],
)
def test_value_that_cannot_be_stored_is_named(tmp_path, state, words):
    save_checkpoint(tmp_path / "c", STATE)
    with pytest.raises(CheckpointError, match=words):
        save_checkpoint(tmp_path / "c", state)
    assert_equal(load_checkpoint(tmp_path / "c"), STATE)


def test_every_truncation_is_refused(tmp_path):
    path = tmp_path / "c"
    save_checkpoint(path, STATE)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError):
            load_checkpoint(path)


def test_plain_safetensors_file_is_refused_with_the_remedy(tmp_path):
    save_state(tmp_path / "c", {"x": np.zeros(2)})
    with pytest.raises(CheckpointError, match="read it with load_state"):
        load_checkpoint(tmp_path / "c")


@pytest.mark.parametrize(
    "tree",
    ["{", "[]", "3", '{"x": {"$array": "absent"}}', '{"x": {"$float": []}}', '{"x":{"$tuple":3}}'],
)
def test_damaged_tree_is_refused(tmp_path, tree):
    save_state(tmp_path / "c", {}, metadata={"clnet.checkpoint": tree})
    with pytest.raises(CheckpointError, match="tree is damaged"):
        load_checkpoint(tmp_path / "c")
