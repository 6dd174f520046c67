"""Second names of ops: PyTorch has them for NumPy's sake, and old ones of its own."""

from __future__ import annotations

from . import arithmetic, inplace, mathematics, rearrange, shape, special  # noqa: F401 - declare what is named here
from .machinery.function import PUBLIC_OPS, op

_PAIRS = """
    absolute=abs negative=neg multiply=mul subtract=sub divide=div true_divide=div fix=trunc
    clip=clamp arccos=acos arccosh=acosh arcsin=asin arcsinh=asinh
    arctan=atan arctan2=atan2 arctanh=atanh greater=gt greater_equal=ge less=lt less_equal=le
    not_equal=ne concat=cat concatenate=cat row_stack=vstack moveaxis=movedim swapaxes=transpose
    swapdims=transpose ger=outer absolute_=abs_ negative_=neg_ multiply_=mul_
    subtract_=sub_ divide_=div_ true_divide_=div_ clip_=clamp_
"""
SYNONYMS = {p.partition("=")[0]: p.partition("=")[2] for p in _PAIRS.split()}
"""Each with the op it is."""

__all__ = [*SYNONYMS]  # pyrefly: ignore[unresolvable-dunder-all]

for _name, _of in SYNONYMS.items():
    globals()[_name] = PUBLIC_OPS[_of][0]
    op(PUBLIC_OPS[_of][1], name=_name)(PUBLIC_OPS[_of][0])
