"""What a program did when it failed: a text for an issue, without any of its data.

Device, driver and versions; the error, its place in files; the last commands, the text of the last
kernel, and the plans that were alive. Of an error that a kernel found in data, the values are left
out, and of files their lines.
"""

from __future__ import annotations

import gc
import platform
import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict

from ..compile import Plan
from ..device import Device, Record, on_open, opened_devices
from ..errors import ClnetError, DataBoundsError, DataDomainError, LinAlgError
from ..values.collector import known_objects
from ..values.settings import SETTINGS
from .report import versions

_LAST = 40
_MOST_PLANS = 4
_OF_DATA = (DataBoundsError, DataDomainError, LinAlgError)


class Diary:
    """An observer that keeps the last commands of all devices."""

    profiling = False

    def __init__(self) -> None:
        self.commands: deque[tuple[Device, Record]] = deque(maxlen=_LAST)

    def on(self, device: Device) -> _Page:
        """What looks on at one device."""
        return _Page(self, device)


class _Page:
    profiling = False

    def __init__(self, diary: Diary, device: Device) -> None:
        self._diary, self._device = diary, device

    def command(self, record: Record) -> None:
        """Keep it."""
        self._diary.commands.append((self._device, record))


@contextmanager
def keeping_a_diary() -> Iterator[Diary]:
    """Keep the last commands of every device, those that are opened in the body among them."""
    diary = Diary()
    with ExitStack() as stack:

        def begin(device: Device) -> None:
            stack.enter_context(device.queue.observe(diary.on(device)))

        for device in opened_devices():
            begin(device)
        stack.enter_context(on_open(begin))
        yield diary


def incident(device: Device, diary: Diary, error: BaseException | None) -> str:
    """The report.

    Args:
        device: told about, beside those that the diary names.
        diary: of the program.
        error: what it raised; None: it came to its end.

    Returns:
        Markdown.
    """
    told = dict.fromkeys([device, *(where for where, _ in diary.commands)])
    parts = ["# A report of clnet", "", *_section("Versions", versions().items())]
    for one in told:
        rows = {**asdict(one.identity), **one.traits.to_dict(), "machine": platform.machine()}
        parts += _section(f"Device {one.name}", rows.items())
        memory = one.pool.statistics()
        parts += [f"- memory: {memory.allocated:,} bytes in use, {memory.reserved:,} reserved", ""]
    parts += _section("Settings", _settings())
    parts += ["## Error", "", *(_error(error) if error is not None else ["none"]), ""]
    parts += ["## Last commands", "", *map(_line, diary.commands), ""]
    parts += _kernel(diary)
    # Nobody keeps a list of plans; the collector knows them. Other objects are not to be asked.
    plans = [x for x in known_objects(gc.get_objects) if type(x) is Plan][-_MOST_PLANS:]
    for plan in plans:
        parts += ["## A plan", "", "```text", plan.explain(), "```", ""]
    return "\n".join(parts)


def _section(title: str, rows: object) -> list[str]:
    return [f"## {title}", "", *(f"- {k}: {v}" for k, v in rows), ""]  # pyrefly: ignore[not-iterable] - pairs


def _settings() -> Iterator[tuple[str, object]]:
    """What differs from nothing; folders may name a user."""
    for name, value in asdict(SETTINGS).items():
        if value not in (None, False) and not name.endswith("_dir"):
            yield name, value


def _error(error: BaseException) -> list[str]:
    kind = type(error).__name__
    if isinstance(error, ClnetError):
        text = f"{kind}: {error.op}: {error.law}"
        values = {} if isinstance(error, _OF_DATA) else error.values
        text += "".join(f"; {name}={value}" for name, value in values.items())
        text += f" (in {error.module})" if error.module else ""
    else:  # of others nobody knows what their texts hold
        text = kind
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"- {f.filename}:{f.lineno} in {f.name}" for f in frames]
    cause = error.__cause__
    return [text, "", *places, *(["", "because of", "", *_error(cause)] if cause else [])]


def _line(entry: tuple[Device, Record]) -> str:
    device, record = entry
    who = f" for {record.op}" if record.op else ""
    layer = f" of {record.module_path}" if record.module_path else ""
    sizes = [*(s.nbytes for s in record.reads), *(s.nbytes for s in record.writes)]
    return f"- {device.name}: {record.name}{who}{layer} ({record.phase}), bytes {sizes}"


def _kernel(diary: Diary) -> list[str]:
    """The text of the last kernel that ran: of all of its name, for which it was is not known."""
    for device, record in reversed(diary.commands):
        if record.kind == "kernel":
            texts = [s for s in device.programs.kernels if s.name == record.name]
            shown = texts[-1]
            options = " ".join(shown.options)
            return [
                f"## Kernel {record.name} (one of {len(texts)} of its name)",
                "",
                f"{shown.origin}; options {options}",
                "",
                "```c",
                shown.text(),
                "```",
                "",
            ]
    return []
