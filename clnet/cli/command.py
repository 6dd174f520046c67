"""The command ``clnet``: its parser, and how errors become one line and an exit code."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module, metadata

from ..errors import ClnetError
from .ending import Termination, output, untaken

# In the order of the help; of the modules with these names only what runs is imported.
_COMMANDS = tuple("devices doctor report train plan bench profile tune cache run".split())
_NO_OPTIONS = set("run debug name arguments program path file network dataset".split())
_INTERRUPTED, _TERMINATED = 130, 143  # as a shell reports Ctrl-C and SIGTERM


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: its arguments; None: those of the process.

    Returns:
        The exit code: 0, 1 after an error, 130 after Ctrl-C, 143 after SIGTERM, 141 if nobody reads
        what is printed (argparse itself leaves with 2).
    """
    arguments = argparse.Namespace(debug=False)
    with Termination() as termination:
        try:
            with output():
                given = sys.argv[1:] if argv is None else argv
                _parser(given).parse_args(given, arguments)
                return arguments.run(arguments)
        except (ClnetError, MemoryError, OSError, KeyboardInterrupt) as error:
            code = untaken() if isinstance(error, OSError) else None
            if code is not None:
                return code
            if arguments.debug:
                raise
            text, code = _told(error, arguments, terminated=termination.came)
            print(f"clnet: {text}", file=sys.stderr)
            return code


def _told(
    error: BaseException, arguments: argparse.Namespace, *, terminated: bool
) -> tuple[str, int]:
    """An error in a line, and the exit code."""
    if isinstance(error, KeyboardInterrupt):
        return ("terminated", _TERMINATED) if terminated else ("interrupted", _INTERRUPTED)
    if isinstance(error, MemoryError):  # NumPy says how much was asked for
        return f"the host's memory does not suffice: {error}", 1
    if isinstance(error, ClnetError):
        return in_options(str(error), vars(arguments)), 1
    return str(error), 1


def in_options(text: str, options: Iterable[str]) -> str:
    """An error of the library in the command's words: its options for Python's arguments.

    Args:
        text: of the error.
        options: their names in Python.
    """
    for name in sorted(set(options) - _NO_OPTIONS, key=len, reverse=True):
        option = f"--{name.replace('_', '-')}"
        text = re.sub(rf"(?<![\w.-]){name}=True\b", option, text)
        text = re.sub(rf"(?<![\w.-]){name}=", f"{option}=", text)
        text = re.sub(rf"^([^;]*?: ){name} (is|are|lies|lie|goes)\b", rf"\1{option} \2", text)
        if "_" in name:
            text = re.sub(rf"(?<![\w.-]){name}\b", option, text)
    return text.replace("folder as root", "folder as --data")


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Of the command that is named first, which takes a third of the time of all; else of all."""
    parser = argparse.ArgumentParser(
        prog="clnet", description="Train and run neural networks on any OpenCL device."
    )
    parser.add_argument("--version", action="version", version=f"clnet {_version()}")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(required=True, metavar="command")
    for name in [each for each in _COMMANDS if each in argv[:1]] or _COMMANDS:
        more = (_COMMANDS, main) if name == "profile" else ()
        import_module(f".{name}", __package__).add_command(commands, shared, *more)
    return parser


def _version() -> str:
    try:
        return metadata.version("clnet")
    except metadata.PackageNotFoundError:
        return "(not installed)"
