"""What to install so that OpenCL finds a device, on the system that this is."""

from __future__ import annotations

import platform
from contextlib import suppress
from pathlib import Path

from ..values.settings import SETTINGS

_BY_PIP = 'pip install "clnet[pocl]"'
_INTEL = 'pip install "clnet[intel]"'
# Packages by family of distributions, of NVIDIA's, AMD's and Intel's GPUs.
_PACKAGES: dict[str, dict[str, str]] = {
    "debian": {
        "NVIDIA": "apt install nvidia-opencl-icd (Debian), or the libnvidia-compute of your "
        "driver's number (Ubuntu)",
        "AMD": "apt install mesa-opencl-icd and set RUSTICL_ENABLE=radeonsi, or "
        "rocm-opencl-runtime of AMD's repository",
        "Intel": "apt install intel-opencl-icd",
    },
    "fedora": {
        "NVIDIA": "dnf install xorg-x11-drv-nvidia-cuda (of RPM Fusion)",
        "AMD": "dnf install rocm-opencl, or mesa-libOpenCL and set RUSTICL_ENABLE=radeonsi",
        "Intel": "dnf install intel-compute-runtime",
    },
    "arch": {
        "NVIDIA": "pacman -S opencl-nvidia",
        "AMD": "pacman -S rocm-opencl-runtime, or opencl-mesa and set RUSTICL_ENABLE=radeonsi",
        "Intel": "pacman -S intel-compute-runtime",
    },
    "": {
        "NVIDIA": "the vendor's driver, which has OpenCL in it",
        "AMD": "ROCm's OpenCL runtime, or Mesa's rusticl with RUSTICL_ENABLE=radeonsi",
        "Intel": "Intel's compute runtime, often called intel-opencl-icd",
    },
}
_FAMILIES = {"ubuntu": "debian", "rhel": "fedora", "centos": "fedora", "manjaro": "arch"}
_VENDORS = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel"}
_DISPLAYS = "0x03"


def install_hint(
    system: str | None = None,
    *,
    release: Path = Path("/etc/os-release"),
    buses: Path = Path("/sys/bus/pci/devices"),
) -> list[str]:
    """Lines that say what to install, for the GPUs that are in the machine first.

    Args:
        system: as ``platform.system()`` names it; None: this one.
        release: the file that says which distribution of Linux this is.
        buses: the folder of what is plugged in, on Linux.
    """
    system = platform.system() if system is None else system
    if system == "Linux":
        lines = _on_linux(_family(release), _vendors_of(buses))
    elif system == "Darwin":
        lines = ["macOS has OpenCL; where it is not found: conda install -c conda-forge pocl"]
    else:
        lines = [
            "a GPU: the driver of its vendor (NVIDIA, AMD, Intel), which has OpenCL in it",
            f"an x86 CPU: {_INTEL}",
        ]
    if SETTINGS.icd_vendors is not None:
        lines.append(
            f"OCL_ICD_VENDORS is {SETTINGS.icd_vendors}: only drivers whose .icd files lie there "
            "are found; unset it, or name a folder that has some"
        )
    return lines


def _on_linux(family: str, vendors: list[str]) -> list[str]:
    packages = _PACKAGES[family]
    here = [f"the {vendor} GPU in this machine: {packages[vendor]}" for vendor in vendors]
    others = [f"a GPU of {v}: {text}" for v, text in packages.items() if v not in vendors]
    cpu = f"any CPU: {_BY_PIP} (PoCL), or on x86 {_INTEL} (Intel's runtime)"
    return [*here, cpu, *others]


def _family(release: Path) -> str:
    """Which packages a distribution has; empty for one that is not known."""
    try:
        text = release.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    words: list[str] = []
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key in ("ID", "ID_LIKE"):
            words += value.strip("\"' ").lower().split()
    known = [_FAMILIES.get(word, word) for word in words]
    return next((word for word in known if word in _PACKAGES), "")


def _vendors_of(buses: Path) -> list[str]:
    """Vendors of the displays and GPUs that are plugged in, each once."""
    found: list[str] = []
    with suppress(OSError, UnicodeDecodeError):  # of what cannot be read no vendor is known
        for place in sorted(buses.iterdir()):
            kind = (place / "class").read_text(encoding="ascii")
            vendor = (place / "vendor").read_text(encoding="ascii").strip()
            if kind.startswith(_DISPLAYS) and vendor in _VENDORS:
                found.append(_VENDORS[vendor])
    return list(dict.fromkeys(found))
