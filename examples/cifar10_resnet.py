"""ResNet-14 on CIFAR-10: shifted and mirrored images, SGD along a cosine.

The files are looked for in CLNET_DATA and in the cache. To download them:
python -c "from clnet.data import CIFAR10; CIFAR10(download=True)"
"""

from itertools import islice

import clnet
from clnet import optim
from clnet.data import CIFAR10, Compose, DataLoader, Normalize, RandomCrop, RandomHorizontalFlip
from clnet.errors import DataError
from clnet.models import resnet14_bn
from clnet.nn import functional as F


def main(epochs=60, steps=None):
    """Train; ``steps`` limits the batches of an epoch."""
    try:
        train, test = CIFAR10(train=True), CIFAR10(train=False)
    except DataError as error:
        print(f"skipped: {error}")
        return
    clnet.manual_seed(0)
    normalize = Normalize.of(train.arrays[0][:: 100 if steps else 1])
    varied = Compose([RandomHorizontalFlip(), RandomCrop(4), normalize])
    size = 8 if steps else 128
    loader = DataLoader(train, size, shuffle=True, drop_last=True, transform=varied)
    test_loader = DataLoader(test, 2 * size, transform=normalize)
    model = resnet14_bn()
    optimizer = optim.SGD(
        model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True
    )
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader))

    @clnet.compile
    def train_step(images, labels):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    @clnet.compile
    def are_correct(images, labels):
        with clnet.no_grad():
            return (model(images).argmax(1) == labels).float()

    for epoch in range(min(epochs, steps or epochs)):
        model.train()
        for images, labels in islice(loader, steps):
            loss = train_step(clnet.tensor(images), clnet.tensor(labels))
            scheduler.step()
        model.eval()
        correct = [
            are_correct(clnet.tensor(images), clnet.tensor(labels))
            for images, labels in islice(test_loader, steps)
        ]
        accuracy = clnet.cat(correct).mean().item()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}, test accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
