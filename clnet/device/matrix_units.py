"""Units that multiply small matrices: one table of shapes, layouts, and how they are spoken to.

A unit multiplies ``rows`` by ``steps`` and ``steps`` by ``columns`` numbers and adds the product to
sums in float32; ``lanes`` work-items that run together hold the three matrices. What an item holds
of each is a :class:`Fragment`, in C, as the makers document it: NVIDIA's PTX (mma.sync), AMD's
instruction sets (compared with its matrix instruction calculator, element by element), Intel's
extensions cl_intel_subgroup_matrix_multiply_accumulate and ..._tf32. Steps may have any order that
is the same for a and b: RDNA4's items hold two runs of four, here one of eight, which is one read.

Which unit a device has is found out by trying them in the table's order (:mod:`.probe`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from ..values.record import NamedTuple

EMULATED = "emulated "


class Fragment(NamedTuple):
    """What an item holds of a matrix, in C of ``lane`` (its number) and ``{e}`` (the element's).

    Attributes:
        count: elements.
        line: of a the row, of b the column, of the sums the row.
        step: of a and b the step of k, of the sums the column.
        lane: the inverse, from which the emulation reads: the item that holds ``{line}`` and
            ``{step}``.
        element: likewise its element.
    """

    count: int
    line: str
    step: str
    lane: str = ""
    element: str = ""

    def at(self, lane: int, e: int) -> tuple[int, int]:
        """Line and step of an element."""
        line, step = (
            eval(each.format(e=e).replace("/", "//"), {"lane": lane})
            for each in (self.line, self.step)
        )
        return line, step

    def holder(self, line: int, step: int, lane: int) -> tuple[int, int]:
        """The item, and its element, from which item ``lane`` has a line and step."""
        found, e = (
            eval(each.format(line=line, step=step).replace("/", "//"), {"lane": lane})
            for each in (self.lane, self.element)
        )
        return found, e

    def run(self, along: str, lanes: int, most: int) -> int:
        """Elements that follow each other along the ``"k"`` or the ``"tile"`` axis, aligned."""
        run = most
        while self.count % run or not all(
            self._follow(along, lane, first, run)
            for lane in range(lanes)
            for first in range(0, self.count, run)
        ):
            run //= 2
        return run

    def _follow(self, along: str, lane: int, first: int, run: int) -> bool:
        moving = 1 if along == "k" else 0
        start = self.at(lane, first)
        whole = start[moving] % run == 0
        for e in range(run):
            at = self.at(lane, first + e)
            whole = whole and at[1 - moving] == start[1 - moving]
            whole = whole and at[moving] == start[moving] + e
        return whole


class MatrixUnit(NamedTuple):
    """A product of a unit for one type of elements.

    Attributes:
        way: ``"ptx"`` (instructions inline) or ``"builtin"`` (a function of the compiler).
        lanes: items that work together, neighbours in the group.
        rows, columns, steps: of the product.
        a, b, sums: what an item holds.
        call: C for the sums with the product added, of vectors ``{a}``, ``{b}`` and ``{sums}``.
        before: what stands before the kernel.
        attribute: of the kernel.
        opcode: how the instruction's name begins.
        rounds: whether elements of float32 are rounded to TF32 first.
        emulated: the same fragments go through local memory, and plain C multiplies.
    """

    way: str
    lanes: int
    rows: int
    columns: int
    steps: int
    a: Fragment
    b: Fragment
    sums: Fragment
    call: str
    before: str = ""
    attribute: str = ""
    opcode: str = ""
    rounds: bool = False
    emulated: bool = False


_HALF = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable"


def _ptx(kind: str, each: int, *, rounds: bool = False) -> MatrixUnit:
    """Of ``each`` neighbouring steps in a register of 32 bits."""
    steps = 8 * each
    step = f"lane % 4 * {each} + {{e}} % {each}"
    where = f"{{step}} % {steps // 2} / {each}"
    a = Fragment(
        4 * each,
        f"lane / 4 + {{e}} / {each} % 2 * 8",
        f"{step} + {{e}} / {2 * each} * {steps // 2}",
        f"{{line}} % 8 * 4 + {where}",
        f"{{step}} / {steps // 2} * {2 * each} + {{line}} / 8 * {each} + {{step}} % {each}",
    )
    b = Fragment(
        2 * each,
        "lane / 4",
        f"{step} + {{e}} / {each} * {steps // 2}",
        f"{{line}} * 4 + {where}",
        f"{{step}} / {steps // 2} * {each} + {{step}} % {each}",
    )
    sums = Fragment(4, "lane / 4 + {e} / 2 * 8", "lane % 4 * 2 + {e} % 2")
    return MatrixUnit("ptx", 32, 16, 8, steps, a, b, sums, kind, opcode="mma.", rounds=rounds)


def _amd(
    lanes: int, call: str, count: int, cast: str, *, repeated: bool = False, rounds: bool = False
) -> MatrixUnit:
    """16 rows and columns; the items of a line hold ``count`` neighbouring steps each."""
    steps = count if repeated else lanes // 16 * count
    if repeated:  # both halves of the items hold all steps
        held = Fragment(count, "lane % 16", "{e}", "lane / 16 * 16 + {line}", "{step}")
    else:
        held = Fragment(
            count,
            "lane % 16",
            f"lane / 16 * {count} + {{e}}",
            f"{{step}} / {count} * 16 + {{line}}",
            f"{{step}} % {count}",
        )
    if repeated:
        sums = Fragment(8, "{e} * 2 + lane / 16", "lane % 16")
    else:
        each = 256 // lanes
        sums = Fragment(each, f"lane / 16 * {each} + {{e}}", "lane % 16")
    call = f"__builtin_amdgcn_{call.format(a=f'{cast}({{a}})', b=f'{cast}({{b}})')}"
    return MatrixUnit(
        "builtin", lanes, 16, 16, steps, held, held, sums, call, _HALF,
        opcode="v_wmma" if lanes == 32 else "v_mfma", rounds=rounds,
    )  # fmt: skip


def _wmma(kind: str, cast: str) -> MatrixUnit:
    call = f"wmma_f32_16x16x16_{kind}_w32({{a}}, {{b}}, {{{{sums}}}})"
    return _amd(32, call, 16, f"as_{cast}16", repeated=True)


def _wmma_gfx12(kind: str, cast: str) -> MatrixUnit:
    call = f"wmma_f32_16x16x16_{kind}_w32_gfx12({{a}}, {{b}}, {{{{sums}}}})"
    return _amd(32, call, 8, f"as_{cast}8")


def _mfma(kind: str, count: int, cast: str, *, rounds: bool = False) -> MatrixUnit:
    call = f"mfma_f32_16x16x{kind}({{a}}, {{b}}, {{{{sums}}}}, 0, 0, 0)"
    return _amd(64, call, count, f"as_{cast}{count if count > 1 else ''}", rounds=rounds)


def _dpas(lanes: int, kind: str) -> MatrixUnit:
    """8 rows, a column for each item; of 16 bits, two steps lie in a word of b."""
    if kind == "tf32":
        a = Fragment(4, "{e} * 2 + lane / 8", "lane % 8", "{line} % 2 * 8 + {step}", "{line} / 2")
        b = Fragment(8, "lane", "{e}", "{line}", "{step}")
        types, call, steps = "float4, float8", "{a}, {b}", 8
    elif lanes == 16:
        a = Fragment(8, "{e}", "lane", "{step}", "{line}")
        b = Fragment(16, "lane", "{e}", "{line}", "{step}")
        types, call, steps = "short8, int8", "as_short8({a}), as_int8({b})", 16
    else:
        a = Fragment(16, "{e} / 2", "lane * 2 + {e} % 2", "{step} / 2", "{line} * 2 + {step} % 2")
        b = Fragment(16, "lane", "{e}", "{line}", "{step}")
        types, call, steps = "int8, int8", "as_int8({a}), as_int8({b})", 16
    name = f"intel_sub_group_{kind}_{kind}_matrix_mad_k{steps}"
    return MatrixUnit(
        "builtin", lanes, 8, lanes, steps, a, b, Fragment(8, "{e}", "lane"),
        f"{name}({call}, {{sums}})",
        # Compilers know it without declaring it.
        f"float8 __attribute__((overloadable)) {name}({types}, float8);",
        f"__attribute__((intel_reqd_sub_group_size({lanes})))",
        "dpas", rounds=kind == "tf32",
    )  # fmt: skip


# By name and type of elements, the first that works is taken. 32x32 products of MFMA have the same
# rate as these of 16x16.
UNITS: Mapping[str, Mapping[str, MatrixUnit]] = {
    "ptx": {
        "half": _ptx("m16n8k16.row.col.f32.f16.f16.f32", 2),
        "bfloat16": _ptx("m16n8k16.row.col.f32.bf16.bf16.f32", 2),
        "float": _ptx("m16n8k8.row.col.f32.tf32.tf32.f32", 1, rounds=True),
    },
    "mfma_xf32": {
        "half": _mfma("16f16", 4, "half"),
        "bfloat16": _mfma("16bf16_1k", 4, "short"),
        "float": _mfma("8_xf32", 2, "float", rounds=True),
    },
    "mfma_1k": {
        "half": _mfma("16f16", 4, "half"),
        "bfloat16": _mfma("16bf16_1k", 4, "short"),
        "float": _mfma("4f32", 1, "float"),
    },
    "mfma": {
        "half": _mfma("16f16", 4, "half"),
        "bfloat16": _mfma("8bf16", 2, "short"),
        "float": _mfma("4f32", 1, "float"),
    },
    "wmma_gfx12": {"half": _wmma_gfx12("f16", "half"), "bfloat16": _wmma_gfx12("bf16", "short")},
    "wmma": {"half": _wmma("f16", "half"), "bfloat16": _wmma("bf16", "short")},
    "dpas_16_tf32": {
        "half": _dpas(16, "f16"),
        "bfloat16": _dpas(16, "bf16"),
        "float": _dpas(16, "tf32"),
    },
    "dpas_16": {"half": _dpas(16, "f16"), "bfloat16": _dpas(16, "bf16")},
    "dpas_8": {"half": _dpas(8, "f16"), "bfloat16": _dpas(8, "bf16")},
}


@lru_cache
def matrix_units(name: str) -> Mapping[str, MatrixUnit]:
    """The products of a device's unit by type of elements, ``"half"``, ``"bfloat16"``, ``"float"``.

    Args:
        name: as :attr:`.DeviceTraits.matrix_units` has it; ``""``: none.
    """
    if not name:
        return {}
    products = UNITS[name.removeprefix(EMULATED)]
    emulated = name.startswith(EMULATED)
    return {ctype: unit._replace(emulated=emulated) for ctype, unit in products.items()}


def trial(unit: MatrixUnit, ctype: str) -> str:
    """A kernel that multiplies once with a unit's builtin, for :mod:`.probe`.

    Args:
        unit: of the way ``"builtin"``.
        ctype: of the elements.

    Returns:
        OpenCL C of ``probe_unit(y, x)``: y is a times b; x holds the rows of a, then the columns of
        b, each dense.
    """
    element = "float" if ctype == "float" else "ushort"

    def held(name: str, fragment: Fragment) -> str:
        vector = f"{element}{fragment.count if fragment.count > 1 else ''}"
        place = f"{name}[({fragment.line}) * {unit.steps} + {fragment.step}]"
        parts = ", ".join(place.format(e=e) for e in range(fragment.count))
        return f"const {vector} {name}_held = ({vector})({parts});"

    place = f"y[({unit.sums.line}) * {unit.columns} + {unit.sums.step}]"
    stores = " ".join(f"{place.format(e=e)} = sums.s{e:x};" for e in range(unit.sums.count))
    return f"""{unit.before}
__attribute__((reqd_work_group_size(64, 1, 1))) {unit.attribute}
__kernel void probe_unit(__global float *y, __global const float *x)
{{
    __global const {element} *a = (__global const {element} *)x, *b = a + {unit.rows * unit.steps};
    const int lane = get_local_id(0) % {unit.lanes};
    {held("a", unit.a)}
    {held("b", unit.b)}
    float{unit.sums.count} sums = 0;
    sums = {unit.call.format(a="a_held", b="b_held", sums="sums")};
    {stores}
}}
"""
