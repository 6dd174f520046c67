"""A convolutional network on Fashion-MNIST: more than 90 % of the test images within 4 epochs.

The files are looked for in CLNET_DATA and in the cache. To download them:
python -c "from clnet.data import FashionMNIST; FashionMNIST(download=True)"
"""

from itertools import islice

import clnet
from clnet import nn, optim
from clnet.data import DataLoader, FashionMNIST, Normalize
from clnet.errors import DataError
from clnet.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.fc1 = nn.Linear(64 * 7 * 7, 128)
        self.dropout = nn.Dropout(0.25)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc2(self.dropout(x))


def main(epochs=4, steps=None):
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
    model = Net()
    optimizer = optim.Adam(model.parameters(), lr=2e-3)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader))

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
        model.train()
        for images, labels in islice(loader, steps):
            loss = train_step(clnet.tensor(images), clnet.tensor(labels))
            scheduler.step()  # the replayed step reads the new rate
        model.eval()
        counts = [
            count_correct(clnet.tensor(images), clnet.tensor(labels)).item()
            for images, labels in islice(test_loader, steps)
        ]
        seen = min(len(test), len(counts) * 500)
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}, test accuracy {sum(counts) / seen:.4f}")


if __name__ == "__main__":
    main()
