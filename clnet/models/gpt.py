"""A decoder-only transformer of GPT-2's shape (Radford et al. 2019)."""

from __future__ import annotations

from math import sqrt

from .. import nn
from ..errors import ArgumentError, ShapeError
from ..nn import functional as F
from ..nn import init
from ..ops.create import positions
from ..tensor import Tensor


class CausalSelfAttention(nn.Module):
    """Every position attends to itself and those before it.

    Args:
        n_embd: features of a position.
        n_head: heads, which share them.
        dropout: probability behind.
    """

    def __init__(self, n_embd: int, n_head: int, dropout: float) -> None:
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, steps, n_embd)``."""
        n, steps, width = x.shape
        q, k, v = (
            part.view(n, steps, self.n_head, width // self.n_head).transpose(1, 2)
            for part in self.c_attn(x).split(width, 2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.dropout(self.c_proj(y.transpose(1, 2).reshape(n, steps, width)))


class GPTBlock(nn.Module):
    """Attention, then two dense layers, each on a normed copy of ``x`` and added to it.

    Args:
        n_embd: features of a position.
        n_head: heads of the attention.
        dropout: probability behind each of the two.
    """

    def __init__(self, n_embd: int, n_head: int, dropout: float) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(n_embd)
        self.attn = CausalSelfAttention(n_embd, n_head, dropout)
        self.ln_2 = nn.LayerNorm(n_embd)
        self.mlp = nn.Sequential(
            {
                "c_fc": nn.Linear(n_embd, 4 * n_embd),
                "gelu": nn.GELU("tanh"),
                "c_proj": nn.Linear(4 * n_embd, n_embd),
                "dropout": nn.Dropout(dropout),
            }
        )

    def forward(self, x: Tensor) -> Tensor:
        """``(n, steps, n_embd)``."""
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """Words and positions from tables, blocks of attention, and the table of words again.

    Args:
        vocab_size: words.
        block_size: the longest text.
        n_layer: blocks.
        n_head: heads of their attention.
        n_embd: features of a position.
        dropout: probability in several places.

    Raises:
        ArgumentError: if the heads do not divide the features.
    """

    def __init__(
        self,
        vocab_size: int,
        block_size: int = 256,
        *,
        n_layer: int = 4,
        n_head: int = 4,
        n_embd: int = 128,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if n_embd % n_head:
            raise ArgumentError("GPT", "n_head divides n_embd", n_head=n_head, n_embd=n_embd)
        self.block_size = block_size
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.wpe = nn.Embedding(block_size, n_embd)
        self.drop = nn.Dropout(dropout)
        self.h = nn.ModuleList(GPTBlock(n_embd, n_head, dropout) for _ in range(n_layer))
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        self.lm_head.weight = self.wte.weight
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                init.zeros_(parameter)
            elif parameter.ndim == 2:
                # The sum over the blocks keeps its variance.
                residual = sqrt(2 * n_layer) if name.endswith("c_proj.weight") else 1.0
                init.normal_(parameter, 0.0, 0.02 / residual)

    def forward(self, tokens: Tensor) -> Tensor:
        """``(n, steps, vocab_size)``, before the softmax, from numbers of words ``(n, steps)``.

        Raises:
            ShapeError: if the text is longer than ``block_size``.
        """
        steps = tokens.shape[1]
        if steps > self.block_size:
            raise ShapeError(
                "GPT", "a text is block_size long at most", tokens=tokens.shape,
                block_size=self.block_size,
            )  # fmt: skip
        place = positions(type(tokens), steps, tokens.device)
        x = self.drop(self.wte(tokens) + self.wpe(place))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def gpt(vocab_size: int, block_size: int = 256) -> GPT:
    """A small GPT: 4 blocks of 4 heads, 128 features."""
    return GPT(vocab_size, block_size)


def gpt2(vocab_size: int = 50257, block_size: int = 1024) -> GPT:
    """GPT-2's smallest: 12 blocks of 12 heads, 768 features."""
    return GPT(vocab_size, block_size, n_layer=12, n_head=12, n_embd=768)
