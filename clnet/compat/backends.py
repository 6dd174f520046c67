"""``clnet.backends``: settings of libraries that clnet does not use; kept, and without effect.

But ``cuda.matmul.allow_tf32`` and ``fp32_precision``: they are those of
:func:`clnet.set_float32_matmul_precision`, on every device.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from ..errors import ArgumentError
from .process import get_float32_matmul_precision, set_float32_matmul_precision

__all__ = [
    "cpu",
    "cuda",
    "cudnn",
    "mha",
    "mkl",
    "mkldnn",
    "mps",
    "openmp",
    "opt_einsum",
    "quantized",
]


_FP32 = ("none", "ieee", "tf32", "bf16")


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
    """Settings below settings, ``cudnn.conv.fp32_precision``."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class _Products(_Nested):
    """``cuda.matmul``: in which precision float32 is multiplied."""

    @property
    def allow_tf32(self) -> bool:
        """Whether operands may be rounded to TF32, of products and of convolutions."""
        return get_float32_matmul_precision() in ("high", "medium")

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        set_float32_matmul_precision("high" if value else "highest")

    @property
    def fp32_precision(self) -> str:
        """``"tf32"`` or ``"ieee"``; ``"bf16"`` is taken for the former, ``"none"`` the latter."""
        return "tf32" if self.allow_tf32 else "ieee"

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        if value not in _FP32:
            raise ArgumentError(
                "cuda.matmul.fp32_precision", f"it is one of {_FP32}", precision=repr(value)
            )
        self.allow_tf32 = value in ("tf32", "bf16")


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
    matmul=_Products(
        allow_fp16_reduced_precision_reduction=True,
        allow_bf16_reduced_precision_reduction=True,
    ),
    cufft_plan_cache=_Nested(size=0, max_size=0),
    preferred_linalg_library=lambda backend=None: backend,
)
mps = Settings("mps")
quantized = Settings("quantized", engine="none", supported_engines=["none"])
mkl = Settings("mkl")
mkldnn = Settings("mkldnn", enabled=False)
mha = Settings("mha")
openmp = Settings("openmp")
opt_einsum = Settings("opt_einsum", enabled=False, strategy=None)
cpu = Settings("cpu", get_cpu_capability=lambda: "DEFAULT")
