"""Plans of the tests have no chains, but where chains are what is asked about.

To build one takes 0.5 to 2 seconds of a core, for each plan that runs often. Their results are the
same bits, which tests/device/test_chain.py asks; and processes that tests start have them.
"""

from __future__ import annotations

from importlib import import_module

import pytest

_replay = import_module("clnet.compile.replay")
USUALLY_AFTER: int = _replay._CHAINED_AT
"""Runs of a plan after which it has chains."""


def leave_out(patch: pytest.MonkeyPatch) -> None:
    """No plan has chains.

    Args:
        patch: takes it back.
    """
    patch.setattr(_replay, "_CHAINED_AT", 2**60)
