"""What programs written for PyTorch look for under ``torch.utils``; nothing of clnet needs it."""

from __future__ import annotations
