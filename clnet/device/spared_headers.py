"""What PoCL does for each program and one need not wait for: headers, and passes that come twice.

A program with declarations of its own (:mod:`.builtin_functions`) says that clang's header is there
already. PoCL has the file opened and passed over all the same, a million characters, 7 ms of a core
of the 45 that an empty kernel takes; and it renames 935 functions, twice, since it parses what its
preprocessor printed, where a text names some ten of them: 1 ms.

Clang reads another file in a file's place (``-remap-file``). PoCL takes only some options and looks
at what stands between spaces; clang divides what it is given at tabs as well. So the option is the
value of a macro that nobody asks for. Where it were not divided, it would be that and nothing else.

In the same way clang is told to leave what it makes as it is: PoCL optimises that anyway, and from
the beginning. Twice gives nearly the same machine code, and takes a tenth longer in all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ..values.pattern import pattern
from ..values.record import NamedTuple

_MAPPED = Path("/proc/self/maps")
_LIBRARY = pattern(r"^libpocl[-.\w]*\.so")
# Beside the library: in pip's wheel, and below the prefix of an installation.
_PLACES = (
    "../../pocl_binary_distribution/.libs/share/pocl/include",
    "../share/pocl/include",
    "../../share/pocl/include",
)
_DECLARATIONS, _RENAMES = "opencl-c.h", "_builtin_renames.h"
_NOTHING = os.devnull
_UNOPTIMISED = "\t-disable-llvm-passes"
_RENAME = pattern(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(\w+)[ \t]*$")
_DIRECTIVE = pattern(r"^[ \t]*#[ \t]*(\w+)")
_GUARD = ("ifndef", "define", "endif")
_WORD = pattern(r"[A-Za-z_]\w*")


class SparedHeaders(NamedTuple):
    """What is given to PoCL in place of its headers.

    Attributes:
        option: a build option, for programs that need none of clang's declarations.
        names: by a built-in function's name, the name that PoCL's library has it under.
    """

    option: str
    names: Mapping[str, str]

    def renames(self, text: str) -> str:
        """What a text needs in place of the header of renamed functions.

        Args:
            text: OpenCL C, with the declarations that it brings.

        Returns:
            A line for each function that is named in it.
        """
        words = sorted(self.names.keys() & set(_WORD.findall(text)))
        return "".join(f"#define {word} {self.names[word]}\n" for word in words)


@cache
def spared_headers(folder: Path | None = None) -> SparedHeaders | None:
    """What takes the place of the headers of the PoCL that this process has loaded.

    Args:
        folder: where its headers are; None: beside the library.

    Returns:
        It; None where there is no such PoCL, or its headers are not what we know.
    """
    folder = folder or _folder()
    if folder is None or pattern(r"[\s;\"']").search(str(folder)):
        return None
    try:
        names = _renamed((folder / _RENAMES).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not names:
        return None
    given = "".join(
        f"\t-remap-file\t{folder / name};{_NOTHING}" for name in (_DECLARATIONS, _RENAMES)
    )
    return SparedHeaders(f"-DCLNET_SPARED={given}{_UNOPTIMISED}", names)


def _folder() -> Path | None:
    """The folder of the headers, beside the library that is loaded."""
    try:
        mapped = _MAPPED.read_text(encoding="utf-8", errors="replace")
    except OSError:  # no Linux
        return None
    paths = {Path(line.split(maxsplit=5)[5]) for line in mapped.splitlines() if "libpocl" in line}
    for path in sorted(path for path in paths if _LIBRARY.match(path.name)):
        for place in _PLACES:
            # As the system sees it: a link in it leads where the library's own way leads.
            folder = (path.parent / place).resolve()
            if (folder / _DECLARATIONS).is_file():
                return folder
    return None


def _renamed(text: str) -> dict[str, str]:
    """The new names by the old ones; none where a header does something else as well."""
    lines = [line for line in text.splitlines() if _DIRECTIVE.match(line)]
    found = [renamed for line in lines if (renamed := _RENAME.match(line))]
    others = [directive[1] for line in lines if (directive := _DIRECTIVE.match(line))]
    for _ in found:
        others.remove("define")
    return {each[1]: each[2] for each in found} if tuple(others) == _GUARD else {}
