"""``--board``: TensorBoard's page of a training while it goes on, in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ADDRESS = re.compile(r"TensorBoard \S+ at (https?://\S+)")
_SECONDS_TO_END = 5.0
_LINES_KEPT = 5
# TensorBoard, until its input ends: that is when whoever started it is gone, killed or not.
_SERVER = """
import os, sys, threading
def watch():
    sys.stdin.buffer.read()
    os._exit(0)
threading.Thread(target=watch, daemon=True).start()
from tensorboard.main import run_main
run_main()
"""


@contextmanager
def served(folder: Path) -> Iterator[None]:
    """Serve a folder of runs while the body runs; the page's address is printed when it is there.

    Args:
        folder: which TensorBoard reads; runs may begin in it later.
    """
    command = [sys.executable, "-c", _SERVER, "--logdir", str(folder), "--reload_interval", "2"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        ending = threading.Event()
        reading = threading.Thread(target=_tell, args=(server, ending), daemon=True)
        reading.start()
        try:
            yield
        finally:
            ending.set()
            server.terminate()
            try:
                server.wait(_SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                server.kill()
            reading.join(_SECONDS_TO_END)
    print(f"the page again: tensorboard --logdir {folder}", flush=True)


def _tell(server: subprocess.Popen[str], ending: threading.Event) -> None:
    """Print the address that the server writes, or its last lines where it ends without one."""
    last: deque[str] = deque(maxlen=_LINES_KEPT)
    told = False
    for line in server.stderr or ():
        last.append(line.rstrip())
        if found := _ADDRESS.search(line):
            told = True
            print(f"the training, live: {found[1]}", flush=True)
    if not told and not ending.is_set():
        print("TensorBoard did not start:", *last, sep="\n", file=sys.stderr, flush=True)
