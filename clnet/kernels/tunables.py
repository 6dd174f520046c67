"""All that can be tuned, and the process that measures it.

A new kernel's :class:`.Tunable` stands beside the kernel and in ``TUNABLES``, and nowhere else.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from ..device import BoundLaunches, Device, Scratch, device
from ..device.spills import spilled_bytes
from ..device.tunings import Entry
from ..errors import BuildError
from .conv import conv_implicit, conv_implicit_weight
from .conv_blocked import conv_blocked, conv_blocked_direct, conv_blocked_winograd
from .gemm import gemm_packed, gemm_tiled
from .tuning import Race, Trial, Tunable

TUNABLES: dict[str, Tunable[Any, Any]] = {
    tunable.name: tunable
    for tunable in (
        conv_blocked.FORM,
        conv_blocked_direct.SPLIT,
        conv_implicit.TILING,
        conv_implicit_weight.TILING,
        conv_blocked_winograd.STRIPS,
        gemm_packed.BLOCKING,
        gemm_tiled.TILING,
    )
}
MOST_CANDIDATES = 48
_ROUND_SECONDS = 0.002
_LEAST_ROUNDS = 3
# A candidate that takes this much longer than the best so far does not enter the race.
_HOPELESS = 2.0


def serve(selector: str, threads: int, simd_width: int) -> None:
    """Answer requests: JSON lines on standard input and output, until the input ends.

    A request names ``kernel``, ``problem``, ``seconds`` and the places of candidates to ``skip``.
    Answers are ``{"trying": place}`` before a candidate first runs, ``{"rejected": place, "reason":
    text}``, and at the end ``{"entry": fields}``. A fault of the device ends the process.

    Args:
        selector: the device's name.
        threads: compute units of it, 0 for all.
        simd_width: floats of the vectors that kernels use.
    """
    where = device(selector, threads=threads or None)
    where.narrow(simd_width)
    where.target = replace(where.target, tunings=where.target.tunings.fixed())
    for line in sys.stdin:
        request = json.loads(line)
        tunable = TUNABLES[request["kernel"]]
        problem = tunable.problem(**request["problem"])
        measuring = Measuring(where, tunable, problem, request["seconds"], request["skip"])
        _say(entry=measuring.run()._asdict())


class Measuring:
    """The candidates of a problem, verified and then timed.

    Args:
        where: the device.
        tunable: what is tuned.
        problem: for what.
        seconds: about how long candidates run before the race, and in it.
        skip: places of candidates that are left out.

    Attributes:
        entrants: the candidates that are right, and not hopelessly slow.

    Raises:
        BuildError: if there is none.
    """

    def __init__(
        self,
        where: Device,
        tunable: Tunable[Any, Any],
        problem: Any,
        seconds: float,
        skip: Collection[int] = (),
    ) -> None:
        self._where, self._tunable, self._problem = where, tunable, problem
        self._seconds = seconds
        self._trial: Trial[Any] = tunable.trial(where, problem)
        self.entrants: list[Any] = []
        self._bound: list[BoundLaunches] = []
        candidates: Sequence[Any] = tunable.candidates(where.target, problem)[:MOST_CANDIDATES]
        best, spent = float("inf"), 0.0
        for place, choice in enumerate(candidates):
            if place in skip:
                continue
            if spent > seconds and len(self.entrants) > 1:
                break
            _say(trying=place)
            reason = self._unfit(choice) or (self._spills(choice) if place else None)
            if reason is not None:
                _say(rejected=place, reason=reason)
                continue
            bound = self._bind(choice)
            times = [self._time(bound, 1) for _ in range(2)]
            spent += sum(times)
            best = min(best, *times)
            if min(times) < best * _HOPELESS or not self.entrants:
                self.entrants.append(choice)
                self._bound.append(bound)
        if not self.entrants:
            raise BuildError(tunable.name, "no candidate works", problem=problem)

    def run(self) -> Entry:
        """Time the candidates until the ranking is stable, or the time is over."""
        everyone = list(range(len(self.entrants)))
        race = self._raced(everyone)
        winner = everyone[race.winner]
        if winner and len(everyone) > 2:  # the best of many was lucky, too: it has to win again
            race = self._raced([0, winner])
            winner = (0, winner)[race.winner]
        us = 1e6 / self._trial.turns
        default = race.seconds(0) * us
        return Entry(
            self._tunable.name,
            self._tunable.version,
            self._problem._asdict(),
            self.entrants[winner]._asdict(),
            round(default * race.ratio(race.winner), 1),
            round(default, 1),
        )

    def _raced(self, places: Sequence[int]) -> Race:
        """A race between some of the entrants."""
        race = Race(len(places))
        repeats = max(1, round(_ROUND_SECONDS / self._time(self._bound[0], 1)))
        end = time.perf_counter() + self._seconds
        while not race.settled and (race.rounds < _LEAST_ROUNDS or time.perf_counter() < end):
            race.add({r: self._time(self._bound[places[r]], repeats) for r in race.running})
        return race

    def _unfit(self, choice: Any) -> str | None:
        """Why a candidate is left out: the compiler refuses it, or its results are wrong."""
        self._trial.poison()
        try:
            for launch in self._trial.launches(choice, 0):
                self._where.queue.launch(launch)
        except BuildError as error:
            return str(error)
        return self._trial.fault()

    def _spills(self, choice: Any) -> str | None:
        """Why a candidate with too few registers is left out, where the compiler tells."""
        programs = self._where.programs
        sources = {launch.kernel for launch in self._trial.launches(choice, 0)}
        spilled = [spilled_bytes(programs.get(source), source) or 0 for source in sources]
        return f"{sum(spilled)} bytes of registers spill" if any(spilled) else None

    def _bind(self, choice: Any) -> BoundLaunches:
        """The launches of all turns, with scratch memory bound, too."""
        queue = self._where.queue
        turns = range(self._trial.turns)
        launches = [launch for turn in turns for launch in self._trial.launches(choice, turn)]
        for launch in launches:
            launch.args = tuple(
                queue.workspace.lend(arg.nbytes) if type(arg) is Scratch else arg
                for arg in launch.args
            )
        return queue.bind(launches)

    def _time(self, bound: BoundLaunches, repeats: int) -> float:
        queue = self._where.queue
        queue.finish()
        start = time.perf_counter()
        for _ in range(repeats):
            queue.replay(bound)
        queue.finish()
        return (time.perf_counter() - start) / repeats


def _say(**answer: Any) -> None:
    print(json.dumps(answer), flush=True)
