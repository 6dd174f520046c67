"""Differences from PyTorch that stay, each with its reason; a test keeps the list honest."""

from __future__ import annotations

import re
from typing import NamedTuple

from .evaluate import ACCEPTED, DIFFERS, Outcome


class Known(NamedTuple):
    """A difference that is meant.

    Attributes:
        why: the reason, as reports print it.
        kind: what the call ends with.
        text: a pattern of the call.
        detail: a pattern of what differs, or of PyTorch's error.
    """

    why: str
    kind: str
    text: str
    detail: str


KNOWN = (
    Known(
        "PyTorch's CPU has no kernel for the dtype, clnet has one",
        ACCEPTED,
        r"",
        r"not implemented for|not supported for|not support .* inputs|is not implemented",
    ),
    Known("random numbers are others than PyTorch's", DIFFERS, r"rand|normal|bernoulli", r""),
)


def reason(text: str, outcome: Outcome) -> str:
    """Why a difference is meant, or nothing."""
    for known in KNOWN:
        if (
            known.kind == outcome.kind
            and re.search(known.text, text)
            and re.search(known.detail, outcome.detail)
        ):
            return known.why
    return ""
