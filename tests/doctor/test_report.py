"""Cases, processes that die, reports, and the command."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pyopencl as cl
import pytest

from clnet import ops
from clnet.cli import main
from clnet.cli.doctor import run as run_doctor
from clnet.doctor import compared, examine, read, report, shown
from clnet.doctor.case import Case, Finding, Outcome, ask, differences, off
from clnet.doctor.examine import everything, examine_apart
from clnet.doctor.rate import Rates
from clnet.doctor.report import contradictions, empty_report, remedy
from clnet.errors import ArgumentError
from tests.groups import are_compiled_wrongly

pytestmark = pytest.mark.device

SQUARE = Case(
    "square",
    "pointwise",
    lambda x: x * x,
    lambda x: x * x,
    lambda rng: [rng.standard_normal((3, 5)).astype(np.float32)],
)


def test_names_of_cases_differ():
    names = [one.name for one in everything()]
    assert len({*names}) == len(names) > 70


def test_a_right_case_has_no_finding_and_a_wrong_reference_has(device):
    assert not ask(SQUARE, device).findings
    wrong = ask(replace(SQUARE, reference=lambda x: x * x + 1e-3 * x), device)
    ways = {finding.way for finding in wrong.findings}
    assert {"eager forward", "replayed forward", "compiled gradient of input 0"} <= ways


def test_a_wrong_gradient_alone_is_found(device):
    wrong = ask(replace(SQUARE, gradient=lambda c, x: (2.001 * c * x,)), device)
    assert {finding.way.partition(" ")[2] for finding in wrong.findings} == {"gradient of input 0"}


def test_an_error_is_a_finding(device):
    found = ask(replace(SQUARE, compute=lambda x: ops.reshape(x, (7,))), device)
    assert [f.way for f in found.findings] == ["call"]
    assert "ShapeError" in found.findings[0].law


def test_differences_are_those_of_the_function():
    c, x = np.array([1.0, 2.0]), np.array([0.5, -3.0])
    (found,) = differences(lambda x: x**3, c, (x,))
    np.testing.assert_allclose(found, 3 * c * x * x, rtol=1e-8)


@pytest.mark.parametrize(
    ("found", "wanted", "law"),
    [
        pytest.param([1.0, 2.0], [1.0, 2.0], "", id="equal"),
        pytest.param([1.0, np.nan], [1.0, np.nan], "", id="both no number"),
        pytest.param([1.0, np.nan], [1.0, 2.0], "1 of 2 numbers are wrong", id="no number"),
        pytest.param([1.0, np.inf], [1.0, -np.inf], "the first at [1]: inf, not -inf", id="sign"),
        pytest.param([1.0, 2.1], [1.0, 2.0], "1 of 2 numbers are wrong", id="off"),
        pytest.param([1.0], [1.0, 2.0], "the shape is (1,), not (2,)", id="shape"),
        pytest.param([], [], "", id="empty"),
    ],
)
def test_off_says_what_is_wrong(found, wanted, law):
    for tolerance in (0, 1e-5):
        told = off(np.array(found), np.array(wanted), tolerance)[1]
        assert law in told
        assert bool(law) == bool(told)


def test_a_case_that_the_device_cannot_have_is_left_out(device):
    needy = replace(SQUARE, name="needy", needs="float16")
    assert len(examine(device, [SQUARE, needy])) == 1 + device.traits.float16
    assert device.pool.statistics().allocated >= 0


SERVER = """
import json, os, sys, time
first = int(sys.argv[2])
print("a driver prints what it likes")
for place in range(first, 76):
    print(json.dumps({"begin": place}), flush=True)
    if place == 3: os.abort()
    if place == 5: time.sleep(600)
    if place == 7: sys.exit(0)
    if place == 9:  # others have the processors
        while time.process_time() < 0.3: pass
        time.sleep(2.2)
    while place == 11: pass
    print(json.dumps({"name": str(place), "family": "f", "findings": [], "worst": 0.5,
                      "seconds": 0.1, "kernels": []}), flush=True)
print(json.dumps({"end": True}), flush=True)
"""


def served(**given):
    return examine_apart("pocl:0", command=(sys.executable, "-c", SERVER), **given)


def test_a_process_that_dies_or_hangs_is_a_finding_and_the_rest_is_asked():
    told: list[Outcome] = []
    outcomes, left = served(seconds=60, silence_s=2, tell=told.append)
    assert told == outcomes
    assert not left
    assert len(outcomes) == 76
    laws = {place: o.findings[0].law for place, o in enumerate(outcomes) if o.findings}
    assert laws == {
        3: "the process ended with -6",
        5: "nothing came back for 2 seconds",
        7: "the process ended with 0",
        11: "nothing came back for 2 seconds",
    }
    assert outcomes[3].name == everything()[3].name


def test_what_there_was_no_time_for_is_named():
    outcomes, left = served(seconds=0)
    assert outcomes == []
    assert left == [one.name for one in everything()]


@pytest.fixture
def healthy(device):
    made = empty_report(device)
    made.quirks = {"largest group stated": 64}
    made.outcomes = [Outcome("exp", "pointwise", [], 0.1, 0.2, ["pointwise"])]
    made.rates = Rates(100.0, 50.0, 10.0, 0.5, disturbed=False)
    return made


def test_a_report_is_read_as_it_was_written(healthy, tmp_path):
    path = tmp_path / "report.json"
    path.write_text(healthy.to_json())
    again = read(path)
    assert again == healthy
    assert again.healthy
    assert json.loads(path.read_text())["healthy"] is True
    assert "can be trusted: 1 of 1 right" in shown(healthy)
    assert "50% of the 100.0" in shown(healthy)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"form": 2}', '{"form": 1, "healthy": true}'])
def test_a_file_that_holds_no_report_is_refused(tmp_path, text):
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(ArgumentError, match="the file holds no report"):
        read(path)


def test_findings_complaints_and_what_was_left_make_a_device_ill(healthy):
    wrong = replace(
        healthy, outcomes=[Outcome("exp", "pointwise", [Finding("eager forward", "2, not 1")])]
    )
    assert not wrong.healthy
    assert "WRONG exp" in shown(wrong)
    assert "eager forward: 2, not 1" in shown(wrong)
    assert remedy(wrong.outcomes[0]) in shown(wrong)
    assert not replace(healthy, not_asked=["log"]).healthy
    assert not replace(healthy, complaints=["denormals: ..."]).healthy


def test_remedies_go_by_what_was_found():
    died = Outcome("exp", "pointwise", [Finding("process", "the process ended with -11")])
    copies = Outcome("copies", "commands", [Finding("a copy", "wrong")])
    assert "ends the process" in remedy(died)
    assert "Copies" in remedy(copies)


def test_a_driver_that_contradicts_itself_is_told():
    stated = {"denormals stated": True, "largest allocation stated": 2**30}
    found = {"denormals kept": True, "largest allocation made": 2**30}
    assert contradictions({**stated, **found}) == []
    flushed, small, refused = (
        contradictions({**stated, **found, **changed})
        for changed in (
            {"denormals kept": False},
            {"largest allocation made": 2**20},
            {"largest group compiled": "refused"},
        )
    )
    assert "they become 0" in flushed[0]
    assert "1,048,576 bytes can be had" in small[0]
    assert refused == ["largest group compiled: the driver refused it"]


def test_two_reports_are_compared(healthy):
    assert "nothing differs" in compared(healthy, healthy)
    other = replace(
        healthy,
        quirks={"largest group stated": 128},
        outcomes=[Outcome("exp", "pointwise", [Finding("a", "b")], kernels=["gemm"])],
        identity={**healthy.identity, "driver": "another"},
    )
    text = compared(healthy, other)
    assert "identity: driver" in text
    assert "largest group stated 64, there 128" in text
    assert "exp: right, there wrong" in text
    assert "kernels only here: pointwise" in text
    assert "kernels only there: gemm" in text


def test_quirks_are_found(device):
    if are_compiled_wrongly(device):
        pytest.skip("PoCL 5.0 for AVX-512 ends the process for the largest group as continuations")
    found = report.quirks(device.name)
    assert found["largest group stated"] == device.traits.max_group_size
    assert 0 < found["largest group compiled"] <= found["largest group stated"]
    assert "refused" not in found.values()
    assert contradictions(found) == []


def test_a_driver_that_compiles_nothing_is_told(device):
    def refuses(*given):
        raise cl.RuntimeError("injected: the compiler ended")

    with patch("clnet.device.quirk._kernel", refuses):
        found = report.quirks(device.name)
    assert found["round trip us"] == found["largest group compiled"] == "refused"
    assert "round trip us: the driver refused it" in contradictions(found)


def test_the_command_writes_and_compares(monkeypatch, tmp_path, capsys, healthy):
    monkeypatch.setattr("clnet.cli.doctor.diagnose", lambda device, **given: replace(healthy))
    path = tmp_path / "report.json"
    assert main(["doctor", "--json", str(path)]) == 0
    assert read(path).outcomes == healthy.outcomes
    assert main(["doctor", "--compare", str(path)]) == 0
    assert "compared with" in capsys.readouterr().out
    ill = replace(healthy, complaints=["denormals: ..."])
    monkeypatch.setattr("clnet.cli.doctor.diagnose", lambda device, **given: ill)
    assert main(["doctor"]) == 1
    assert main(["doctor", "--json", str(tmp_path / "none" / "report.json")]) == 1
    assert "there is no such folder" in capsys.readouterr().err
    assert main(["doctor", "--seconds", "0"]) == 1
    assert "--seconds is above 0" in capsys.readouterr().err
    assert run_doctor.__doc__


@pytest.mark.slow
def test_this_device_is_healthy(tmp_path, capsys):
    path = tmp_path / "report.json"
    code = main(["doctor", "--json", str(path), "--seconds", "300"])
    assert code == 0, capsys.readouterr().out
    found = read(path)
    assert len(found.outcomes) >= 70
    assert found.rates is not None
    assert found.rates.peak_gflops > 0
