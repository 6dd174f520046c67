"""Second names are the ops they stand for."""

from __future__ import annotations

import pytest

import clnet
from clnet.ops.machinery.function import PUBLIC_OPS
from clnet.ops.synonym import SYNONYMS

OTHERWISE_TESTED = dict.fromkeys(SYNONYMS, "test_a_second_name_is_the_same_op")


@pytest.mark.parametrize("name", SYNONYMS)
def test_a_second_name_is_the_same_op(name):
    assert PUBLIC_OPS[name] == PUBLIC_OPS[SYNONYMS[name]]
    assert getattr(clnet.Tensor, name, None) is getattr(clnet.Tensor, SYNONYMS[name], None)
    found = getattr(clnet, name, None)
    if found is not None or not name.endswith("_"):  # PyTorch has some in place as methods alone
        assert found is getattr(clnet, SYNONYMS[name], None)
