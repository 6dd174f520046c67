"""``clnet.backends``: settings of libraries that clnet does not use; kept, and without effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

__all__ = ["cpu", "cuda", "cudnn", "mha", "mkl", "mkldnn", "mps", "openmp", "opt_einsum"]


class Settings(ModuleType):
    """A module whose attributes are kept as they are assigned, and change nothing."""

    def __init__(self, name: str, **values: Any) -> None:
        super().__init__(f"{__name__}.{name}", __doc__)
        self.__dict__.update(values)

    def is_available(self) -> bool:
        """False: there is no such library here."""
        return False

    is_built = is_available

    def version(self) -> None:
        """None: there is no such library here."""

    @contextmanager
    def flags(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        """A block with other settings, which change nothing."""
        yield

    sdp_kernel = verbose = flags

    def enable_flash_sdp(self, enabled: bool) -> None:  # noqa: FBT001 - PyTorch's
        """Taken: clnet has one attention."""

    enable_mem_efficient_sdp = enable_math_sdp = enable_cudnn_sdp = enable_flash_sdp

    def flash_sdp_enabled(self) -> bool:
        """True: attention is one kernel where it can be."""
        return True

    mem_efficient_sdp_enabled = math_sdp_enabled = flash_sdp_enabled


class _Nested:
    """Settings below settings, ``cuda.matmul.allow_tf32``."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


cudnn = Settings(
    "cudnn",
    enabled=True,
    benchmark=False,
    benchmark_limit=10,
    deterministic=False,
    allow_tf32=True,
    conv=_Nested(fp32_precision="none"),
    rnn=_Nested(fp32_precision="none"),
)
cuda = Settings(
    "cuda",
    matmul=_Nested(
        allow_tf32=False,
        allow_fp16_reduced_precision_reduction=True,
        allow_bf16_reduced_precision_reduction=True,
        fp32_precision="none",
    ),
    cufft_plan_cache=_Nested(size=0, max_size=0),
    preferred_linalg_library=lambda backend=None: backend,
)
mps = Settings("mps")
mkl = Settings("mkl")
mkldnn = Settings("mkldnn", enabled=False)
mha = Settings("mha")
openmp = Settings("openmp")
opt_einsum = Settings("opt_einsum", enabled=False, strategy=None)
cpu = Settings("cpu", get_cpu_capability=lambda: "DEFAULT")
