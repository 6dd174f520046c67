"""Vision transformers (Dosovitskiy et al. 2021), with torchvision's names."""

from __future__ import annotations

from collections import OrderedDict
from math import sqrt

from .. import nn, ops
from ..creation import empty, zeros
from ..errors import ShapeError
from ..nn import init
from ..tensor import Tensor
from .initial import zero

_EPS = 1e-6


class MLPBlock(nn.Sequential):
    """Two dense layers with GELU between, each followed by dropout.

    Args:
        width: of input and result.
        hidden: between.
        dropout: the probability.
    """

    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__(
            nn.Linear(width, hidden),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, width),
            nn.Dropout(dropout),
        )
        for layer in (self[0], self[3]):
            init.xavier_uniform_(layer.weight)
            init.normal_(layer.bias, std=1e-6)


class EncoderBlock(nn.Module):
    """Attention among the patches, then dense layers, each behind a norm and with a shortcut.

    Args:
        num_heads: of the attention.
        hidden_dim: width of a patch.
        mlp_dim: width of the dense layers.
        dropout: behind attention and dense layers.
        attention_dropout: of the attention's weights.
    """

    def __init__(
        self,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
    ) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(hidden_dim, _EPS)
        self.self_attention = nn.MultiheadAttention(
            hidden_dim, num_heads, attention_dropout, batch_first=True
        )
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = nn.LayerNorm(hidden_dim, _EPS)
        self.mlp = MLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, patches, hidden_dim)``."""
        y = self.ln_1(x)
        y, _ = self.self_attention(y, y, y, need_weights=False)
        x = x + self.dropout(y)
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    """Blocks behind a sum with what is learnt of each place; arguments as the blocks'.

    Args:
        length: patches, the class's token among them.
        num_layers: blocks.
        num_heads: of the attention.
        hidden_dim: width of a patch.
        mlp_dim: width of the dense layers.
        dropout: behind all layers.
        attention_dropout: of the attention's weights.
    """

    def __init__(
        self,
        length: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
    ) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(init.normal_(empty(1, length, hidden_dim), std=0.02))
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.Sequential(
            OrderedDict(
                (
                    f"encoder_layer_{i}",
                    EncoderBlock(num_heads, hidden_dim, mlp_dim, dropout, attention_dropout),
                )
                for i in range(num_layers)
            )
        )
        self.ln = nn.LayerNorm(hidden_dim, _EPS)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, length, hidden_dim)``."""
        return self.ln(self.layers(self.dropout(x + self.pos_embedding)))


class VisionTransformer(nn.Module):
    """Patches and a token for the class go through an encoder; a dense layer reads the token.

    Args:
        image_size: height and width of the images, whole patches.
        patch_size: height and width of a patch.
        num_layers: blocks of the encoder.
        num_heads: of the attention.
        hidden_dim: width of a patch.
        mlp_dim: width of the dense layers between.
        dropout: behind the encoder's layers.
        attention_dropout: of the attention's weights.
        num_classes: outputs.

    Raises:
        ShapeError: if images are not whole patches.
    """

    def __init__(
        self,
        image_size: int,
        patch_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        *,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        num_classes: int = 1000,
    ) -> None:
        super().__init__()
        if image_size % patch_size:
            raise ShapeError(
                "VisionTransformer", "an image is whole patches", image_size=image_size,
                patch_size=patch_size,
            )  # fmt: skip
        self.image_size, self.patch_size, self.hidden_dim = image_size, patch_size, hidden_dim
        self.class_token = nn.Parameter(zeros(1, 1, hidden_dim))
        self.conv_proj = nn.Conv2d(3, hidden_dim, patch_size, patch_size)
        self.encoder = Encoder(
            (image_size // patch_size) ** 2 + 1,
            num_layers,
            num_heads,
            hidden_dim,
            mlp_dim,
            dropout,
            attention_dropout,
        )
        head = nn.Linear(hidden_dim, num_classes)
        self.heads = nn.Sequential(OrderedDict(head=head))
        init.trunc_normal_(self.conv_proj.weight, std=1 / sqrt(3 * patch_size * patch_size))
        zero(self.conv_proj.bias)
        init.zeros_(head.weight)
        zero(head.bias)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, num_classes)``, before the softmax, from ``(n, 3, image_size, image_size)``.

        Raises:
            ShapeError: if images have another size.
        """
        if x.shape[-2:] != (self.image_size, self.image_size):
            raise ShapeError(
                "VisionTransformer", "images have the size it was made for", x=x.shape,
                image_size=self.image_size,
            )  # fmt: skip
        patches = self.conv_proj(x).flatten(2).transpose(1, 2)
        token = self.class_token.expand(x.shape[0], 1, self.hidden_dim)
        return self.heads(self.encoder(ops.cat([token, patches], 1))[:, 0])


def vit_b_16(num_classes: int = 1000, *, image_size: int = 224) -> VisionTransformer:
    """ViT-B/16; arguments as :class:`VisionTransformer`'s."""
    return VisionTransformer(image_size, 16, 12, 12, 768, 3072, num_classes=num_classes)


def vit_b_32(num_classes: int = 1000, *, image_size: int = 224) -> VisionTransformer:
    """ViT-B/32; arguments as :class:`VisionTransformer`'s."""
    return VisionTransformer(image_size, 32, 12, 12, 768, 3072, num_classes=num_classes)


def vit_l_16(num_classes: int = 1000, *, image_size: int = 224) -> VisionTransformer:
    """ViT-L/16; arguments as :class:`VisionTransformer`'s."""
    return VisionTransformer(image_size, 16, 24, 16, 1024, 4096, num_classes=num_classes)
