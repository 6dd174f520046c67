"""Names of devices, and what is said where there is none."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import pyopencl as cl
import pyopencl._cl as driver
import pytest

import clnet
from clnet.device import DeviceKind, discovery
from clnet.device.discovery import chosen, discover, select
from clnet.device.install_hint import install_hint
from clnet.errors import ArgumentError, DeviceError
from clnet.values.settings import SETTINGS, Settings

pytestmark = pytest.mark.device


def runtime_error(code: int) -> cl.LogicError:
    """What pyopencl raises when the runtime returns an error code."""
    return cl.LogicError(driver._ErrorRecord("clGetDeviceIDs", code, ""))


class Broken:
    """A platform whose runtime fails."""

    name = "Acme Compute"

    def get_devices(self) -> list[object]:
        raise runtime_error(cl.status_code.OUT_OF_HOST_MEMORY)


class Platform:
    """A platform with devices that are described, not real."""

    def __init__(self, name: str, *handles: object) -> None:
        self.name = name
        self._handles = handles

    def get_devices(self) -> list[object]:
        return list(self._handles)


def handle(name: str, kind: int = cl.device_type.CPU, **changes: object) -> SimpleNamespace:
    fields = {"name": name, "type": kind, "available": True, "compiler_available": True}
    return SimpleNamespace(**{**fields, **changes})


@pytest.fixture
def platforms(monkeypatch):
    """Sets what the OpenCL loader reports."""

    def use(*found):
        monkeypatch.setattr(cl, "get_platforms", lambda: list(found))
        return discover()

    return use


def test_devices_are_named_by_platform_and_number(platforms):
    found = platforms(
        Platform("Portable Computing Language", handle("cpu A"), handle("cpu B")),
        Platform("NVIDIA CUDA", handle("H200", cl.device_type.GPU)),
        Platform("Intel(R) OpenCL", handle("Xeon")),
        Platform("AMD Accelerated Parallel Processing", handle("MI300", cl.device_type.GPU)),
        Platform("Portable Computing Language", handle("cpu C")),
    )
    assert [f.selector for f in found] == [
        "pocl:0",
        "pocl:1",
        "nvidia:0",
        "intel:0",
        "amd:0",
        "pocl:2",
    ]
    assert [f.kind for f in found[:3]] == [DeviceKind.CPU, DeviceKind.CPU, DeviceKind.GPU]


@pytest.mark.parametrize(
    ("name", "selector"),
    [
        (None, "nvidia:0"),
        ("nvidia", "nvidia:0"),
        ("pocl:1", "pocl:1"),
        ("POCL:1 ", "pocl:1"),
        ("cpu", "pocl:0"),
        ("cpu:1", "pocl:1"),
        ("cpu:2", "intel:0"),
        ("gpu", "nvidia:0"),
        ("gpu:1", "amd:0"),
    ],
)
def test_names_select(platforms, name, selector):
    found = platforms(
        Platform("Portable Computing Language", handle("cpu A"), handle("cpu B")),
        Platform("NVIDIA CUDA", handle("H200", cl.device_type.GPU)),
        Platform("Intel(R) OpenCL", handle("Xeon")),
        Platform("AMD Accelerated Parallel Processing", handle("MI300", cl.device_type.GPU)),
    )
    assert select(name, found).selector == selector


def test_without_a_gpu_the_first_device_is_the_default(platforms):
    found = platforms(Platform("Portable Computing Language", handle("cpu A"), handle("cpu B")))
    assert select(None, found).selector == "pocl:0"


def gpu(**changes):
    """A GPU that reports little."""
    names = """max_compute_units native_vector_width_float preferred_vector_width_float
        local_mem_size global_mem_size max_mem_alloc_size mem_base_addr_align host_unified_memory
        double_fp_config local_mem_type max_work_group_size""".split()
    return handle(
        "GPU", cl.device_type.GPU, **{**dict.fromkeys(names, 1), "extensions": "", **changes}
    )


@pytest.mark.parametrize(("reported", "items"), [(12, 8), (64, 64), (768, 512), (1024, 1024)])
def test_groups_have_a_power_of_two_of_items(reported, items):
    """What adds up in trees halves them."""
    assert discovery.traits_of(gpu(max_work_group_size=reported)).max_group_size == items


def test_items_of_intels_gpus_have_half_the_registers():
    intels = gpu(extensions="cl_khr_fp16 cl_intel_required_subgroup_size")
    assert discovery.traits_of(intels).item_registers == 128
    assert discovery.traits_of(gpu()).item_registers == 256


def test_an_absent_device_is_told_with_those_there_are(platforms):
    found = platforms(
        Platform("Portable Computing Language", handle(" cpu A ")),
        Broken(),
        Platform("NVIDIA CUDA"),
    )
    with pytest.raises(DeviceError) as raised:
        select("nvidia:1", found)
    assert str(raised.value) == (
        "device 'nvidia:1': not found; got have=pocl:0 (cpu A). "
        "Skipped: acme: skipped: clGetDeviceIDs failed: "
        "OUT_OF_HOST_MEMORY; nvidia: skipped: the platform has no device"
    )


def test_a_missing_processor_is_told_where_its_driver_comes_from(platforms):
    found = platforms(Platform("NVIDIA CUDA", gpu()))
    with pytest.raises(DeviceError, match=r"device 'cpu': not found.*clnet\[pocl\]"):
        select("cpu", found)
    with pytest.raises(DeviceError) as raised:
        select("intel", found)
    assert "pocl" not in str(raised.value)


def test_an_absent_device_of_the_environment_is_told_to_be_that(platforms, monkeypatch):
    found = platforms(Platform("Portable Computing Language", handle("cpu A")))
    monkeypatch.setattr(discovery, "SETTINGS", replace(SETTINGS, device="nvidia"))
    with pytest.raises(DeviceError, match=r"device 'nvidia': not found.*asked_by=CLNET_DEVICE"):
        chosen(None, found)
    assert chosen("cpu", found).selector == "pocl:0"


@pytest.mark.parametrize(
    "name", ["", "pocl:", "pocl:-1", ":0", "pocl:x", "pocl 0", "nvidia:0:1", "0"]
)
def test_malformed_names_are_refused(platforms, name):
    found = platforms(Platform("Portable Computing Language", handle("cpu A")))
    with pytest.raises(ArgumentError) as raised:
        select(name, found)
    assert str(raised.value) == (
        f"device: a device is named like 'pocl:0', 'nvidia', 'cpu' or 'gpu'; got name={name!r}"
    )


def test_no_platform_says_what_to_install(monkeypatch):
    def absent():
        raise runtime_error(cl.status_code.PLATFORM_NOT_FOUND_KHR)

    monkeypatch.setattr(cl, "get_platforms", absent)
    found = discover()
    assert [f.handle for f in found] == [None]
    with pytest.raises(
        DeviceError, match=r"^device: no usable OpenCL device found; got found=opencl: "
    ) as raised:
        select(None, found)
    assert 'pip install "clnet[pocl]"' in str(raised.value.remedy)
    assert str(raised.value).count("clnet[pocl]") == 1


def test_an_empty_list_of_platforms_says_what_to_install(platforms):
    with pytest.raises(
        DeviceError,
        match=r"no usable OpenCL device found; got found=none\. Install an OpenCL driver",
    ):
        select(None, platforms())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"available": False}, "skipped: the device is not available"),
        ({"compiler_available": False}, "skipped: the device has no compiler"),
    ],
)
def test_devices_that_cannot_be_used_are_kept_with_their_reason(platforms, changes, reason):
    lame, good = platforms(
        Platform("Portable Computing Language", handle("A", **changes), handle("B"))
    )
    assert (lame.selector, lame.handle, lame.problem) == ("pocl:0", None, reason)
    assert (good.selector, good.problem) == ("pocl:1", None)


def test_a_platform_with_no_telling_name_gets_one(platforms):
    (found,) = platforms(Platform("???", handle("A")))
    assert found.selector == "unknown:0"


def test_the_same_name_gives_the_same_device(device):
    assert clnet.device() is device
    assert clnet.device(device.name) is device
    assert clnet.device(device) is device
    assert repr(device) == f"clnet.device({device.name!r})"


def test_traits_are_sane(device):
    traits = device.traits
    assert traits.compute_units >= 1
    assert traits.simd_width in (1, 2, 4, 8, 16, 32)
    assert traits.max_group_size >= 64
    assert 0 < traits.max_allocation_bytes <= traits.global_memory_bytes
    assert device.target.workspace_limit <= traits.max_allocation_bytes
    assert device.identity.name in device.identity.key
    assert device.identity.driver in device.identity.key


def test_threads_limit_the_compute_units(device, part_of_device):
    one = part_of_device
    assert one.name == f"{device.name}[1]"
    assert one.traits.compute_units == 1
    assert clnet.device(threads=1) is one
    assert clnet.device(threads=device.traits.compute_units) is device
    assert (clnet.ones(3, device=one) + 1).tolist() == [2, 2, 2]
    assert clnet.ones(3).to(one).device is one


@pytest.mark.parametrize("threads", [0, -1, 10**6])
def test_threads_outside_the_device_are_refused(device, threads):
    with pytest.raises(ArgumentError, match=rf"threads lies in \[1, \d+\]; got threads={threads}$"):
        clnet.device(threads=threads)


POCL = "OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-"


@pytest.mark.parametrize(
    ("version", "reported", "lanes"),
    [
        (POCL + "znver3", 16, 8),  # how LLVM 14 compiles for Zen 4, whose vectors PoCL counts
        (POCL + "generic", 16, 4),
        (POCL + "haswell", 4, 4),
        (POCL + "skylake-avx512", 16, 16),
        (POCL + "a-cpu-to-come", 16, 16),
        ("OpenCL 3.0 PoCL HSTR: cpu-x86_64-pc-linux-gnu-znver4", 16, 16),
        ("OpenCL 3.0 (Build 0)", 16, 16),
    ],
)
def test_vectors_are_those_that_the_compiler_has(version, reported, lanes, monkeypatch):
    monkeypatch.setattr(discovery, "SETTINGS", Settings.read({}))
    handle = SimpleNamespace(
        type=cl.device_type.CPU,
        version=version,
        native_vector_width_float=reported,
        preferred_vector_width_float=reported,
    )
    assert discovery._lanes(handle) == lanes
    monkeypatch.setattr(discovery, "SETTINGS", Settings.read({"CLNET_SIMD_WIDTH": "2"}))
    assert discovery._lanes(handle) == 2
    handle.type = cl.device_type.GPU
    assert discovery._lanes(handle) == reported


def test_a_device_that_was_named_before_is_not_looked_for_again(monkeypatch, device):
    named, module = device.name, sys.modules["clnet.device.device"]
    assert clnet.device(named) is device
    monkeypatch.setattr(module, "chosen", lambda *_: pytest.fail("looked for again"))
    assert clnet.device(named) is device
    monkeypatch.setattr(module, "_found", tuple)  # there is something else now
    with pytest.raises(pytest.fail.Exception, match="looked for again"):
        clnet.device(named)


@pytest.mark.parametrize(
    ("release", "command"),
    [
        ("ID=ubuntu\nID_LIKE=debian\n", "apt install intel-opencl-icd"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "dnf install intel-compute-runtime"),
        ("ID=arch\n", "pacman -S intel-compute-runtime"),
        ("ID=other\n", "Intel's compute runtime"),
        (None, "Intel's compute runtime"),
    ],
)
def test_what_to_install_is_said_for_each_distribution(tmp_path, release, command):
    file = tmp_path / "os-release"
    if release is not None:
        file.write_text(release)
    lines = install_hint("Linux", release=file, buses=tmp_path / "none")
    assert "clnet[pocl]" in lines[0]
    assert any(command in line for line in lines), lines


def test_the_gpu_that_is_here_comes_first(tmp_path):
    for name, kind, vendor in (
        ("0", "0x060000", "0x8086"), ("1", "0x030000", "0x1002"), ("2", "0x030200", "0x10de")
    ):  # fmt: skip
        (tmp_path / name).mkdir()
        (tmp_path / name / "class").write_text(kind + "\n")
        (tmp_path / name / "vendor").write_text(vendor + "\n")
    lines = install_hint("Linux", release=tmp_path / "none", buses=tmp_path)
    assert lines[0].startswith("the AMD GPU in this machine: ")
    assert lines[1].startswith("the NVIDIA GPU in this machine: ")
    assert lines[3].startswith("a GPU of Intel: ")


@pytest.mark.parametrize(("system", "text"), [("Darwin", "macOS"), ("Windows", "clnet[intel]")])
def test_other_systems_have_hints_of_their_own(system, text):
    assert any(text in line for line in install_hint(system))
