"""A tagger of words: a bidirectional GRU between a table and a dense layer."""

from __future__ import annotations

from .. import nn
from ..tensor import Tensor


class GRUTagger(nn.Module):
    """What kind each word of a text is, from the words before and behind it.

    Args:
        vocab_size: words.
        tags: kinds.
        embedding_dim: features of a word.
        hidden_size: of each direction.
        num_layers: above each other.
        dropout: between layers and before the last one.
    """

    def __init__(
        self,
        vocab_size: int,
        tags: int,
        *,
        embedding_dim: int = 128,
        hidden_size: int = 128,
        num_layers: int = 2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.gru = nn.GRU(
            embedding_dim, hidden_size, num_layers, batch_first=True, dropout=dropout,
            bidirectional=True,
        )  # fmt: skip
        self.dropout = nn.Dropout(dropout)
        self.hidden2tag = nn.Linear(2 * hidden_size, tags)

    def forward(self, tokens: Tensor) -> Tensor:
        """``(n, steps, tags)``, before the softmax, from numbers of words ``(n, steps)``."""
        y, _ = self.gru(self.embedding(tokens))
        return self.hidden2tag(self.dropout(y))


def gru_tagger(vocab_size: int, tags: int) -> GRUTagger:
    """Two layers of 128 features each way; arguments as :class:`GRUTagger`'s."""
    return GRUTagger(vocab_size, tags)
