"""A residual network on CIFAR-10 in 8 bits: its accuracy beside float32's, and the time of a batch.

The pictures are looked for in CLNET_DATA and in the cache. To download them:
python -c "from clnet.data import CIFAR10; CIFAR10(download=True)"
"""

from itertools import islice
from time import perf_counter

import clnet
from clnet import nn, optim
from clnet.data import CIFAR10, DataLoader, Normalize
from clnet.errors import ClnetError
from clnet.nn import functional as F


class Block(nn.Module):
    def __init__(self, inplanes, planes, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.shortcut = nn.Sequential()
        if stride > 1:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inplanes, planes, 1, stride=stride, bias=False), nn.BatchNorm2d(planes)
            )

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


def network():
    blocks = Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2)
    stem = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)
    return nn.Sequential(*stem, *blocks, *head)


def measure(model, loader, steps=None):
    """The share of right answers, and the least time of a whole batch in ms."""
    fast, right, seen, times = clnet.compile(model), 0, 0, []
    with clnet.no_grad():
        for images, labels in islice(loader, steps):
            x = clnet.tensor(images)
            fast(x)
            start = perf_counter()
            found = fast(x).argmax(1).numpy()
            times.append(perf_counter() - start)
            right += int((found == labels).sum())
            seen += len(labels)
    return right / seen, 1000 * min(times[:-1] or times)


def main(epochs=4, steps=None):
    """Train, then quantise; ``steps`` limits the batches of an epoch."""
    try:
        train, test = CIFAR10(train=True), CIFAR10(train=False)
    except ClnetError as error:
        print(f"skipped: {error}")
        return
    clnet.manual_seed(0)
    transform = Normalize.of(train.arrays[0])
    loader = DataLoader(train, 128, shuffle=True, drop_last=True, transform=transform)
    test_loader = DataLoader(test, 500, transform=transform)
    model = network()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    scheduler = optim.lr_scheduler.OneCycleLR(optimizer, 0.2, epochs * len(loader))

    @clnet.compile
    def train_step(images, labels):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for epoch in range(epochs):
        model.train()
        for images, labels in islice(loader, steps):
            loss = train_step(clnet.tensor(images), clnet.tensor(labels))
            scheduler.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}")
    model.eval()
    try:
        # Ranges of activations come from training pictures; 8 bits are seen at the test's.
        quantised = clnet.quantize(model, loader, num_batches=8)
    except ClnetError as error:
        print(f"skipped: {error}")
        return
    for name, net in (("float32", model), ("8 bits", quantised)):
        accuracy, ms = measure(net, test_loader, steps)
        print(f"{name:8} {accuracy:.2%} of the test images, {ms:.1f} ms for 500")


if __name__ == "__main__":
    main()
