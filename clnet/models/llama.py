"""Llama-like decoders (Touvron et al. 2023): RMS norm, rotary positions, SwiGLU, shared keys.

Entries of ``state_dict`` have the names that published weights have.
"""

from __future__ import annotations

from dataclasses import dataclass

from .. import nn, ops
from ..autodiff.tape import no_grad
from ..creation import arange
from ..errors import ArgumentError, ShapeError
from ..nn import functional as F
from ..nn import init
from ..ops.rotary import rotary
from ..tensor import Tensor

Past = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class LlamaConfig:
    """Sizes of a decoder, by the names that published configurations have.

    Attributes:
        vocab_size: words.
        hidden_size: features of a position.
        intermediate_size: between the two dense layers of a block.
        num_hidden_layers: blocks.
        num_attention_heads: heads of the queries.
        num_key_value_heads: heads of keys and values, each for as many of the queries'.
        max_position_embeddings: the longest text.
        rope_theta: the base of the rotations' wavelengths.
        rms_norm_eps: added to mean squares.
    """

    vocab_size: int = 32000
    hidden_size: int = 4096
    intermediate_size: int = 11008
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    num_key_value_heads: int = 32
    max_position_embeddings: int = 2048
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-6

    def __post_init__(self) -> None:
        """Refuse sizes that do not fit.

        Raises:
            ArgumentError: if features are no whole pairs for each head, or heads cannot share.
        """
        if self.hidden_size % (2 * self.num_attention_heads):
            raise ArgumentError(
                "Llama", "a head has a whole number of pairs of features",
                hidden_size=self.hidden_size, num_attention_heads=self.num_attention_heads,
            )  # fmt: skip
        if self.num_attention_heads % self.num_key_value_heads:
            raise ArgumentError(
                "Llama", "as many heads of queries share each head of keys",
                num_attention_heads=self.num_attention_heads,
                num_key_value_heads=self.num_key_value_heads,
            )  # fmt: skip

    @property
    def head(self) -> int:
        """Features of a head."""
        return self.hidden_size // self.num_attention_heads


class LlamaAttention(nn.Module):
    """Every position attends to itself and those before it, among them what was kept.

    Args:
        config: the sizes.
    """

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        width, shared = config.hidden_size, config.num_key_value_heads * config.head
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, shared, bias=False)
        self.v_proj = nn.Linear(width, shared, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, past: Past | None = None
    ) -> tuple[Tensor, Past]:
        """``(n, steps, hidden_size)``, and all keys and values ``(n, heads, keys, head)``."""
        n, steps, width = x.shape
        q, k, v = (
            project(x).view(n, steps, -1, self.config.head).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = rotary(q, cos, sin), rotary(k, cos, sin)
        mask = None
        if past is not None:
            k, v = ops.cat([past[0], k], 2), ops.cat([past[1], v], 2)
            mask = _seen(x, steps, k.shape[2]) if steps > 1 else None
        shared = self.config.num_key_value_heads < self.config.num_attention_heads
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=past is None, enable_gqa=shared)
        return self.o_proj(y.transpose(1, 2).reshape(n, steps, width)), (k, v)


class LlamaMLP(nn.Module):
    """One dense layer times the SiLU of another, then a third (SwiGLU, Shazeer 2020).

    Args:
        config: the sizes.
    """

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        width, between = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(width, between, bias=False)
        self.up_proj = nn.Linear(width, between, bias=False)
        self.down_proj = nn.Linear(between, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """``x``'s shape."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaDecoderLayer(nn.Module):
    """Attention, then dense layers, each on a normed copy of ``x`` and added to it.

    Args:
        config: the sizes.
    """

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.self_attn = LlamaAttention(config)
        self.mlp = LlamaMLP(config)
        self.input_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, past: Past | None = None
    ) -> tuple[Tensor, Past]:
        """``(n, steps, hidden_size)``, and all keys and values."""
        y, kept = self.self_attn(self.input_layernorm(x), cos, sin, past)
        x = x + y
        return x + self.mlp(self.post_attention_layernorm(x)), kept


class LlamaModel(nn.Module):
    """A table of words, the blocks, and a norm.

    Args:
        config: the sizes.
    """

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            LlamaDecoderLayer(config) for _ in range(config.num_hidden_layers)
        )
        self.norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)


class Llama(nn.Module):
    """A decoder that says how likely each word is to come next, and can go on writing.

    Args:
        config: the sizes.
    """

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.model = LlamaModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        for parameter in self.parameters():
            if parameter.ndim == 2:
                init.normal_(parameter, 0.0, 0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """``(n, steps, vocab_size)``, before the softmax, from numbers of words ``(n, steps)``.

        Raises:
            ShapeError: if the text is longer than ``max_position_embeddings``.
        """
        return self.extend(tokens)[0]

    def extend(self, tokens: Tensor, past: list[Past] | None = None) -> tuple[Tensor, list[Past]]:
        """What :meth:`forward` gives for words that follow others, and what the next ones need.

        Args:
            tokens: numbers of words ``(n, steps)``.
            past: keys and values of the words before, by layer, as this method gave them; None:
                there are none.

        Raises:
            ShapeError: if the whole text is longer than ``max_position_embeddings``.
        """
        before = 0 if past is None else past[0][0].shape[2]
        steps, most = tokens.shape[1], self.config.max_position_embeddings
        if before + steps > most:
            raise ShapeError(
                "Llama", "a text is max_position_embeddings long at most", tokens=tokens.shape,
                before=before, max_position_embeddings=most,
            )  # fmt: skip
        x = self.model.embed_tokens(tokens)
        cos, sin = self._angles(tokens, before, before + steps)
        kept: list[Past] = []
        for number, layer in enumerate(self.model.layers):
            x, own = layer(x, cos, sin, None if past is None else past[number])
            kept.append(own)
        return self.lm_head(self.model.norm(x)), kept

    def generate(self, tokens: Tensor, count: int) -> Tensor:
        """The words and the ``count`` likeliest that follow, ``(n, steps + count)``.

        Args:
            tokens: numbers of words ``(n, steps)``.
            count: how many more.
        """
        with no_grad():
            text, past, given = [tokens], None, tokens
            for _ in range(count):
                scores, past = self.extend(given, past)
                given = scores[:, -1].argmax(-1, keepdim=True)
                text.append(given)
            return ops.cat(text, 1)

    def _angles(self, tokens: Tensor, first: int, last: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines of the positions' angles, ``(steps, head)`` each."""
        head, device = self.config.head, tokens.device
        powers = arange(0, head, 2, device=device) / head
        frequencies = 1.0 / self.config.rope_theta**powers
        angles = arange(first, last, device=device)[:, None] * frequencies
        angles = ops.cat([angles, angles], -1)
        return angles.cos(), angles.sin()


def _seen(like: Tensor, steps: int, keys: int) -> Tensor:
    """Which keys the last of so many positions see, ``(steps, keys)``."""
    place = arange(keys, device=like.device)
    return place[None, :] <= place[keys - steps :, None]


def llama2_7b() -> Llama:
    """Llama 2 of 7 thousand million parameters."""
    return Llama(LlamaConfig(max_position_embeddings=4096, rms_norm_eps=1e-5))


def llama3_8b() -> Llama:
    """Llama 3 of 8 thousand million parameters: four heads of queries share one of the keys."""
    config = LlamaConfig(
        vocab_size=128256,
        intermediate_size=14336,
        num_key_value_heads=8,
        max_position_embeddings=8192,
        rope_theta=500000.0,
        rms_norm_eps=1e-5,
    )
    return Llama(config)
