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
    Known(
        "a number stands for a tensor without axes",
        ACCEPTED,
        r"",
        r"must be Tensor, not (int|float|bool|numpy)|received an invalid combination of arguments "
        r"- got \((int|float|bool|numpy\.\w+), Tensor",
    ),
    Known(
        "an argument that PyTorch asks for has a default",
        ACCEPTED,
        r"",
        r"missing \d+ required positional",
    ),
    Known(
        "None stands for no such argument",
        ACCEPTED,
        r"None",
        r"received an invalid combination|must be .*, not NoneType",
    ),
    Known(
        "gradients flow to targets and other operands, too",
        DIFFERS,
        r"",
        r"gradients flow in one of them alone",
    ),
    Known(
        "ties are taken in order",
        DIFFERS,
        r"topk|sort|kthvalue|median|cummax|cummin|max|min|mode",
        r"int64\(",
    ),
    Known(
        "what depends on the data is told at the next synchronisation",
        ACCEPTED,
        r"",
        r"not positive-definite|singular|invalid max index|out of (range|bounds)|"
        r"Expected p_in|all elements of (target|input) should be between|has negative entry|"
        r"must be in the range|"
        r"Expected .*lengths|Class values must be|input to be on|_length",
    ),
    Known(
        "numbers, dtypes and sizes are taken from NumPy and Python, too",
        ACCEPTED,
        r"np\.|\bint\b|\bfloat\b",
        r"must be|invalid combination|failed to unpack|expected .* to be|can't convert|Expected",
    ),
    Known(
        "methods take what functions take",
        ACCEPTED,
        r"out=|keepdim=|dim=",
        r"invalid combination|takes no keyword",
    ),
    Known("elements are of any value", DIFFERS, r"empty", r""),
    Known(
        "a sum to booleans is one of whole numbers", DIFFERS, r"(nansum|prod).*bool", r"not bool"
    ),
    Known("finfo and iinfo are tuples of fields", DIFFERS, r"info\(", r"results, not"),
    Known(
        "singular matrices are told at the next synchronisation",
        DIFFERS,
        r"det|inverse|inv|solve|cholesky|matrix_power",
        r"nan|inf",
    ),
    Known(
        "booleans are subtracted as numbers",
        ACCEPTED,
        r"bool|\bc\b",
        r"with two bool tensors|bool tensor",
    ),
    Known(
        "one axis, or a sequence of one, are the same",
        ACCEPTED,
        r"\(\w+,\)|\[",
        r"got \(int, tuple\)|got \(tuple, int\)|got \(Tensor, int, (tuple|list)",
    ),
    Known(
        "a bound or number beyond the dtype's range is infinite",
        ACCEPTED,
        r"",
        r"cannot be converted to type (float|double|c10::Half|c10::BFloat16) without overflow",
    ),
    Known(
        "operands without elements, or channels, give results without",
        ACCEPTED,
        r":0\]|\(0|, 0|\(\)",
        r"to be at least 1|non-empty|Expected .*(size|dim)|non-zero|is empty|no elements|zero",
    ),
    Known("PyTorch fails an assertion of its own", ACCEPTED, r"", r"nested_tensorlist"),
    Known(
        "the mean of whole numbers is rounded down",
        DIFFERS,
        r"scatter_reduce.*mean",
        r"int64, not",
    ),
    Known("bounds in the wrong order: the lower counts", ACCEPTED, r"Hardtanh", r"greater than"),
    Known("correction counts beside unbiased", ACCEPTED, r"var|std", r"correction="),
    Known("packed sequences have fields of their own", DIFFERS, r"pack_", r"results, not"),
    Known(
        "bounds in the wrong order: the lower counts", DIFFERS, r"hardtanh|clamp|clip|logit", r""
    ),
    Known(
        "whole numbers have a mean, and pass for floats",
        ACCEPTED,
        r"m\.(int|uint|bool)|\b[ijc]\b|index|signs",
        r"mean\(\): could not infer output dtype|can't be cast|did not match|dtype|"
        r"expected scalar type|Integral|integral|Long|Bool|Byte|Int\b|Short",
    ),
    Known(
        "operands of two dtypes are promoted, and 16-bit floats go with wider ones",
        ACCEPTED,
        r"to\(m\.|float64|float16",
        r"same dtype|expected scalar type|dtype|Half|BFloat16|Double|type",
    ),
    Known(
        "random numbers are others than PyTorch's",
        DIFFERS,
        r"(?i)rand|normal|bernoulli|uniform|multinomial|dropout|rrelu|xavier|kaiming|orthogonal|fractional",
        r"",
    ),
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
