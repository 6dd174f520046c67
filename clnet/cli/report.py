"""``clnet report``: one file for an issue: device, driver, versions, plan, kernel, and no data."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from ..device import device
from ..doctor.incident import incident, keeping_a_diary
from ..errors import ArgumentError, shortened
from ..values import mode
from ..values.atomic import replacing
from .script import run_script


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Put the command into the parser; arguments as in :mod:`.devices`."""
    parser = commands.add_parser(
        "report",
        parents=[shared],
        help="write one file for an issue: device, driver, versions, plan, kernel, no data",
        description="Run a script, if one is named, and write one file that can be attached to an "
        "issue: device, driver, versions, settings, the error with its place, the last commands, "
        "the last kernel's text, and the plans. It holds no data: no elements, no text of other "
        "errors, no lines of files.",
    )
    parser.add_argument("--device", help="which, as clnet devices lists it")
    parser.add_argument("file", metavar="FILE", help="what to write")
    parser.add_argument("program", nargs="?", metavar="SCRIPT", help="a Python script that fails")
    more = parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="its arguments"
    )
    more.required = False  # as it is, though its error names it where another one is missing
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the file; 1 if the script raised."""
    chosen = device(arguments.device)
    if arguments.program is not None and not Path(arguments.program).is_file():
        raise ArgumentError("report", "there is no such script", script=arguments.program)
    if not Path(arguments.file).absolute().parent.is_dir():  # told before the script runs
        raise ArgumentError(
            "report", "cannot write it: there is no such folder", file=arguments.file
        )
    error: BaseException | None = None
    code = 0
    with mode.using(device=chosen), keeping_a_diary() as diary:
        if arguments.program is not None:
            try:
                code = run_script(Path(arguments.program), arguments.arguments)
            except Exception as raised:
                error = raised
        text = incident(chosen, diary, error)
    try:
        with replacing(Path(arguments.file)) as file:
            file.write(text.encode())
    except OSError as refused:
        raise ArgumentError(
            "report", f"cannot write it ({shortened(refused)})", file=arguments.file
        ) from refused
    told = "" if error is None else f" of {type(error).__name__}"
    print(f"{arguments.file}: a report{told}; read it before you send it", file=sys.stderr)
    return 1 if error is not None else code
