"""BERT-like encoders (Devlin et al. 2019), with the names that published weights have."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from .. import nn, ops
from ..errors import ArgumentError, ShapeError
from ..nn import functional as F
from ..nn import init
from ..ops.create import positions
from ..tensor import Tensor
from .initial import zero


@dataclass(frozen=True)
class BertConfig:
    """Sizes of an encoder, by the names that published configurations have.

    Attributes:
        vocab_size: words.
        hidden_size: features of a position.
        num_hidden_layers: blocks.
        num_attention_heads: heads of their attention.
        intermediate_size: between the two dense layers of a block.
        max_position_embeddings: the longest text.
        type_vocab_size: kinds of parts of a text.
        hidden_dropout_prob: behind dense layers and norms of the tables.
        attention_probs_dropout_prob: of the attention's weights.
        layer_norm_eps: added to variances.
    """

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    layer_norm_eps: float = 1e-12

    def __post_init__(self) -> None:
        """Refuse heads that do not divide the features.

        Raises:
            ArgumentError: if they do not.
        """
        if self.hidden_size % self.num_attention_heads:
            raise ArgumentError(
                "Bert", "num_attention_heads divides hidden_size", hidden_size=self.hidden_size,
                num_attention_heads=self.num_attention_heads,
            )  # fmt: skip


class BertEmbeddings(nn.Module):
    """What tables know of a word, its place and its part of the text, normed.

    Args:
        config: the sizes.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, width, padding_idx=0)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, tokens: Tensor, token_types: Tensor | None = None) -> Tensor:
        """``(n, steps, hidden_size)``."""
        place = positions(type(tokens), tokens.shape[1], tokens.device)
        types = ops.zeros_like(tokens) if token_types is None else token_types
        x = self.word_embeddings(tokens) + self.token_type_embeddings(types)
        return self.dropout(self.LayerNorm(x + self.position_embeddings(place)))


class BertSelfAttention(nn.Module):
    """Every position attends to all that count.

    Args:
        config: the sizes.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        self.p = config.attention_probs_dropout_prob
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """``(n, steps, hidden_size)``; the mask is ``(n, 1, 1, steps)``."""
        n, steps, width = x.shape
        q, k, v = (
            project(x).view(n, steps, self.heads, width // self.heads).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        p = self.p if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, mask, dropout_p=p)
        return y.transpose(1, 2).reshape(n, steps, width)


class BertOutput(nn.Module):
    """A dense layer, added to what the branch began with, and normed.

    Args:
        features: of the layer's input.
        config: the sizes.
    """

    def __init__(self, features: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(features, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, y: Tensor, x: Tensor) -> Tensor:
        """``(n, steps, hidden_size)``."""
        return self.LayerNorm(self.dropout(self.dense(y)) + x)


class BertAttention(nn.Module):
    """Attention and what becomes of it.

    Args:
        config: the sizes.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.self = BertSelfAttention(config)
        self.output = BertOutput(config.hidden_size, config)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """``(n, steps, hidden_size)``."""
        return self.output(self.self(x, mask), x)


class BertLayer(nn.Module):
    """Attention, then two dense layers with GELU between.

    Args:
        config: the sizes.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = BertAttention(config)
        dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.intermediate = nn.Sequential(OrderedDict(dense=dense, gelu=nn.GELU()))
        self.output = BertOutput(config.intermediate_size, config)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """``(n, steps, hidden_size)``."""
        x = self.attention(x, mask)
        return self.output(self.intermediate(x), x)


class Bert(nn.Module):
    """An encoder of texts: features of every position, and of the whole.

    Args:
        config: the sizes; None: those of :func:`bert_base`.
    """

    def __init__(self, config: BertConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or BertConfig()
        self.embeddings = BertEmbeddings(config)
        layers = nn.ModuleList(BertLayer(config) for _ in range(config.num_hidden_layers))
        self.encoder = nn.ModuleDict({"layer": layers})
        dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.pooler = nn.Sequential(OrderedDict(dense=dense, tanh=nn.Tanh()))
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                init.normal_(module.weight, 0.0, 0.02)
            if isinstance(module, nn.Linear):
                zero(module.bias)

    def forward(
        self,
        tokens: Tensor,
        attention_mask: Tensor | None = None,
        token_types: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Features ``(n, steps, hidden_size)`` and, of the first position, ``(n, hidden_size)``.

        Args:
            tokens: numbers of words ``(n, steps)``.
            attention_mask: ``(n, steps)``, 0 or False where nothing is to be seen; None: nowhere.
            token_types: numbers of the parts ``(n, steps)``; None: all 0.

        Raises:
            ShapeError: if the text is longer than ``max_position_embeddings``.
        """
        most = self.config.max_position_embeddings
        if tokens.shape[1] > most:
            raise ShapeError(
                "Bert", "a text is max_position_embeddings long at most", tokens=tokens.shape,
                max_position_embeddings=most,
            )  # fmt: skip
        x = self.embeddings(tokens, token_types)
        mask = None if attention_mask is None else attention_mask.bool()[:, None, None]
        for layer in self.encoder["layer"].children():
            x = layer(x, mask)
        return x, self.pooler(x[:, 0])


def bert_base() -> Bert:
    """BERT's smaller one: 12 blocks of 12 heads, 768 features."""
    return Bert()
