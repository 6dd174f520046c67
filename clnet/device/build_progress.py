"""What the user sees of a long compilation: a bar on a terminal, else a line in the log."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

_DELAY_S = 1.0
"""What takes less is not shown: the bar would only flicker."""
_LOG = logging.getLogger("clnet")


@contextmanager
def progress(kernels: int) -> Iterator[Callable[[int], None]]:
    """Show how many of so many kernels are built, once that takes longer than a second.

    On a terminal a bar on standard error, which goes away in the end; elsewhere one line at level
    INFO of the logger ``clnet`` when it is over.

    Args:
        kernels: how many are to be built.

    Yields:
        What to call with the number of those built since; threads may call it at once.
    """
    if not kernels:
        yield _nothing
        return
    start = time.perf_counter()
    if sys.stderr is None or not sys.stderr.isatty():
        yield _nothing
    else:
        from tqdm import tqdm  # noqa: PLC0415 - 30 ms that only a terminal needs

        text = f"building {kernels} kernels"
        form = "{desc}, {n} done |{bar}| {elapsed}"
        with tqdm(desc=text, total=kernels, bar_format=form, delay=_DELAY_S, leave=False) as bar:
            lock = Lock()

            def done(built: int) -> None:
                with lock:
                    bar.update(built)

            yield done
    seconds = time.perf_counter() - start
    if seconds > _DELAY_S:
        _LOG.info("built %d kernels in %.1f s; later runs find them in the cache", kernels, seconds)


def _nothing(_built: int) -> None:
    pass
