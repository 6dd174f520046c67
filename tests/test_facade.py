"""What ``import clnet`` brings at once, and what it brings when it is asked for."""

from __future__ import annotations

import pickle
import subprocess
import sys
from importlib import import_module
from types import FunctionType

import pytest

import clnet
from clnet import nn


def told(script: str) -> str:
    """What a fresh process prints."""
    run = [sys.executable, "-c", f"import clnet, sys\n{script}"]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout


def test_importing_clnet_leaves_out_what_a_step_does_without():
    later = ("mako", "tqdm", "clnet.train", "clnet.data", "clnet.io", "clnet.models")
    later += ("clnet.compile", "clnet.optim", "clnet.profiling", "clnet.autodiff.recompute")
    later += (
        "clnet.nn.transformer",
        "clnet.nn.parameters",
        "clnet.autodiff.gradcheck",
        "fractions",
    )
    assert told(f"print([m for m in {later} if m in sys.modules])") == "[]\n"


@pytest.mark.parametrize("name", ["plan", "train", "data", "io", "optim", "profile", "checkpoint"])
def test_what_was_left_out_is_there_when_asked_for(name):
    assert told(f"clnet.{name}\nprint(clnet.{name} is vars(clnet)[{name!r}])") == "True\n"


@pytest.mark.parametrize(
    "before",
    [
        "",
        "import clnet.compile.trace",
        "clnet.compile",
        "from clnet import compile",
        "import clnet.train",
        "clnet.nn.Linear(1, 1).compile",
    ],
)
def test_compile_is_a_function_whatever_was_imported(before):
    script = f"{before}\nprint(clnet.compile.__name__, clnet.nn.Module.compile.__name__)"
    assert told(script) == "compile compile_module\n"


def test_another_compile_can_be_put_in_place():
    assert told("clnet.compile = len\nimport clnet.compile.trace\nprint(clnet.compile)") == (
        "<built-in function len>\n"
    )


def test_a_list_of_names_has_what_was_left_out():
    script = "print({'compile', 'optim', 'profile', 'checkpoint', 'plan'} <= {*dir(clnet)})"
    assert told(script) == "True\n"
    script = "from clnet import *\nprint(compile is clnet.compile, profile is clnet.profile)"
    assert told(script) == "True True\n"


def test_what_is_not_there_is_an_error():
    script = "try: clnet.nothing\nexcept AttributeError as error: print(error)"
    assert told(script) == "module 'clnet' has no attribute 'nothing'\n"


@pytest.mark.parametrize("name", [*nn._LATER])
def test_layers_that_are_imported_later_are_listed_by_their_names(name):
    module = import_module(f"clnet.nn.{name}")
    whole = ("attention", "modules", "parallel", "parameters")
    listed = [n for n, place in nn._PLACES.items() if place == name]
    assert name in whole or sorted(listed) == sorted(module.__all__)
    assert all(getattr(nn, n) is getattr(module, n) for n in listed)
    assert getattr(nn, name) is module


def test_every_layer_is_in_the_list_of_names():
    script = (
        "from clnet.nn import *\nprint(Conv2d.__module__, utils.__name__, 'LSTM' in dir(clnet.nn))"
    )
    assert told(script) == "clnet.nn.conv clnet.nn.parameters True\n"
    script = "try: clnet.nn.Nothing\nexcept AttributeError as error: print(error)"
    assert told(script) == "module 'clnet.nn' has no attribute 'Nothing'\n"


def test_what_autograd_has_is_listed():
    script = "print({'Function', 'gradcheck', 'no_grad'} <= {*dir(clnet.autograd)})"
    assert told(script) == "True\n"
    assert all(getattr(clnet.autograd, name) is not None for name in clnet.autograd._LATER)


def test_public_functions_are_pickled_by_the_place_that_shows_them():
    places = (clnet, clnet.nn.functional, clnet.linalg, clnet.special, clnet.Tensor)
    found = {f for place in places for f in vars(place).values() if isinstance(f, FunctionType)}
    assert len(found) > 800
    # Those of modules' __getattr__ and __dir__ are found there, too.
    assert not [f for f in found if pickle.loads(pickle.dumps(f)) is not f]
    assert clnet.relu.__module__ == "clnet.nn.functional"
    assert clnet.swapdims.__qualname__ == "transpose"
    assert (clnet.Tensor.add_.__module__, clnet.Tensor.add_.__qualname__) == (
        "clnet",
        "Tensor.add_",
    )
    layer = pickle.loads(pickle.dumps(clnet.nn.TransformerEncoderLayer(4, 2, 8)))
    assert layer.activation is clnet.relu
