"""A variational autoencoder (Kingma and Welling 2014), with the names of PyTorch's example."""

from __future__ import annotations

from .. import nn, ops
from ..nn import functional as F
from ..random import randn_like
from ..tensor import Tensor


class VAE(nn.Module):
    """Dense layers to a mean and a variance, a value drawn of these, and dense layers back.

    Args:
        features: of an example, which are between 0 and 1.
        hidden: between.
        latent: what an example becomes.
    """

    def __init__(self, features: int = 784, hidden: int = 400, latent: int = 20) -> None:
        super().__init__()
        self.features = features
        self.fc1 = nn.Linear(features, hidden)
        self.fc21 = nn.Linear(hidden, latent)
        self.fc22 = nn.Linear(hidden, latent)
        self.fc3 = nn.Linear(latent, hidden)
        self.fc4 = nn.Linear(hidden, features)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Means and logarithms of variances, ``(n, latent)`` each, from ``(n, features)``."""
        h = F.relu(self.fc1(x))
        return self.fc21(h), self.fc22(h)

    def decode(self, z: Tensor) -> Tensor:
        """``(n, features)`` between 0 and 1, from ``(n, latent)``."""
        return ops.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """The example as it came back, ``(n, features)``, its mean and logarithm of variance.

        Args:
            x: ``(n, ...)`` of ``features`` elements each.
            noise: ``(n, latent)``, drawn normally; None: it is drawn here.
        """
        mu, logvar = self.encode(x.view(-1, self.features))
        drawn = randn_like(mu) if noise is None else noise
        return self.decode(mu + drawn * (0.5 * logvar).exp()), mu, logvar


def vae_loss(result: Tensor, x: Tensor, mu: Tensor, logvar: Tensor) -> Tensor:
    """What came back wrong, and how far the drawn values are from a normal distribution's.

    Args:
        result: ``(n, features)``, as :class:`VAE` gave it.
        x: the examples, of as many elements.
        mu: as :class:`VAE` gave it.
        logvar: the same.
    """
    wrong = F.binary_cross_entropy(result, x.view(*result.shape), reduction="sum")
    return wrong - 0.5 * (1 + logvar - mu * mu - logvar.exp()).sum()
