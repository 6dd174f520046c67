"""What build logs say of registers."""

from __future__ import annotations

import pytest

from clnet.array import Array
from clnet.device.spills import spilled_bytes, spilled_in
from clnet.kernels.moving.copy import fill
from clnet.values.dtypes import float32

LOG = """
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    8 bytes stack frame, {stores} bytes spill stores, {stores} bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers
"""


@pytest.mark.parametrize("stores", [0, 24])
def test_a_log_tells_of_spilled_registers(stores):
    assert spilled_in(LOG.format(stores=stores)) == stores
    assert spilled_in(2 * LOG.format(stores=stores)) == 2 * stores


def test_other_logs_do_not():
    assert spilled_in("") is None
    assert spilled_in("warning: 3 bytes of something") is None


def test_a_kernel_of_the_device_spills_nothing_or_the_compiler_does_not_say(device):
    y = Array.abstract((64,), float32, device)
    y.storage.materialize()
    (launch,) = fill(device.target, y, 1.0)
    assert not spilled_bytes(device.programs.get(launch.kernel), launch.kernel)
