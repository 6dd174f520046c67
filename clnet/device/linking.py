"""PoCL links a kernel with what it needs alone, which takes a third of the time.

PoCL makes each kernel a shared library, and its compiler's driver links it as any other: with
libgcc, libgcc_s and libc. Their symbols are read for each kernel anew, 13 ms of a core of the 33
that an empty kernel takes (PoCL 3.0, GNU ld 2.40); without the latter two it is 4. What a kernel
calls of libc (``memcpy``, ``memset``) it finds in the process that loads it, as it finds libm.

The driver has no option for that. But it looks for a linker that is named after its target first,
in all of ``PATH``, and for ``ld`` afterwards; and the folder ``linker`` has a script of that name,
which leaves the two out of a link of PoCL's and passes all others to ``ld``. The folder is the last
of ``PATH`` in processes that build kernels for others, never in the user's.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

LINKERS = Path(__file__).with_name("linker")
"""The folder with the script. An installation that lost its executable bit goes on with ``ld``."""


def linking_less(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process in which PoCL links kernels with what they need alone.

    Args:
        environment: variables by name.

    Returns:
        A copy, with the folder of the script at the end of ``PATH`` where that leads to an ``ld``.
    """
    path = environment.get("PATH")
    if path is None or shutil.which("ld", path=path) is None:
        return dict(environment)
    return {**environment, "PATH": f"{path}{os.pathsep}{LINKERS}"}
