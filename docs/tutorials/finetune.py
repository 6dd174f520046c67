# %% [markdown]
# # Fine-tuning from a state dict
#
# `pip install "clnet[pocl]"`. A network that knows digits is asked something else, is a number odd, and has few
# examples of that: its state is loaded into a network with another head, and all but the head is frozen at first.
#
# - **Data**: 1,797 digits of 8x8 that come with clnet; 20 of them have the new labels.
# - **Result**: of the test, 78.3% by a new head alone, 80.8% when then everything learns, 75.2% from random weights
#   in as many steps; 11 seconds in all.

# %%
import clnet
from clnet import optim
from clnet.data import DataLoader, Digits, Normalize, Subset
from clnet.models import CNN
from clnet.nn import functional as F
from clnet.train import Trainer, accuracy

EPOCHS, FEW = 15, 20

train, test = Digits(train=True), Digits(train=False)
normalize = Normalize.of(train.arrays[0])


def trained(model, examples, epochs, *, classes, lr=2e-3):
    """Train what is not frozen to tell labels modulo ``classes``; the accuracy in the test."""
    trainer = Trainer(
        model,
        lambda scores, labels: F.cross_entropy(scores, labels % classes),
        optim.Adam([p for p in model.parameters() if p.requires_grad], lr=lr),
        metrics={"accuracy": lambda scores, labels: accuracy(scores, labels % classes)},
        progress=False,
    )
    size = min(64, len(examples))
    trainer.fit(DataLoader(examples, size, shuffle=True, transform=normalize), epochs=epochs)
    return trainer.evaluate(DataLoader(test, 256, transform=normalize))["accuracy"]


# %% [markdown]
# What is there already: a network that tells ten digits apart, kept in a file.

# %%
clnet.manual_seed(0)
first = CNN((1, 8, 8), 10)
print(f"ten digits: {trained(first, train, EPOCHS, classes=10):.3f}")
clnet.save(first.state_dict(), "digits.pt")

# %% [markdown]
# `clnet.load` reads files of `clnet.save` and of `torch.save`, without running what is in them; weights of torchvision
# load into `clnet.models.resnet18()` the same way. The old head is left out here, and `strict=False` says what is
# missing.

# %%
state = clnet.load("digits.pt")
for name, value in state.items():
    print(name, tuple(value.shape))
kept = {name: value for name, value in state.items() if not name.startswith("fc2.")}
clnet.manual_seed(1)
second = CNN((1, 8, 8), 2)
print(second.load_state_dict(kept, strict=False))

# %% [markdown]
# First only the head learns; then everything, more slowly. An epoch is one step here, of all 20 images.

# %%
few = Subset(train, range(FEW))
for name, parameter in second.named_parameters():
    parameter.requires_grad_(name.startswith("fc2."))
print(f"odd or even, the head alone: {trained(second, few, 4 * EPOCHS, classes=2):.3f}")
for parameter in second.parameters():
    parameter.requires_grad_(True)
print(f"then everything: {trained(second, few, 4 * EPOCHS, classes=2, lr=2e-4):.3f}")

# %% [markdown]
# As many steps from random weights:

# %%
clnet.manual_seed(1)
print(f"from nothing: {trained(CNN((1, 8, 8), 2), few, 8 * EPOCHS, classes=2):.3f}")
