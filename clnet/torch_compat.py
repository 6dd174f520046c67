"""``clnet.torch_compat``: packages that say ``import torch`` find clnet, once they are told to.

    import clnet.torch_compat
    clnet.torch_compat.install()
    import torch                      # clnet
    from torch.nn import functional as F

Nothing is active unasked, and nothing of PyTorch's is loaded. ``uninstall()`` takes it back.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution
from pathlib import Path
from types import ModuleType
from typing import Any

from .compat import cuda, differences, dynamo, launch, library
from .compat.process import Version
from .errors import ArgumentError
from .values.importer import AttributeFinder
from .values.words import Named

__all__ = ["VERSION", "install", "run_script", "uninstall", "use_einops"]

VERSION = Version("2.13.0")
"""The version of PyTorch whose names clnet follows, which packages ask for."""


class _Torch(ModuleType):
    """``torch``: clnet under another name and with that version."""

    __version__ = VERSION

    def __getattr__(self, name: str) -> Any:
        if name == "__file__":  # beside it lies what packages leave out of tracebacks
            return str(Path(__file__))
        if name == "torch":  # PyTorch imports itself by name
            return self
        if name == "ops":  # which are namespaces of operators there
            return library.operators
        if name == "set_vital":  # deprecated; loaders of packages call it
            return lambda *args: None
        if name == "compile":  # whose modules have PyTorch's names
            return dynamo.compile
        try:
            return getattr(sys.modules["clnet"], name)
        except AttributeError as error:
            raise differences.missing("torch", name) from error

    def __dir__(self) -> Iterable[str]:
        return dir(sys.modules["clnet"])


class _Distribution(Distribution):
    """What ``importlib.metadata`` says of the package ``torch``."""

    def read_text(self, filename: str) -> str | None:
        """The only file there is."""
        return f"Name: torch\nVersion: {VERSION}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        """There are no files."""
        return path


class _Finder(AttributeFinder):
    """Finds ``torch`` and what lies below it, and says what to do where there is nothing."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the import system asks."""
        found = super().find_spec(fullname, path, target)
        if found is None and fullname.startswith("torch."):
            parent, _, name = fullname.rpartition(".")
            raise ModuleNotFoundError(str(differences.missing(parent, name)), name=fullname)
        return found

    def find_distributions(self, context: Any = None) -> Iterable[Distribution]:
        """What ``importlib.metadata`` asks."""
        wanted = getattr(context, "name", None)
        return [_Distribution()] if wanted in (None, "torch") else []


_TORCH = _Torch("torch", "clnet, where a program asks for PyTorch.")
_TORCH.__path__ = []
_TORCH.__spec__ = ModuleSpec("torch", None, is_package=True)  # importlib.util.find_spec reads it


class _File(ModuleType):
    """A file of PyTorch's that has the name of a function in it, by which the import goes first."""

    def __init__(self, name: str) -> None:
        super().__init__(f"torch.{name}", "Of PyTorch's files.")
        self.__dict__["_above"] = name.split(".")[:-1]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = sys.modules["clnet"]
        for part in self._above:
            found = getattr(found, part)
        return getattr(found, name)


_FILES = (
    "autograd.gradcheck",
    "multiprocessing.spawn",
    "nn.parallel.data_parallel",
    "nn.parallel.parallel_apply",
    "nn.parallel.replicate",
    "nn.utils.spectral_norm",
    "nn.utils.weight_norm",
)


def _transforms() -> Any:
    return sys.modules["clnet"]._functorch.public


_FINDER = _Finder("torch", lambda: _TORCH)
_TRANSFORMS = AttributeFinder("functorch", _transforms)


def install(*, device: Any = None) -> None:
    """From now on ``import torch`` gives clnet, in this process.

    Args:
        device: what programs get that ask for ``"cuda"``, as :func:`clnet.cuda.use` takes it; None:
            there is no CUDA, as long as nobody says otherwise.

    Raises:
        ArgumentError: if PyTorch itself was imported already.
    """
    before = sys.modules.get("torch")
    if before is not None and before is not _TORCH:
        raise ArgumentError(
            "torch_compat.install",
            "PyTorch itself is imported already",
            version=getattr(before, "__version__", "unknown"),
            remedy="Call install() before anything imports torch",
        )
    _FINDER.install(0)
    _TRANSFORMS.install(0)  # a package beside PyTorch's
    for name in _FILES:
        sys.modules.setdefault(f"torch.{name}", _File(name))
    Named.library = "torch"
    if device is not None:
        cuda.use(device)


def use_einops() -> None:
    """Let einops take clnet's tensors, without :func:`install`; with it that goes by itself.

    Raises:
        ArgumentError: if einops is not installed.
    """
    try:
        from einops import _backends  # noqa: PLC0415 - optional
    except ImportError as error:
        raise ArgumentError(
            "use_einops", "einops is installed", error=error, remedy="pip install einops"
        ) from error
    members: dict[str, Any] = {
        "framework_name": "clnet",
        "__init__": lambda self: setattr(self, "torch", sys.modules["clnet"]),
    }
    # Registered by being a subclass: that is how einops finds what it knows.
    _KEPT["einops"] = type("ClnetBackend", (_backends.TorchBackend,), members)


_KEPT: dict[str, Any] = {}
"""Classes that others find among their subclasses."""


def uninstall() -> None:
    """``import torch`` means PyTorch again; what was imported from clnet stays clnet's."""
    _FINDER.remove()
    _TRANSFORMS.remove()
    Named.library = "clnet"
    if sys.modules.get("torch") is _TORCH:
        for name in [n for n in sys.modules if n.partition(".")[0] == "torch"]:
            del sys.modules[name]


def run_script(argv: Sequence[str]) -> None:
    """Run a program as ``python`` would, with clnet under PyTorch's name: ``python -m`` this file.

    Of several processes that ``mpirun`` started each finds the variables that ``torchrun`` sets.

    Args:
        argv: its path, or ``"-m"`` and a module's name, and its arguments; before them perhaps
            ``--cuda`` and the device that the program means by ``"cuda"``.

    Raises:
        ArgumentError: if there is no path.
    """
    device = None
    if argv[:1] == ["--cuda"]:
        device, argv = next(iter(argv[1:2]), None), argv[2:]
    as_module = argv[:1] == ["-m"]
    if not argv[as_module:]:
        raise ArgumentError(
            "torch_compat",
            "a program is named",
            remedy="python -m clnet.torch_compat [--cuda DEVICE] SCRIPT [ARGUMENTS], or -m MODULE",
        )
    install(device=device)
    launch.tell_ranks()
    sys.argv = given = _Arguments(argv[as_module:])
    given.cuda = device
    if as_module:
        sys.path.insert(0, "")
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
        return
    sys.path.insert(0, str(Path(argv[0]).resolve().parent))
    runpy.run_path(argv[0], run_name="__main__")


class _Arguments(list[str]):
    """A program's: what a process that it spawns is sent before it runs the program's file."""

    cuda: str | None = None

    def __reduce__(self) -> Any:
        return _received, (list(self), self.cuda)


def _received(argv: list[str], cuda: str | None = None) -> _Arguments:
    install(device=cuda)
    found = _Arguments(argv)
    found.cuda = cuda
    return found


if __name__ == "__main__":
    sys.modules["clnet.torch_compat"] = sys.modules[__name__]  # what programs import is this one
    _received.__module__ = "clnet.torch_compat"  # where spawned processes find it
    run_script(sys.argv[1:])
