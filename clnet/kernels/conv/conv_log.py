"""``CLNET_LOG=conv``: which algorithm each convolution takes, a line for each that is new."""

from __future__ import annotations

import sys

from ...values.dtypes import DType
from ...values.settings import SETTINGS
from .conv_geometry import ConvGeometry, Direction

_told: set[str] = set()


def log_choice(geometry: ConvGeometry, direction: Direction, dtype: DType, algorithm: str) -> None:
    """Print to the standard error what a convolution takes, once for each in a process.

    Args:
        geometry: the sizes.
        direction: what is computed.
        dtype: of the operands.
        algorithm: its name.
    """
    if "conv" not in SETTINGS.log:
        return
    g = geometry
    line = (
        f"conv {direction.value} {dtype.name}: x ({g.n}, {g.ic}, {g.h}, {g.w}), "
        f"weight ({g.oc}, {g.icg}, {g.kh}, {g.kw}), y ({g.oh}, {g.ow}), stride {g.sh, g.sw}, "
        f"padding {g.ph, g.pw}, dilation {g.dh, g.dw}, groups {g.groups}: {algorithm}"
    )
    if line not in _told:
        _told.add(line)
        print(line, file=sys.stderr, flush=True)
