"""Mixed precision: which dtype an op computes in under ``autocast``, in one table by the op's name.

The lists are PyTorch's for CUDA, and hold on every device: what rounds coarsely but is only a sum
of products computes in 16 bits, what overflows or cancels in float32, what joins tensors in the
widest dtype among them, and all others in what they are given. Losses that PyTorch refuses there
(``binary_cross_entropy``) or lists for CPUs alone compute in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import wraps
from typing import TYPE_CHECKING, Any
from typing import cast as cast_type

from ...expr import Input
from ...values import mode
from ...values.arguments import is_tensor
from ...values.containers import again
from ...values.dtypes import DType, float32
from .function import F, Function, apply
from .pointwise import Pointwise

if TYPE_CHECKING:
    from ...tensor import Tensor


class Computes(Enum):
    """What an op computes in, and gives."""

    NARROW = auto()
    FLOAT32 = auto()
    WIDEST = auto()
    AS_GIVEN = auto()


_NARROW = """
    addbmm addmm addmv addr baddbmm bmm conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d gru_cell gru_sequence linear lstm_cell lstm_sequence matmul mm prelu rnn_cell
    rnn_relu_cell rnn_tanh_cell scaled_dot_product_attention
"""
_FLOAT32 = """
    acos asin binary_cross_entropy binary_cross_entropy_with_logits cdist cosh
    cosine_embedding_loss cosine_similarity cross_entropy ctc_loss cumprod cumsum dist erfinv
    exp expm1 group_norm hinge_embedding_loss huber_loss kl_div l1_loss layer_norm log log10
    log1p log2 log_softmax margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss
    nll_loss norm normalize pairwise_distance pdist poisson_nll_loss pow prod reciprocal renorm
    rms_norm rsqrt sinh smooth_l1_loss soft_margin_loss softmax softplus sum sum_squares tan
    triplet_margin_loss vector_norm
"""
_WIDEST = """
    atan2 addcdiv addcmul bilinear cat cross dot grid_sample index_copy index_put scatter_add stack
    tensordot
"""
_AS_GIVEN = """
    logsumexp
"""
POLICY: dict[str, Computes] = {
    **dict.fromkeys(_NARROW.split(), Computes.NARROW),
    **dict.fromkeys(_FLOAT32.split(), Computes.FLOAT32),
    **dict.fromkeys(_WIDEST.split(), Computes.WIDEST),
    **dict.fromkeys(_AS_GIVEN.split(), Computes.AS_GIVEN),
}
"""What ops compute in under ``autocast``, by name; what is not here computes in what it is given,
as does what is made of ops that are here and says so."""


_BY_OPERANDS = (Computes.WIDEST, Computes.AS_GIVEN)


@dataclass(frozen=True, eq=False)
class Autocast:
    """What ``Mode.autocast`` holds inside a context.

    Attributes:
        dtype: of 16 bits, of products.
        cache: narrow forms of parameters by the parameter's ``id`` and whether gradients are
            recorded, or None; with the parameter and its version, so that no other is taken for it.
    """

    dtype: DType
    cache: dict[tuple[int, bool], tuple[Any, Any, int, Any]] | None

    def apart(self) -> Autocast:
        """The same with a cache of its own: of a trace, or of a checkpointed function."""
        return replace(self, cache=None if self.cache is None else {})


def cast(
    state: Autocast, function: Function, inputs: tuple[Tensor, ...]
) -> tuple[Function, tuple[Tensor, ...]]:
    """An op and its operands as the table has them; what writes in place stays as it is."""
    policy = POLICY.get(function.name)
    if policy is None or function.mutates or not inputs:
        return function, inputs
    if type(function) is Pointwise:  # which reads any dtypes: another result costs no conversion
        return _giving(state, policy, function), inputs
    return function, _operands(state, policy, inputs)


def autocast_operands(name: str, *operands: Any) -> tuple[Any, ...]:
    """Operands of an op that looks at their dtypes before it is applied.

    Args:
        name: the op's, in the table.
        *operands: tensors, and None.

    Returns:
        The operands, cast inside a context.
    """
    state = mode.current().autocast
    if state is None or name not in POLICY:
        return operands
    return _operands(state, POLICY[name], operands)


def computes_as_one(function: F) -> F:
    """An op made of others that computes as its own line in the table says, not as theirs do."""
    policy = POLICY[function.__name__]

    @wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        state = mode.current().autocast
        if state is None:
            return function(*args, **given)
        if policy is not Computes.AS_GIVEN:
            wanted = _wanted(state, policy, [*_leaves(args), *given.values()])
            args = tuple(_cast_all(state, x, wanted) for x in args)
            given = {name: _cast_all(state, x, wanted) for name, x in given.items()}
        with mode.using(autocast=None):
            return function(*args, **given)

    return cast_type("F", call)


def _leaves(args: Sequence[Any]) -> list[Any]:
    return [x for arg in args for x in (arg if isinstance(arg, tuple | list) else (arg,))]


def _cast_all(state: Autocast, x: Any, wanted: DType) -> Any:
    if isinstance(x, tuple | list):
        return again(x, (_cast_all(state, each, wanted) for each in x))
    return _converted(state, x, wanted) if _takes_part(x) else x


def _operands(state: Autocast, policy: Computes, operands: Sequence[Any]) -> tuple[Any, ...]:
    if policy is Computes.AS_GIVEN:
        return tuple(operands)
    wanted = _wanted(state, policy, operands)
    return tuple(_converted(state, x, wanted) if _takes_part(x) else x for x in operands)


def _wanted(state: Autocast, policy: Computes, operands: Sequence[Any]) -> DType:
    if policy is Computes.WIDEST:
        taking = [x.dtype for x in operands if _takes_part(x)]
        return max(taking, key=_width, default=state.dtype)
    return state.dtype if policy is Computes.NARROW else float32


def _takes_part(x: Any) -> bool:
    """Whether it is cast: float64 is somebody's wish, as it is in PyTorch."""
    return is_tensor(x) and x.dtype.is_floating_point and x.dtype.itemsize <= float32.itemsize


def _width(dtype: DType) -> int:
    return dtype.itemsize


def _giving(state: Autocast, policy: Computes, function: Pointwise) -> Pointwise:
    """A pointwise op with results of the dtype that it computes in."""
    (given, *more) = function.dtypes
    ours = given.is_floating_point and given.itemsize <= float32.itemsize
    if policy in _BY_OPERANDS or more or not ours:
        return function
    wanted = _wanted(state, policy, ())
    if given is wanted:
        return function
    return Pointwise(
        function.op_name,
        function.exprs,
        function.scalars,
        function.compute,
        (wanted,),
        function.gradient,
    )


def _converted(state: Autocast, x: Tensor, dtype: DType) -> Tensor:
    """A tensor in a dtype; of a parameter the one that was made before, while it is unchanged."""
    if x.dtype is dtype:
        return x
    cache = state.cache
    if cache is None or dtype is float32 or x.node is not None or not x.requires_grad:
        return _to(x, dtype)
    now = mode.current()
    storage = x.array.storage
    version = storage.version if now.tracer is None else now.tracer.version(storage)
    key = (id(x), now.grad)
    found = cache.get(key)
    if found is not None and found[1] is x.array and found[2] == version:
        return found[3]
    narrow = _to(x, dtype)
    cache[key] = (x, x.array, version, narrow)
    return narrow


def _to(x: Tensor, dtype: DType) -> Tensor:
    return apply(Pointwise("to", (Input(0),), (), float32, (dtype,)), x)
