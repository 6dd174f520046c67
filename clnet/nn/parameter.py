"""``nn.parameter``: where PyTorch's parameters lie."""

from __future__ import annotations

from .module import Buffer as Buffer
from .module import Parameter as Parameter
