"""A small network reads handwritten digits. Whoever knows PyTorch can read this."""

from itertools import islice

import clnet
from clnet import nn, optim
from clnet.data import DataLoader, Digits, Normalize
from clnet.nn import functional as F


def main(epochs=15, steps=None):
    clnet.manual_seed(0)
    train, test = Digits(train=True), Digits(train=False)
    transform = Normalize.of(train.arrays[0])
    loader = DataLoader(train, 64, shuffle=True, transform=transform)
    layers = [nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))
    optimizer = optim.Adam(model.parameters(), lr=3e-3)

    @clnet.compile  # records the step once, then replays it
    def train_step(images, labels):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for epoch in range(epochs):
        for images, labels in islice(loader, steps):
            loss = train_step(clnet.tensor(images), clnet.tensor(labels))
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}")
    images, labels = next(iter(DataLoader(test, len(test), transform=transform)))
    with clnet.no_grad():
        correct = model(clnet.tensor(images)).argmax(1) == clnet.tensor(labels)
    print(f"test accuracy {correct.float().mean().item():.3f}")


if __name__ == "__main__":
    main()
