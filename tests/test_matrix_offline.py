"""The script that compiles products on matrix units for cards that are not here, and its page."""

from __future__ import annotations

import re
import shutil

import pytest

from ci import matrix_offline
from clnet.device.matrix_units import UNITS

CARDS = {card.name: card for card in matrix_offline.CARDS}


def test_the_page_has_every_product_of_every_target_with_its_instruction():
    table = matrix_offline.PAGE.read_text(encoding="utf-8").split(matrix_offline.BEGIN)[1]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")][2:]
    for card in matrix_offline.CARDS:
        mine = [row for row in rows if row[:2] == [f"| {card.name}", card.unit]]
        assert {row[2].split(",")[0] for row in mine} == UNITS[card.unit].keys()
        for row in mine:
            seen, kernels = row[3].split(" of ")
            unknown = (card.unit, row[2].split(",")[0]) in matrix_offline.UNKNOWN
            assert seen == ("0" if unknown else kernels)
    assert {card.unit for card in matrix_offline.CARDS} == UNITS.keys()


def test_kernels_are_the_products_themselves_where_operands_are_copied_first():
    kernels = [*matrix_offline.kernels(CARDS["gfx908"])]
    kinds = [kind for kind, *_ in kernels]
    assert {kind.split(",")[0] for kind in kinds} == UNITS["mfma"].keys()
    assert {name for _, name, _ in kernels} == {"gemm_matrix", "probe_unit"}
    assert kinds.count("float, 128x128 in 2") == 4


def test_a_target_without_its_compiler_is_listed(monkeypatch, capsys):
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    monkeypatch.setattr("sys.argv", ["matrix_offline.py", "--targets", "dg2"])
    assert matrix_offline.main() == 0
    assert capsys.readouterr().out == "| dg2 | dpas_8 | not compiled: no ocloc |\n"


@pytest.mark.parametrize("name", ["gfx1201", "gfx942"])
def test_a_kernel_is_judged_by_its_assembly(name, tmp_path):
    card = CARDS[name]
    if any(shutil.which(tool) is None for tool in card.tools) or not matrix_offline.CLC.exists():
        pytest.skip("no compiler for AMD here: apt-get install clang-19 libclc-19")
    kind, kernel, text = next(each for each in matrix_offline.kernels(card) if "x" in each[0])
    built = card.build(text, kernel, tmp_path)
    assert re.match(r"half, \d+x\d+ in 2", kind)
    assert built.opcodes > 0
    assert built.spilled == 0
    assert 0 < built.local <= card.local
    other = card.build("__kernel void gemm_matrix(__global float *y) { *y = 1; }", kernel, tmp_path)
    assert other.opcodes == 0
