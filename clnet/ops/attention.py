"""Scaled dot-product attention: one Function over the attention kernels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..device import HostScalar, Launch, Target
from ..errors import ArgumentError, DtypeError, ShapeError
from ..kernels.softmax import (
    Drop,
    Scores,
    attends_on_units,
    drops_weights,
    in_runs,
    read_views,
    writes_anywhere,
)
from ..kernels.softmax import attention as launch_attention
from ..kernels.softmax import attention_delta as launch_delta
from ..kernels.softmax import attention_grad as launch_attention_grad
from ..values import mode
from ..values.dtypes import Kind, float32, from_name
from ..values.shapes import broadcast_shapes
from .arithmetic import ge, logical_and, where
from .create import new_ones
from .machinery.autocast import autocast_operands
from .machinery.function import (
    Arrays,
    Face,
    Function,
    Grads,
    Needs,
    Saved,
    apply,
    op,
    require_floating,
    require_same_dtype,
)
from .matmul import matmul, rounds_to_tf32
from .random import Counter, Dropout, dropout
from .rearrange import tril
from .shape import contiguous, expand, reshape, to_dtype, unsqueeze
from .softmax import softmax

if TYPE_CHECKING:
    from ..tensor import Tensor


class _Attending(Function):
    """Attention, and its gradients: settings, and a counter that decides about no kernel."""

    sixteen_bit = False
    repeats = True
    scores: Any  # the fields are those of who inherits, in its order
    p: Any
    counter: Any

    @property
    def repeat_key(self) -> Any:
        """All but where the generator stood."""
        return self.scores, self.p, self.counter is None

    @property
    def varying(self) -> tuple[HostScalar, ...]:
        """Where the generator stood."""
        return () if self.counter is None else (self.counter.seed, self.counter.offset)

    @property
    def gradient_key(self) -> Any:
        """Nothing more: backward hands the counter on."""
        return ()

    def with_varying(self, numbers: tuple[Any, ...]) -> Function:
        return type(self)(self.scores, self.p, Counter(*numbers))


class Attention(_Attending):
    """Inputs q, k, v of four axes, and a mask of four axes or none; outputs y and what it keeps.

    Attributes:
        scores: the settings.
        p: probability that a weight is dropped.
        counter: where the generator stood; None: no weight is dropped.
    """

    scores: Scores
    p: float = 0.0
    counter: Counter | None = None

    differentiable = (0,)
    op_name = "scaled_dot_product_attention"

    def infer(self, q: Array, k: Array, v: Array, *mask: Array) -> tuple[Array, ...]:
        """The result, and the logarithm of the sum of exponentials of each row.

        Where kernels can, the result lies as the queries do: between projections whose rows hold
        all heads nothing is copied.
        """
        compute = from_name(q.dtype.compute)
        return (
            _lying_as(q, v.shape[3], anywhere=_anywhere(self, q, k, v)),
            Array.abstract(q.shape[:3], compute, q.device),
        )

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        q, k, v, *mask = inputs
        one = mask[0] if mask else None
        y, lse = outputs
        drop = _drop(self.p, self.counter)
        return launch_attention(
            target, y, lse, q, k, v, one, scores=self.scores, drop=drop, tf32=rounds_to_tf32()
        )

    def narrow_on(self, target: Target, inputs: Arrays) -> bool:
        """Where matrix units attend."""
        plain = len(inputs) == 3 and self.counter is None
        return plain and attends_on_units(target, inputs, self.scores.scale)

    def saves(self, needs: tuple[bool, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """The inputs and both outputs."""
        return range(len(needs)), (0, 1)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Two fused launches; the scores are computed again."""
        y, lse = saved.outputs[0].detach(), saved.outputs[1].detach()
        inputs = [saved.inputs[i] for i in range(len(needs))]
        views = read_views(grads[0].device.target, inputs[0].array, inputs[2].array)
        gy = _as_read(grads[0], views=views)
        function = AttentionBackward(self.scores, self.p, self.counter)
        given = (gy.array, lse.array, lse.array, *(x.array for x in inputs))
        if function.narrow_on(gy.device.target, given):
            delta = apply(AttentionDelta(), gy, contiguous(y))
        elif views and y.dtype is float32 and in_runs(gy.array) and in_runs(y.array):
            delta = apply(AttentionDelta(), gy, y)
        else:
            delta = contiguous(to_dtype(gy * y, lse.dtype).sum(-1))
        found = apply(function, gy, lse, delta, *inputs)
        return (*found, *[None] * (len(needs) - 3))

    def decompose(self, q: Tensor, k: Tensor, v: Tensor, *mask: Tensor) -> tuple[Any, ...]:
        """In products and a softmax."""
        k, v = (_repeat_heads(x, q) for x in (k, v))
        scores = _scores(q, k, mask[0] if mask else None, self.scores)
        weights = _weights(scores)
        if self.counter is not None:
            weights = apply(Dropout(self.p, self.counter), contiguous(weights))
        return weights @ v, scores.detach().logsumexp(-1)


class AttentionBackward(_Attending):
    """The gradients of :class:`Attention`: inputs gy, lse, delta, and its inputs."""

    scores: Scores
    p: float = 0.0
    counter: Counter | None = None
    op_name = "scaled_dot_product_attention_backward"

    def infer(
        self, gy: Array, lse: Array, delta: Array, q: Array, k: Array, v: Array, *mask: Array
    ) -> tuple[Array, ...]:
        """As q, k and v are, and lie."""
        anywhere = _anywhere(self, q, k, v)
        return tuple(_lying_as(x, x.shape[3], anywhere=anywhere) for x in (q, k, v))

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch for q, one for k and v."""
        gy, lse, delta, q, k, v, *mask = inputs
        one = mask[0] if mask else None
        gq, gk, gv = outputs
        return launch_attention_grad(
            target, (gq, gk, gv), gy, lse, delta, q, k, v, one,
            scores=self.scores, drop=_drop(self.p, self.counter), tf32=rounds_to_tf32(),
        )  # fmt: skip

    def writes_anywhere(self, inputs: Arrays) -> bool:
        """Whether gradients may lie where something else wants them, rows apart."""
        q, k, v = inputs[3:6]
        return _anywhere(self, q, k, v)

    def narrow_on(self, target: Target, inputs: Arrays) -> bool:
        """Where matrix units attend."""
        gy, _, _, *moved = inputs
        plain = len(moved) == 3 and self.counter is None
        return plain and attends_on_units(target, (*moved, gy), self.scores.scale)


class AttentionDelta(Function):
    """``sum(gy y)`` of each row in float32; inputs gy and y, of 16 bits or float32, in runs."""

    repeats = True
    op_name = "scaled_dot_product_attention_backward"

    def infer(self, gy: Array, y: Array) -> tuple[Array, ...]:
        """One number a row."""
        return (Array.abstract(y.shape[:3], float32, y.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch."""
        (delta,), (gy, y) = outputs, inputs
        return launch_delta(target, delta, gy, y)


@op(Face.FUNCTIONAL)
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
    scale: float | None = None,
    enable_gqa: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
) -> Tensor:
    """``softmax(scale * query @ key.T + attn_mask) @ value``, without storing the scores.

    With a mask that requires a gradient, and with dropout on GPUs without room for tiles, it is
    composed of products and a softmax. Dropout drops the same weights either way.

    Args:
        query: ``(..., rows, head)``, floating.
        key: ``(..., keys, head)``, same dtype.
        value: ``(..., keys, value_head)``, same dtype.
        attn_mask: broadcasts to ``(..., rows, keys)``: added to the scores, or, of booleans, true
            where a key counts.
        dropout_p: probability that a weight is dropped.
        is_causal: row ``i`` sees keys up to ``i`` alone.
        scale: of the products; None: ``1 / sqrt(head)``.
        enable_gqa: repeat the heads (axis -3) of ``key`` and ``value`` to as many as ``query`` has.

    Returns:
        ``(..., rows, value_head)``; a row for which no key counts is 0.

    Raises:
        ArgumentError: if a mask and ``is_causal`` are given, or ``dropout_p`` is no probability.
        DtypeError: if the dtypes differ or are not floating, or the mask is of whole numbers.
        ShapeError: if the shapes do not fit.
    """
    name = "scaled_dot_product_attention"
    query, key, value = autocast_operands(name, query, key, value)
    _check(name, query, key, value, attn_mask)
    if is_causal and attn_mask is not None:
        raise ArgumentError(
            name, "a mask and is_causal exclude each other", remedy="Put both into the mask"
        )
    if not 0 <= dropout_p <= 1:
        raise ArgumentError(name, "dropout_p lies in [0, 1]", dropout_p=dropout_p)
    if enable_gqa:
        _check_groups(name, query, key, value)
    head = query.shape[-1]
    settings = Scores((1 / sqrt(head) if head else 1.0) if scale is None else scale, is_causal)
    masked = attn_mask is not None and attn_mask.requires_grad and mode.current().grad
    target, drops = query.device.target, dropout_p > 0
    views = read_views(target, query.array, value.array)
    in_tiles = read_views(target, query.array, value.array, dropped=True) if drops else views
    if enable_gqa and (masked or not in_tiles):
        key, value = (_repeat_heads(x, query) for x in (key, value))
    if masked or (drops and not drops_weights(target, query.array, value.array)):
        weights = _weights(_scores(query, key, attn_mask, settings))
        return matmul(dropout(weights, dropout_p) if dropout_p else weights, value)
    grouped = enable_gqa and key.shape[-3] != query.shape[-3]
    lead = broadcast_shapes(name, *(x.shape[: -3 if grouped else -2] for x in (query, key, value)))
    leads = [(*lead, x.shape[-3]) if grouped else lead for x in (query, key, value)]
    operands = [
        _as_read(_four_axes(x, own, x.shape[-2:]), views=views)
        for x, own in zip((query, key, value), leads, strict=True)
    ]
    if attn_mask is not None:
        mask = to_dtype(attn_mask, query.dtype) if _adds(attn_mask) else attn_mask
        operands.append(_four_axes(mask, leads[0], (query.shape[-2], key.shape[-2])))
    counter = None
    if drops:
        counter = Counter.take(None, prod(leads[0]) * query.shape[-2] * key.shape[-2])
    y = apply(Attention(settings, dropout_p, counter), *operands)[0]
    return reshape(y, (*leads[0], query.shape[-2], value.shape[-1]))


def _anywhere(function: Attention | AttentionBackward, q: Array, k: Array, v: Array) -> bool:
    """Whether the kernels write results that lie anywhere."""
    dropped, scale = function.counter is not None, function.scores.scale
    target, tf32 = q.device.target, rounds_to_tf32()
    return writes_anywhere(target, q, k, v, dropped=dropped, scale=scale, tf32=tf32)


def _lying_as(x: Array, size: int, *, anywhere: bool) -> Array:
    """``(n, heads, rows, size)``, dense, of rows that hold all heads if those of ``x`` do."""
    n, heads, rows, _ = x.shape
    if not anywhere or not 0 < x.strides[1] < x.strides[2]:
        return Array.abstract((n, heads, rows, size), x.dtype, x.device)
    y = Array.abstract((n, rows, heads, size), x.dtype, x.device)
    image, row, head, element = y.strides
    return y.view((n, heads, rows, size), (image, head, row, element))


def _drop(p: float, counter: Counter | None) -> Drop | None:
    return None if counter is None else Drop(p, counter.seed, counter.offset)


def _adds(mask: Tensor) -> bool:
    return mask.dtype.kind is not Kind.BOOL


def _check(name: str, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> None:
    require_floating(name, query.array)
    require_same_dtype(name, query=query.array, key=key.array, value=value.array)
    shapes: dict[str, Any] = {"query": query.shape, "key": key.shape, "value": value.shape}
    if min(x.ndim for x in (query, key, value)) < 2:
        raise ShapeError(name, "operands have two axes or more", **shapes)
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ShapeError(
            name, "query and key share the head, key and value the number of keys", **shapes
        )
    if mask is not None and mask.dtype.kind is Kind.INTEGER:
        raise DtypeError(name, "a mask is boolean or floating", attn_mask=mask.dtype)


def _check_groups(name: str, query: Tensor, *shared: Tensor) -> None:
    for x in shared:
        if min(x.ndim, query.ndim) < 3 or x.shape[-3] == 0 or query.shape[-3] % x.shape[-3]:
            raise ShapeError(
                name,
                "the query's heads are a multiple of the key's",
                query=query.shape,
                key=x.shape,
            )


def _repeat_heads(x: Tensor, query: Tensor) -> Tensor:
    times = query.shape[-3] // x.shape[-3] if x.shape[-3] else 1
    if times == 1:
        return x
    repeated = expand(unsqueeze(x, -3), (*x.shape[:-2], times, *x.shape[-2:]))
    return reshape(repeated, (*x.shape[:-3], query.shape[-3], *x.shape[-2:]))


def _four_axes(x: Tensor, lead: tuple[int, ...], last: tuple[int, ...]) -> Tensor:
    """Over the common leading axes, all but the last of them joined; it may stay expanded."""
    if len(lead) == 2 and x.array.shape == (*lead, *last):
        return x
    full = expand(x, (*lead, *last))
    heads = lead[-1] if lead else 1
    return reshape(full, (prod(lead[:-1]), heads, *last)) if len(lead) != 2 else full


def _as_read(x: Tensor, *, views: bool) -> Tensor:
    """As the kernels read it: where it lies if they can and its rows are dense, else made dense."""
    dense_rows = x.shape[-1] == 1 or x.array.strides[-1] == 1
    return x if views and dense_rows else contiguous(x)


def _scores(query: Tensor, key: Tensor, mask: Tensor | None, settings: Scores) -> Tensor:
    scores = matmul(query * settings.scale, key.transpose(-1, -2))
    minus = float("-inf")
    if settings.causal:
        every = new_ones(scores.detach(), scores.shape[-2:])
        scores = where(tril(every) > 0, scores, minus)
    if mask is None:
        return scores
    return scores + mask if _adds(mask) else where(mask, scores, minus)


def _weights(scores: Tensor) -> Tensor:
    """Softmax over the keys; 0 in rows for which no key counts."""
    if not scores.shape[-1]:
        return softmax(scores, -1)
    counts = ge(scores.detach().amax(-1, keepdim=True), -3e38)
    everywhere = logical_and(counts, ge(scores.detach(), float("-inf")))
    return where(counts, softmax(where(everywhere, scores, 0.0), -1), 0.0)
