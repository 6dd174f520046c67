"""Declarations of built-in functions: those of the header that they stand for, and enough."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

import clnet
from clnet.device import builtin_functions
from clnet.device.builtin_functions import POCL, WITHOUT_HEADER, declarations
from clnet.errors import BuildError
from tests.device.test_program import Bench, Source

# What clang says of OpenCL C 1.2 on a device that has all types.
CONDITIONS = """
#define CL_VERSION_1_0 100
#define CL_VERSION_1_1 110
#define CL_VERSION_1_2 120
#define CL_VERSION_2_0 200
#define CL_VERSION_3_0 300
#define __OPENCL_C_VERSION__ 120
#define __opencl_c_named_address_space_builtins 1
#define cl_khr_fp64 1
#define cl_khr_fp16 1
"""
PATTERNS = (
    "convert_float convert_int8_rte convert_uchar16_sat convert_double4 convert_half2 vload8"
    " vstore4 vload_half vload_half8 vstore_half vstore_half_rte vstore_half4_rtz vloada_half4"
).split()
NAMES = sorted(
    [
        *builtin_functions._KIND_OF,
        *builtin_functions._WORK_ITEM,
        *builtin_functions._FENCES,
        *(f"atomic_{name}" for name in builtin_functions._ATOMICS),
        "select",
        *PATTERNS,
    ]
)
SPACES = {"volatile", "const", "__global", "__local", "__private", "__constant", "*"}
pocl = pytest.mark.skipif(
    clnet.device().identity.platform != POCL, reason="only PoCL reads a header for each program"
)


def header() -> Path | None:
    """Clang's header of built-in functions, as a PoCL on this machine has it."""
    found = find_spec("pocl_binary_distribution")
    places = [Path(found.origin).parent / ".libs"] if found and found.origin else []
    for place in [*places, Path("/usr")]:
        if (path := place / "share/pocl/include/opencl-c.h").exists():
            return path
    return None


def preprocessed(text: str) -> str:
    return subprocess.run(
        ["cc", "-E", "-P", "-x", "c", "-"],
        input=CONDITIONS + text,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def parameter(text: str) -> str:
    """Its type: without its name, its words in one order."""
    words = text.replace("*", " * ").split()
    types = [word for word in words if word not in SPACES]
    if len(types) > 1:
        words.remove(types[1])
    return " ".join(sorted(words))


def overloads(text: str) -> dict[str, set[tuple[str, ...]]]:
    """By function: result, parameters and attributes of its declarations."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for declared in preprocessed(text.replace("unsigned int", "uint")).split(";"):
        attributes = re.findall(r"__attribute__\(\(([\w, ]*)\)\)", declared)
        plain = re.sub(r"__attribute__\(\(.*?\)\)", "", declared).strip()
        if match := re.fullmatch(r"([\w ]+?)\s*\b(\w+)\s*\(([^()]*)\)", plain):
            result, name, parameters = match.groups()
            words = sorted({word for a in attributes for word in re.findall(r"\w+", a)})
            given = (parameter(p) for p in parameters.split(","))
            found.setdefault(name, set()).add((result, *given, *words))
    return found


def test_all_overloads_are_the_headers():
    path = header()
    if path is None or shutil.which("cc") is None:
        pytest.skip("no PoCL with clang's header, or no C preprocessor to read it with")
    theirs = overloads(path.read_text().replace('#include "opencl-c-base.h"', ""))
    ours = overloads(declarations(" ".join(NAMES)))
    assert len(NAMES) > 100
    assert {name: ours[name] for name in NAMES} == {name: theirs[name] for name in NAMES}


def test_only_what_is_named_is_declared():
    text = declarations("__kernel void f(__global float *x) { x[0] = exp(x[1]); }")
    assert " exp(float4)" in text
    assert " log(" not in text


def with_header(text: str, tmp_path: Path) -> int:
    """How many of the text's kernels were compiled with the header."""
    cache = Bench(tmp_path / "counted", header=True).cache
    cache.get(Source(text, name="f"))
    return cache.statistics.with_header


def built(text: str, tmp_path: Path) -> list[tuple[str, ...]]:
    """The options of what the compiler was asked."""
    bench = Bench(tmp_path, header=True)
    asked = []
    compiled = bench.cache._compiled
    bench.cache._compiled = lambda text, options: asked.append(options) or compiled(text, options)
    bench.cache.get(Source(text, name="f"))
    return asked


@pocl
def test_a_kernel_is_built_without_the_header(tmp_path):
    text = "__kernel void f(__global float *x) { x[0] = exp(1.0) + hypot(x[1], 2.0f); }"
    (options,) = built(text, tmp_path)
    assert WITHOUT_HEADER in options
    assert with_header(text, tmp_path) == 0


@pocl
def test_a_function_that_is_not_known_is_found_in_the_header(tmp_path):
    text = "__kernel void f(__global float *x) { x[0] = smoothstep(x[1], x[2], x[3]); }"
    first, *_, last = built(text, tmp_path)
    assert WITHOUT_HEADER in first
    assert WITHOUT_HEADER not in last
    assert with_header(text, tmp_path) == 1


@pocl
def test_a_refused_text_is_shown_as_it_was_given(tmp_path):
    text = "__kernel void f(__global float *x)\n{\n    x[0] = exp(1.0f) + wrong;\n}\n"
    with pytest.raises(BuildError, match=r"3> +x\[0\] = exp"):
        Bench(tmp_path, header=True).cache.get(Source(text, name="f"))


@pocl
def test_clnets_kernels_need_no_header(tmp_path):
    """Each template is built so somewhere in the suite: a function it names stands in the table."""
    root = Path(clnet.__file__).parent / "kernels"
    words = {
        word
        for path in root.rglob("*.mako")
        for word in re.findall(r"\b([a-z]\w*)\(", path.read_text())
    }
    path = header()
    if path is None or shutil.which("cc") is None:
        pytest.skip("no PoCL with clang's header, or no C preprocessor to read it with")
    theirs = overloads(path.read_text().replace('#include "opencl-c-base.h"', ""))
    absent = {word for word in words & set(theirs) if not declarations(word)}
    assert absent <= {"distance", "step"}, "these are defs of ours with a built-in's name"
