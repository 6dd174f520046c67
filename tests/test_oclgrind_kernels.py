"""Every portable kernel, small, under Oclgrind: nothing out of bounds, racing or uninitialised."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tests.oclgrind import available, check
from tests.oclgrind_cases import FAMILIES
from tests.oclgrind_cases.harness import kernel_modules

SCRIPT = Path(__file__).parent / "oclgrind_kernels.py"

# What 128 emulated items share lies in local memory: more than Oclgrind has.
OPTIONS = ("--local-mem-size", str(2**17))

# Each process under Oclgrind takes a second before its first case: what is short shares one.
LONG = ("attention_cases", "conv_cases", "gemm_cases", "index_cases", "rows_cases")
SHORT = tuple(family for family in FAMILIES if family not in LONG)
PROCESSES = (*((family,) for family in LONG), SHORT[::2], SHORT[1::2])

# Runs a family with a text of its kernels replaced; numbers that are wrong then are no surprise.
PLANTED = """
import sys
sys.path[0] = {root!r}
from clnet.kernels.kernel import Rendered
from tests.oclgrind_cases import {family}
from tests.oclgrind_cases.harness import execute

correct = Rendered.text
Rendered.text = lambda rendered: correct(rendered).replace({old!r}, {new!r})
execute({family}, shapes="narrow")
"""

needs_oclgrind = pytest.mark.skipif(
    not available(), reason="no oclgrind; install it: ci/install-opencl.sh oclgrind"
)


def test_every_family_is_run_once():
    assert sorted(family for families in PROCESSES for family in families) == sorted(FAMILIES)


def test_every_kernel_belongs_to_one_family():
    owned = [
        module for f in FAMILIES for module in import_module(f"tests.oclgrind_cases.{f}").MODULES
    ]
    assert sorted(module.__name__ for module in owned) == sorted(
        module.__name__ for module in kernel_modules()
    )


@needs_oclgrind
@pytest.mark.slow
@pytest.mark.parametrize("families", PROCESSES, ids=" ".join)
def test_kernels_have_no_finding(families: tuple[str, ...]):
    report = check(SCRIPT, *families, "narrow", options=OPTIONS)
    assert report.returncode == 0, report.output
    assert not report.findings, "\n".join(map(str, report.findings))


@needs_oclgrind
@pytest.mark.slow
def test_kernels_with_wide_vectors_have_no_finding():
    report = check(SCRIPT, *FAMILIES, "wide", uninitialized=False)
    assert report.returncode == 0, report.output
    assert not report.findings, "\n".join(map(str, report.findings))


@needs_oclgrind
@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "old", "new", "kernel", "message"),
    [
        pytest.param(
            "reduce_cases",
            "barrier(CLK_LOCAL_MEM_FENCE);",
            "",
            "reduce_group",
            "Read-write data race at local memory",
            id="race",
        ),
        pytest.param(
            "items_cases",
            "if (i >= n) return;",
            "",
            "pointwise",
            "Invalid write of size 4 at global memory",
            id="out-of-bounds",
        ),
        pytest.param(
            "pool_cases",
            "sum = 0;",
            "sum;",
            "avg_pool",
            "Uninitialized value written to global memory",
            id="uninitialised",
        ),
    ],
)
def test_a_mistake_planted_in_a_kernel_is_found(
    tmp_path: Path, family: str, old: str, new: str, kernel: str, message: str
):
    script = tmp_path / "script.py"
    root = str(Path(__file__).parents[1])
    script.write_text(PLANTED.format(root=root, family=family, old=old, new=new))
    found = [(each.kernel, each.message) for each in check(script).findings]
    assert (kernel, message) in found
