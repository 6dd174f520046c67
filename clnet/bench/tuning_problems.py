"""Which problems of tunable kernels a program has, found out on a device that is absent."""

from __future__ import annotations

from itertools import product
from typing import Any

from ..array import Array
from ..device import AbsentDevice, Device
from ..errors import ArgumentError
from ..kernels.conv import ConvGeometry, ConvProblem, Direction, Operands
from ..kernels.conv_blocked import FormChoice, choose_form, with_packing
from ..kernels.gemm import gemm
from ..kernels.tunables import TUNABLES
from ..values import mode
from ..values.dtypes import float32
from . import gemm as gemm_bench
from .conv_layers import LAYERS
from .side import Ours
from .workload import Workload

Problem = tuple[str, dict[str, Any]]
OPS = ("gemm", "conv")


def of_network(workload: Workload, where: Device) -> list[Problem]:
    """What two compiled steps of a network ask of a device's kernels.

    Args:
        workload: the network.
        where: the device, of which only the traits count.

    Returns:
        Names of tunables, each with a problem by name.
    """
    absent = _twin(where)
    with mode.using(device=absent):
        ours = Ours(workload, absent)
        for _ in range(2):
            ours.step()
    return _asked(absent)


def of_op(op: str, where: Device) -> list[Problem]:
    """What the cases of an op's benchmark ask of a device's kernels.

    Args:
        op: one of ``OPS``.
        where: the device.

    Raises:
        ArgumentError: if no kernel of such an op can be tuned.
    """
    if op not in OPS:
        raise ArgumentError("--op", "there is no such op", found=repr(op), have=", ".join(OPS))
    absent = _twin(where)
    if op == "gemm":
        _multiply(absent)
    else:
        for geometry, direction in product(LAYERS.values(), Direction):
            _convolve(absent, geometry, direction)
    return _asked(absent)


def _multiply(absent: AbsentDevice) -> None:
    for case in (*gemm_bench.SQUARES, *gemm_bench.TRANSPOSED, *gemm_bench.NETWORKS):
        shapes = (case.m, case.n), (case.m, case.k), (case.k, case.n)
        out, a, b = (Array.abstract((case.batch, *shape), float32, absent) for shape in shapes)
        a, b = (
            array if letter == "N" else _transposed(array)
            for array, letter in zip((a, b), case.layout, strict=True)
        )
        gemm(absent.target, out, a, b)


def _convolve(absent: AbsentDevice, geometry: ConvGeometry, direction: Direction) -> None:
    form = choose_form(absent.target, geometry, direction)
    if form is None:
        return
    filters = (geometry.oc, geometry.icg, geometry.kh, geometry.kw)
    shapes = (form.x_shape(geometry), filters, form.y_shape(geometry))
    arrays = (Array.abstract(shape, float32, absent) for shape in shapes)
    operands = Operands(ConvProblem(direction.value, True, *geometry), *arrays)
    with_packing(absent.target, operands, FormChoice(form.algorithm.value))


def _twin(where: Device) -> AbsentDevice:
    absent = AbsentDevice(where.traits)
    absent.pool.limit = None
    return absent


def _asked(absent: AbsentDevice) -> list[Problem]:
    """The problems that leave a choice."""
    target = absent.target
    return [
        (name, fields._asdict())
        for name, fields in target.choices
        if len(TUNABLES[name].candidates(target, fields)) > 1
    ]


def _transposed(array: Array) -> Array:
    """The same sizes, stored the other way round."""
    _, rows, columns = array.shape
    return array.view(array.shape, (rows * columns, 1, rows))
