"""``clnet cache``: what is kept, and taking it along to where every kernel would be compiled."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..device import devices
from ..device.discovery import identity_of
from ..kernels.template import texts_folder
from ..values.cache_file import pack, unpack
from ..values.settings import SETTINGS


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Put the command into the parser.

    Args:
        commands: where sub-commands are added.
        shared: options of all commands.
    """
    parser = commands.add_parser(
        "cache",
        help="show, export or import the cache of compiled kernels",
        description="Compiled kernels are kept in a folder (CLNET_CACHE_DIR). Exported to a file "
        "and imported elsewhere, they spare a machine with the same device and driver the first "
        "compilation: in CI, containers, classrooms.",
    )
    actions = parser.add_subparsers(required=True, metavar="action")
    shown = actions.add_parser("show", parents=[shared], help="where it is and what it holds")
    shown.set_defaults(run=show)
    exported = actions.add_parser("export", parents=[shared], help="write the cache to one file")
    exported.add_argument("path", type=Path, metavar="FILE", help="the file to make")
    exported.set_defaults(run=export)
    imported = actions.add_parser(
        "import",
        parents=[shared],
        help="put an exported file into the cache",
        description="Put an exported file into the cache. Native code is run from it: import only "
        "a file that you trust.",
    )
    imported.add_argument("path", type=Path, metavar="FILE", help="the file to read")
    imported.set_defaults(run=import_)


def show(arguments: argparse.Namespace) -> int:
    """Print the folder, and for each device how much is kept."""
    print(SETTINGS.cache_dir)
    for folder, about in _folders().items():
        sizes = [entry.stat().st_size for entry in SETTINGS.cache_dir.joinpath(folder).glob("*")]
        print(f"{folder}  {len(sizes)} files, {_mib(sum(sizes))}  {about}")
    return 0


def export(arguments: argparse.Namespace) -> int:
    """Write the cache to a file."""
    packed = pack(arguments.path, SETTINGS.cache_dir, _folders())
    size = _mib(arguments.path.stat().st_size)
    print(f"{arguments.path}: {packed.files} files, {_mib(packed.bytes)} in {size}")
    return 0


def import_(arguments: argparse.Namespace) -> int:
    """Put a file into the cache."""
    packed = unpack(arguments.path, SETTINGS.cache_dir, _folders())
    print(
        f"{arguments.path}: {packed.files} files put into {SETTINGS.cache_dir}, "
        f"{packed.present} were there"
    )
    return 0


def _folders() -> dict[str, str]:
    """Folders of the cache that are of use here, and what each is for."""
    keys = [identity_of(found.handle) for found in devices() if found.handle is not None]
    kernels = {"/".join(key.kernels_folder): key.key for key in keys}
    return {**kernels, "/".join(texts_folder()): "texts of kernels"}


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
