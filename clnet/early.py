"""What ends the command before it begins, while clnet is imported, is told in one line, too.

And its process ends without looking through all objects for circular garbage, three times 0.03 s.
To import it is enough.
"""

from __future__ import annotations

import atexit
import gc
import sys
from pathlib import Path
from types import TracebackType

from .errors import ClnetError


def _is_command() -> bool:
    first = sys.argv[0] if sys.argv else ""
    if first == "-m":  # Python looks for what it is to run
        return "clnet" in sys.orig_argv[1:]
    return Path(first).stem in {"clnet", "clnet-script"}


def _told(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    known = issubclass(kind, ClnetError | KeyboardInterrupt)
    if not known or "--debug" in sys.argv:
        sys.__excepthook__(kind, error, traceback)
    else:  # Python ends by the signal itself after Ctrl-C, else with 1
        text = "interrupted" if issubclass(kind, KeyboardInterrupt) else str(error)
        print(f"clnet: {text}", file=sys.stderr)


if _is_command():
    sys.excepthook = _told
    atexit.register(gc.freeze)  # the first to be told, so the last that runs
