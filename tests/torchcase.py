"""Cases whose reference is PyTorch in float64, for ops that would be long in NumPy.

PyTorch is asked for when a case runs, so that without it only these tests are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from clnet.ops.machinery.function import PUBLIC_OPS
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
        torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
        home = torch.nn.functional if hasattr(torch.nn.functional, name) else torch
        given = [torch.from_numpy(np.array(a)) for a in arrays]
        result = getattr(home, name)(*given, *args, **settings)
        if isinstance(result, tuple):
            return tuple(r.numpy() for r in result)
        return result.numpy()

    return reference
