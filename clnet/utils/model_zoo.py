"""``torch.utils.model_zoo``: no weights are downloaded; the bar that packages look for here."""

from __future__ import annotations

from typing import Any

from ..errors import ArgumentError

__all__ = ["load_url", "tqdm"]


def load_url(url: str, *args: Any, **kwargs: Any) -> Any:
    """Clnet downloads no weights.

    Raises:
        ArgumentError: always.
    """
    raise ArgumentError(
        "model_zoo.load_url",
        "no weights are downloaded",
        url=url,
        remedy="Download the file and read it with clnet.load",
    )


def tqdm(*args: Any, **kwargs: Any) -> Any:
    """The progress bar of the package ``tqdm``, which it needs."""
    from tqdm import tqdm as bar  # noqa: PLC0415 - optional

    return bar(*args, **kwargs)
