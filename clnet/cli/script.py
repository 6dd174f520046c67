"""Scripts of users, run as ``python script arguments`` would."""

from __future__ import annotations

import atexit
import gc
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path


def run_script(script: Path, arguments: Sequence[str]) -> int:
    """Run a script.

    Args:
        script: the file.
        arguments: its own.

    Returns:
        Its exit code; what it raises passes.
    """
    atexit.unregister(gc.freeze)  # of clnet.early: what circles hold, such as files, is let go
    before = sys.argv, sys.path[:]
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.parent))
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as exit_:
        if isinstance(exit_.code, str):
            print(exit_.code, file=sys.stderr)
            return 1
        return exit_.code or 0
    finally:
        sys.argv, sys.path[:] = before
    return 0
