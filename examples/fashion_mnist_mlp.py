"""Dense layers on Fashion-MNIST: a plain loop over a compiled training step.

The files are looked for in CLNET_DATA and in the cache. To download them:
python -c "from clnet.data import FashionMNIST; FashionMNIST(download=True)"
"""

from itertools import islice

import clnet
from clnet import nn, optim
from clnet.data import DataLoader, FashionMNIST, Normalize
from clnet.errors import DataError
from clnet.nn import functional as F


def main(epochs=5, steps=None):
    """Train; ``steps`` limits the batches of an epoch."""
    try:
        train, test = FashionMNIST(train=True), FashionMNIST(train=False)
    except DataError as error:
        print(f"skipped: {error}")
        return
    clnet.manual_seed(0)
    transform = Normalize.of(train.arrays[0])
    loader = DataLoader(train, 128, shuffle=True, transform=transform)
    test_loader = DataLoader(test, 500, transform=transform)
    model = nn.Sequential(
        nn.Flatten(),
        nn.Linear(28 * 28, 256),
        nn.ReLU(),
        nn.Linear(256, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)

    @clnet.compile
    def train_step(images, labels):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    @clnet.compile
    def count_correct(images, labels):
        with clnet.no_grad():
            return (model(images).argmax(1) == labels).float().sum()

    for epoch in range(epochs):
        for images, labels in islice(loader, steps):
            loss = train_step(clnet.tensor(images), clnet.tensor(labels))
        scheduler.step()
        counts = [
            count_correct(clnet.tensor(images), clnet.tensor(labels)).item()
            for images, labels in islice(test_loader, steps)
        ]
        seen = min(len(test), len(counts) * 500)
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}, test accuracy {sum(counts) / seen:.4f}")


if __name__ == "__main__":
    main()
