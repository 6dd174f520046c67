"""Why two steps stay apart: passes decide by it, and ``explain`` tells a reader.

Four passes make one step of two: ``epilogue``, ``fuse``, ``fuse_into_products`` and ``prologue``.
A question that several of them ask is answered in one place:

========================================================  =====================================
is the result written once, read by others, kept?         :class:`.Trace`: ``is_value``,
                                                          ``readers``, ``outlives``
would a step that moves pass what it reads or changes?    :meth:`.Trace.is_disturbed`
do two expressions compose, with the same bits?           :func:`.pointwise_step.compose`
would one launch have too many operands, or too much      :meth:`.PointwiseStep.obstacle`
to compute?
========================================================  =====================================

What is left to a pass is what its kernels can do, and whether it pays.
"""

from __future__ import annotations

from enum import Enum


class FusionObstacle(Enum):
    """What keeps a step from being computed with the one that reads its result."""

    READ_TWICE = "others read it, too"
    RETURNED = "it is returned, or kept"
    CHANGED = "it is changed in place"
    DTYPE = "it is computed, or stored, in another dtype"
    SHAPE = "it is stored for others as well, and is not read element by element"
    VIEW = "it is read through a view that says of no operand where it lies"
    EXPONENT = "it might be a constant exponent, which is computed otherwise"
    FAR = "it is stored for others as well, and its operands would be held for much longer"
    ORDER = "steps in between need the result, or make what the reader needs beside it"
    OPERANDS = "one launch would have too many operands"
    LENGTH = "one launch would compute too much"
    OVERLAP = "elements would be read after they are overwritten"
    REPEATED = "it would be computed again for every element that it is broadcast to"
    TURNED = "too many operands would be read in another order than they lie in"
    ONLY_RELU = "products and convolutions apply a ReLU, blocked ones a sum, or one function"
    LOADED = "sums over plain arrays load what they read"
    UNSUITED = "a product's kernel could not do it, or would wait longer than a launch takes"
    MERGED = "small updates are one launch together"
    BYTES = "no fewer bytes would be moved"


UnfusedPair = tuple[int, int, FusionObstacle]
"""The positions of two steps that stay apart, the earlier one first, and why."""
