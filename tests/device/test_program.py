"""Programs: what the compiler refuses is shown, what it accepted is kept on disk."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

import numpy as np
import pytest

import clnet
from clnet.array import Array
from clnet.device import Launch, Storage, builders
from clnet.device.ahead import Ahead
from clnet.device.builders import Request
from clnet.device.builtin_functions import POCL
from clnet.device.program import ProgramCache, parse_signature
from clnet.device.queue import Queue
from clnet.errors import BuildError
from clnet.kernels.kernel import ints, longs
from clnet.values.cache import shelf
from tests.children import ending_soon
from tests.test_claim import holder
from tests.threads import hasty, in_threads

pytestmark = pytest.mark.device

TEXT = """__kernel void plus(__global float *y, const long y_offset, const float a, const int n)
{
    const int i = (int)get_global_id(0);
    if (i < n) y[y_offset + i] += a;
}
"""
LANES = """__kernel void lanes(
    const int16 sizes, __global long *y, const long y_offset, const long16 steps)
{
    const int size[] = {
        sizes.s0, sizes.s1, sizes.s2, sizes.s3, sizes.s4, sizes.s5, sizes.s6, sizes.s7,
        sizes.s8, sizes.s9, sizes.sa, sizes.sb, sizes.sc, sizes.sd, sizes.se, sizes.sf};
    const long step[16] = {steps.s0, steps.s1, steps.s2};
    y[y_offset + get_global_id(0)] = size[get_global_id(0)] + step[get_global_id(0)];
}
"""
SCRIPT = """
import clnet
x = clnet.ones(5) * 3 + clnet.ones(5)
assert x.tolist() == [4.0] * 5
statistics = clnet.device().programs.statistics
print(statistics.built, statistics.loaded)
"""


@dataclass(frozen=True, eq=False)
class Source:
    """A kernel as plain text."""

    source: str = TEXT
    name: str = "plus"
    options: tuple[str, ...] = ("-cl-std=CL1.2",)
    origin: str = "plus.mako:plus(unroll=2)"
    foretold: bool = True
    alone: bool = True

    def text(self) -> str:
        return self.source


class Bench:
    """A cache in a folder and a queue that launches from it."""

    def __init__(
        self,
        folder: Path,
        key: str = "a device",
        processes: int | None = None,
        *,
        header: bool = False,
        copies: bool = False,
        loses_places: bool = False,
        room: Path | None = None,
    ) -> None:
        self.device = clnet.device()
        context, handle = self.device.queue._context, self.device.queue._device
        ahead = None if processes is None else Ahead(handle, processes)
        self.shelf = shelf(folder)
        about = {"header": header, "copies": copies, "loses_places": loses_places}
        self.cache = ProgramCache(context, handle, key, self.shelf, ahead=ahead, room=room, **about)
        self.queue = Queue(context, handle, self.cache, self.device.queue.workspace)

    def run(self, source: Source) -> list[float]:
        """What the kernel makes of three ones, with ``a = 2``."""
        storage = Storage(self.device, 12)
        storage.materialize()
        self.device.synchronize()  # its own queue may have a poison to fill in
        host = np.ones(3, np.float32)
        self.queue.upload(storage, host)
        self.queue.launch(Launch(source, (4,), (1,), (storage, 0, 2.0, 3), flops=3, bytes=24))
        self.queue.finish()
        self.queue.download(host, storage)
        return host.tolist()

    @property
    def counts(self) -> tuple[int, int]:
        """Kernels built and loaded."""
        return self.cache.statistics.built, self.cache.statistics.loaded


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_a_source_is_built_once_and_found_by_the_next_cache(tmp_path):
    first, source = Bench(tmp_path), Source()
    assert first.run(source) == first.run(source) == [3, 3, 3]
    assert first.counts == (1, 0)
    assert len(files(tmp_path)) == 1
    second = Bench(tmp_path)
    assert second.run(Source()) == [3, 3, 3]
    assert second.counts == (0, 1)
    assert second.cache.statistics.seconds > 0
    (made,), (taken,) = first.cache.statistics.kernels, second.cache.statistics.kernels
    assert made.name == taken.name == "plus"
    assert made.front + made.code > 0 == made.loading
    assert taken.front == taken.code == 0 < taken.loading
    seen = made.rendering, made.front, made.code, made.loading, made.waiting
    assert 0 <= min(seen) <= sum(seen[1:]) <= first.cache.statistics.seconds


def test_a_binary_is_kept_before_the_first_launch(tmp_path):
    Bench(tmp_path).cache.get(Source())
    assert len(files(tmp_path)) == 1
    bench = Bench(tmp_path)
    assert bench.run(Source()) == [3, 3, 3]
    assert bench.counts == (0, 1)


def several(count: int = 7) -> list[Source]:
    """Kernels that add 2, 4, 6 ..."""
    return [Source(TEXT.replace("+= a", f"+= {n} * a")) for n in range(1, count + 1)]


def test_many_kernels_are_built_ahead_in_other_processes(tmp_path, monkeypatch):
    bench, sources = Bench(tmp_path, processes=2), several()
    with monkeypatch.context() as patch:
        patch.setattr(bench.cache, "_build", None)  # what this process would build with
        prepared = bench.cache.prepare(sources)
    assert prepared[:3] == (7, 7, 0)
    assert bench.counts == (7, 0)
    assert len(files(tmp_path)) == 7
    times = bench.cache.statistics.kernels
    assert len(times) == 7
    assert min(min(t.front + t.code, t.loading) for t in times) > 0
    assert [bench.run(source) for source in sources] == [[1 + 2 * n] * 3 for n in range(1, 8)]
    assert bench.counts == (7, 0)
    other = Bench(tmp_path, processes=2)
    assert other.cache.prepare([*sources, *sources])[:3] == (7, 0, 7)
    assert other.counts == (0, 0)  # they are loaded as they are launched
    assert other.run(sources[0]) == [3, 3, 3]
    assert other.counts == (0, 1)
    assert other.cache.prepare(sources)[:3] == (7, 0, 6)


def test_what_another_process_builds_is_waited_for(tmp_path):
    bench, sources = Bench(tmp_path, processes=2), several()
    keys = [bench.cache._key(source, source.text()) for source in sources]
    with holder(tmp_path, keys[3]) as process:
        Timer(0.5, process.kill).start()
        assert bench.cache.prepare(sources)[:3] == (7, 7, 0)
        assert process.poll() is not None
    assert len(files(tmp_path)) == 7


def test_what_other_processes_refuse_is_told(tmp_path):
    bench = Bench(tmp_path, processes=2)
    with pytest.raises(BuildError, match="undeclared"):
        bench.cache.prepare([Source(TEXT.replace("+= a", "+= undeclared")), *several(6)])
    assert bench.counts == (6, 0)


@pytest.mark.parametrize(
    "process", ["raise SystemExit", "import os; os.abort()", "print('noise')"], ids=str
)
def test_what_other_processes_leave_is_built_by_this_one(tmp_path, monkeypatch, process):
    monkeypatch.setattr(builders, "_PROCESS", process)
    bench, sources = Bench(tmp_path, processes=2), several(6)
    built: list[Source] = []
    build = bench.cache._build
    monkeypatch.setattr(bench.cache, "_build", lambda s, t: [built.append(s), build(s, t)][1])
    assert bench.cache.prepare(sources)[:3] == (6, 6, 0)
    assert built == sources
    assert bench.run(sources[2]) == [7, 7, 7]


def started(folder: Path) -> tuple[Bench, Ahead]:
    """A cache whose processes were started before anything is built."""
    bench = Bench(folder, processes=2)
    ahead = bench.cache._ahead
    assert ahead is not None
    ahead.start()
    assert len(ahead._idle) == 2
    return bench, ahead


def test_processes_that_wait_build_also_one_by_one(tmp_path, monkeypatch):
    bench, ahead = started(tmp_path)
    monkeypatch.setattr(bench.cache, "_build", None)
    first, *rest = several(4)
    assert bench.run(first) == [3, 3, 3]
    assert bench.cache.prepare(rest)[:3] == (3, 3, 0)
    assert bench.counts == (4, 0)
    assert len(files(tmp_path)) == 4
    assert len(ahead._idle) == 2, "they build what comes next, too"
    assert bench.cache.prepare(several(6)[4:])[:3] == (2, 2, 0)
    for builder in ahead._idle:  # as those that have waited for a minute
        builder.kill()
    monkeypatch.undo()
    monkeypatch.setattr(builders, "subprocess", None)  # none is started for what is there, or few
    assert bench.cache.prepare(several(7))[:3] == (7, 1, 6)
    assert bench.cache.prepare(several(7))[:3] == (7, 0, 7)
    assert bench.run(several(8)[-1]) == [17, 17, 17]
    assert not ahead._idle


@pytest.mark.parametrize("refused", [False, True], ids=["ended", "refused"])
def test_what_waiting_processes_do_not_build_is_built_here(tmp_path, refused):
    bench, ahead = started(tmp_path)
    if refused:
        with pytest.raises(BuildError, match="undeclared"):
            bench.cache.get(Source(TEXT.replace("+= a", "+= undeclared")))
    else:
        ahead._idle[1].kill()  # a copy: what made it ends, too
        ahead._idle[0]._process.wait()
        assert bench.run(Source()) == [3, 3, 3]
        assert bench.counts == (1, 0)
    waiting = list(ahead._idle)
    ahead._end(os.getpid() + 1)
    assert list(ahead._idle) == waiting, "another process ended them"
    ahead._end(os.getpid())
    assert not ahead._idle
    assert all(builder._process.returncode is not None for builder in waiting)


def test_processes_that_are_asked_nothing_end(tmp_path, monkeypatch):
    process = "from clnet.device import builder as b; b._IDLE_S = 0.2; b.serve()"
    monkeypatch.setattr(builders, "_PROCESS", process)
    _, ahead = started(tmp_path)
    assert [builder._process.wait(60) for builder in ahead._idle] == [0, 0]
    assert not any(builder.alive() for builder in ahead._idle)
    ahead._end(os.getpid())


@pytest.mark.skipif(
    clnet.device().identity.platform != POCL or sys.platform != "linux",
    reason="only PoCL's compiler can be copied with its process",
)
def test_a_process_that_has_the_compiler_copies_itself(tmp_path, monkeypatch):
    bench, ahead = started(tmp_path)
    first, second = ahead._idle
    assert first._process is second._process
    assert [len(b.answer(Request(TEXT, ())).binary) > 0 for b in (second, first)] == [True, True]
    first.close()  # it waits for the copy, which still answers
    assert second.alive()
    assert second.answer(Request(TEXT.replace("+=", "-="), ())).binary
    second.close()
    assert first._process.returncode == 0
    ahead._idle.clear()
    # One that hangs is killed with all of them, and this process builds.
    ahead.start()
    monkeypatch.setattr(builders, "_TIMEOUT_S", 0.01)
    assert bench.cache.prepare(several(3))[:3] == (3, 3, 0)


def test_processes_are_started_where_the_cache_is_empty(tmp_path):
    if not clnet.device().traits.unified_memory:
        pytest.skip("no other process builds for a device with memory of its own")
    script = f"{SCRIPT}\nprint(len(clnet.device().programs._ahead._idle))"
    variables = {"CLNET_CACHE_DIR": str(tmp_path), "CLNET_BUILD_PROCESSES": "2"}
    environment = {**os.environ, **variables}
    outputs = [
        subprocess.run(
            [sys.executable, "-W", "error", "-c", script],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        for _ in range(2)
    ]
    assert [(each.stdout.split()[2:], each.stderr) for each in outputs] == [
        (["2"], ""),
        (["0"], ""),
    ]


@pytest.mark.parametrize(("count", "processes"), [(5, 2), (6, 1), (6, 0)])
def test_few_kernels_or_one_process_start_none(tmp_path, monkeypatch, count, processes):
    monkeypatch.setattr(builders, "subprocess", None)
    bench = Bench(tmp_path, processes=processes)
    bench.cache.prepare(several(count))
    assert bench.counts == (count, 0)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: b"something else entirely",
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: data + b"more",
        lambda data: data[:55],
    ],
    ids=["truncated", "empty", "foreign", "one bit", "longer", "header alone"],
)
def test_a_damaged_file_is_built_anew_and_replaced(tmp_path, damage):
    Bench(tmp_path).run(Source())
    (path,) = files(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    bench = Bench(tmp_path)
    assert bench.run(Source()) == [3, 3, 3]
    assert bench.counts == (1, 0)
    # Loaded, not compared with what was there: no two binaries of Intel's runtime are equal.
    again = Bench(tmp_path)
    assert again.run(Source()) == [3, 3, 3]
    assert again.counts == (0, 1)


def test_a_well_formed_file_the_driver_refuses_is_built_anew(tmp_path):
    bench = Bench(tmp_path)
    bench.run(Source())
    source = Source()
    bench.shelf.write(bench.cache._key(source, source.text()), b"no binary of any driver")
    assert len(files(tmp_path)) == 1
    again = Bench(tmp_path)
    assert again.run(Source()) == [3, 3, 3]
    assert again.counts == (1, 0)


@pytest.mark.parametrize(
    ("source", "key"),
    [
        (Source(options=("-cl-std=CL1.2", "-cl-mad-enable")), "a device"),
        (Source(TEXT.replace("+=", "-=")), "a device"),
        (Source(), "another driver"),
    ],
    ids=["options", "text", "device"],
)
def test_the_key_differs(tmp_path, source, key):
    Bench(tmp_path).run(Source())
    bench = Bench(tmp_path, key)
    bench.run(source)
    assert bench.counts == (1, 0)
    assert len(files(tmp_path)) == 2


def test_a_folder_that_cannot_be_written_is_reported_once(tmp_path):
    (tmp_path / "file").write_text("in the way")
    bench = Bench(tmp_path / "file" / "cache")
    with pytest.warns(
        RuntimeWarning, match="^cache: cannot write .*made anew in every process"
    ) as seen:
        assert bench.run(Source()) == [3, 3, 3]
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bench.run(Source(TEXT.replace("+=", "-="))) == [-1, -1, -1]
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_refused_source_is_shown_with_template_parameters_and_lines(tmp_path):
    broken = Source(TEXT.replace("y[y_offset + i] += a", "y[y_offset + i] += undeclared"))
    with pytest.raises(BuildError) as raised:
        Bench(tmp_path).run(broken)
    text = str(raised.value)
    assert text.startswith("plus.mako:plus(unroll=2): the device's compiler refused it; got log=")
    assert "undeclared" in text
    assert "    4>     if (i < n) y[y_offset + i] += undeclared;" in text
    assert "    3      const int i = (int)get_global_id(0);" in text
    assert files(tmp_path) == []


def test_a_name_that_the_source_lacks_is_refused(tmp_path):
    with pytest.raises(BuildError, match=r"^minus: the rendered source has no such kernel$"):
        Bench(tmp_path).run(Source(name="minus"))


@pytest.mark.parametrize("times", [1, 2])
def test_a_driver_that_leaves_a_kernel_out_is_asked_once_more(tmp_path, monkeypatch, times):
    """As PoCL does for ever, from its own cache, after a process was killed that compiled it."""
    bench, texts = Bench(tmp_path), []
    build = bench.cache._build

    def without(source, text):
        texts.append(re.sub("//.*", "", text).rstrip())  # what a preprocessor leaves
        return build(source, text.replace("plus", "other") if len(texts) <= times else text)

    monkeypatch.setattr(bench.cache, "_build", without)
    if times == 1:
        assert bench.run(Source()) == [3, 3, 3]
        assert bench.counts == (1, 0)
        assert Bench(tmp_path).run(Source()) == [3, 3, 3]
    else:
        with pytest.raises(BuildError, match=r"plus.mako.*leaves the kernel out.*POCL_CACHE_DIR"):
            bench.run(Source())
        assert not files(tmp_path)
    assert len(set(texts)) == 2


def test_a_binary_of_another_kernel_is_not_loaded(tmp_path):
    first, second = Source(), Source(TEXT.replace("plus", "minus").replace("+=", "-="), "minus")
    for source in (first, second):
        Bench(tmp_path).run(source)
    one, two = files(tmp_path)
    content = one.read_bytes()
    two.replace(one)
    two.write_bytes(content)
    bench = Bench(tmp_path)
    assert (bench.run(first), bench.run(second)) == ([3, 3, 3], [-1, -1, -1])
    assert bench.counts == (2, 0)


def test_a_binary_without_the_kernel_is_built_anew(tmp_path):
    bench = Bench(tmp_path)
    bench.run(Source(TEXT.replace("plus", "minus"), "minus"))
    (path,) = files(tmp_path)
    source, content = Source(), path.read_bytes()
    bench.shelf.write(bench.cache._key(source, source.text()), content.split(b"\n", 1)[1])
    again = Bench(tmp_path)
    assert again.run(Source()) == [3, 3, 3]
    assert again.counts == (1, 0)


def test_signatures_tell_types_and_who_writes():
    text = """
__kernel void mixed(__global const half *restrict x, const long x_offset,
    __global uchar *y, __global float *const z, const uint n, ulong seed, double a,
    const int16 sizes, long16 steps)
{"""
    types, writes, pointers = parse_signature(text, "mixed")
    numbers = (np.uint32, np.uint64, np.float64, np.void, np.void)
    assert types == (None, np.int64, None, None, *numbers)
    assert writes == (False, False, True, True, False, False, False, False, False)
    assert pointers == ((0, 2), (2, 1), (3, 4))


@pytest.mark.parametrize("type_", ["float4", "__global int16 *", "sampler_t"])
def test_a_parameter_of_another_type_is_refused(type_):
    with pytest.raises(BuildError, match=r"no number and no pointer to one; got found=.*odd"):
        parse_signature(f"__kernel void mixed(const int n, {type_} odd) {{", "mixed")


@pytest.mark.parametrize("bound", [False, True])
def test_numbers_arrive_in_the_lanes_of_vectors(device, bound):
    out = Array.from_numpy(np.zeros(16, np.int64), device)
    sizes, steps = ints(*range(16)), longs(2**40, -(2**40), 5)
    args = (sizes, out.storage, 0, steps)
    launch = Launch(Source(LANES, "lanes"), (16,), (1,), args, flops=0, bytes=128)
    if bound:
        device.queue.replay(device.queue.bind([launch]))
    else:
        for _ in range(2):  # the first launch of a kernel goes another way
            device.queue.launch(launch)
    assert out.numpy().tolist() == [2**40, 1 - 2**40, 7, *range(3, 16)]


def test_more_numbers_than_a_vector_holds_are_refused():
    with pytest.raises(struct.error):
        ints(*range(17))


def run_script(folder: Path) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "CLNET_CACHE_DIR": str(folder),
        "PYTHONPATH": ending_soon(),
    }
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def outcome(process: subprocess.Popen[str]) -> tuple[int, int]:
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    built, loaded = map(int, out.split())
    return built, loaded


@pytest.mark.slow
def test_processes_share_the_folder_at_the_same_time_and_later(tmp_path):
    """Each kernel is built by one of them, and loaded by those that wait for it."""
    together = [outcome(process) for process in [run_script(tmp_path) for _ in range(3)]]
    (total,) = {built + loaded for built, loaded in together}
    assert sum(built for built, _ in together) == total
    assert outcome(run_script(tmp_path)) == (0, total)
    assert not list(tmp_path.rglob("*.partial"))


def test_handles_made_by_threads(tmp_path):
    """pyopencl warns where two threads take one name for what it writes for a handle."""
    kernel = Bench(tmp_path).cache.get(Source())
    with hasty():
        made = in_threads(lambda _: [kernel.new_handle() for _ in range(20)], 8)
    assert len({handle.int_ptr for handles in made for handle in handles}) == 160


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="/proc is Linux's, and has no room")
def test_no_room_for_the_drivers_files_is_an_error_before_it_ends_the_process(tmp_path):
    bench = Bench(tmp_path, room=Path("/proc/none"))
    with pytest.raises(BuildError, match="has room for its files; got folder=/proc/none, free_byt"):
        bench.run(Source())
    assert clnet.arange(3).tolist() == [0, 1, 2]
