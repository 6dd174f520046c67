"""Attention with several heads, and transformers, with PyTorch's parameters."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

from .. import ops
from ..creation import empty, ones
from ..errors import ArgumentError, ShapeError
from ..ops.multihead import Heads, additive_mask, attended
from ..tensor import Tensor
from ..values import mode
from ..values.dtypes import DType, default_float
from . import init
from .activation import GELU, ReLU
from .container import ModuleList
from .dropout import Dropout
from .group_norm import LayerNorm
from .linear import Linear, NonDynamicallyQuantizableLinear
from .module import Module, Parameter

__all__ = [
    "MultiheadAttention",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Activation = Callable[[Tensor], Tensor]


class MultiheadAttention(Module):
    """``Linear(concat(attention(q W_q, k W_k, v W_v) for each head))`` (Vaswani et al. 2017).

    Args:
        embed_dim: features of queries and results.
        num_heads: divides ``embed_dim``.
        dropout: of the attention weights.
        bias: whether the projections have biases.
        add_bias_kv: append a trained key and value.
        add_zero_attn: append a key and a value of zeros.
        kdim: features of keys; None: ``embed_dim``.
        vdim: features of values; None: ``embed_dim``.
        batch_first: sequences are ``(n, length, features)`` instead of ``(length, n, features)``.
        device: where the parameters are; None: the current device.
        dtype: of the parameters.

    Attributes:
        in_proj_weight: ``(3 * embed_dim, embed_dim)``; ``q_proj_weight``, ``k_proj_weight`` and
            ``v_proj_weight`` instead where keys or values have other features.
        in_proj_bias: ``(3 * embed_dim,)`` or None.
        out_proj: the :class:`Linear` over the joined heads.

    Raises:
        ArgumentError: if ``num_heads`` does not divide ``embed_dim``.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if embed_dim < 1 or num_heads < 1 or embed_dim % num_heads:
            sizes: dict[str, Any] = {"embed_dim": embed_dim, "num_heads": num_heads}
            raise ArgumentError("MultiheadAttention", "num_heads divides embed_dim", **sizes)
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.add_zero_attn = add_zero_attn
        like: dict[str, Any] = {"device": device, "dtype": dtype}
        joined = self.kdim == self.vdim == embed_dim
        shapes: dict[str, tuple[int, ...] | None] = {
            "in_proj_weight": (3 * embed_dim, embed_dim) if joined else None,
            "q_proj_weight": None if joined else (embed_dim, embed_dim),
            "k_proj_weight": None if joined else (embed_dim, self.kdim),
            "v_proj_weight": None if joined else (embed_dim, self.vdim),
            "in_proj_bias": (3 * embed_dim,) if bias else None,
            "bias_k": (1, 1, embed_dim) if add_bias_kv else None,
            "bias_v": (1, 1, embed_dim) if add_bias_kv else None,
        }
        for name, shape in shapes.items():
            made = None if shape is None else Parameter(empty(shape, **like))
            self.register_parameter(name, made)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, **like)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        self._reset_parameters()

    @property
    def _qkv_same_embed_dim(self) -> bool:  # which programs ask
        """Whether queries, keys and values have one width, and so one weight."""
        return self.in_proj_weight is not None

    def _reset_parameters(self) -> None:  # by which programs call it
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if getattr(self, name) is not None:
                init.xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
        if self.out_proj.bias is not None:
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.normal_(bias, 0.0, (2 / (1 + self.embed_dim)) ** 0.5)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attention of every query to all keys.

        Args:
            query: ``(length, n, embed_dim)``, ``(n, length, embed_dim)`` with ``batch_first``, or
                ``(length, embed_dim)``.
            key: the same with ``kdim`` features.
            value: the same with ``vdim`` features.
            key_padding_mask: ``(n, keys)``: true where a key does not count, or added to scores.
            need_weights: give the weights too; without them the fused kernel never stores scores.
            attn_mask: ``(length, keys)`` or ``(n * num_heads, length, keys)``: true where a key
                does not count, or added to scores.
            average_attn_weights: of all heads.
            is_causal: that ``attn_mask`` is causal: a hint, which needs the mask.

        Returns:
            The result, shaped as ``query``; the weights, ``(n, length, keys)``, or with an axis of
            heads behind ``n``, or None.

        Raises:
            ArgumentError: if ``is_causal`` is given without its mask.
            ShapeError: if a shape does not fit.
        """
        if is_causal and attn_mask is None:
            raise ArgumentError(
                "MultiheadAttention", "is_causal is a hint about attn_mask", attn_mask=None
            )
        batched = query.ndim == 3
        operands = self._batch_first(query, key, value)
        if key_padding_mask is not None and not batched:
            key_padding_mask = key_padding_mask.unsqueeze(0)
        matrices = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        heads = Heads(
            self.num_heads,
            matrices if self.in_proj_weight is None else (self.in_proj_weight,),
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
        )
        share = self.dropout if self.training else 0.0
        y, weights = attended(
            operands, heads, key_padding_mask, attn_mask, share=share, need_weights=need_weights
        )
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        y = self.out_proj(y)
        if not batched:
            return y.squeeze(0), None if weights is None else weights.squeeze(0)
        return (y if self.batch_first else y.transpose(0, 1)), weights

    def _batch_first(
        self, query: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The operands as ``(n, length, features)``; three that are one tensor stay one.

        Raises:
            ShapeError: if they have not two or three axes, all as many.
        """
        ndim = query.ndim
        if ndim not in (2, 3) or not ndim == key.ndim == value.ndim:
            raise ShapeError(
                "MultiheadAttention",
                "operands have two or three axes, all as many",
                query=query.shape,
                key=key.shape,
                value=value.shape,
            )
        if ndim == 3 and self.batch_first:
            return query, key, value
        operands = (query,) if query is key and key is value else (query, key, value)
        turned = [x.unsqueeze(0) if ndim == 2 else x.transpose(0, 1) for x in operands]
        return turned[0], turned[len(turned) // 2], turned[-1]


class _Layer(Module):
    """What encoder and decoder layers share: branches, each with a residual and a norm.

    Attributes:
        reads_memory: whether there is a branch that attends to an encoder's results.
    """

    reads_memory: ClassVar[bool]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        like: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        heads: dict[str, Any] = {"batch_first": batch_first, **like}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, **heads)
        if self.reads_memory:
            self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, **heads)
        self.linear1 = Linear(d_model, dim_feedforward, **like)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **like)
        self.norm_first = norm_first
        branches = range(1, 4 if self.reads_memory else 3)
        for k in branches:
            self.add_module(f"norm{k}", LayerNorm(d_model, eps=layer_norm_eps, **like))
        for k in branches:
            self.add_module(f"dropout{k}", Dropout(dropout))
        self.activation = _activation(type(self).__name__, activation)

    # The branches have PyTorch's names: programs override them.

    def _sa_block(
        self,
        x: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        y, _ = self.self_attn(x, x, x, key_padding_mask, need_weights=False, attn_mask=attn_mask)
        return self.dropout1(y)

    def _ff_block(self, x: Tensor) -> Tensor:
        y = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return self.dropout3(y) if self.reads_memory else self.dropout2(y)


class TransformerEncoderLayer(_Layer):
    """Self-attention and two dense layers, each with a residual and a norm.

    Args:
        d_model: features.
        nhead: heads, which divide ``d_model``.
        dim_feedforward: features between the dense layers.
        dropout: of the weights, between the dense layers, and of each branch.
        activation: ``"relu"``, ``"gelu"`` or a function.
        layer_norm_eps: of the norms.
        batch_first: sequences are ``(n, length, features)``.
        norm_first: norms stand before their branch instead of behind the sum.
        bias: whether dense layers and norms have biases.
        device: where the parameters are; None: the current device.
        dtype: of the parameters.

    Raises:
        ArgumentError: if a setting is no good.
    """

    reads_memory = False

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """The shape of ``src``; masks as :class:`MultiheadAttention`'s."""
        masks = (src_mask, src_key_padding_mask, is_causal)
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *masks)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, *masks))
        return self.norm2(x + self._ff_block(x))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to an encoder's results, and two dense layers.

    Arguments as :class:`TransformerEncoderLayer`'s.
    """

    reads_memory = True

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The shape of ``tgt``; ``memory`` is the encoder's result."""
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, *other))
        return self.norm3(x + self._ff_block(x))

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        y, _ = self.multihead_attn(
            x, mem, mem, key_padding_mask, need_weights=False, attn_mask=attn_mask
        )
        return self.dropout2(y)


class TransformerEncoder(Module):
    """Copies of an encoder layer, one on the other.

    Args:
        encoder_layer: the layer, copied with its values.
        num_layers: how many copies.
        norm: applied to the last result, or None.
        enable_nested_tensor: give 0 at padded places where PyTorch does: outside training, without
            gradients, if all sequences are padded at their end; before ``norm``.
        mask_check: look whether they are.
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies("TransformerEncoder", encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """The shape of ``src``."""
        x = src
        for layer in self.layers:
            x = layer(x, src_mask=mask, src_key_padding_mask=src_key_padding_mask)
        if src_key_padding_mask is not None and mask is None and self._is_nested(src):
            padded = ops.ne(src_key_padding_mask, 0)
            if self.mask_check and src.shape[1] > 1:
                padded = padded & (padded[:, :-1] <= padded[:, 1:]).all()
            x = x.masked_fill(padded.unsqueeze(-1), 0)
        return x if self.norm is None else self.norm(x)

    def _is_nested(self, src: Tensor) -> bool:
        """Whether PyTorch computes without the padded places."""
        layer, now = self.layers[0], mode.current()
        if not self.enable_nested_tensor or self.training or src.ndim != 3:
            return False
        if type(layer) is not TransformerEncoderLayer or layer.training or layer.norm_first:
            return False
        heads = layer.self_attn
        if not heads.batch_first or heads.in_proj_bias is None or heads.num_heads % 2:
            return False
        known = layer.activation in (ops.relu, ops.gelu)
        known = known or isinstance(layer.activation, ReLU | GELU)
        if not known or layer.norm1.eps != layer.norm2.eps:
            return False
        recorded = now.grad and any(p.requires_grad for p in (src, *layer.parameters()))
        return not recorded and now.autocast is None


class TransformerDecoder(Module):
    """Copies of a decoder layer, one on the other.

    Args:
        decoder_layer: the layer, copied with its values.
        num_layers: how many copies.
        norm: applied to the last result, or None.
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies("TransformerDecoder", decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The shape of ``tgt``."""
        masks = {
            "tgt_mask": tgt_mask,
            "memory_mask": memory_mask,
            "tgt_key_padding_mask": tgt_key_padding_mask,
            "memory_key_padding_mask": memory_key_padding_mask,
        }
        x = tgt
        for layer in self.layers:
            x = layer(x, memory, **masks)
        return x if self.norm is None else self.norm(x)


class Transformer(Module):
    """An encoder and a decoder (Vaswani et al. 2017).

    The other arguments are those of :class:`TransformerEncoderLayer`.

    Args:
        num_encoder_layers: of the encoder.
        num_decoder_layers: of the decoder.
        custom_encoder: instead of the encoder built here.
        custom_decoder: instead of the decoder built here.

    Raises:
        ArgumentError: if a setting is no good.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        settings: Any = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias, device, dtype,
        )  # fmt: skip
        like: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*settings),
            num_encoder_layers,
            LayerNorm(d_model, eps=layer_norm_eps, **like),
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*settings),
            num_decoder_layers,
            LayerNorm(d_model, eps=layer_norm_eps, **like),
        )
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The shape of ``tgt``; masks as :class:`MultiheadAttention`'s."""
        memory = self.encoder(src, src_mask, src_key_padding_mask)
        return self.decoder(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask
        )

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: Any = None, dtype: DType | None = None
    ) -> Tensor:
        """``(sz, sz)``: 0 up to the diagonal, minus infinity above."""
        return additive_mask(ops.triu(ones(sz, sz, device=device), 1) > 0, dtype or default_float())


def _activation(name: str, activation: str | Activation) -> Activation:
    known: dict[str, Activation] = {"relu": ops.relu, "gelu": ops.gelu}
    if callable(activation):
        return activation
    if activation not in known:
        raise ArgumentError(
            name, "activation is 'relu', 'gelu' or a function", activation=repr(activation)
        )
    return known[activation]


def _get_activation_fn(activation: str) -> Activation:  # for packages
    """The function of PyTorch's two names of activations."""
    return _activation("_get_activation_fn", activation)


def _copies(name: str, layer: Module, num_layers: int) -> ModuleList:
    if not 1 <= num_layers <= 10_000:
        raise ArgumentError(name, "num_layers lies between 1 and 10,000", num_layers=num_layers)
    return ModuleList(copy.deepcopy(layer) for _ in range(num_layers))
