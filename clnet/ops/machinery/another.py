"""Views that are exported: another tensor each time, as PyTorch's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def as_another(view: F) -> F:
    """A view that is another tensor, also where it is of all elements as they are.

    What programs do to it then leaves ``x`` as it is: hooks, ``requires_grad_``, ``unsqueeze_``.
    Ops, which do none of that, call the function itself and save the tensor.
    """

    @functools.wraps(view)
    def another(x: Any, *args: Any, **given: Any) -> Any:
        found = view(x, *args, **given)
        return found.view(found.shape) if found is x else found

    return another  # pyrefly: ignore[bad-return] - of the same signature
