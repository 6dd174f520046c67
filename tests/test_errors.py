"""The exceptions' fields, texts and families."""

from __future__ import annotations

import pickle

import pytest

from clnet import errors
from clnet.errors import ClnetError, OutOfDeviceMemory, ShapeError

ALL = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, ClnetError)]


def test_text_is_made_of_the_fields():
    error = ShapeError(
        "matmul", "inner sizes differ, 3 != 4", remedy="Transpose one", a=(2, 3), b=(4, 5)
    )
    assert str(error) == "matmul: inner sizes differ, 3 != 4; got a=(2, 3), b=(4, 5). Transpose one"
    assert (error.op, error.law, error.remedy) == (
        "matmul",
        "inner sizes differ, 3 != 4",
        "Transpose one",
    )
    assert error.values == {"a": (2, 3), "b": (4, 5)}


def test_values_and_remedy_may_be_missing():
    assert (
        str(ShapeError("cat", "it joins one tensor or more")) == "cat: it joins one tensor or more"
    )
    assert str(ShapeError("cat", "law", remedy="Do")) == "cat: law. Do"


@pytest.mark.parametrize("kind", ALL, ids=lambda e: e.__name__)
def test_every_error_is_pythons_too(kind):
    builtin = [base for base in kind.__mro__ if base.__module__ == "builtins"]
    assert kind is ClnetError or builtin[0] is not Exception
    with pytest.raises(ClnetError):
        raise kind("op", "law")


@pytest.mark.parametrize("kind", ALL, ids=lambda e: e.__name__)
def test_errors_travel_between_processes(kind):
    error = kind("op", "law", remedy="Do", x=1)
    error.module = "Linear"
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert again.values == {"x": 1}


def test_memory_runs_out_as_pythons_does():
    assert issubclass(OutOfDeviceMemory, MemoryError)


def test_what_the_system_refuses_names_no_file_twice():
    assert errors.refusal(FileNotFoundError(2, "No such file or directory", "a")) == (
        "No such file or directory"
    )
    assert errors.refusal(OSError("cannot identify image file")) == "cannot identify image file"
