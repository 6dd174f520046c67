"""Texts as numbers: cutting up, vocabularies, files, columns and windows."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.data import DataLoader, Vocabulary, Windows, columns, load_text, tokenize
from clnet.errors import ArgumentError, DataError

ROSE = "A rose is a rose,\n\nis <unk> it?\n"


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("word", "a rose is a rose , <eos> is <unk> it ? <eos>"),
        ("space", "A rose is a rose, <eos> is <unk> it? <eos>"),
    ],
)
def test_text_is_cut_up(level, expected):
    assert tokenize(ROSE, level) == expected.split()
    assert "".join(tokenize(ROSE, "char")) == ROSE


def test_what_is_bound_to_a_word_stays():
    assert tokenize("don't pay 3.5% twenty-one (now)") == [
        *("don't", "pay", "3.5", "%", "twenty-one", "(", "now", ")", "<eos>")
    ]


def test_vocabulary_holds_the_most_frequent():
    vocabulary = Vocabulary.of(ROSE, most=5)
    assert vocabulary.pieces == ("<unk>", "a", "rose", "is", "<eos>")
    numbers = vocabulary.encode("a rose was\n")
    assert numbers.dtype == np.int64
    np.testing.assert_array_equal(numbers, [1, 2, 0, 4])
    assert vocabulary.decode([1, 2, 4, 3]) == "a rose\nis"
    assert len(Vocabulary.of(ROSE)) == 8


def test_characters_come_back():
    vocabulary = Vocabulary.of(ROSE, "char")
    assert vocabulary.decode(vocabulary.encode(ROSE)) == ROSE


def test_vocabulary_without_unknown_refuses_other_pieces():
    with pytest.raises(DataError, match="'c'"):
        Vocabulary("ab", "char").encode("abc")


@pytest.mark.parametrize(
    ("make", "law"),
    [
        (lambda: Vocabulary("aa"), "pieces are different"),
        (lambda: Vocabulary([]), "at least one"),
        (lambda: Vocabulary.of("a b", most=1), "most is 2 or more"),
        (lambda: tokenize("a", "letter"), "level is one of word, space, char"),
        (lambda: columns(np.arange(5), 0), "count is 1 or more"),
        (lambda: Windows(np.arange(5), 0), "sizes are 1 or more"),
        (lambda: Windows(np.arange(5), 2, stride=0), "sizes are 1 or more"),
        (lambda: load_text(__file__, test=1), "leave a rest"),
        (lambda: load_text(__file__, validation=-0.1), "leave a rest"),
    ],
)
def test_unfit_arguments_are_refused(make, law):
    with pytest.raises(ArgumentError, match=law):
        make()


def test_file_is_divided_at_line_ends(tmp_path):
    path = tmp_path / "text"
    text = "".join(f"line {i:03}\n" for i in range(100))
    path.write_text(text, encoding="utf-8")
    parts = load_text(path, validation=0.101, test=0.2)
    assert "".join(parts) == text
    assert [part.count("\n") for part in parts] == [70, 10, 20]
    assert all(part.endswith("\n") for part in parts)


def test_folder_has_its_own_parts(tmp_path):
    for name, text in (("train", "a b"), ("valid", "c"), ("test", "d")):
        (tmp_path / f"ptb.{name}.txt").write_text(text, encoding="utf-8")
    assert load_text(tmp_path) == ("a b", "c", "d")


@pytest.mark.parametrize(
    ("content", "law"),
    [
        (None, "read; got error=No such file"),
        (b"\xff\xfe\xff", "cannot be read"),
        (b" \n", "is empty"),
    ],
    ids=["absent", "not UTF-8", "empty"],
)
def test_unreadable_text_is_refused(content, law, tmp_path):
    path = tmp_path / "text"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=law):
        load_text(path)


def test_folder_without_parts_is_refused(tmp_path):
    with pytest.raises(DataError, match="no training text"):
        load_text(tmp_path)


def test_columns_go_on_from_batch_to_batch():
    text = np.arange(100, 123)
    batches = list(DataLoader(columns(text, 3), 4))
    assert [x.shape for x, _ in batches] == [(4, 3), (3, 3)]
    inputs, targets = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    np.testing.assert_array_equal(inputs.T.ravel(), text[:21])
    np.testing.assert_array_equal(targets.T.ravel(), text[1:22])


def test_windows_cover_the_text():
    data = Windows(np.arange(10), 4, stride=2)
    assert len(data) == 3
    inputs, targets = data.fetch(np.array([2, 0]))
    np.testing.assert_array_equal(inputs, [[4, 5, 6, 7], [0, 1, 2, 3]])
    np.testing.assert_array_equal(targets, inputs + 1)
    np.testing.assert_array_equal(data[-1][0], inputs[0])


def test_too_short_a_text_is_refused():
    with pytest.raises(DataError, match="too short"):
        columns(np.arange(3), 3)
    with pytest.raises(DataError, match="too short"):
        Windows(np.arange(3), 3)
