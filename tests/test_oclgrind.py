"""Oclgrind finds what it is there for: each check meets a kernel with that mistake planted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import oclgrind_own_kernel, oclgrind_steps
from tests.oclgrind import Finding, Report, available, check, main, parse

needs_oclgrind = pytest.mark.skipif(
    not available(), reason="no oclgrind; install it: ci/install-opencl.sh oclgrind"
)

SCRIPT = '''
import numpy as np
import pyopencl as cl

(platform,) = cl.get_platforms()
context = cl.Context(platform.get_devices())
queue = cl.CommandQueue(context)
ones = np.ones(128, np.float32)
flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
buffer = cl.Buffer(context, flags, hostbuf=ones)
program = cl.Program(context, """
__kernel void planted(__global float *a) {
    __local float s[64];
    const int g = get_global_id(0), l = get_local_id(0);
    %s
}
""").build()
kernel = cl.Kernel(program, "planted")
kernel.set_args(buffer)
cl.enqueue_nd_range_kernel(queue, kernel, (128,), (64,))
queue.finish()
print(platform.name)
'''

CORRECT = """
    s[l] = a[g];
    barrier(CLK_LOCAL_MEM_FENCE);
    a[g] = s[63 - l];
"""

# A training step whose kernels have lost their barriers, and an array its end.
PLANTED = """
import sys
sys.path[0] = {root!r}
from clnet.kernels.kernel import Rendered
from tests import oclgrind_own_kernel, oclgrind_steps

correct = Rendered.text

def wrong(rendered):
    text = correct(rendered).replace("mean += mean_offset;", "mean += mean_offset + 5;")
    return text.replace("barrier(", "(void)(") if "void norm_in_registers(" in text else text

Rendered.text = wrong
oclgrind_steps.exact()
oclgrind_steps.losses("images", 1, compiled=False)
"""

LOG = """
Read-write data race at local memory address 0x2000000000040
\tKernel: planted
\t
\tFirst entity:  Global(16,0,0) Local(16,0,0) Group(0,0,0)
\tAt line 5 (column 9) of input.cl:
\t      s[l] = a[g];
\t

Read-write data race at local memory address 0x2000000000044
\tKernel: planted
\tAt line 5 (column 9) of input.cl:
\t      s[l] = a[g];
\t

OCLGRIND FATAL ERROR (./src/core/common.cpp:104)
Unsupported float size: 2 bytes
\tKernel: half_sum
"""


def run(tmp_path: Path, body: str) -> Report:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT % body)
    report = check(script)
    assert report.returncode == 0, report.output
    assert "Oclgrind" in report.output
    return report


def test_parse_counts_equal_entries_and_keeps_two_line_messages():
    assert parse(LOG) == (
        Finding("Read-write data race at local memory", "planted", "input.cl:5: s[l] = a[g];", 2),
        Finding(
            "OCLGRIND FATAL ERROR (./src/core/common.cpp:104) Unsupported float size: 2 bytes",
            "half_sum",
            "",
            1,
        ),
    )
    assert parse("") == ()


@needs_oclgrind
def test_correct_kernel_has_no_finding(tmp_path: Path):
    assert run(tmp_path, CORRECT).findings == ()


@needs_oclgrind
@pytest.mark.parametrize(
    ("message", "body"),
    [
        pytest.param(
            "Read-write data race at local memory",
            CORRECT.replace("barrier(CLK_LOCAL_MEM_FENCE);", ""),
            id="race-in-local-memory",
        ),
        pytest.param(
            "Write-write data race at global memory", "a[g % 2] = g;", id="race-in-global-memory"
        ),
        pytest.param(
            "Invalid write of size 4 at global memory", "a[g + 1] = 1;", id="write-out-of-bounds"
        ),
        pytest.param(
            "Invalid read of size 4 at global memory",
            "const float x = a[g + 1]; barrier(CLK_GLOBAL_MEM_FENCE); s[l] = x;",
            id="read-out-of-bounds",
        ),
        pytest.param(
            "Invalid write of size 4 at local memory",
            "s[l + 1] = 1;",
            id="local-write-out-of-bounds",
        ),
        pytest.param(
            "Uninitialized value written to global memory",
            "float x; if (g < 100) x = 1; a[g] = x;",
            id="uninitialised-private",
        ),
        pytest.param(
            "Controlflow depends on uninitialized value",
            "if (s[l] > 0) a[g] = 2;",
            id="uninitialised-local",
        ),
        pytest.param(
            "Work-group divergence detected (barrier)",
            "if (l < 3) barrier(CLK_LOCAL_MEM_FENCE);",
            id="diverging-barrier",
        ),
    ],
)
def test_planted_mistake_is_found(tmp_path: Path, message: str, body: str):
    findings = run(tmp_path, body).findings
    assert message in [finding.message for finding in findings], findings
    assert {finding.kernel for finding in findings} == {"planted"}


@needs_oclgrind
@pytest.mark.slow
def test_whole_training_steps_have_no_finding():
    """Nothing out of bounds, no race; the losses are those of the device at hand.

    Uploads go through memory that the host has mapped, and what is written there Oclgrind takes
    for unwritten: what nobody wrote is found by poison.
    """
    report = check(oclgrind_steps.__file__, uninitialized=False)
    assert report.returncode == 0, report.output
    assert not report.findings, "\n".join(map(str, report.findings))
    for line, (name, count) in zip(
        report.output.splitlines(), (("images", 2), ("words", 1)), strict=True
    ):
        told, *found = line.split()
        assert told == name
        assert len(found) == 1 + count
        expected = oclgrind_steps.losses(name, count, compiled=False)
        assert [float(each) for each in found] == pytest.approx([expected[0], *expected], rel=1e-4)


@needs_oclgrind
@pytest.mark.slow
def test_kernels_of_the_tutorial_have_no_finding():
    report = check(oclgrind_own_kernel.__file__, uninitialized=False)
    assert report.returncode == 0, report.output
    assert not report.findings, "\n".join(map(str, report.findings))
    assert report.output == "right\n"


@needs_oclgrind
@pytest.mark.slow
def test_a_read_planted_in_a_users_kernel_is_found(tmp_path: Path):
    tutorial = tmp_path / "own_kernel.py"
    text = oclgrind_own_kernel.TUTORIAL.read_text(encoding="utf-8")
    tutorial.write_text(text.replace("+ row + r) * width", "+ row + r + 99) * width"), "utf-8")
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys\nsys.path[0] = {str(Path(__file__).parents[1])!r}\n"
        "from pathlib import Path\nfrom tests import oclgrind_own_kernel\n"
        f"oclgrind_own_kernel.TUTORIAL = Path({str(tutorial)!r})\noclgrind_own_kernel.main()\n"
    )
    kinds = {(f.message, f.kernel) for f in check(script, uninitialized=False).findings}
    assert ("Invalid read of size 4 at global memory", "plain") in kinds


@needs_oclgrind
@pytest.mark.slow
def test_mistakes_planted_in_a_training_step_are_found(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(PLANTED.format(root=str(Path(__file__).parents[1])))
    report = check(script, uninitialized=False)
    kinds = {(found.message, found.kernel) for found in report.findings}
    assert ("Read-write data race at local memory", "norm_in_registers") in kinds, report.output
    assert ("Invalid write of size 4 at global memory", "norm_in_registers") in kinds, report.output


@needs_oclgrind
def test_exit_status_tells_findings_and_failing_scripts_from_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT % CORRECT)
    assert main([str(script)]) == 0
    script.write_text(SCRIPT % "a[g + 1] = 1;")
    assert main([str(script)]) == 1
    assert "Invalid write of size 4 at global memory in kernel planted" in capsys.readouterr().out
    script.write_text("raise SystemExit(3)")
    assert main([str(script)]) == 1
    assert "the script failed with exit status 3" in capsys.readouterr().out
