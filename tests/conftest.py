"""What holds for every test."""

from __future__ import annotations

import hypothesis
import pytest

import clnet

hypothesis.settings.register_profile(
    "reproducible",
    deadline=None,  # the first example may compile a kernel
    derandomize=True,
    max_examples=50,
)
hypothesis.settings.load_profile("reproducible")


@pytest.fixture
def device():
    """The device that tests run on: ``CLNET_DEVICE``, else the default one."""
    return clnet.device()
