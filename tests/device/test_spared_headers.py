"""Headers of PoCL's that a program is spared: the compiler reads none of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import clnet
from clnet.device import program
from clnet.device.builtin_functions import POCL, WITHOUT_HEADER
from clnet.device.program import ProgramCache
from clnet.device.spared_headers import SparedHeaders, spared_headers
from clnet.errors import BuildError
from tests.device.test_program import Bench, Source

RENAMES = """/* Another's words: #define not _cl_not */
#ifndef _KERNEL_RENAMES_H
#define _KERNEL_RENAMES_H
#define exp   _cl_exp
  #  define log _cl_log
#endif
"""
# The header of renamed functions says so when it was read.
TOLD = """#ifdef _KERNEL_RENAMES_H
#error it was read
#endif
__kernel void plus(__global float *y, const long y_offset, const float a, const int n)
{
    const int i = (int)get_global_id(0);
    if (i < n) y[y_offset + i] = a + exp(0.0f) + (float)sqrt(0.0);
}
"""


def folder(path: Path, renames: str = RENAMES) -> Path:
    path.mkdir(exist_ok=True)
    (path / "_builtin_renames.h").write_text(renames)
    return path


@pytest.fixture
def spared() -> SparedHeaders:
    if clnet.device().identity.platform != POCL:
        pytest.skip("only PoCL reads headers for each program")
    found = spared_headers()
    if found is None:
        pytest.skip("PoCL's headers are not beside its library")
    return found


def asked_by(cache: ProgramCache) -> list[tuple[str, ...]]:
    """The options of what the cache's compiler is asked from now on."""
    asked: list[tuple[str, ...]] = []
    compiled = cache._compiled
    cache._compiled = lambda text, options: asked.append(options) or compiled(text, options)
    return asked


def test_functions_that_are_named_are_renamed(tmp_path):
    known = spared_headers(folder(tmp_path))
    assert known is not None
    assert known.names == {"exp": "_cl_exp", "log": "_cl_log"}
    assert known.renames("y = exp(x) + logit(x);") == "#define exp _cl_exp\n"
    for name in ("opencl-c.h", "_builtin_renames.h"):
        assert f"\t{tmp_path / name};" in known.option


@pytest.mark.parametrize(
    "renames",
    [
        RENAMES.replace("#endif", "float exp(float);\n#endif").replace("#define exp", "#undef exp"),
        RENAMES.replace("exp   _cl_exp", "exp(x) _cl_exp(x)"),
        RENAMES.replace("#define exp", '#include "others.h"\n#define exp'),
        "",
    ],
)
def test_a_header_that_does_something_else_is_read(tmp_path, renames):
    assert spared_headers(folder(tmp_path / "headers", renames)) is None


def test_a_folder_that_an_option_cannot_name_is_left_alone(tmp_path):
    assert spared_headers(folder(tmp_path / "a b")) is None
    assert spared_headers(folder(tmp_path / "a;b")) is None
    assert spared_headers(tmp_path / "none") is None


def test_the_compiler_reads_none_of_them(tmp_path, spared):
    bench = Bench(tmp_path / "spared", header=True)
    asked = asked_by(bench.cache)
    assert bench.run(Source(TOLD)) == [3, 3, 3]
    assert [spared.option in options for options in asked] == [True]
    # The text is refused where they are read, so it does tell.
    bench = Bench(tmp_path / "plain", header=True)
    bench.cache._spares = False
    with pytest.raises(BuildError, match="it was read"):
        bench.cache.get(Source(TOLD))


def test_a_compiler_that_refuses_the_option_is_asked_without(tmp_path, spared, monkeypatch):
    wrong = SparedHeaders("-DCLNET_SPARED=\t-no-such-option", spared.names)
    monkeypatch.setattr(program, "spared_headers", lambda: wrong)
    bench = Bench(tmp_path, header=True)
    asked = asked_by(bench.cache)
    assert bench.run(Source()) == [3, 3, 3]
    # The kernel, what any compiler takes, the kernel once more; nothing else afterwards.
    assert [wrong.option in options for options in asked] == [True, True, False]
    assert bench.run(Source(options=("-cl-std=CL1.2", "-DANOTHER"))) == [3, 3, 3]
    assert [wrong.option in options for options in asked[3:]] == [False]
    assert all(WITHOUT_HEADER in options for options in asked)
    assert bench.cache.statistics.with_header == 0


def test_a_compiler_that_takes_it_is_asked_once(tmp_path, spared):
    bench = Bench(tmp_path, header=True)
    asked = asked_by(bench.cache)
    for wrong in ("wrong", "worse"):
        with pytest.raises(BuildError, match=wrong):
            bench.cache.get(Source(f"__kernel void f(__global float *x) {{ {wrong}; }}", name="f"))
    # The text, what any compiler takes, the text with all headers, and that for the whole log.
    assert [spared.option in options for options in asked] == [
        *(True, True, False, False),
        *(True, False, False),
    ]
