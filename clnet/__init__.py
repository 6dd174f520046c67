"""Train and run neural networks on any OpenCL device."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # first: the names of modules that ops use are others' below
    from .ops import *

import importlib as _importlib
import sys as _sys
from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from types import ModuleType as _ModuleType

from . import early as _early  # noqa: F401 - first of all
from .values.changes import Replaceable as _Replaceable
from .values.collector import paused_collector

with paused_collector():
    from . import autograd as autograd
    from . import errors as errors
    from . import linalg as linalg
    from . import nn as nn
    from . import ops as ops
    from .autograd import enable_grad as enable_grad
    from .autograd import inference_mode as inference_mode
    from .autograd import is_grad_enabled as is_grad_enabled
    from .autograd import no_grad as no_grad
    from .autograd import set_grad_enabled as set_grad_enabled
    from .creation import abstract as abstract
    from .creation import arange as arange
    from .creation import as_tensor as as_tensor
    from .creation import asarray as asarray
    from .creation import empty as empty
    from .creation import eye as eye
    from .creation import from_numpy as from_numpy
    from .creation import hamming_window as hamming_window
    from .creation import hann_window as hann_window
    from .creation import linspace as linspace
    from .creation import logspace as logspace
    from .creation import ones as ones
    from .creation import scalar_tensor as scalar_tensor
    from .creation import tril_indices as tril_indices
    from .creation import triu_indices as triu_indices
    from .creation import zeros as zeros
    from .device import DeviceKind as DeviceKind
    from .device import DeviceName as device  # noqa: F401, N813
    from .device import devices as devices
    from .device import empty_cache as empty_cache
    from .device import max_memory_allocated as max_memory_allocated
    from .device import max_memory_reserved as max_memory_reserved
    from .device import memory_allocated as memory_allocated
    from .device import memory_reserved as memory_reserved
    from .device import reset_peak_memory_stats as reset_peak_memory_stats
    from .device import set_memory_limit as set_memory_limit
    from .device import synchronize as synchronize
    from .face import attribute as _attribute
    from .face import exchange as _exchange  # noqa: F401
    from .face import further as _further
    from .face import later as _later_methods
    from .face import storage as _storage
    from .face import subclass as _subclass  # noqa: F401 - declares
    from .face.text import set_printoptions as set_printoptions
    from .inspection import broadcast_shapes as broadcast_shapes
    from .inspection import can_cast as can_cast
    from .inspection import debug as debug
    from .inspection import finfo as finfo
    from .inspection import get_default_dtype as get_default_dtype
    from .inspection import iinfo as iinfo
    from .inspection import is_complex as is_complex
    from .inspection import is_floating_point as is_floating_point
    from .inspection import is_tensor as is_tensor
    from .inspection import numel as numel
    from .inspection import promote_types as promote_types
    from .inspection import result_type as result_type
    from .ops.conv import convolution_algorithm as convolution_algorithm
    from .ops.conv import no_winograd as no_winograd
    from .ops.machinery.function import PUBLIC_OPS, Face
    from .random import get_rng_state as get_rng_state
    from .random import initial_seed as initial_seed
    from .random import manual_seed as manual_seed
    from .random import normal as normal
    from .random import rand as rand
    from .random import rand_like as rand_like
    from .random import randint as randint
    from .random import randint_like as randint_like
    from .random import randn as randn
    from .random import randn_like as randn_like
    from .random import randperm as randperm
    from .random import set_rng_state as set_rng_state
    from .tensor import Tensor as Tensor
    from .tensor import full as full
    from .tensor import tensor as tensor
    from .values import words as _words
    from .values.dtypes import DType as DType
    from .values.dtypes import DType as dtype  # noqa: F401, N813
    from .values.dtypes import bfloat16 as bfloat16
    from .values.dtypes import bool_ as bool  # noqa: F401
    from .values.dtypes import complex64 as complex64
    from .values.dtypes import complex128 as complex128
    from .values.dtypes import float16 as float16
    from .values.dtypes import float32 as float32
    from .values.dtypes import float64 as float64
    from .values.dtypes import int8 as int8
    from .values.dtypes import int16 as int16
    from .values.dtypes import int32 as int32
    from .values.dtypes import int64 as int64
    from .values.dtypes import uint8 as uint8
    from .values.generator import Generator as Generator
    from .values.importer import AttributeFinder
    from .values.place import placed as _placed
    from .values.shapes import Size as Size

if TYPE_CHECKING:  # what editors and type checkers see; at run time only the functions
    from . import array_api as array_api
    from . import data as data
    from . import distributions as distributions
    from . import fft as fft
    from . import func as func
    from . import io as io
    from . import onnx as onnx
    from . import optim as optim
    from . import profiling as profiling
    from . import sparse as sparse
    from . import special as special
    from . import train as train
    from . import utils as utils
    from .autodiff.recompute import checkpoint as checkpoint
    from .autodiff.recompute import checkpoint_sequential as checkpoint_sequential
    from .compat import accelerator as accelerator
    from .compat import amp as amp
    from .compat import backends as backends
    from .compat import cuda as cuda
    from .compat import distributed as distributed
    from .compat import fx as fx
    from .compat import hub as hub
    from .compat import jit as jit
    from .compile import compile as compile
    from .io import load as load
    from .io import save as save
    from .planning.memory_plan import plan as plan
    from .planning.model_summary import summary as summary
    from .profiling import memory_snapshot as memory_snapshot
    from .profiling import memory_stats as memory_stats
    from .profiling import memory_summary as memory_summary
    from .profiling import profile as profile
    from .profiling import record_memory_history as record_memory_history
    from .user_kernel import kernel as kernel

globals().update(
    _placed(__name__, {n: f for n, (f, face) in PUBLIC_OPS.items() if Face.FUNCTION in face})
)
globals().update(_words.WORDS)
globals().update(_placed(__name__, _further.FUNCTIONS))

# PyTorch's second names. They hide builtins here and nowhere else.
long, short, half, double = int64, int16, float16, float64
int, float = int32, float32  # noqa: A001
cfloat, cdouble = complex64, complex128
newaxis = None
layout, memory_format = _words.Layout, _words.MemoryFormat
TypedStorage, UntypedStorage = _storage.TypedStorage, _storage.UntypedStorage
empty_strided, typename = _attribute.empty_strided, _attribute.typename
AcceleratorError = errors.DeviceError
OutOfMemoryError = errors.OutOfDeviceMemory

# What a training step does without, imported when it is asked for: a module, and a name in it.
_LATER: dict[str, tuple[str, str | None]] = {
    "checkpoint": ("autodiff.recompute", "checkpoint"),
    "checkpoint_sequential": ("autodiff.recompute", "checkpoint_sequential"),
    "kernel": ("user_kernel", "kernel"),
    "plan": ("planning.memory_plan", "plan"),
    "profile": ("profiling", "profile"),
    "quantize": ("onnx.quantising", "quantize"),
    "summary": ("planning.model_summary", "summary"),
    **{n: ("profiling", n) for n in ("memory_snapshot", "memory_stats", "memory_summary")},
    "record_memory_history": ("profiling", "record_memory_history"),
    "save": ("io", "save"),
    "load": ("io", "load"),
    "vmap": ("func", "vmap"),
    **{f"sparse_{n}_tensor": ("sparse", f"sparse_{n}_tensor") for n in "coo csr csc".split()},
    "sparse_compressed_tensor": ("sparse", "sparse_compressed_tensor"),
    **dict.fromkeys(("spmm", "dsmm", "hsmm"), ("sparse", "mm")),
    "stft": ("fft", "stft"),
    "istft": ("fft", "istft"),
    "Future": ("compat.futures", "Future"),
    "poisson": ("distributions.counts", "poisson"),
    "binomial": ("distributions.counts", "binomial"),
    "from_dlpack": ("utils.dlpack", "from_dlpack"),
    "to_dlpack": ("utils.dlpack", "to_dlpack"),
    "array_api": ("array_api", None),
    **{n: (n, None) for n in "data distributions fft func io onnx optim profiling".split()},
    **{n: (n, None) for n in "sparse special train utils".split()},
    **{n: (f"compat.{n}", None) for n in "accelerator amp backends cuda distributed".split()},
    **{n: (f"compat.{n}", None) for n in "fx hub jit library multiprocessing version".split()},
    **{n: (f"compat.{n}", None) for n in "futures overrides profiler serialization".split()},
    "return_types": ("compat.return_types", None),
    "parallel": ("nn.parallel", None),
    "testing": ("compat.testing", None),
    "types": ("compat.kinds", None),
    "storage": ("face.storage", None),
    "torch_version": ("compat.process", None),
    **{n: ("compat.control_flow", n) for n in ("cond", "while_loop")},
    **{n: ("compat.cuda", n) for n in ("Event", "Stream")},
    "ScriptModule": ("compat.jit", "ScriptModule"),
    **{n: ("compat.quantization", n) for n in ("ao", "quantization")},
    "_ops": ("compat.library", "inner"),
    "export": ("compat.export", None),
    "_export": ("compat.refused", "inner_export"),
    **{n: ("compat.elsewhere", n) for n in "cpu mps mtia xpu".split()},
    **{n: ("compat.inner_ops", n) for n in "_grouped_mm _int_mm _sample_dirichlet".split()},
    "_segment_reduce": ("compat.inner_ops", "_segment_reduce"),
    **{
        n: ("compat.inner_ops", n)
        for n in ("_convert_indices_from_coo_to_csr", "_convert_indices_from_csr_to_coo")
    },
    **{n: ("compat.native_ops", n) for n in "constant_pad_nd native_dropout".split()},
    **{n: ("compat.native_ops", n) for n in "native_batch_norm native_group_norm".split()},
    "native_layer_norm": ("compat.native_ops", "native_layer_norm"),
    **{n: ("compat.native_ops", n) for n in "grid_sampler grid_sampler_2d grid_sampler_3d".split()},
    "_softmax_backward_data": ("compat.inner_ops", "_softmax_backward_data"),
    "_log_softmax_backward_data": ("compat.inner_ops", "_log_softmax_backward_data"),
    **dict.fromkeys(("_dynamo", "compiler"), ("compat.dynamo", None)),
    "_inductor": ("compat.dynamo", "inductor"),
    **{n: ("compat.control_flow", n) for n in ("_higher_order_ops", "associative_scan")},
    "_C": ("compat.inner", None),
    "_functorch": ("utils.functorch", "private"),
    **{n: (f"compat.{n}", None) for n in "masked nested quasirandom return_types signal".split()},
    "_tensor": ("tensor", None),
    "TensorType": ("tensor", "Tensor"),
    "DeviceObjType": ("device", "DeviceName"),
    "_tensor_str": ("compat.tensor_text", None),
    "_utils": ("compat.private", None),
    "_subclasses": ("compat.fake", None),
    "__config__": ("compat.config", None),
    "_custom_ops": ("compat.library", None),
    "__future__": ("compat.future_flags", None),
    "functional": ("compat.functional", None),
}
_SETTINGS = ("compat.process", "compat.symbols")


def __getattr__(name: str) -> Any:
    """What is imported, or made, when it is asked for."""
    found = _asked_for(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, found)


def _asked_for(name: str) -> Any:
    """What a name stands for that is not here yet; None: nothing, and nobody needs to hear why."""
    if name in _LATER:
        place, attribute = _LATER[name]
        module = _module(place)
        return module if attribute is None else getattr(module, attribute)
    if name.startswith("_foreach_"):
        return _module("compat.foreach").foreach(name)
    if name in _later_methods.AS_FUNCTIONS:
        return getattr(Tensor, name)
    if name.endswith("_copy") and (copied := vars(_module("compat.copied_views")).get(name)):
        return copied
    if name in _attribute.TYPE_NAMES:
        return _attribute.typed_class(name)
    if name in _storage.STORAGE_NAMES:
        return _storage.storage_class(name)
    if name.startswith("__") and name != "__version__":  # Python's questions
        return None
    absent = _module("values.absent_dtypes").DTYPES
    if name in absent:
        return absent[name]
    for settings in map(_module, _SETTINGS):
        if name in settings.NAMES:
            return getattr(settings, settings.NAMES[name])
    raise _module("compat.differences").missing(__name__, name)


def __dir__() -> list[str]:
    """What is here, and what would be imported."""
    return sorted({*globals(), *_LATER, *_later_methods.AS_FUNCTIONS, "compile"})


def _module(place: str) -> Any:
    with paused_collector():
        return _importlib.import_module(f".{place}", __name__)


def _found_compile(package: _ModuleType) -> Any:
    here = vars(package)
    return here.get("compile") or here.setdefault("compile", _module("compile.entry").compile)


def _set_compile(package: _ModuleType, value: Any) -> None:
    if not isinstance(value, _ModuleType):  # which the import of the room would leave here
        vars(package)["compile"] = value


class _Facade(_Replaceable):
    """The package: ``compile`` is a function, also after the room of that name was imported."""

    compile = property(_found_compile, _set_compile, doc="Imported at the first use.")


if not TYPE_CHECKING:  # for ``from clnet import *``
    _of_star = (*globals(), *_later_methods.AS_FUNCTIONS, *_attribute.TYPE_NAMES)
    __all__ = [
        name
        for name in dict.fromkeys((*_of_star, "autocast", "checkpoint", "compile", "profile"))
        if name[0] != "_"
    ]
_sys.modules[__name__].__class__ = _Facade
_later_methods.attach(_module, nn.Module)
_placed(__name__, vars(Tensor), owner="Tensor")
AttributeFinder(__name__, lambda: _sys.modules[__name__]).install()
