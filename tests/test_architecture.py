"""What the source of clnet may look like: who imports whom, who may do what, and how long it gets.

Every check is a function from the root of a checkout to a list of complaints, so that the second
half of this file can show, on small trees with a planted violation, that it complains.
"""

from __future__ import annotations

import graphlib
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath

import pytest

from tests.syntax import Facts, facts

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # Python 3.10 only

CHECKOUT = Path(__file__).parents[1]

CONTRIBUTING = "CONTRIBUTING.md"
LAYER = re.compile(r"\| (\d+) \| ((?:`\w+` ?)+)\| (.+) \|")
MAY_MEET = "may import each other"


def table_of_layers(page: str) -> list[tuple[int, list[str], str]]:
    """The rows of the table of layers: rank, units (files or folders of clnet/), what they own."""
    rows = (LAYER.fullmatch(line) for line in page.splitlines())
    return [(int(row[1]), re.findall(r"\w+", row[2]), row[3]) for row in rows if row]


# A unit may import what lies below; within a layer only units of a row that says so, without a
# circle, import each other.
TABLE = table_of_layers((CHECKOUT / CONTRIBUTING).read_text(encoding="utf-8"))
RANK = {unit: rank for rank, units, _ in TABLE for unit in units}
UNITS_THAT_MEET = {unit for _, units, owns in TABLE if MAY_MEET in owns for unit in units}
ABOVE_THE_GROUND = {unit for unit, rank in RANK.items() if rank > 0}

# What a unit must not import although it lies below.
FORBIDDEN = {
    "nn": {"kernels", "device", "array"},  # a layer composes ops, it cannot launch
    "models": {"kernels", "device", "array"},
    "optim": {"kernels"},
    "data": ABOVE_THE_GROUND,  # NumPy in, NumPy out: runs without OpenCL
}

# Packages that only these files or folders may import.
RESERVED = {"pyopencl": "device/", "mako": "kernels/template.py"}

# Packages of the extras: imported inside the function that needs them, with an install hint.
OPTIONAL = {"PIL", "einops", "matplotlib", "mpi4py", "onnx", "pooch", "requests", "sklearn"}
OPTIONAL |= {"scipy", "tensorboard"}
OPTIONAL |= {"onnxruntime", "openvino", "tinygrad", "torch", "torchvision"}  # peers of benchmarks
MAY_BE_LAZY = OPTIONAL | {"mako", "tqdm"}
OF_SOME_SYSTEMS = {"fcntl", "grp", "pwd"}  # not of Windows

# Gathers the declarations of all tunable kernels.
ROOMS_ARE_OPEN_TO = {"kernels/tunables.py"}

MAX_FILE, MAX_FUNCTION, MAX_TEMPLATE = 600, 60, 300
VAGUE_NAMES = {"util", "utils", "helper", "helpers", "misc", "common"}


@dataclass(frozen=True)
class Source:
    """A Python file: its path below the folder searched, and what is in it."""

    path: str
    facts: Facts

    @property
    def unit(self) -> str:
        return PurePosixPath(self.path).parts[0].removesuffix(".py")

    @property
    def module(self) -> str:
        parts = ("clnet", *PurePosixPath(self.path).with_suffix("").parts)
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def package(self) -> tuple[str, ...]:
        return ("clnet", *PurePosixPath(self.path).parent.parts)


def sources(folder: Path) -> list[Source]:
    return [
        Source(path.relative_to(folder).as_posix(), facts(path.read_text(encoding="utf-8")))
        for path in sorted(folder.rglob("*.py"))
    ]


def imports(source: Source, modules: set[str]) -> Iterator[tuple[str, int]]:
    """Absolute names of the modules a file imports at run time, with the depth of functions.

    ``from .conv import f`` gives ``clnet.ops.conv``; ``from . import conv`` gives that as well when
    there is such a module, else the package.
    """
    for each in source.facts.imports:
        if not each.at_run_time:
            continue
        if each.name is None:
            yield each.module, each.depth
            continue
        base = source.package[: len(source.package) - each.level + 1] if each.level else ()
        stem = ".".join((*base, *([each.module] if each.module else [])))
        longer = f"{stem}.{each.name}"
        known = longer in modules or (stem == "clnet" and each.name in RANK)
        yield (longer if known else stem), each.depth


def clnet_sources(root: Path) -> list[Source]:
    return sources(root / "clnet")


def library_imports(root: Path) -> Iterator[tuple[Source, str, int]]:
    """Every run-time import of the library but those of the facade, ``clnet/__init__.py``."""
    found = clnet_sources(root)
    modules = {source.module for source in found}
    for source in found:
        if source.path != "__init__.py":
            for name, depth in imports(source, modules):
                yield source, name, depth


def why_not(unit: str, other: str) -> str | None:
    """Why ``unit`` may not import ``other``, or None."""
    if unit == other:
        return None
    if RANK[other] > RANK[unit]:
        return "lies above"
    if other in FORBIDDEN.get(unit, ()):
        return f"is not for {unit}"
    if RANK[other] == RANK[unit] and not {unit, other} <= UNITS_THAT_MEET:
        return "is a sibling"
    return None


def check_units(root: Path) -> list[str]:
    bad: list[str] = []
    for source in clnet_sources(root):
        if source.unit not in RANK and source.path != "__init__.py":
            bad.append(f"{source.path}: belongs to no layer")
        if PurePosixPath(source.path).stem in VAGUE_NAMES:
            bad.append(f"{source.path}: the name does not say what the file owns")
    return bad


def check_table(root: Path) -> list[str]:
    """The table of layers names each unit once, and none that is not there."""
    rows = table_of_layers((root / CONTRIBUTING).read_text(encoding="utf-8"))
    there = {source.unit for source in clnet_sources(root)}
    named = [unit for _, units, _ in rows for unit in units]
    ranks = [rank for rank, _, _ in rows]
    bad = [f"{CONTRIBUTING}: {unit} is no unit of clnet" for unit in named if unit not in there]
    bad += [f"{CONTRIBUTING}: {u} has two layers" for u in set(named) if named.count(u) > 1]
    if ranks != list(range(len(ranks)))[::-1]:
        bad.append(f"{CONTRIBUTING}: layers are numbered from the top down to 0; got {ranks}")
    return bad


def check_layers(root: Path) -> list[str]:
    bad: list[str] = []
    for source, name, _ in library_imports(root):
        top, *rest = name.split(".")
        if top != "clnet":
            continue
        if not rest:
            bad.append(f"{source.path}: imports the facade")
        elif rest[0] not in RANK:
            bad.append(f"{source.path}: {name} is in no layer")
        elif source.unit in RANK and (reason := why_not(source.unit, rest[0])):
            bad.append(f"{source.path}: {name} {reason}")
    return bad


def check_rooms(root: Path) -> list[str]:
    """From outside, a room of kernels is imported as a whole: what its ``__init__`` names."""
    named = {
        f"{source.module}.{each.alias or each.name}"
        for source in clnet_sources(root)
        if PurePosixPath(source.path).match("kernels/*/__init__.py")
        for each in source.facts.imports
        if each.name is not None
    }
    rooms = {name.rpartition(".")[0] for name in named}
    bad: list[str] = []
    for source, name, _ in library_imports(root):
        room = ".".join(name.split(".")[:3])
        outside = room in rooms and ".".join(source.package[:3]) != room
        if outside and name not in named | {room} and source.path not in ROOMS_ARE_OPEN_TO:
            bad.append(f"{source.path}: {name} is a matter of {room} alone")
    return bad


def check_cycles(root: Path) -> list[str]:
    graph: dict[str, set[str]] = {source.module: set() for source in clnet_sources(root)}
    for source, name, _ in library_imports(root):
        if name in graph and name != "clnet":
            graph[source.module].add(name)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return ["modules import in a circle: " + " <- ".join(error.args[1])]
    return []


def core_dependencies(root: Path) -> set[str]:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {re.split(r"[^\w-]", text)[0].replace("-", "_") for text in project["dependencies"]}


def check_packages(root: Path) -> list[str]:
    bad: list[str] = []
    core = core_dependencies(root)
    for source, name, depth in library_imports(root):
        top = name.split(".")[0]
        if top == "clnet" or top in sys.stdlib_module_names:
            if depth and top not in OF_SOME_SYSTEMS:
                bad.append(f"{source.path}: imports {name} inside a function")
            continue
        if not source.path.startswith(RESERVED.get(top, "")):
            bad.append(f"{source.path}: {top} is for {RESERVED[top]} alone")
        if depth and top not in MAY_BE_LAZY:
            bad.append(f"{source.path}: imports {name} inside a function")
        if not depth and top in OPTIONAL:
            bad.append(f"{source.path}: {top} is optional, import it in the function that needs it")
        elif top not in core | OPTIONAL:
            bad.append(f"{source.path}: {top} is not a dependency")
    return bad


def check_dynamic_imports(root: Path) -> list[str]:
    return [
        f"{source.path}:{call.line}: a dynamic import hides circles"
        for source in clnet_sources(root)
        if source.path not in {"cli/command.py", "cli/bench.py"}  # of the one that is named, below
        for call in source.facts.calls
        if re.fullmatch(r"(importlib\.)?(import_module|__import__)", call.function)
    ]


def check_one_door(root: Path) -> list[str]:
    """Only device/queue.py names OpenCL's enqueue functions, also as text (for ctypes).

    And device/beside.py, a device's second queue, device/probe.py, in a process of its own that
    serves nothing else, device/quirk.py, which asks a driver in contexts of its own, and
    device/oversize.py, in a queue of its own.
    """
    bad: list[str] = []
    doors = {f"device/{name}.py" for name in ("queue", "beside", "probe", "quirk", "oversize")}
    for source in clnet_sources(root):
        if source.path in doors:
            continue
        bad += [
            f"{source.path}:{each.line}: {each.name} outside device/queue.py"
            for each in source.facts.names
            if re.match(r"enqueue_\w+$|clEnqueue\w+$|clCommand\w+KHR$", each.name)
        ]
    return bad


def check_collector(root: Path) -> list[str]:
    """What finds objects is not called, but given to ``known_objects``."""
    asked = {"gc.get_objects", "gc.get_referrers"}
    every = [(source.path, each) for source in clnet_sources(root) for each in source.facts.calls]
    return [f"{path}:{c.line}: {c.function}(...)" for path, c in every if c.function in asked]


def check_environment(root: Path) -> list[str]:
    bad: list[str] = []
    for source in clnet_sources(root):
        if source.path == "values/settings.py":
            continue
        bad += [
            f"{source.path}:{each.line}: {each.name} outside values/settings.py"
            for each in source.facts.names
            if not each.is_text and each.name in {"environ", "environb", "getenv", "putenv"}
        ]
    return bad


def check_lengths(root: Path) -> list[str]:
    bad: list[str] = []
    for folder in ("clnet", "tests", "examples", "ci"):
        for path in sorted((root / folder).rglob("*.py")):
            text, name = path.read_text(encoding="utf-8"), path.relative_to(root)
            if (count := len(text.splitlines())) > MAX_FILE:
                bad.append(f"{name}: {count} lines, at most {MAX_FILE}")
            bad += [
                f"{name}: {each.name} has {each.lines} lines, at most {MAX_FUNCTION}"
                for each in facts(text).functions
                if each.lines > MAX_FUNCTION
            ]
    for path in sorted((root / "clnet").rglob("*.mako")):
        count = len(path.read_text(encoding="utf-8").splitlines())
        if count > MAX_TEMPLATE:
            bad.append(f"{path.relative_to(root)}: {count} lines, at most {MAX_TEMPLATE}")
    return bad


def check_stems(root: Path) -> list[str]:
    """A template lies in kernels/, beside the module that declares it (lib/ holds shared parts)."""
    bad: list[str] = []
    kernels = root / "clnet" / "kernels"
    for path in sorted((root / "clnet").rglob("*.mako")):
        name = path.relative_to(root)
        if kernels not in path.parents:
            bad.append(f"{name}: templates live in clnet/kernels")
        elif path.parent != kernels / "lib" and not path.with_suffix(".py").exists():
            bad.append(f"{name}: has no {path.stem}.py beside it")
    return bad


def check_examples(root: Path) -> list[str]:
    """An example is what a user writes: it imports no test, and clnet only from outside."""
    bad: list[str] = []
    for source in sources(root / "examples"):
        for name, _ in imports(source, set()):
            parts = name.split(".")
            if parts[0] in {"tests", "ci"} or any(part.startswith("_") for part in parts[1:]):
                bad.append(f"examples/{source.path}: imports {name}")
    return bad


def check_documented(root: Path) -> list[str]:
    """A public method has a docstring, or the method that it overrides has the one that holds."""
    bases: dict[str, set[str]] = {}
    documented: dict[str, set[str]] = {}
    methods: list[tuple[str, str, str]] = []
    for source in clnet_sources(root):
        for cls in source.facts.classes:
            bases.setdefault(cls.name, set()).update(cls.bases)
            for name, has_docstring in cls.methods:
                if name.startswith("_"):
                    continue
                if has_docstring:
                    documented.setdefault(cls.name, set()).add(name)
                elif not cls.name.startswith("_"):
                    methods.append((source.path, cls.name, name))

    def says(cls: str, name: str) -> bool:
        above = bases.get(cls, set()) - {cls}
        return name in documented.get(cls, set()) or any(says(base, name) for base in above)

    return [
        f"{p}: {cls}.{name} has no docstring" for p, cls, name in methods if not says(cls, name)
    ]


def check_private(root: Path) -> list[str]:
    """No module takes what another keeps for itself, but to show it under the same name."""
    bad: list[str] = []
    files = {PurePosixPath(source.path).stem for source in clnet_sources(root)}
    for source in clnet_sources(root):
        inner = [each for each in source.facts.imports if each.level and each.name]
        taken = [(each.module, each.name) for each in inner if each.alias != each.name]
        modules = {each.alias or each.name for each in inner if each.name in files}
        taken += [(owner, name) for owner, name in source.facts.private if owner in modules]
        bad += [f"{source.path}: {n} is {m}'s own" for m, n in taken if re.match("_[^_]", n)]
    return bad


def check_unused(root: Path) -> list[str]:
    """What a module keeps for itself it uses, or says beside it for whom it is."""
    texts = {path: path.read_text(encoding="utf-8") for path in (root / "clnet").rglob("*.py")}
    named = Counter(word for text in texts.values() for word in re.findall(r"\b_\w+", text))
    return [
        f"{path.name}: {found[1]} is used nowhere"
        for path, text in sorted(texts.items())
        for above, line in pairwise(text.splitlines())
        if (found := re.match(r"(?:def|class) (_[A-Za-z]\w*)[^#]*$", line))
        if named[found[1]] == 1 and not above.startswith(("@", ")"))  # a decorator may keep it
    ]


CHECKS = [
    check_units,
    check_table,
    check_layers,
    check_rooms,
    check_cycles,
    check_packages,
    check_dynamic_imports,
    check_one_door,
    check_collector,
    check_environment,
    check_lengths,
    check_stems,
    check_examples,
    check_documented,
    check_private,
    check_unused,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_architecture(check):
    assert not (bad := check(CHECKOUT)), "\n".join(bad)


# --- The checks themselves ---------------------------------------------------------------------


def plant(root: Path, files: dict[str, str]) -> Path:
    """Write files below ``root``, with the project file that the checks read."""
    for name, text in {
        "pyproject.toml": '[project]\ndependencies = ["numpy>=1", "pyopencl", "mako", "tqdm"]',
        **files,
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def body(lines: int) -> str:
    return "def f():\n" + "    x = 1\n" * (lines - 1)


METHOD = "def f(self): return 1"
TOLD = 'class B:\n    def f(self):\n        "One."'

VIOLATIONS = [
    (check_units, {"clnet/newcomer.py": ""}, "newcomer.py: belongs to no layer"),
    (check_units, {"clnet/ops/utils.py": ""}, "utils.py: the name does not say"),
    (check_table, {CONTRIBUTING: "| 0 | `lost` | x |", "clnet/a.py": ""}, "lost is no unit"),
    (check_table, {CONTRIBUTING: "| 0 | `a` `a` | x |", "clnet/a.py": ""}, "a has two layers"),
    (check_table, {CONTRIBUTING: "| 2 | `a` | x |", "clnet/a.py": ""}, "got [2]"),
    (check_layers, {"clnet/ops/act.py": "from ..tensor import Tensor"}, "clnet.tensor lies above"),
    (check_layers, {"clnet/ops/act.py": "from .. import tensor"}, "clnet.tensor lies above"),
    (check_layers, {"clnet/ops/act.py": "from clnet.nn.linear import L"}, "nn.linear lies above"),
    (check_layers, {"clnet/ops/act.py": "def f():\n    from ..tensor import T"}, "lies above"),
    (check_layers, {"clnet/array.py": "import clnet"}, "array.py: imports the facade"),
    (check_layers, {"clnet/array.py": "from clnet import Tensor"}, "array.py: imports the facade"),
    (check_layers, {"clnet/ops/act.py": "from .. import Tensor"}, "act.py: imports the facade"),
    (check_layers, {"clnet/cli/x.py": "import clnet.lost"}, "clnet.lost is in no layer"),
    (check_layers, {"clnet/nn/x.py": "import clnet.compile"}, "clnet.compile is a sibling"),
    (check_layers, {"clnet/optim/x.py": "from ..io import a"}, "clnet.io is a sibling"),
    (check_layers, {"clnet/models/x.py": "from ..train import a"}, "clnet.train is a sibling"),
    (check_layers, {"clnet/nn/x.py": "from ..kernels import gemm"}, "is not for nn"),
    (check_layers, {"clnet/optim/x.py": "from ..kernels import gemm"}, "is not for optim"),
    (check_layers, {"clnet/data/x.py": "from ..tensor import T"}, "is not for data"),
    (check_layers, {"clnet/data/x.py": "from ..device import D"}, "is not for data"),
    (
        check_rooms,
        {
            "clnet/ops/a.py": "from ..kernels.gemm.skinny import x",
            "clnet/kernels/gemm/__init__.py": "from .skinny import y",
            "clnet/kernels/gemm/skinny.py": "",
        },
        "skinny is a matter of clnet.kernels.gemm alone",
    ),
    (
        check_cycles,
        {"clnet/ops/a.py": "from .b import x", "clnet/ops/b.py": "def f():\n    from .a import y"},
        "clnet.ops.a <- clnet.ops.b",
    ),
    (
        check_cycles,
        {"clnet/ops/__init__.py": "from .a import *", "clnet/ops/a.py": "from . import apply"},
        "modules import in a circle",
    ),
    (check_packages, {"clnet/array.py": "import pyopencl as cl"}, "pyopencl is for device/"),
    (
        check_packages,
        {"clnet/kernels/gemm.py": "from mako import x"},
        "mako is for kernels/template",
    ),
    (check_packages, {"clnet/nn/x.py": "def f():\n    import json"}, "json inside a function"),
    (check_packages, {"clnet/nn/x.py": "def f():\n    from ..ops import a"}, "inside a function"),
    (check_packages, {"clnet/nn/x.py": "def f():\n    import numpy"}, "numpy inside a function"),
    (check_packages, {"clnet/data/x.py": "import pooch"}, "pooch is optional"),
    (check_packages, {"clnet/nn/x.py": "import pandas"}, "pandas is not a dependency"),
    (check_packages, {"clnet/nn/x.py": "import tests.opcase"}, "tests is not a dependency"),
    (check_dynamic_imports, {"clnet/nn/x.py": "importlib.import_module('a')"}, "x.py:1: a dynamic"),
    (check_dynamic_imports, {"clnet/nn/x.py": "y = __import__('a')"}, "x.py:1: a dynamic"),
    (
        check_one_door,
        {"clnet/device/pool.py": "cl.enqueue_copy(q, a, b)"},
        "pool.py:1: enqueue_copy",
    ),
    (
        check_one_door,
        {"clnet/array.py": "from pyopencl import enqueue_copy"},
        "enqueue_copy outside",
    ),
    (check_one_door, {"clnet/array.py": "f = getattr(cl, 'enqueue_copy')"}, "enqueue_copy outside"),
    (
        check_one_door,
        {"clnet/array.py": "f = lib.clEnqueueNDRangeKernel"},
        "clEnqueueNDRangeKernel",
    ),
    (check_collector, {"clnet/array.py": "import gc\ngc.get_objects()"}, "array.py:2: gc.get_obj"),
    (check_environment, {"clnet/array.py": "import os\nos.environ['A']"}, "array.py:2: environ"),
    (check_environment, {"clnet/array.py": "from os import getenv"}, "getenv outside values"),
    (check_lengths, {"clnet/array.py": "x = 1\n" * 601}, "array.py: 601 lines, at most 600"),
    (check_lengths, {"tests/test_x.py": "x = 1\n" * 601}, "test_x.py: 601 lines"),
    (check_lengths, {"clnet/array.py": body(61)}, "array.py: f has 61 lines, at most 60"),
    (check_lengths, {"clnet/kernels/x.mako": "\n" * 301}, "x.mako: 301 lines, at most 300"),
    (check_stems, {"clnet/kernels/gemm.mako": ""}, "gemm.mako: has no gemm.py"),
    (check_stems, {"clnet/ops/gemm.mako": "", "clnet/ops/gemm.py": ""}, "live in clnet/kernels"),
    (check_examples, {"examples/a.py": "from tests import opcase"}, "a.py: imports tests"),
    (check_examples, {"examples/a.py": "from clnet._x import y"}, "a.py: imports clnet._x"),
    (check_documented, {"clnet/ops/a.py": f"class A(B):\n    {METHOD}"}, "A.f has no docstring"),
    (check_private, {"clnet/ops/a.py": "from .b import _x"}, "a.py: _x is b's own"),
    (check_private, {"clnet/ops/a.py": "from .b import _x as y"}, "a.py: _x is b's own"),
    (
        check_private,
        {"clnet/ops/a.py": "from . import b\nb._x()", "clnet/ops/b.py": "__all__ = []"},
        "a.py: _x is b's own",
    ),
    (check_unused, {"clnet/a.py": "\ndef _f(x):\n    pass"}, "a.py: _f is used nowhere"),
    (check_unused, {"clnet/a.py": "\nclass _A(B):\n    pass"}, "a.py: _A is used nowhere"),
]

ALLOWED = [
    (
        check_rooms,
        {
            "clnet/ops/a.py": "from ..kernels.gemm import x\nfrom ..kernels.grid import y",
            "clnet/kernels/gemm/__init__.py": "from .skinny import x",
            "clnet/kernels/gemm/skinny.py": "",
            "clnet/kernels/grid.py": "",
        },
    ),
    (
        check_units,
        {"clnet/ops/activation.py": "", "clnet/__init__.py": "", "clnet/__main__.py": ""},
    ),
    (
        check_table,
        {
            CONTRIBUTING: "| 1 | `b` `c` | x |\n| 0 | `a` | y |",
            **dict.fromkeys(("clnet/a.py", "clnet/b.py", "clnet/c/d.py"), ""),
        },
    ),
    (check_layers, {"clnet/__init__.py": "from .tensor import Tensor"}),
    (check_layers, {"clnet/values/dtypes.py": "from ..errors import DtypeError"}),
    (check_layers, {"clnet/tensor.py": "from .autodiff.tape import Node\nfrom . import ops"}),
    (check_layers, {"clnet/data/x.py": "from ..values.settings import SETTINGS"}),
    (
        check_layers,
        {"clnet/ops/a.py": "if TYPE_CHECKING:\n    from ..tensor import T\nelse:\n    T = 1"},
    ),
    (
        check_cycles,
        {"clnet/ops/a.py": "from .b import x", "clnet/ops/b.py": "from ..errors import y"},
    ),
    (check_packages, {"clnet/device/__init__.py": "import pyopencl as cl\nimport os, numpy"}),
    (check_packages, {"clnet/kernels/template.py": "from mako.template import Template"}),
    (check_packages, {"clnet/data/x.py": "def f():\n    import pooch\n    from tqdm import tqdm"}),
    (check_one_door, {"clnet/device/queue.py": "cl.enqueue_copy(q, a, b)"}),
    (check_one_door, {"clnet/array.py": "queue.launch(k)\n'we never call enqueue_copy here'"}),
    (check_environment, {"clnet/values/settings.py": "import os\nos.environ"}),
    (check_lengths, {"clnet/array.py": body(60), "clnet/a.py": "x = 1\n" * 600}),
    (check_lengths, {"clnet/array.py": body(60).replace("\n", "\n    '''a\n    b\n    '''\n", 1)}),
    (
        check_stems,
        {"clnet/kernels/lib/tile.mako": "", "clnet/kernels/a.mako": "", "clnet/kernels/a.py": ""},
    ),
    (check_examples, {"examples/a.py": "import clnet\nfrom clnet.nn import functional as F"}),
    (
        check_documented,
        {"clnet/ops/a.py": f"class A(m.B[T]):\n    {METHOD}", "clnet/ops/b.py": TOLD},
    ),
    (check_private, {"clnet/ops/a.py": "from .b import _X as _X, __doc__"}),
    (check_unused, {"clnet/a.py": "\ndef _f(x):  # for packages\n    pass"}),
    (check_unused, {"clnet/a.py": "\n@rule\ndef _f(x):\n    pass\n\ndef _g():\n    _g()"}),
]


def case_id(value: object) -> str:
    if isinstance(value, dict):
        return next(iter(value))
    return getattr(value, "__name__", str(value)).removeprefix("check_")


@pytest.mark.parametrize(("check", "files", "complaint"), VIOLATIONS, ids=case_id)
def test_planted_violation_is_reported(check, files, complaint, tmp_path):
    bad = check(plant(tmp_path, files))
    assert len(bad) == 1
    assert complaint in bad[0]


@pytest.mark.parametrize(("check", "files"), ALLOWED, ids=case_id)
def test_what_is_allowed_passes(check, files, tmp_path):
    assert check(plant(tmp_path, files)) == []


def test_every_check_is_shown_to_complain():
    assert {check for check, _, _ in VIOLATIONS} == set(CHECKS)
