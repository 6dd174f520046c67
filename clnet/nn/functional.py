"""``clnet.nn.functional``: the ops that PyTorch has there, exported by their own declarations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ops.machinery.function import PUBLIC_OPS, Face
from ..values.place import placed
from . import reduction as _Reduction  # noqa: F401 - PyTorch's name

if TYPE_CHECKING:  # what editors and type checkers see; at run time only the names below
    from ..ops import *

globals().update(
    placed(__name__, {n: f for n, (f, face) in PUBLIC_OPS.items() if Face.FUNCTIONAL in face})
)
