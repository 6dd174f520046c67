"""Bodies of kernels in functions of their own: what becomes of a text, and that it computes so."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.device import Launch, Storage
from clnet.device.apart import body_apart
from clnet.device.builtin_functions import POCL
from clnet.kernels.kernel import Kernel, Rendered
from tests.device.test_program import TEXT, Bench, Source

REVERSED = """#pragma OPENCL FP_CONTRACT ON
inline float twice(const float x) { return x * 2; }

/* The first of 4 groups turns numbers around { */
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void plus(
    __global float *restrict y, const long y_offset, const float a, const int n)
{
    __local float passing[4] __attribute__((aligned(64)));
    const int group = get_group_id(0), groups = get_num_groups( 0 );
    if (get_work_dim() != 1 || group > 0 || groups != 4) return;  // } is no end
    for (int i = 0; i < n; i++) passing[i] = y[y_offset + i];
    for (int i = 0; i < n; i++) y[y_offset + i] = twice(passing[n - 1 - i]) + a;
}
"""
# Work-item (x, y) writes which it is, and returns out of a loop.
PLACES = """#define STOPS 3
__attribute__((vec_type_hint(int)))
__kernel void places(__global int *restrict y, const long y_offset, const int width)
{
    const size_t x = get_global_id(0), row = get_global_id( 1 );
    y += y_offset;
    if (x >= width) return;
    const int at = (int)(row * get_global_size(0) + x);
    for (int i = 0;; ++i)
        if (i == STOPS) {
            y[at] = (int)(1000 * get_group_id(0) + 100 * get_local_id(1) + 10 * get_local_size(0)
                + get_num_groups(1));
            return;
        }
}
"""
on_pocl = pytest.mark.skipif(
    clnet.device().identity.platform != POCL, reason="only PoCL's compiler copies kernels"
)


def test_a_body_is_a_function_that_gets_its_ids_and_its_group_s_memory():
    text = body_apart(REVERSED)
    before, _, kernel = text.partition("__attribute__((reqd_work_group_size(1, 1, 1)))\n__kernel")
    assert "__attribute__((noinline)) void plus_body(" in before
    assert "get_" not in before.split("plus_body(")[1]
    assert "const size_t own_group_id_0, const size_t own_num_groups_0" in before
    assert "__local float *restrict passing)" in before
    assert "__local float passing[4] __attribute__((aligned(64)));" in kernel
    call = "plus_body(y, y_offset, a, n, get_group_id(0), get_num_groups(0), get_work_dim(), "
    assert f"    {call}passing);\n}}\n" in kernel


@pytest.mark.parametrize(
    "text",
    [
        TEXT + TEXT.replace("plus", "more"),
        TEXT + "void behind(void) {}\n",
        "some_macro " + TEXT,
        TEXT.replace("const int i", "__local float pad[4][5]; const int i"),
        TEXT.replace("const int i", "__local float pad[4]; const int m = sizeof(pad), i"),
        TEXT.rstrip()[:-1],
    ],
    ids=["two", "more behind", "macro before", "axes", "size", "open"],
)
def test_a_text_of_another_form_stays(text):
    assert body_apart(text) == text


def test_a_work_item_alone_waits_for_nobody():
    waiting = "+= a; barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"
    assert body_apart(TEXT.replace("+= a;", waiting)) == body_apart(
        TEXT.replace("+= a;", "+= a; (void)0;")
    )
    together = TEXT.replace("+= a;", waiting)
    assert body_apart(together, alone=False) == together


@on_pocl
@pytest.mark.parametrize(
    ("text", "result"), [(TEXT, 3), (REVERSED, 4)], ids=["plain", "memory of a group"]
)
def test_results_are_the_same_and_no_binary_is_the_other_s(text, result, tmp_path):
    source = Source(text.replace("n - 1 - i", "n - i - 1"))
    whole = Bench(tmp_path, header=True)
    apart = Bench(tmp_path, header=True, copies=True)
    assert whole.run(source) == apart.run(source) == [result] * 3
    assert whole.counts == apart.counts == (1, 0), "one form's binary was taken for the other's"
    assert apart.cache.statistics.with_header == 0


def test_a_group_s_work_items_are_a_loop_around_the_body():
    text = body_apart(PLACES, alone=False)
    before, _, kernel = text.partition("__attribute__((vec_type_hint(int)))\n__kernel")
    assert "get_" not in before
    item, _, body = before.partition("__attribute__((noinline)) void places_body(")
    assert "if (x >= width) return;" in item
    assert body.index("++own_item_1)") < body.index("++own_item_0)") < body.index("places_item(y")
    assert "if (get_local_id(1) == 0 && get_local_id(0) == 0)\n        places_body(y, " in kernel


def test_work_items_are_in_lanes_where_a_kernel_asks_for_it():
    pragma = "#pragma clang loop vectorize(assume_safety)\n    for (size_t own_item_0 = 0;"
    macro = "#define SIDE_BY_SIDE\nSIDE_BY_SIDE\n"
    assert pragma in body_apart(macro + TEXT, alone=False)
    assert body_apart(macro + TEXT, alone=False).startswith("#define SIDE_BY_SIDE\ninline ")
    assert "#pragma" not in body_apart(TEXT, alone=False)
    assert "#pragma" not in body_apart(macro + TEXT, alone=True)


@pytest.mark.parametrize(
    "text",
    [
        "#define ID get_global_id(0)\n" + TEXT,
        "inline int own(void) { return get_local_id(0); }\n" + TEXT,
        TEXT.replace("get_global_id(0)", "get_global_id(n)"),
        TEXT.replace("const int i", "__local float pad[4]; const int i"),
        TEXT.replace("+= a;", "+= a; wait_group_events(0, 0);"),
    ],
    ids=["macro", "function", "axis", "memory", "all together"],
)
def test_a_group_stays_whole_where_each_work_item_must_ask(text):
    assert body_apart(text, alone=False) == text


@on_pocl
@pytest.mark.parametrize("in_lanes", [False, True], ids=["", "in lanes"])
def test_groups_in_a_loop_write_what_groups_write(tmp_path, in_lanes):
    lanes = "#define SIDE_BY_SIDE\nSIDE_BY_SIDE\n" if in_lanes else ""
    text = PLACES.replace("__attribute__", f"{lanes}__attribute__")
    device = clnet.device()
    groups = [10 * 4 + 3 + 1000 * (x // 4) + 100 * (row % 2) for row in range(6) for x in range(8)]
    expected = [v if x % 8 < 7 else -1 for x, v in enumerate(groups)]
    forms = []
    for copies in (False, True):
        bench = Bench(tmp_path, header=True, copies=copies)
        storage = Storage(device, 4 * 48)
        storage.materialize()
        device.synchronize()  # its queue poisons what the bench's writes
        bench.queue.upload(storage, np.full(48, -1, np.int32))
        source = Source(text, "places", alone=False)
        bench.queue.launch(Launch(source, (8, 6), (4, 2), (storage, 0, 7), flops=0, bytes=0))
        found = np.empty(48, np.int32)
        bench.queue.download(found, storage)
        assert found.tolist() == expected, copies
        forms.append(bench.counts)
        assert bench.cache.statistics.with_header == 0
    assert forms == [(1, 0), (1, 0)], "one form's binary was taken for the other's"


def test_kernels_with_barriers_stay_whole(tmp_path):
    source = Source(TEXT.replace("+= a;", "+= a; barrier(CLK_LOCAL_MEM_FENCE);"), alone=False)
    Bench(tmp_path, header=True, copies=True).run(source)
    again = Bench(tmp_path, header=True)
    again.run(source)
    assert again.counts == (0, 1)


def test_a_kernel_is_alone_until_a_launch_has_a_larger_group():
    kernel = Rendered(Kernel("plus", "plus.mako"), {})
    assert kernel.alone
    kernel.launched_in((1, 1))
    assert kernel.alone
    kernel.launched_in((64, 1))
    kernel.launched_in((1, 1))
    assert not kernel.alone
