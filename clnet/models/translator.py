"""An encoder and a decoder of texts (Vaswani et al. 2017), named as in PyTorch's tutorial."""

from __future__ import annotations

from collections import OrderedDict
from math import log, sqrt

from .. import nn, ops
from ..creation import arange
from ..errors import ShapeError
from ..nn import init
from ..tensor import Tensor


class PositionalEncoding(nn.Module):
    """Adds sines and cosines of the position.

    Args:
        width: features, an even number.
        dropout: behind.
        longest: positions.
    """

    pos_embedding: Tensor

    def __init__(self, width: int, dropout: float, longest: int) -> None:
        super().__init__()
        frequencies = (arange(0, width, 2) * (-log(10000.0) / width)).exp()
        angles = arange(longest)[:, None] * frequencies
        values = ops.stack([angles.sin(), angles.cos()], -1)
        self.register_buffer("pos_embedding", values.view(longest, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, steps, width)``."""
        return self.dropout(x + self.pos_embedding[: x.shape[1]])


class Translator(nn.Module):
    """What words follow in a text, from those before and another text.

    Args:
        src_vocab_size: words of the other text.
        tgt_vocab_size: words of this one.
        emb_size: features of a position, an even number.
        nhead: heads of the attention.
        num_layers: blocks of the encoder, and as many of the decoder.
        dim_feedforward: between their dense layers.
        dropout: in several places.
        longest: positions of a text.
    """

    def __init__(
        self,
        src_vocab_size: int,
        tgt_vocab_size: int,
        *,
        emb_size: int = 512,
        nhead: int = 8,
        num_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        longest: int = 5000,
    ) -> None:
        super().__init__()
        self.emb_size, self.longest = emb_size, longest
        self.transformer = nn.Transformer(
            emb_size, nhead, num_layers, num_layers, dim_feedforward, dropout, batch_first=True
        )
        self.generator = nn.Linear(emb_size, tgt_vocab_size)
        self.src_tok_emb = nn.Sequential(
            OrderedDict(embedding=nn.Embedding(src_vocab_size, emb_size))
        )
        self.tgt_tok_emb = nn.Sequential(
            OrderedDict(embedding=nn.Embedding(tgt_vocab_size, emb_size))
        )
        self.positional_encoding = PositionalEncoding(emb_size, dropout, longest)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """``(n, steps, tgt_vocab_size)``, before the softmax.

        Args:
            src: numbers of the other text's words ``(n, src_steps)``.
            tgt: of this text's ``(n, steps)``; a position sees those up to its own.

        Raises:
            ShapeError: if a text is longer than ``longest``.
        """
        if max(src.shape[1], tgt.shape[1]) > self.longest:
            raise ShapeError(
                "Translator", "a text is as long as the positions are at most", src=src.shape,
                tgt=tgt.shape, longest=self.longest,
            )  # fmt: skip
        scale = sqrt(self.emb_size)
        seen, wanted = (
            self.positional_encoding(table(words) * scale)
            for table, words in ((self.src_tok_emb, src), (self.tgt_tok_emb, tgt))
        )
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1], device=tgt.device)
        return self.generator(self.transformer(seen, wanted, tgt_mask=mask))


def translator(src_vocab_size: int, tgt_vocab_size: int) -> Translator:
    """The paper's base model; arguments as :class:`Translator`'s."""
    return Translator(src_vocab_size, tgt_vocab_size)
