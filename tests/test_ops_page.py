"""The page of ops is what its script writes."""

from __future__ import annotations

import pytest

import clnet
from ci import ops_page

pytestmark = pytest.mark.device


def test_the_page_is_up_to_date():
    if not clnet.device().traits.float64:
        pytest.skip("the page is written for a device with double precision")
    assert ops_page.PAGE.read_text(encoding="utf-8") == ops_page.build(), (
        "run python ci/ops_page.py"
    )


def test_notes_are_of_ops():
    assert ops_page.NOTES.keys() <= clnet.ops.PUBLIC_OPS.keys()
