"""The buffer pool: size classes, reuse, limits, and what happens when memory runs out."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
from types import SimpleNamespace

import pyopencl as cl
import pyopencl._cl as driver
import pytest
from hypothesis import given
from hypothesis import strategies as st

import clnet
from clnet.device import BufferPool, Storage, size_class
from clnet.errors import ArgumentError, DtypeError, OutOfDeviceMemory

pytestmark = pytest.mark.device


class Harness:
    """A pool of its own on the default device; ``refusals`` makes it fail so often."""

    def __init__(
        self, limit: int | None = None, max_block: int = 2**30, whole: int | None = None
    ) -> None:
        self.refusals = 0
        self.num_finishes = 0
        self.pool = BufferPool(
            create=self.create, finish=self.finish, max_block=max_block, limit=limit, whole=whole
        )

    def create(self, nbytes: int) -> cl.Buffer:
        if self.refusals:
            self.refusals -= 1
            code = cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE
            raise cl.MemoryError(driver._ErrorRecord("clEnqueueFillBuffer", code, ""))
        return clnet.device().queue.create(nbytes)

    def finish(self) -> None:
        self.num_finishes += 1

    def storage(self, nbytes: int) -> Storage:
        """A storage with a buffer from this pool."""
        storage = Storage(SimpleNamespace(pool=self.pool), nbytes)
        storage.materialize()
        return storage


@given(st.integers(0, 2**40))
def test_size_class_wastes_an_eighth_at_most(nbytes):
    capacity = size_class(nbytes)
    assert capacity >= nbytes
    assert capacity % 256 == 0
    assert capacity <= max(nbytes + min(nbytes / 8, 2**21) + 256, 256)
    assert size_class(capacity) == capacity


@given(st.integers(0, 2**40), st.integers(0, 2**20))
def test_size_class_grows_with_the_request(nbytes, more):
    assert size_class(nbytes) <= size_class(nbytes + more)


def test_sizes_of_a_doubling_share_few_classes():
    assert len({size_class(n) for n in range(2**20 + 1, 2**21 + 1, 97)}) == 8


def test_a_block_given_back_serves_the_next_request_of_its_class():
    harness = Harness()
    first = harness.storage(1000)
    address = first.buffer.int_ptr
    del first
    second = harness.storage(900)
    assert second.buffer.int_ptr == address
    assert harness.pool.statistics().num_device_allocations == 1
    assert harness.pool.statistics().num_allocations == 2


def test_empty_cache_gives_free_blocks_back_and_waits_first():
    harness = Harness()
    kept, freed = harness.storage(1000), harness.storage(5000)
    del freed
    harness.pool.empty_cache()
    figures = harness.pool.statistics()
    assert figures.allocated == figures.reserved == size_class(1000)
    assert harness.num_finishes == 1
    assert kept.buffer.size == size_class(1000)


def test_peaks_are_kept_until_they_are_reset():
    harness = Harness()
    storage = harness.storage(10_000)
    del storage
    figures = harness.pool.statistics()
    assert (figures.allocated, figures.peak_allocated) == (0, size_class(10_000))
    harness.pool.reset_peak()
    assert harness.pool.statistics().peak_allocated == 0
    assert harness.pool.statistics().peak_reserved == size_class(10_000)


def test_the_limit_counts_cached_blocks_but_gives_them_up():
    harness = Harness(limit=20_480)
    cached = harness.storage(16_384)
    del cached
    storage = harness.storage(20_480)
    assert storage.buffer.size == 20_480
    assert harness.pool.statistics().reserved == 20_480


def test_what_garbage_holds_is_collected_before_memory_runs_out():
    harness = Harness(limit=2**20)
    gc.disable()
    try:
        for _ in range(4):
            circle = [harness.storage(600_000)]
            circle.append(circle)
            del circle
    finally:
        gc.enable()
    assert harness.pool.statistics().peak_reserved <= 2**20


def test_who_can_make_again_what_it_holds_lets_go_before_memory_runs_out():
    """One after another, until there is room."""
    harness, asked = Harness(limit=2**20), list[int]()

    class Holder:
        def __init__(self, number):
            self.number, self.held = number, [harness.storage(300_000)]

        def make_room(self):
            asked.append(self.number)
            self.held.clear()
            return True

    holders = [Holder(number) for number in range(3)]
    harness.pool.holders.update(holders)
    kept = harness.storage(300_000)
    assert len(asked) == 1
    assert sum(len(each.held) for each in holders) == 2
    with pytest.raises(OutOfDeviceMemory):
        harness.storage(2**21)
    assert sorted(asked[1:]) == [0, 1, 2]
    assert kept.buffer is not None


def test_beyond_the_limit_the_error_has_figures_and_holders():
    harness = Harness(limit=2**20)
    keep = [harness.storage(n) for n in (500_000, 300_000, 100_000, 10_000)]
    before = harness.pool.statistics()
    with pytest.raises(OutOfDeviceMemory) as raised:
        harness.storage(2**19)
    assert str(raised.value) == (
        "out of device memory: the limit set on it has no room left; got need=524,288 bytes, "
        f"in_use={before.allocated:,}, reserved={before.reserved:,}, limit=1,048,576, "
        "largest_holders=[500,000, 300,000, 100,000]. "
        "Use a smaller batch, free tensors you keep, or raise the limit with "
        "clnet.set_memory_limit or CLNET_MEMORY_LIMIT"
    )
    assert harness.pool.statistics() == before
    assert all(storage.buffer is not None for storage in keep)


def test_whose_limit_it_is_that_leaves_no_room():
    for limit, whole, place in (
        (2**20, None, "the limit set on it"),
        (2**20, 2**21, "the limit set on it"),
        (2**20, 2**20, "the device"),
    ):
        harness = Harness(limit=limit, whole=whole)
        with pytest.raises(OutOfDeviceMemory, match=f"memory: {place} has no room left; .*limit="):
            harness.storage(2**20 + 1)
        with pytest.raises(OutOfDeviceMemory, match=f"memory: {place} has no room left; .*limit="):
            harness.pool.check(2**20 + 1)
        harness.pool.check(2**20)


def test_a_device_that_is_full_is_asked_again_after_cached_blocks_are_freed():
    harness = Harness()
    cached = harness.storage(5000)
    del cached
    harness.refusals = 1
    storage = harness.storage(100_000)
    assert storage.buffer is not None
    assert harness.num_finishes == 1
    assert harness.pool.statistics().reserved == size_class(100_000)


def test_a_device_that_stays_full_raises():
    harness = Harness()
    harness.refusals = 3  # once more where there was garbage
    gc.collect()
    circle: list[object] = []
    circle.append(circle)
    del circle
    with pytest.raises(OutOfDeviceMemory, match=r"the device has no room left; .* limit=none"):
        harness.storage(100_000)
    assert harness.pool.statistics().reserved == 0
    assert harness.storage(100_000).buffer is not None


def test_a_request_larger_than_any_block_raises():
    harness = Harness(max_block=2**20)
    with pytest.raises(
        OutOfDeviceMemory, match=r"one buffer may have 1,048,576 bytes; got need=2,097,152 bytes"
    ):
        harness.storage(2**21)
    assert harness.num_finishes == 0


@pytest.mark.parametrize("kept", [True, False])
def test_a_larger_one_is_taken_if_it_keeps_numbers(kept):
    harness = Harness(max_block=2**20, whole=2**30)
    harness.pool._keeps = lambda buffer, nbytes: kept
    harness.pool.check(2**21)
    with pytest.raises(OutOfDeviceMemory, match="one buffer may have 1,048,576 bytes"):
        harness.pool.check(2**30 + 1)
    if kept:
        assert harness.storage(2**21).buffer.size == 2**21
    else:
        with pytest.raises(OutOfDeviceMemory, match="one buffer may have 1,048,576 bytes"):
            harness.storage(2**21)
        assert harness.pool.statistics().reserved == 0


def test_other_errors_of_the_runtime_are_not_taken_for_full_memory():
    harness = Harness()

    def broken(nbytes):
        raise cl.RuntimeError(
            driver._ErrorRecord("clEnqueueFillBuffer", cl.status_code.INVALID_CONTEXT, "")
        )

    harness.pool._create = broken
    with pytest.raises(cl.RuntimeError, match="INVALID_CONTEXT"):
        harness.storage(1000)


@given(
    st.lists(
        st.tuples(st.sampled_from(["take", "take", "give", "empty"]), st.integers(1, 200_000)),
        max_size=40,
    )
)
def test_blocks_never_overlap_and_none_is_lost(actions):
    harness = Harness(limit=2**20)
    live: list[Storage] = []
    peak = 0
    for action, number in actions:
        if action == "take":
            try:
                live.append(harness.storage(number))
            except OutOfDeviceMemory:
                used = sum(size_class(s.nbytes) for s in live)
                assert used + size_class(number) > 2**20
        elif action == "give" and live:
            live.pop(number % len(live))
        elif action == "empty":
            harness.pool.empty_cache()
        used = sum(size_class(s.nbytes) for s in live)
        peak = max(peak, used)
        figures = harness.pool.statistics()
        assert len({s.buffer.int_ptr for s in live}) == len(live)
        assert all(s.buffer.size >= s.nbytes for s in live)
        assert figures.allocated == used <= figures.reserved <= 2**20
        assert (figures.peak_allocated, figures.peak_reserved >= figures.reserved) == (peak, True)
    live.clear()
    harness.pool.empty_cache()
    assert harness.pool.statistics().allocated == harness.pool.statistics().reserved == 0


def test_tensors_give_their_memory_back_without_the_garbage_collector(device):
    gc.disable()
    try:
        before = device.pool.statistics().allocated
        x = clnet.ones(1000, 10)
        y = x.T
        assert device.pool.statistics().allocated == before + size_class(40_000)
        del x
        assert device.pool.statistics().allocated == before + size_class(40_000)
        del y
        assert device.pool.statistics().allocated == before
    finally:
        gc.enable()


def test_the_users_limit_holds(device):
    before = device.pool.limit
    clnet.empty_cache()
    clnet.set_memory_limit(clnet.memory_reserved() + 2**20)
    try:
        with pytest.raises(OutOfDeviceMemory):
            clnet.zeros(2**20)
        assert clnet.zeros(2**10).shape == (2**10,)
        x = clnet.ones(2**10)
        with pytest.raises(OutOfDeviceMemory) as raised:
            clnet.softmax(x.reshape(-1, 1) + x, 1)
        told = "asked_by=add, inputs=[float32 (1024, 1), float32 (1024,)], need=4,194,304 bytes"
        for error in (raised.value, pickle.loads(pickle.dumps(raised.value))):
            assert told in str(error)
    finally:
        clnet.set_memory_limit(before)
    assert clnet.zeros(2**20).shape == (2**20,)
    with pytest.raises(ArgumentError, match="nbytes is 0 or more"):
        clnet.set_memory_limit(-1)
    with pytest.raises(DtypeError, match="nbytes is a whole number"):
        clnet.set_memory_limit("8G")
    assert device.pool.limit == before


@pytest.mark.parametrize(
    "program",
    [
        "codecs.register_error('late', lambda error, keep=(x, y): None)",
        "builtins.kept = [x]; builtins.kept.append(builtins.kept)",
        "storage = Storage.__new__(Storage); del storage",
        "step = clnet.compile(lambda x: (x @ x).relu()); step(x); step(x); builtins.kept = step",
        "given = x.map(); given.__enter__()",
        "p = clnet.profile(); p.__enter__(); z = x @ x",
    ],
)
def test_the_interpreter_ends_without_a_word(program):
    script = (
        "import builtins, codecs, numpy, clnet\nfrom clnet.device import Storage\n"
        f"x = clnet.tensor(numpy.ones((8, 8), 'float32')); y = x @ x\n{program}\n"
    )
    command = [sys.executable, "-W", "default", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
