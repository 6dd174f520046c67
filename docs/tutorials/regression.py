# %% [markdown]
# # Linear regression, three ways
#
# `pip install "clnet[pocl,plot]"`. A straight line through points: by the formula, by gradient descent, and by a
# line for outliers.
#
# - **Data**: 100 points made on the spot, a fifth of them far off.
# - **Result**: slope and offset 1.56 and -0.11 by squares, 1.52 and -0.44 by absolute errors; 1.5 and -0.5 are true.
#   A second each.

# %%
import matplotlib.pyplot as plt

import clnet
from clnet import nn, optim
from clnet.nn import functional as F

STEPS = 400

clnet.manual_seed(0)
x = clnet.rand(100, 1) * 4 - 2
y = 1.5 * x - 0.5 + 0.2 * clnet.randn(100, 1)
y[:20] += 4 * clnet.rand(20, 1)  # outliers, all above

# %% [markdown]
# The least squares have a formula, which `clnet.linalg.lstsq` solves:

# %%
inputs = clnet.cat([x, clnet.ones_like(x)], 1)
exact = clnet.linalg.lstsq(inputs, y).solution.flatten()
print(f"formula: {exact[0].item():.4f} x + {exact[1].item():.4f}")


# %% [markdown]
# Gradient descent finds the same, and goes on where no formula leads: the sum of absolute errors, which outliers do
# not drag along.


# %%
def fitted(loss_function):
    """Slope and offset that a loss likes best."""
    model = nn.Linear(1, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, total_iters=STEPS)

    @clnet.compile
    def step(x, y):
        optimizer.zero_grad()
        loss = loss_function(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(STEPS):
        loss = step(x, y)
        scheduler.step()
    print(f"{model.weight.item():.4f} x + {model.bias.item():.4f}, loss {loss.item():.4f}")
    return model


squares, absolute = fitted(F.mse_loss), fitted(F.l1_loss)

# %% [markdown]
# The points were drawn around `1.5 x - 0.5`.

# %%
figure, axis = plt.subplots(figsize=(5, 3), layout="constrained")
axis.scatter(x.numpy(), y.numpy(), s=8, color="gray")
ends = clnet.tensor([[-2.0], [2.0]])
for name, model in (("squares", squares), ("absolute errors", absolute)):
    axis.plot(ends.numpy(), model(ends).detach().numpy(), label=name)
axis.legend()
plt.show()

# %% [markdown]
# Any function of tensors is lowered the same way, here with the tape alone: Rosenbrock's long curved valley, whose
# lowest point is (1, 1).

# %%
point = clnet.tensor([-1.2, 1.0], requires_grad=True)
optimizer = optim.LBFGS([point], max_iter=STEPS // 4, line_search_fn="strong_wolfe")


def valley():
    optimizer.zero_grad()
    value = (1 - point[0]) ** 2 + 100 * (point[1] - point[0] ** 2) ** 2
    value.backward()
    return value


optimizer.step(valley)
print(f"the lowest point is near {point.detach().numpy().round(4)}")
