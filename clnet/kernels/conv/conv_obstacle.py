"""Why a convolution is not computed in a faster way, for those who explain a plan."""

from __future__ import annotations

from enum import Enum


class ConvObstacle(Enum):
    """What keeps a convolution from an algorithm; the value says it to a reader of a plan."""

    DEVICE = "plain values are faster on this device"
    GROUPS = "it has groups of channels"
    CHANNELS = "its channels are no whole number of blocks"
    SIZE = "it has no elements, or more than an int counts"
    FILTERS = "transforms are for small square filters with stride and dilation 1"
    PIXELS = "it is too small to pay for transforms"
    WORKSPACE = "its scratch memory is more than the workspace limit"
    FORBIDDEN = "no_winograd() forbids it"
    MEASURED = "another form was measured to be faster"
