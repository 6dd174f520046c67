"""``torch.utils.cpp_extension``: extensions of C++ and CUDA are not built; that is said clearly.

Programs import these names and fall back, or build when they are installed. Names of classes can be
had, what builds is an error.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ..errors import BuildError

__all__ = [
    "BuildExtension",
    "CUDAExtension",
    "CppExtension",
    "include_paths",
    "is_ninja_available",
    "library_paths",
    "load",
    "load_inline",
    "verify_ninja_availability",
]

CUDA_HOME = ROCM_HOME = None
"""There is no CUDA of PyTorch's."""
IS_HIP_EXTENSION = False


def load(name: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Nothing of C++ is built: it would know PyTorch's memory alone.

    Raises:
        BuildError: always.
    """
    raise BuildError(
        "utils.cpp_extension",
        "nothing of C++ or CUDA is built",
        name=name,
        remedy="Use what the program has without it, or write the kernel with clnet.kernel",
    )


def load_inline(name: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """As :func:`load`.

    Raises:
        BuildError: always.
    """
    load(name)


def CppExtension(name: Any, *args: Any, **kwargs: Any) -> NoReturn:  # noqa: N802 - PyTorch's
    """As :func:`load`.

    Raises:
        BuildError: always.
    """
    load(name)


CUDAExtension = SyclExtension = CppExtension


class BuildExtension:
    """What would build them."""

    @classmethod
    def with_options(cls, **options: Any) -> Any:
        """The class."""
        return cls


def include_paths(*args: Any, **kwargs: Any) -> list[str]:
    """No folders."""
    return []


def library_paths(*args: Any, **kwargs: Any) -> list[str]:
    """No folders."""
    return []


def is_ninja_available() -> bool:
    """False: nothing is built."""
    return False


def verify_ninja_availability() -> NoReturn:
    """As :func:`load`.

    Raises:
        BuildError: always.
    """
    load("ninja")
