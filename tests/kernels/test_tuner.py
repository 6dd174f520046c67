"""The tuner: declarations, the race, the process that measures, what is made of its findings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from clnet.device import Device, DeviceKind, DeviceTraits, Target, Tunings
from clnet.device.tunings import SHIPPED, Database, Entry, Subject, load
from clnet.kernels.conv.conv_geometry import ConvGeometry, ConvProblem
from clnet.kernels.conv_blocked.conv_blocked import (
    BlockedAlgorithm,
    ConvObstacle,
    Direction,
    choose_form,
    considered,
)
from clnet.kernels.gemm.gemm_packed import BLOCKING
from clnet.kernels.gemm.gemm_problem import Product
from clnet.kernels.tunables import TUNABLES, Measuring
from clnet.kernels.tuning import tunable as tunable_module
from clnet.kernels.tuning.race import Race
from clnet.kernels.tuning.tuner import Tuner
from tests.children import ending_soon
from tests.kernels.launching import compiled_rightly, cpu_shaped, gpu_shaped
from tests.kernels.planted import DEADLY, PRODUCT, REFUSED, RIGHT, WRONG

PLANTED = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from tests.kernels.planted import serve; serve(sys.argv[2], *map(int, sys.argv[3:]))"
)
PRODUCTS = [
    PRODUCT,
    Product("float32", 128, 784, 64, 1, 1, "TN"),
    Product("float64", 33, 65, 1000, 4, 2, "NT"),
    Product("float32", 16, 16, 16, 6, 1, "ST"),
]


def raced(rounds: list[list[float]]) -> Race:
    """A race with these times, until it is settled."""
    race = Race(len(rounds[0]))
    for times in rounds:
        if race.settled:
            break
        race.add({entrant: times[entrant] for entrant in race.running})
    return race


def test_a_race_is_won_in_spite_of_a_machine_that_slows_down():
    # Every second round takes four times as long, for all.
    rounds = [[s * t for t in (1.0, 0.9, 1.5)] for s in (1, 4) * 10]
    race = raced(rounds)
    assert (race.winner, race.settled, race.running) == (1, True, [0, 1])
    assert race.ratio(1) == pytest.approx(0.9)
    assert race.rounds == 5


def test_one_lucky_round_does_not_win():
    race = raced([[1.0, 1.1], [1.0, 0.5], *[[1.0, 1.1]] * 20])
    assert race.winner == 0


def test_who_gains_less_than_the_threshold_does_not_replace_the_default():
    assert raced([[1.0, 0.98]] * 30).winner == 0
    assert raced([[1.0, 0.96]] * 30).winner == 1


def test_equals_race_for_long_and_the_first_wins():
    race = raced([[1.0, 0.9, 0.9]] * 40)
    assert race.winner == 1
    assert race.rounds == 25


def test_a_convolutions_problem_is_flat_and_holds_its_geometry():
    assert ConvProblem._fields[2:] == ConvGeometry._fields
    geometry = ConvGeometry(*range(1, 17))
    assert ConvProblem("forward", True, *geometry).geometry == geometry


def convolution(direction: str, *, winograd: bool = True, **sizes: int) -> ConvProblem:
    """A 3x3 convolution of 16 channels, but for what ``sizes`` say."""
    usual = ConvGeometry(2, 16, 13, 11, 32, 3, 3, 13, 11, ph=1, pw=1)
    return ConvProblem(direction, winograd, *usual._replace(**sizes))


CONVOLUTIONS = [
    convolution("forward"),
    convolution("input_grad"),
    convolution("weight_grad"),
    convolution("forward", ic=3),
    convolution("weight_grad", ic=3),
]
PROBLEMS = {
    "conv_blocked": CONVOLUTIONS,
    "conv_blocked_direct": [
        convolution("forward", winograd=False, dh=2, dw=2, ph=2, pw=2),
        convolution("input_grad", winograd=False, n=5, sh=2, sw=3, oh=7, ow=4),
    ],
    "conv_implicit": [convolution("forward"), convolution("input_grad", sh=2, oh=7)],
    "conv_implicit_weight": [convolution("weight_grad", ic=3)],
    "conv_blocked_winograd": [convolution("forward", n=64), convolution("input_grad", n=64, oc=64)],
    "gemm_packed": PRODUCTS,
    "gemm_tiled": PRODUCTS,
}
ALL = [(name, problem) for name, problems in PROBLEMS.items() for problem in problems]


def shaped_for(name: str, device: Device) -> Target:
    """The device's target, as of a device that uses such a kernel."""
    tiled = name in ("gemm_tiled", "conv_implicit", "conv_implicit_weight")
    return compiled_rightly(gpu_shaped(device) if tiled else cpu_shaped(device), device)


def computed_here(name: str, problem: Any, target: Target) -> None:
    """Skip a convolution of which nothing can be chosen, because local memory is small."""
    if (
        name == "conv_blocked"
        and choose_form(target, problem.geometry, Direction(problem.direction)) is None
    ):
        pytest.skip(f"no blocked form in {target.traits.local_memory_bytes} bytes of local memory")


def test_every_tunable_has_problems_here():
    assert PROBLEMS.keys() == TUNABLES.keys()


@pytest.mark.parametrize(("name", "problem"), ALL, ids=str)
def test_candidates_begin_with_the_default(name, problem, device):
    tunable, target = TUNABLES[name], shaped_for(name, device)
    computed_here(name, problem, target)
    candidates = tunable.candidates(target, problem)
    assert candidates[0] == tunable.default(target, problem)
    assert len({*candidates}) == len(candidates)
    # Forms may be one alone, and so may turns of tiles where local memory is small.
    assert len(candidates) > 1 or name in ("conv_blocked", "conv_blocked_winograd")


def test_forms_that_may_be_chosen(device):
    target = cpu_shaped(device)
    candidates = TUNABLES["conv_blocked"].candidates

    def algorithms(problem: ConvProblem) -> set[str]:
        return {choice.algorithm for choice in candidates(target, problem)}

    assert algorithms(convolution("forward")) == {"direct", "winograd2", "winograd4"}
    assert algorithms(convolution("forward", winograd=False)) == {"direct"}
    assert algorithms(convolution("input_grad", sh=2, sw=2, oh=7, ow=6)) == {"direct"}
    few = convolution("weight_grad", ic=3)
    computed_here("conv_blocked", few, target)
    assert algorithms(few) == {"few"}


def test_a_measured_form_is_taken_and_others_say_why_not(device):
    problem = convolution("forward", n=64)
    entry = Entry("conv_blocked", 2, problem._asdict(), {"algorithm": "winograd2"}, 1.0, 2.0)
    target = tuned(device, entry)
    given = (problem.geometry, Direction.FORWARD)
    if (form := choose_form(target, *given)) is None:
        pytest.skip("the device has no blocked arrays")
    assert form.algorithm is BlockedAlgorithm.WINOGRAD2
    against = {f.algorithm: why for f, why in considered(target, *given)}
    assert against[BlockedAlgorithm.WINOGRAD4] is ConvObstacle.MEASURED
    forbidden = choose_form(target, *given, winograd=False)
    assert forbidden.algorithm is BlockedAlgorithm.DIRECT


@pytest.mark.parametrize(
    ("name", "problem"),
    [(name, p) for name, p in ALL if name != "gemm_tiled" or p in PRODUCTS[:2]],
    ids=str,
)
def test_candidates_compute_the_same(name, problem, device, monkeypatch, capsys):
    monkeypatch.setattr(device, "target", shaped_for(name, device))
    computed_here(name, problem, device.target)
    tunable = TUNABLES[name]
    monkeypatch.setattr("clnet.kernels.tunables.MOST_CANDIDATES", 3)
    measuring = Measuring(device, tunable, problem, 1.0)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    # What fills a CPU's registers does not fit into a GPU's, whose compiler says so.
    wrong = [x for x in told if "rejected" in x and "registers spill" not in x["reason"]]
    assert not wrong
    entry = measuring.run()
    assert tunable.reading(entry) in tunable.candidates(device.target, problem)[:3]
    assert 0 < entry.us <= entry.default_us


def test_wrong_and_deadly_candidates_are_left_out_and_the_rest_is_measured(device):
    with Tuner(device, serving=PLANTED) as tuner:
        entry, rejected = tuner.tune("planted", PRODUCT._asdict(), seconds=0.5)
    assert rejected.keys() == {WRONG, DEADLY, REFUSED}
    assert rejected[WRONG].startswith("wrong results: nan from float64")
    assert rejected[DEADLY] == "the process died (status -9)"
    assert "it does not compile" in rejected[REFUSED]
    candidates = BLOCKING.candidates(device.target, PRODUCT)
    assert candidates.index(BLOCKING.reading(entry)) in (RIGHT, 4)


def test_a_process_that_cannot_start_finds_nothing(device):
    with Tuner(device, serving="raise SystemExit(3)") as tuner:
        assert tuner.tune("gemm_packed", PRODUCT._asdict()) == (None, {})


def tuned(device, entry: Entry, *, own: bool = True) -> Target:
    """The device's target, where just this entry was measured."""
    subject = Subject.of(device.identity, device.traits)
    measured = Database(subject if own else subject._replace(name="another")).updated([entry])
    return Target(device.traits, device.target.workspace_limit, Tunings(subject, [measured]))


@pytest.mark.parametrize("own", [True, False])
def test_a_measured_choice_is_taken(own, device):
    other = BLOCKING.candidates(device.target, PRODUCT)[5]
    entry = Entry("gemm_packed", BLOCKING.version, PRODUCT._asdict(), other._asdict(), 1.0, 2.0)
    target = tuned(device, entry, own=own)
    assert BLOCKING.choose(target, PRODUCT) == other
    assert target.choices == {("gemm_packed", PRODUCT): other}
    unmeasured = PRODUCT._replace(m=25)
    assert BLOCKING.choose(target, unmeasured) == BLOCKING.default(target, unmeasured)


@pytest.mark.parametrize(
    "change",
    [
        lambda e: e._replace(version=BLOCKING.version - 1),
        lambda e: e._replace(choice={**e.choice, "rows": 10}),
        lambda e: e._replace(choice={**e.choice, "columns": 1}),
    ],
    ids=["version", "no candidate", "other fields"],
)
def test_a_choice_that_fits_no_more_is_ignored_with_a_note(change, device):
    other = BLOCKING.candidates(device.target, PRODUCT)[5]
    entry = Entry("gemm_packed", BLOCKING.version, PRODUCT._asdict(), other._asdict(), 1.0, 2.0)
    target = tuned(device, change(entry))
    with pytest.warns(RuntimeWarning, match="gemm_packed does not fit it any more and is ignored"):
        assert BLOCKING.choose(target, PRODUCT) == BLOCKING.default(target, PRODUCT)
    assert len(target.tunings.notes) == 1
    target = tuned(device, change(entry), own=False)  # a guess that does not fit is no news
    assert BLOCKING.choose(target, PRODUCT) == BLOCKING.default(target, PRODUCT)


def test_nothing_is_measured_on_a_device_that_is_not_open(device, monkeypatch):
    monkeypatch.setattr(tunable_module, "SETTINGS", replace(tunable_module.SETTINGS, tune=True))
    target = Target(device.traits, device.target.workspace_limit)
    assert BLOCKING.choose(target, PRODUCT) == BLOCKING.default(target, PRODUCT)


SCRIPT = """
import numpy as np, clnet
# Rows and terms enough for a kernel that is tuned, whatever vectors hold.
a, b = np.ones((24, 300), np.float32), np.ones((300, 40), np.float32)
assert (clnet.tensor(a) @ clnet.tensor(b)).sum().item() == 24 * 300 * 40
"""


def test_first_use_is_measured_when_the_environment_asks(device, tmp_path):
    def run(**environment: str) -> None:
        given = {"CLNET_TUNINGS": str(tmp_path), "CLNET_DEVICE": device.name.partition("[")[0]}
        given["PYTHONPATH"] = ending_soon()
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, **given, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    run()
    assert list(tmp_path.iterdir()) == []
    run(CLNET_TUNE="1")
    (path,) = tmp_path.iterdir()
    (database,) = load([path])
    assert [e.problem["m"] for e in database.entries.values()] == [24]
    before = path.stat().st_mtime_ns
    run(CLNET_TUNE="1")
    assert path.stat().st_mtime_ns == before


def traits_of(subject: Subject) -> DeviceTraits:
    """Traits with what a database knows of a device."""
    kind = DeviceKind.GPU if subject.traits["dedicated_local_memory"] else DeviceKind.CPU
    return DeviceTraits(
        kind=kind,
        global_memory_bytes=2**33,
        max_allocation_bytes=2**32,
        base_align_bytes=128,
        unified_memory=True,
        float16=False,
        float64=True,
        **subject.traits,
    )


def test_shipped_choices_fit_the_kernels_as_they_are():
    for database in load(sorted(SHIPPED.glob("*.jsonl"))):
        target = Target(traits_of(database.subject), 2**29)
        for entry in database.entries.values():
            tunable = TUNABLES[entry.kernel]
            problem = tunable.problem(**entry.problem)
            assert tunable.reading(entry) in tunable.candidates(target, problem), entry
            assert entry.us < 0.97 * entry.default_us


def test_the_trial_of_a_product_notices_one_wrong_element(device):
    trial = BLOCKING.trial(device, PRODUCT)
    choice = BLOCKING.default(device.target, PRODUCT)
    trial.poison()
    assert trial.fault() is not None
    for launch in trial.launches(choice, 0):
        device.queue.launch(launch)
    assert trial.fault() is None
    out = trial._problems[0].out
    values = out.numpy()
    values[0, 0, 3, 5] += 1e-3 * np.abs(values).max()
    out.write(values)
    assert trial.fault().startswith("wrong results")
