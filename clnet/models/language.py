"""A recurrent language model: the next word from all before it, the state carried on."""

from __future__ import annotations

from typing import TypeAlias

from .. import nn
from ..errors import ArgumentError
from ..nn import init
from ..tensor import Tensor
from .initial import zero

State: TypeAlias = "tuple[Tensor, Tensor]"


class LSTMLanguageModel(nn.Module):
    """Rows of a table, layers of LSTM, and a dense layer over the vocabulary.

    Args:
        vocab_size: words.
        embedding_dim: of their rows.
        hidden_size: of the LSTM.
        num_layers: of the LSTM.
        dropout: probability behind the table and behind each layer.
        tie_weights: whether the last layer's weight is the table (then of ``hidden_size``).

    Raises:
        ArgumentError: if weights are tied whose sizes differ.
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_dim: int = 256,
        *,
        hidden_size: int = 256,
        num_layers: int = 2,
        dropout: float = 0.0,
        tie_weights: bool = False,
    ) -> None:
        super().__init__()
        if tie_weights and embedding_dim != hidden_size:
            raise ArgumentError(
                "LSTMLanguageModel",
                "tied weights have one size",
                embedding_dim=embedding_dim,
                hidden_size=hidden_size,
            )
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(vocab_size, embedding_dim)
        between = dropout if num_layers > 1 else 0.0
        self.rnn = nn.LSTM(embedding_dim, hidden_size, num_layers, dropout=between)
        self.decoder = nn.Linear(hidden_size, vocab_size)
        init.uniform_(self.encoder.weight, -0.1, 0.1)
        zero(self.decoder.bias)
        if tie_weights:
            self.decoder.weight = self.encoder.weight
        else:
            init.uniform_(self.decoder.weight, -0.1, 0.1)

    def forward(self, tokens: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """What follows each word, and the state behind the last.

        Args:
            tokens: ``(steps, n)``, numbers of words.
            state: what the call before returned, detached; None: zeros.

        Returns:
            ``(steps, n, vocab_size)``, before the softmax; and hidden and cell states,
            ``(num_layers, n, hidden_size)`` each.
        """
        y, last = self.rnn(self.drop(self.encoder(tokens)), state)
        return self.decoder(self.drop(y)), last


def lstm_language_model(
    vocab_size: int, *, hidden_size: int = 256, num_layers: int = 2, dropout: float = 0.0
) -> LSTMLanguageModel:
    """An LSTM whose table is as wide as its state; arguments as :class:`LSTMLanguageModel`'s."""
    return LSTMLanguageModel(
        vocab_size, hidden_size, hidden_size=hidden_size, num_layers=num_layers, dropout=dropout
    )
