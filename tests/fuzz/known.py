"""Differences from PyTorch that stay, each with its reason; a test keeps the list honest."""

from __future__ import annotations

import re
from typing import NamedTuple

from .accepted_calls import ACCEPTED_CALLS
from .evaluate import ACCEPTED, DIFFERS, Outcome
from .other_results import OTHER_RESULTS


class Known(NamedTuple):
    """A difference that is meant.

    Attributes:
        why: the reason, as reports print it.
        kind: what the call ends with.
        text: a pattern of the call.
        detail: a pattern of what differs, or of PyTorch's error.
        example: a call of which it is true; a test sees to it that it still is.
    """

    why: str
    kind: str
    text: str
    detail: str
    example: str


KNOWN = (
    *(Known(why, ACCEPTED, *rest) for why, *rest in ACCEPTED_CALLS),
    *(Known(why, DIFFERS, *rest) for why, *rest in OTHER_RESULTS),
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
