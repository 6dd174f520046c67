"""``torch.utils.benchmark``: how long statements take, with the work of their device."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable, Iterable
from typing import Any

from ..device import current_device
from ..errors import ArgumentError

__all__ = ["Compare", "Measurement", "Timer"]


class Measurement:
    """What a statement took, several times.

    Args:
        number_per_run: how many times it was run for each of ``raw_times``.
        raw_times: seconds.
        task_spec: the :class:`Timer` that took them.
    """

    def __init__(
        self, number_per_run: int, raw_times: Iterable[float], task_spec: Any = None
    ) -> None:
        self.number_per_run = number_per_run
        self.raw_times = list(raw_times)
        self.task_spec = task_spec

    @property
    def times(self) -> list[float]:
        """Seconds of one run."""
        return [seconds / self.number_per_run for seconds in self.raw_times]

    @property
    def mean(self) -> float:
        """Of all of them."""
        return statistics.fmean(self.times)

    @property
    def median(self) -> float:
        """Half are below it."""
        return statistics.median(self.times)

    @property
    def iqr(self) -> float:
        """From the first to the third quarter; 0 of a single time."""
        if len(self.times) == 1:
            return 0.0
        first, _, third = statistics.quantiles(self.times, n=4, method="inclusive")
        return third - first

    def __repr__(self) -> str:
        scale, unit = _unit(self.median)
        lines = [f"<clnet.utils.benchmark.Measurement of {_title(self.task_spec)}>"]
        lines += [f"  Median: {self.median / scale:.2f} {unit}"]
        lines += [f"  {len(self.times)} measurements, {self.number_per_run} runs each"]
        return "\n".join(lines)


class Timer:
    """Times a statement; the device has done its work before the clock is read.

    Args:
        stmt: the statement, as text.
        setup: what runs before it, once.
        global_setup: of statements in C++: none are timed here.
        timer: the clock, if not Python's.
        globals: names that it finds.
        label: a name, for :class:`Compare`.
        sub_label: a name of what varies.
        description: a name of the column.
        env: a name of what it ran in.
        num_threads: taken; the device has its own threads.
        language: Python.
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timeit.default_timer,
        globals: dict[str, Any] | None = None,  # noqa: A002
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = "python",
    ) -> None:
        if str(language).lower() not in ("python", "py") or global_setup:
            raise ArgumentError("benchmark.Timer", "statements are Python", language=language)
        self.stmt, self.label, self.sub_label = stmt, label, sub_label
        self.description, self.env, self.num_threads = description, env, num_threads

        def clock() -> float:
            current_device().synchronize()
            return timer()

        self._timer = timeit.Timer(stmt, setup, clock, dict(globals or {}))

    def timeit(self, number: int = 1000000) -> Measurement:
        """The seconds of so many runs together, after a few that do not count."""
        self._timer.timeit(max(number // 100, 2))
        return Measurement(number, [self._timer.timeit(number)], self)

    def repeat(self, repeat: int = -1, number: int = -1) -> list[Measurement]:
        """Several of them."""
        return [self.timeit(max(number, 1)) for _ in range(max(repeat, 1))]

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Blocks of runs, until they took so long together.

        Args:
            callback: told how many runs a block had, and its seconds.
            min_run_time: seconds.
        """
        number, took = 1, self._timer.timeit(2) / 2
        while took < min_run_time / 1000 and number < 10**9:  # a block is a thousandth
            number *= 10
            took = self._timer.timeit(number)
        times: list[float] = []
        while sum(times) < min_run_time or not times:
            times.append(self._timer.timeit(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, self)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Blocks of runs, until their middle half lies within a part of their median.

        Args:
            threshold: that part.
            min_run_time: seconds at least.
            max_run_time: seconds at most.
            callback: as in :meth:`blocked_autorange`.
        """
        found = self.blocked_autorange(callback, min_run_time)
        while sum(found.raw_times) < max_run_time:
            if len(found.times) > 3 and found.iqr < threshold * found.median:
                break
            found.raw_times.append(self._timer.timeit(found.number_per_run))
        return found


class Compare:
    """A table of measurements: a row for each of their labels, a column for each description.

    Args:
        results: the measurements.
    """

    def __init__(self, results: Iterable[Measurement]) -> None:
        self.results = list(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Some more."""
        self.results.extend(results)

    def trim_significant_figures(self) -> None:
        """They are."""

    def colorize(self, rowwise: bool = False) -> None:  # noqa: FBT001, FBT002 - PyTorch's
        """There are no colours."""

    def __str__(self) -> str:
        columns = list(dict.fromkeys(m.task_spec.description for m in self.results))
        rows: dict[Any, dict[Any, Measurement]] = {}
        for m in self.results:
            spec = m.task_spec
            row = (spec.label, spec.sub_label or spec.stmt, spec.env, spec.num_threads)
            rows.setdefault(row, {})[spec.description] = m
        scale, unit = _unit(min(m.median for m in self.results)) if self.results else (1, "s")
        lines = [" | ".join(["", *(str(c or unit) for c in columns)])]
        for (label, name, env, threads), cells in rows.items():
            title = " ".join(str(part) for part in (label, name, env) if part)
            texts = (f"{cells[c].median / scale:.1f}" if c in cells else "" for c in columns)
            lines.append(" | ".join([f"{title} ({threads} threads)", *texts]))
        return "\n".join([*lines, f"Times are in {unit}."])

    def print(self) -> None:
        """Print it."""
        print(self)


def _title(spec: Any) -> str:
    return "a statement" if spec is None else str(spec.label or spec.stmt)


def _unit(seconds: float) -> tuple[float, str]:
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= scale:
            return scale, unit
    return 1e-9, "ns"
