"""Attention and its gradients in one pass each: scores live in registers and are never stored."""

from __future__ import annotations

from math import inf, nan
from typing import Any

from ...array import Array
from ...device import HostScalar, Launch, Scratch, Target
from ...errors import ArgumentError
from ...values.dtypes import Kind, from_name
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..gemm import gemm
from ..grid import in_groups, lanes_of
from ..kernel import Constraint, Kernel, longs
from ..moving import copy, fill
from . import attention_matrix, attention_tiles, attention_warpgroup
from .attention_matrix import Sizes
from .attention_tiles import Part, Tiling, Way
from .attention_tiles_sum import summed

_LAWS = (
    Constraint("tile % at_once == 0", "tiles hold whole blocks"),
    Constraint("lanes == 1 or not shared", "work-items with vectors run alone"),
    Constraint("lanes > 1 or not dropped", "weights are dropped in vectors"),
)
_MASK_STEPS = ("mask_batch", "mask_head", "mask_row", "mask_key")
FORWARD = Kernel("attention", "softmax/attention.mako", constraints=_LAWS)
GRAD_Q = Kernel("attention_grad_q", "softmax/attention.mako", constraints=_LAWS)
GRAD = Kernel(
    "attention_grad",
    "softmax/attention.mako",
    constraints=(Constraint("lanes > 1", "rows are read in vectors"),),
)
GRAD_KV = Kernel("attention_grad_kv", "softmax/attention.mako", constraints=_LAWS)
_KERNELS_KV = (GRAD_KV, attention_tiles.GRAD_KV, attention_matrix.GRAD_KV)
# Keys' and values' gradients are as fast by 32 items.
_BY_WARPGROUPS = {
    attention_matrix.FORWARD: attention_warpgroup.FORWARD,
    attention_matrix.GRAD_Q: attention_warpgroup.GRAD_Q,
}

_GROUP = 64
_TILE = 32
_BLOCK = 4
# So many sums of vectors keep both of a core's multipliers busy, four steps deep.
_SUMS = 8
# An exponential counts as this many operations.
_EXP_FLOPS = 10


class Scores(NamedTuple):
    """What the scores are made of beside queries and keys.

    Attributes:
        scale: factor of the products.
        causal: whether a key counts only for rows from its own number on.
        fill: the score where a mask of booleans says that a key does not count.
        hollow: whether rows for which no key counts are NaN, as a softmax is, and not 0.
    """

    scale: float
    causal: bool
    fill: float = -inf
    hollow: bool = False


class Drop(NamedTuple):
    """Weights that are dropped, as :func:`..pointwise.dropout` of all weights would.

    Attributes:
        p: probability of it.
        seed: the generator's key.
        offset: the first counter.
    """

    p: float
    seed: int | HostScalar
    offset: int | HostScalar

    def args(self) -> dict[str, Any]:
        """The kernels' arguments."""
        factor = 1 / (1 - self.p) if self.p < 1 else 0.0
        return {"p": self.p, "seed": self.seed, "offset": self.offset, "spread_by": factor}


def attention(
    target: Target,
    y: Array,
    lse: Array,
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    *,
    scores: Scores,
    drop: Drop | None = None,
    tf32: bool = False,
) -> list[Launch]:
    """``y = softmax(scale q k^T + mask) v`` for each of a batch of heads.

    Args:
        target: the device's traits.
        y: ``(n, heads, rows, value_head)``, which may lie anywhere.
        lse: dense ``(n, heads, rows)``, of the compute dtype: the logarithms of the sums.
        q: ``(n, heads, rows, head)``, dense; in tiles its rows are.
        k: ``(n, heads, keys, head)``, the same; in tiles it may have fewer heads, each for as
            many of q's, one after another.
        v: ``(n, heads, keys, value_head)``, the same.
        mask: ``(n, heads, rows, keys)`` with any strides: added to the scores, or, of booleans,
            which of them count; or None.
        scores: the other settings.
        drop: which weights are dropped; None: none.
        tf32: whether float32 may be rounded to TF32.

    Returns:
        One launch, and copies where ``y`` is not dense and the kernel writes densely; none if there
        are no outputs. Rows for which no key counts are 0, or NaN as ``scores`` say.

    Raises:
        ArgumentError: if an array other than the mask is less dense than said, or no kernel of the
            device does it (:func:`drops_weights`, :func:`.read_views`).
    """
    _require_dense(lse)
    if y.size == 0:
        return []
    work = _Work(target, Sizes.of(q, k, v), (q, k, v), mask, scores, drop, tf32)
    kernels = (FORWARD, attention_tiles.FORWARD, attention_matrix.FORWARD)
    (written,), copies = _written(work, kernels, y)
    operands = {"y": written, "lse": lse, "q": q, "k": k, "v": v}
    return [work.launch(kernels, operands, over=work.shape.rows, products=2), *copies]


def attention_grad(
    target: Target,
    grads: tuple[Array, Array, Array],
    gy: Array,
    lse: Array,
    delta: Array,
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    *,
    scores: Scores,
    drop: Drop | None = None,
    tf32: bool = False,
) -> list[Launch]:
    """The gradients to queries, keys and values; the scores are computed again.

    Args:
        target: the device's traits.
        grads: written, shaped as ``q``, ``k`` and ``v``; they may lie anywhere.
        gy: the result's gradient, dense as q.
        lse: as :func:`attention` gave it.
        delta: dense ``(n, heads, rows)``, of the compute dtype: ``sum(gy y)`` of each row.
        q: as :func:`attention` got it.
        k: the same.
        v: the same.
        mask: the same.
        scores: the same.
        drop: the same.
        tf32: the same.

    Returns:
        A launch for the queries' gradient and one for the keys' and values'; or, where memory for
        the scores' gradients pays, launches for parts of the heads: one for the keys' and values',
        and the products that give the queries'.

    Raises:
        ArgumentError: if an array other than the mask is less dense than said.
    """
    _require_dense(lse, delta)
    gq, gk, gv = grads
    inputs = {"gy": gy, "lse": lse, "delta": delta, "q": q, "k": k, "v": v}
    work = _Work(target, Sizes.of(q, k, v), (q, k, v, gy), mask, scores, drop, tf32)
    way, memory = Way([]), Scratch(gq.device)
    if not work.on_units:
        way = attention_tiles.way_of_gradients(
            target, q, v, causal=scores.causal, dropped=drop is not None
        )
    if way.parts:
        return [
            launch
            for part in way.parts
            for launch in _in_part(work, grads, inputs, part, way=way, memory=memory)
        ]
    if work.by_heads:
        written, copies = _written(work, _KERNELS_KV, gq, gk, gv)
        operands = {**dict(zip(("gq", "gk", "gv"), written, strict=True)), **inputs}
        return [work.launch_by_heads(operands), *copies]
    launches: list[Launch] = []
    if gq.size:
        kernels = (GRAD_Q, attention_tiles.GRAD_Q, attention_matrix.GRAD_Q)
        (written,), copies = _written(work, kernels, gq)
        operands = {"gq": written, **inputs}
        launches += [work.launch(kernels, operands, over=work.shape.rows, products=3), *copies]
    if gk.size or gv.size:
        written, copies = _written(work, _KERNELS_KV, gk, gv)
        operands = {**dict(zip(("gk", "gv"), written, strict=True)), **inputs}
        launch = work.launch(_KERNELS_KV, operands, over=work.shape.keys, products=4)
        launches += [launch, *copies]
    return launches


def drops_weights(target: Target, q: Array, v: Array) -> bool:
    """Whether the kernels for queries and values like these drop weights: in vectors, or in tiles.

    Args:
        target: the device's traits.
        q: as :func:`attention` takes it.
        v: the same.
    """
    return not in_groups(target.traits) or attention_tiles.read_views(target, q, v, dropped=True)


def writes_anywhere(
    target: Target, q: Array, k: Array, v: Array, *, dropped: bool, scale: float, tf32: bool
) -> bool:
    """Whether results and gradients may lie anywhere without being copied there.

    Args:
        target: the device's traits.
        q: as :func:`attention` takes it.
        k: the same.
        v: the same.
        dropped: whether weights are dropped.
        scale: of the products.
        tf32: as there.
    """
    in_tiles = q.dtype.itemsize > 2 and attention_tiles.read_views(target, q, v, dropped=dropped)
    return in_tiles and not (
        tf32 and attention_matrix.attends_on_units(target, (q, k, v), scale, tf32=True)
    )


def _written(
    work: _Work, kernels: tuple[Kernel, Kernel, Kernel], *arrays: Array
) -> tuple[list[Array], list[Launch]]:
    """What a launch is to write, and the copies to where it should lie, if it writes densely."""
    if work.tiling(kernels) is not None:
        return [*arrays], []
    held = Scratch(arrays[0].device)
    dense = [x if x.contiguous else Array.scratch(held, x.shape, x.dtype) for x in arrays]
    copies = [
        launch
        for x, other in zip(arrays, dense, strict=True)
        if other is not x
        for launch in copy(work.target, x, other)
    ]
    return dense, copies


def _in_part(
    whole: _Work,
    grads: tuple[Array, Array, Array],
    inputs: dict[str, Array],
    part: Part,
    *,
    way: Way,
    memory: Scratch,
) -> list[Launch]:
    """Gradients of a part of the heads, the queries' of what the keys' and values' kernel left."""
    gq, gk, gv = (part.of(x) for x in grads)
    arrays = {name: part.of(x) for name, x in inputs.items()}
    moved = (arrays["q"], arrays["k"], arrays["v"], arrays["gy"])
    mask = None if whole.mask is None else part.of(whole.mask)
    shape = Sizes.of(*moved[:3])
    work = _Work(whole.target, shape, moved, mask, whole.scores, whole.drop)
    operands = {"gk": gk, "gv": gv, **arrays}
    mark = memory.mark()
    if way.slopes:
        launches = _by_slopes(work, gq, operands, memory)
    else:
        launches = _by_pieces(work, gq, operands, way.keys, memory)
    memory.rewind(mark)
    return launches


def _by_pieces(
    work: _Work, gq: Array, operands: dict[str, Array], own: int, memory: Scratch
) -> list[Launch]:
    """Every group of keys stores its sums of the queries' gradient, which are added."""
    keys, causal = operands["gk"].shape[2], work.scores.causal
    piece = Array.scratch(memory, (ceil_div(keys, own), *gq.shape), gq.dtype)
    operands = {**operands, "piece": piece}
    launch = work.launch(_KERNELS_KV, operands, over=keys, products=5)
    scale = work.scores.scale
    return [launch, summed(work.target, gq, piece, own=own, causal=causal, scale=scale)]


def _by_slopes(work: _Work, gq: Array, operands: dict[str, Array], memory: Scratch) -> list[Launch]:
    """The scores' gradients are stored, and multiplied by the keys."""
    n, heads, rows, _ = gq.shape
    k, shape, causal = operands["k"], work.shape, work.scores.causal
    keys, step = k.shape[2], attention_tiles.slope_step(rows)
    store = Array.scratch(memory, (n, heads, keys, step), gq.dtype)
    block = attention_tiles.causal_block(rows) if causal else rows
    operands = {**operands, "store": store}
    launches = [work.launch(_KERNELS_KV, operands, over=keys, products=4, block=block)]
    if step > rows:  # a product reads whole fours
        behind = store.view((n, heads, keys, step - rows), store.strides, store.offset + rows)
        launches += fill(work.target, behind, 0)
    # Heads of queries that share keys are an axis of their own, along which the keys stand still.
    apart = (n, heads // shape.sharing, shape.sharing)
    for first in range(0, rows, block):
        count = min(block, rows - first)
        most = min(keys, first + count) if causal else keys
        inner = memory.mark()
        launches += gemm(
            work.target,
            _in_groups(gq, apart, (count, gq.shape[3]), gq.strides[2:], first * gq.strides[2]),
            _in_groups(store, apart, (count, most), (1, step), first),
            _in_groups(k, apart, (most, gq.shape[3]), k.strides[2:]),
            alpha=work.scores.scale,
        )
        memory.rewind(inner)
    return launches


def _in_groups(
    x: Array,
    apart: tuple[int, int, int],
    matrix: tuple[int, int],
    strides: tuple[int, ...],
    offset: int = 0,
) -> Array:
    """Matrices of an array ``(n, heads, ...)`` by image, head of the keys, and who shares it."""
    image, head = x.strides[:2]
    times = apart[2] if x.shape[1] > apart[1] else 1
    batch = (image, times * head, head if times > 1 else 0)
    return x.view((*apart, *matrix), (*batch, *strides), x.offset + offset)


class _Work(NamedTuple):
    """What is computed, whichever kernel does it.

    Attributes:
        target: the device's traits.
        shape: the sizes.
        moved: q, k, v and, for gradients, gy.
        mask: the mask or None.
        scores: the other settings.
        drop: which weights are dropped, or None.
        tf32: whether float32 may be rounded to TF32.
    """

    target: Target
    shape: Sizes
    moved: tuple[Array, ...]
    mask: Array | None
    scores: Scores
    drop: Drop | None
    tf32: bool = False

    @property
    def on_units(self) -> bool:
        """Whether matrix units compute it: of 16 bits, there are no other kernels."""
        if self.moved[0].dtype.itemsize == 2:
            return True
        plain = self.tf32 and self.mask is None and self.drop is None
        return plain and attention_matrix.attends_on_units(
            self.target, self.moved, self.scores.scale, tf32=True
        )

    def tiling(self, kernels: tuple[Kernel, Kernel, Kernel]) -> Tiling | None:
        """How it is cut up in tiles of local memory; None: other kernels compute it."""
        q, _, v = self.moved[:3]
        dropped, target = self.drop is not None, self.target
        if self.on_units:
            return None
        causal = self.scores.causal
        return attention_tiles.tiling(target, kernels[1], q, v, causal=causal, dropped=dropped)

    def launch(
        self,
        kernels: tuple[Kernel, Kernel, Kernel],
        operands: dict[str, Array],
        *,
        over: int,
        products: int,
        block: int = 0,
    ) -> Launch:
        """A launch: in tiles where they are for the device, else a row for a lane.

        Gradients of scores are stored if there is a ``block`` of rows.
        """
        plain, in_tiles, on_units = kernels
        shape, scores = self.shape, self.scores
        numbers = {"hollow": nan if scores.hollow else 0.0} if plain is FORWARD else {}
        cost = self._cost(operands, products)
        if self.on_units:
            by_128, found = _BY_WARPGROUPS.get(on_units), None
            if by_128 is not None:
                found = attention_warpgroup.attention_by_warpgroups(
                    self.target, by_128, operands,
                    scale=scores.scale, causal=scores.causal, cost=cost,
                )  # fmt: skip
            if found is not None:
                return found
            units = attention_matrix.Work(self.target, self.moved, scores.scale, scores.causal)
            return units.launch(on_units, operands, cost)
        by = self.tiling(kernels)
        if by is not None:
            args = {**self._args(), **operands, **numbers}
            return self._in_tiles(in_tiles, by, args, over=over, block=block, cost=cost)
        rows, params = self._lanes()
        self._require_plain(rows)
        return plain.launch(
            {**self._params(), **params},
            {**self._plain_args(), **operands, **numbers},
            global_size=(round_up(ceil_div(over, rows), params["group"]), shape.batch),
            local_size=(params["group"], 1),
            **cost,
        )

    @property
    def by_heads(self) -> bool:
        """Whether an item computes all gradients of a head: five products instead of seven.

        Units have to be busy with heads alone; else gradients of a head's parts are computed apart.
        """
        traits, shape = self.target.traits, self.shape
        if self.on_units or in_groups(traits) or self._lanes()[0] < 2:
            return False
        busy = 7 * shape.batch >= 5 * round_up(shape.batch, traits.compute_units)
        return busy and min(shape.batch, shape.rows, shape.keys, shape.head, shape.value_head) > 0

    def launch_by_heads(self, operands: dict[str, Array]) -> Launch:
        """The launch that computes them so."""
        lanes, params = self._lanes()
        self._require_plain(lanes)
        params = {name: params[name] for name in ("acc", "lanes", "at_once")}
        # Vectors of 64 bytes come with registers for twice as many sums.
        params["across"] = 2 if lanes * operands["gq"].dtype.itemsize >= 64 else 1
        return GRAD.launch(
            {**self._params(), **params},
            {**self._plain_args(), **operands},
            global_size=(self.shape.batch,),
            local_size=(1,),
            **self._cost(operands, 5),
        )

    def _in_tiles(
        self,
        kernel: Kernel,
        by: Tiling,
        args: dict[str, Any],
        *,
        over: int,
        block: int,
        cost: dict[str, int],
    ) -> Launch:
        """The same in tiles; the arguments lack what these alone have."""
        written = [args[name] for name in ("y", "gq", "gk", "gv") if name in args]
        _require_dense_rows(*self.moved, *written)
        causal, batch = self.scores.causal, self.shape.batch
        params = {**self._params(), **by.params}
        args["sharing"] = self.shape.sharing
        params["wide"] = all(map(attention_tiles.in_fours, self.moved))
        sizes = params["head"], params["value_head"]
        params |= attention_tiles.portions(self.target, kernel, by, *sizes)
        if kernel is attention_tiles.GRAD_KV:
            params |= {"slopes": block > 0, "block": block if causal else 0}
            params["pieces"] = "piece" in args
            args["step"] = attention_tiles.slope_step(self.shape.rows) if block else None
            batch //= self.shape.sharing
        groups, others = ceil_div(over, by.own), batch
        if causal:  # heads first: all of them begin with what takes longest
            groups, others = others, groups
        return kernel.launch(
            params,
            {**args, **self._strides(written)},
            global_size=(groups * by.group, others),
            local_size=(by.group, 1),
            **cost,
        )

    def _cost(self, operands: dict[str, Array], products: int) -> dict[str, int]:
        """Operations and bytes of a launch with so many products for each pair of rows."""
        shape, mask = self.shape, self.mask
        pairs = shape.batch * shape.rows * shape.keys // (1 + self.scores.causal)
        arrays = [*operands.values(), *([] if mask is None else [mask])]
        return {
            "flops": pairs * (products * (shape.head + shape.value_head) + _EXP_FLOPS),
            "bytes": sum(x.nbytes for x in arrays),
        }

    def _require_plain(self, lanes: int) -> None:
        """Refuse what only the kernels in tiles can do, and without vectors."""
        _require_dense(*self.moved)
        shape, dropped = self.shape, self.drop is not None
        if (dropped and lanes < 2) or shape.sharing > 1:
            raise ArgumentError(
                "attention", "shared keys are for tiles, dropout for these or vectors",
                heads=shape.heads, sharing=shape.sharing, dropped=dropped,
            )  # fmt: skip

    def _params(self) -> dict[str, Any]:
        """Parameters that the kernels of both kinds have."""
        ctype, mask = self.moved[0].dtype.ctype, self.mask
        kind = ctype if mask is None else mask.dtype.ctype
        return {
            "ctype": ctype,
            "head": self.shape.head,
            "value_head": self.shape.value_head,
            "causal": self.scores.causal,
            "mask": _kind(mask),
            "mask_ctype": kind,
            "dropped": self.drop is not None,
        }

    def _args(self) -> dict[str, Any]:
        """Arguments that they have, beside what they read and write."""
        shape = self.shape
        return {
            "rows": shape.rows,
            "keys": shape.keys,
            "heads": shape.heads,
            "scale": self.scores.scale,
            "mask": self.mask,
            "fill": self.scores.fill if _kind(self.mask) == "keep" else None,
            **(self.drop.args() if self.drop else {}),
        }

    def _plain_args(self) -> dict[str, Any]:
        """The same of kernels that keep rows in lanes."""
        steps = (None,) * 4 if self.mask is None else self.mask.strides
        return {**self._args(), **dict(zip(_MASK_STEPS, steps, strict=True))}

    def _lanes(self) -> tuple[int, dict[str, Any]]:
        """Rows of a work-item and the further parameters of kernels that keep rows in lanes."""
        acc = from_name(self.moved[0].dtype.compute)
        traits = self.target.traits
        lanes, group, tile, shared = lanes_of(self.target, acc.itemsize), 1, _TILE, False
        at_once = _SUMS
        if in_groups(traits):
            lanes, group, at_once = 1, min(_GROUP, traits.max_group_size), _BLOCK
            row_bytes = max(1, (self.shape.head + self.shape.value_head) * acc.itemsize)
            fitting = traits.local_memory_bytes // row_bytes // _BLOCK * _BLOCK
            # Rows too long for local memory are read from where they are.
            shared, tile = fitting > 0, min(_TILE, fitting) or _TILE
        return lanes, {
            "acc": acc.ctype,
            "lanes": lanes,
            "tile": tile,
            "at_once": at_once,
            "shared": shared,
            "group": group,
        }

    def _strides(self, written: list[Array]) -> dict[str, bytes]:
        """Where operands and results lie: of a gradient's in an argument of their own."""
        backward = len(self.moved) > 3
        steps = [step for x in self.moved for step in x.strides[:3]]
        places = [step for x in written for step in x.strides[:3]]
        if not backward:
            steps += places
        steps += () if self.mask is None else self.mask.strides
        return {"strides": longs(*steps), **({"places": longs(*places)} if backward else {})}


def _kind(mask: Array | None) -> str | None:
    return None if mask is None else "keep" if mask.dtype.kind is Kind.BOOL else "add"


def _require_dense(*arrays: Array) -> None:
    for array in arrays:
        if not array.contiguous:
            raise ArgumentError(
                "attention", "arrays are dense", shape=array.shape, strides=array.strides
            )


def _require_dense_rows(*arrays: Array) -> None:
    for array in arrays:
        if array.shape[-1] > 1 and array.strides[-1] != 1:
            raise ArgumentError(
                "attention", "rows are dense", shape=array.shape, strides=array.strides
            )
