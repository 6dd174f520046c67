"""Cases whose reference is PyTorch in float64, for ops that would be long in NumPy.

PyTorch is asked when a case runs; without it the case goes by what it said (:mod:`tests.answers`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from clnet.ops.machinery.function import PUBLIC_OPS
from tests.answers import torch
from tests.opcase import Draw, OpCase


def torch_case(name: str, inputs: Sequence[Draw], *args: Any, **settings: Any) -> OpCase:
    """A case that calls an op and PyTorch's of the same name with the same settings.

    Args:
        name: the op's.
        inputs: how its tensors are drawn.
        *args: further positional arguments.
        **settings: by name; those of :class:`OpCase` go to it, the others to the op.
    """
    own = {key: settings.pop(key) for key in list(settings) if key in OpCase.__dataclass_fields__}
    words = [*map(str, args), *(f"{key}={value}" for key, value in settings.items())]
    label = own.pop("label", ", ".join(words))
    return OpCase(
        lambda *tensors: PUBLIC_OPS[name][0](*tensors, *args, **settings),
        by_torch(name, *args, **settings),
        inputs,
        name=name,
        label=label,
        **own,
    )


def by_torch(name: str, *args: Any, **settings: Any) -> Callable[..., Any]:
    """PyTorch's function of a name, from arrays to arrays."""

    def reference(*arrays: np.ndarray) -> Any:
        home = torch.nn.functional if hasattr(torch.nn.functional, name) else torch
        given = [torch.from_numpy(np.array(a)) for a in arrays]
        result = getattr(home, name)(*given, *args, **settings)
        if isinstance(result, tuple):
            return tuple(r.numpy() for r in result)
        return result.numpy()

    return reference


@contextmanager
def without_onednn(package: Any) -> Iterator[None]:
    """PyTorch's own kernels: some of oneDNN's differ between processors, or are not on all.

    Args:
        package: the module ``torch``. It warns of GPUs meanwhile, which is not passed on.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with package.backends.mkldnn.flags(enabled=False):
            yield
