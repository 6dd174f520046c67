"""The device, and its target in both shapes."""

import pytest

from clnet.device import Device, Target, device
from tests.kernels.launching import cpu_shaped, gpu_shaped


@pytest.fixture(scope="module")
def dev() -> Device:
    return device()


@pytest.fixture(params=[cpu_shaped, gpu_shaped], ids=["vectors", "groups"])
def target(request: pytest.FixtureRequest, dev: Device) -> Target:
    return request.param(dev)


@pytest.fixture(scope="module")
def where(dev: Device) -> Device:
    """The device, as tests of sums and products call it."""
    return dev
