"""``clnet profile``: run a script, or one of clnet's own commands, and say what it cost."""

from __future__ import annotations

import argparse
import json
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ..device import device, opened_devices
from ..errors import ArgumentError
from ..profiling import Profile, measured_limits, profile
from ..values import mode
from ..values.atomic import replacing
from .script import run_script

Main = Callable[[Sequence[str]], int]


def add_command(
    commands: Any, shared: argparse.ArgumentParser, names: Sequence[str], main: Main
) -> None:
    """Put the command into the parser.

    Args:
        commands: where sub-commands are added.
        shared: options of all commands.
        names: clnet's commands.
        main: runs one of them.
    """
    parser = commands.add_parser(
        "profile",
        parents=[shared],
        help="run a script or a command and say what it cost",
        description="Run a Python script, or one of clnet's commands (clnet profile train digits), "
        "then print kernels and copies by device time and API calls by wall time, each cut at a "
        "share of the whole, what each op and each layer cost, memory and start-up.",
    )
    parser.add_argument("--device", help="such as nvidia:0, pocl, cpu, gpu (see: clnet devices)")
    parser.add_argument(
        "--share", type=float, default=0.9, help="leave out rows beyond this share (0.9)"
    )
    parser.add_argument(
        "--limits", action="store_true", help="measure the device's limits, if they are not known"
    )
    parser.add_argument("--html", metavar="FILE", help="write a report with charts")
    parser.add_argument("--trace", metavar="FILE", help="write a trace for ui.perfetto.dev")
    parser.add_argument("--json", metavar="FILE", help="write the figures")
    parser.add_argument("program", metavar="SCRIPT", help="a file, or a command of clnet")
    more = parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="its arguments"
    )
    more.required = False  # as it is, though its error names it where another one is missing
    parser.set_defaults(run=lambda arguments: run(arguments, names, main))


def run(arguments: argparse.Namespace, commands: Sequence[str], main: Main) -> int:
    """Run the program, then report.

    Args:
        arguments: what was asked for.
        commands: clnet's commands.
        main: runs one of them.

    Returns:
        The program's exit code.
    """
    program = arguments.program
    script = Path(program)
    if not 0 < arguments.share <= 1:
        raise ArgumentError("profile", "share lies in (0, 1]", share=arguments.share)
    if not script.is_file() and program not in commands:
        raise ArgumentError(
            "profile", "there is no such file, nor such a command of clnet", program=repr(program)
        )
    for file in filter(None, (arguments.html, arguments.trace, arguments.json)):
        if Path(file).is_dir() or not Path(file).absolute().parent.is_dir():
            law = "a report is written to a file in a folder that is there"
            raise ArgumentError("profile", law, file=file)
    with ExitStack() as stack:
        observer = stack.enter_context(profile(whole_program=True))
        if arguments.device is not None:
            stack.enter_context(mode.using(device=device(arguments.device)))
        if script.is_file():
            try:
                code = run_script(script, arguments.arguments)
            except Exception:  # its own, whichever it is: its author wants to see where
                traceback.print_exc()
                return 1
        else:
            code = main([program, *arguments.arguments])
    _report(observer, arguments)
    return code


def _report(observer: Profile, arguments: argparse.Namespace) -> None:
    if arguments.limits:
        for opened in opened_devices():
            if opened.name in observer.devices:
                observer.limits[opened.name] = measured_limits(opened)
    print(f"\n{observer.summary(arguments.share)}")
    title = " ".join(("clnet profile", arguments.program, *arguments.arguments))
    if arguments.html:
        observer.save_html(arguments.html, title)
    if arguments.trace:
        observer.save_trace(arguments.trace)
    if arguments.json:
        with replacing(Path(arguments.json)) as file:
            file.write(json.dumps(observer.fields(), indent=1).encode())
