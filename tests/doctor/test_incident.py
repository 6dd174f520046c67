"""The report of a program that failed: what it holds, and that it holds no data."""

from __future__ import annotations

import pytest

from clnet.cli import main

pytestmark = pytest.mark.device

FAILS = """
import sys
import clnet
from clnet import nn

assert sys.argv[1:] == ["--rate", "3"]
net = nn.Linear(5, 2)
run = clnet.compile(net)
run(clnet.full((3, 5), 271.8281))
secret = "my " + "secret"
{line}
"""


@pytest.fixture
def report(tmp_path, capsys):
    def made(line: str) -> tuple[int, str]:
        script, file = tmp_path / "script.py", tmp_path / "report.md"
        script.write_text(FAILS.format(line=line))
        code = main(["report", str(file), str(script), "--rate", "3"])
        assert str(file) in capsys.readouterr().err
        return code, file.read_text()

    return made


def test_an_error_of_clnet_is_told_with_device_plan_and_kernel(report, device):
    code, text = report("clnet.ones(3) + clnet.ones(4)")
    assert code == 1
    for part in (
        f"## Device {device.name}",
        f"- driver: {device.identity.driver}",
        "- pyopencl: ",
        "ShapeError: add: ",
        "script.py:11 in <module>",
        "## A plan",
        "linear",
        "__kernel void",
        "## Last commands",
    ):
        assert part in text
    assert "271" not in text


def test_data_and_texts_of_others_are_left_out(report):
    code, text = report("clnet.embedding(clnet.tensor([31415]), clnet.ones(4, 2)).tolist()")
    assert code == 1
    assert "embedding" in text
    assert "31415" not in text
    code, text = report("raise ValueError(secret)")
    assert code == 1
    assert "ValueError" in text
    assert "secret" not in text


def test_a_script_that_ends_well_and_one_that_exits_are_told(report):
    code, text = report("")
    assert code == 0
    assert "## Error\n\nnone" in text
    assert report("sys.exit(5)")[0] == 5


def test_without_a_script_the_device_is_told(tmp_path, device):
    file = tmp_path / "report.md"
    assert main(["report", "--device", device.name, str(file)]) == 0
    assert f"## Device {device.name}" in file.read_text()


def test_what_cannot_be_done_is_refused(tmp_path, capsys):
    assert main(["report", str(tmp_path / "report.md"), str(tmp_path / "none.py")]) == 1
    assert "there is no such script" in capsys.readouterr().err
    script = tmp_path / "script.py"
    script.write_text("print('it ran')")
    assert main(["report", str(tmp_path / "none" / "report.md"), str(script)]) == 1
    told = capsys.readouterr()
    assert "cannot write it" in told.err
    assert "it ran" not in told.out  # for hours, perhaps, and then for nothing
