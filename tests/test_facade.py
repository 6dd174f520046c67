"""What ``import clnet`` brings at once, and what it brings when it is asked for."""

from __future__ import annotations

import ast
import inspect
import math
import pickle
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FunctionType

import pytest
from typing_extensions import assert_type

import clnet
from clnet import Tensor, nn
from clnet.nn import functional as F
from clnet.ops import PUBLIC_OPS, Face

# Has clnet, and nothing done with it: runs each line's script in a copy of itself.
FRESH = """
import clnet, os, sys
for script in map(eval, sys.stdin):
    if os.fork():
        failed = os.wait()[1]
        print(end="failed" if failed else "", flush=True)
        print(end="\\0", flush=True)
    else:
        exec(script)
        sys.stdout.flush()
        os._exit(0)
"""


@pytest.fixture(scope="module")
def told():
    """What a fresh process prints."""
    with subprocess.Popen(
        [sys.executable, "-c", FRESH], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as fresh:
        asked, printed = fresh.stdin, fresh.stdout
        assert asked is not None
        assert printed is not None

        def tell(script: str) -> str:
            print(repr(script), file=asked, flush=True)
            return "".join(iter(lambda: printed.read(1), "\0"))

        yield tell
        asked.close()


def test_a_process_that_fails_prints_that_and_the_next_is_fresh(told):
    assert told("clnet.plan\nprint('a', end='')\nraise SystemExit(3)") == "afailed"
    assert told("print('plan' in vars(clnet))") == "False\n"


def test_importing_clnet_leaves_out_what_a_step_does_without(told):
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
def test_what_was_left_out_is_there_when_asked_for(name, told):
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
def test_compile_is_a_function_whatever_was_imported(before, told):
    script = f"{before}\nprint(clnet.compile.__name__, clnet.nn.Module.compile.__name__)"
    assert told(script) == "compile compile_module\n"


def test_another_compile_can_be_put_in_place(told):
    assert told("clnet.compile = len\nimport clnet.compile.trace\nprint(clnet.compile)") == (
        "<built-in function len>\n"
    )


def test_a_list_of_names_has_what_was_left_out(told):
    script = "print({'compile', 'optim', 'profile', 'checkpoint', 'plan'} <= {*dir(clnet)})"
    assert told(script) == "True\n"
    script = "from clnet import *\nprint(compile is clnet.compile, profile is clnet.profile)"
    assert told(script) == "True True\n"


def test_what_is_not_there_is_an_error(told):
    script = "try: clnet.nothing\nexcept AttributeError as error: print(error)"
    assert told(script) == "module 'clnet' has no attribute 'nothing'\n"


@pytest.mark.parametrize("name", [*nn._LATER])
def test_layers_that_are_imported_later_are_listed_by_their_names(name):
    module = import_module(f"clnet.nn.{name}")
    whole = ("attention", "grad", "modules", "parallel", "parameters", "quantized", "reduction")
    listed = [n for n, place in nn._PLACES.items() if place == name]
    assert name in whole or sorted(listed) == sorted(module.__all__)
    assert all(getattr(nn, n) is getattr(module, n) for n in listed)
    assert getattr(nn, name) is module


def test_every_layer_is_in_the_list_of_names(told):
    script = (
        "from clnet.nn import *\nprint(Conv2d.__module__, utils.__name__, 'LSTM' in dir(clnet.nn))"
    )
    assert told(script) == "clnet.nn.conv clnet.nn.parameters True\n"
    script = "try: clnet.nn.Nothing\nexcept AttributeError as error: print(error)"
    assert told(script) == "module 'clnet.nn' has no attribute 'Nothing'\n"


def test_what_autograd_has_is_listed(told):
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


@cache
def bound(file: Path) -> dict[str, tuple[str, str]]:
    """A module's names, as type checkers see them: each from which module, and its name there."""
    found: dict[str, tuple[str, str]] = {}
    nodes = ast.parse(file.read_text(encoding="utf-8")).body
    for node in nodes:
        if isinstance(node, ast.If):
            nodes.extend(node.body)
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = file.stem, node.name
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.names[0].name == "*":
                there = bound(file.with_name(f"{module}.py"))
                found |= {n: at for n, at in there.items() if not n.startswith("_")}
            else:
                found |= {each.asname or each.name: (module, each.name) for each in node.names}
    return found


def test_type_checkers_find_the_ops():
    """They take the last of what star imports show, where modules' own imports are, too."""
    folder = Path(clnet.ops.__file__).parent
    wrong = {}
    for name, (function, face) in PUBLIC_OPS.items():
        at = bound(folder / "__init__.py").get(name)
        while at and (file := folder / f"{at[0]}.py").exists() and bound(file).get(at[1], at) != at:
            at = bound(file)[at[1]]
        home = inspect.unwrap(function).__module__
        if Face.FUNCTION in face and at and f"clnet.ops.{at[0]}" != home:
            wrong[name] = at
    assert not wrong


def test_types_that_checkers_see():
    """Looked at by ``make lint``; here ``assert_type`` gives back what it is given."""
    x = assert_type(clnet.arange(3.0), Tensor)
    assert_type(clnet.sqrt(x), Tensor)
    assert_type(clnet.prod(x), Tensor)
    assert_type(F.relu(x) * 2.0 - x @ x, Tensor)
    assert_type(clnet.no_grad(lambda: 1)(), int)
    assert_type(clnet.inference_mode()(lambda: 1)(), int)
    assert assert_type(clnet.e, float) == math.e
