"""Jobs of benchmarks in processes of their own: JSON goes in, figures come out as marked lines.

So a crash costs one figure, and as many threads work as is said: libraries read that once, when
they are loaded. A benchmark's side of it is a function of the job, ``worker`` by name, which calls
:func:`tell`; what else it prints is for whoever looks on.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .timing import environment_of

Fields = dict[str, Any]
"""A job, or figures, as JSON has them."""

_MARK = "figures: "
# The environment is set before clnet is imported, which reads it once. What is frozen at the end is
# not looked through for circles: 0.4 s of a core.
_PROGRAM = """
import atexit, gc, json, os, sys
atexit.register(gc.freeze)
job, environment = map(json.loads, sys.argv[1:])
os.environ.update(environment)
from clnet.bench.{module} import {worker}
{worker}(job)
"""


class Done(NamedTuple):
    """What a process left.

    Attributes:
        code: its exit code.
        figures: what it told, in order.
        text: what it printed beside.
    """

    code: int
    figures: list[Fields]
    text: str


def command(
    module: str, job: Fields, environment: Mapping[str, str], *, worker: str = "worker"
) -> list[str]:
    """The command line of a process that does a job.

    Args:
        module: of ``clnet.bench``, such as ``"zoo"``.
        job: what the worker is given.
        environment: variables that the process has beside this one's.
        worker: the function that does it.
    """
    program = _PROGRAM.format(module=module, worker=worker)
    return [sys.executable, "-c", program, json.dumps(job), json.dumps(dict(environment))]


def completed(line: list[str]) -> Done:
    """Run a command line of :func:`command` to its end; its errors are shown as they come.

    Args:
        line: the command, perhaps behind one that starts several of it.
    """
    done = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=False)
    return Done(done.returncode, *parted(done.stdout))


def measured(module: str, job: Fields) -> Fields | None:
    """The figures of a job; None if its process failed, which is said on standard error.

    Args:
        module: as for :func:`command`.
        job: with ``threads``, those that the process has; None: all.
    """
    done = completed(command(module, job, environment_of(job["threads"])))
    if done.figures:
        return done.figures[0]
    print(f"  failed with exit code {done.code}", file=sys.stderr, flush=True)
    return None


def keep(figures: Fields, results: str | None) -> None:
    """Append figures to the file of ``--results`` as soon as they are there; None: to none."""
    if results:
        with Path(results).open("a", encoding="utf-8") as file:
            file.write(json.dumps(figures) + "\n")


def tell(figures: Fields) -> None:
    """Give figures to who began the process."""
    print(_MARK + json.dumps(figures), flush=True)


def parted(text: str) -> tuple[list[Fields], str]:
    """The figures in what a process printed, and the other lines."""
    lines = text.splitlines()
    found = [json.loads(x.removeprefix(_MARK)) for x in lines if x.startswith(_MARK)]
    return found, "\n".join(x for x in lines if not x.startswith(_MARK))
