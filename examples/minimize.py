"""Find the minimum of any function of tensors, as an iterator of its values."""

from itertools import islice

import clnet
from clnet import optim


def minimize(function, optimizer):
    """The values of a function while an optimiser lowers it, one for each step, without end."""

    @clnet.compile
    def step():
        optimizer.zero_grad()
        value = function()
        value.backward()
        optimizer.step()
        return value.detach()

    while True:
        yield step()


def main(steps=3000):
    point = clnet.tensor([-1.2, 1.0], requires_grad=True)

    def valley():
        """Rosenbrock's function: a long curved valley, whose lowest point is (1, 1)."""
        x, y = point[0], point[1]
        return (1 - x) ** 2 + 100 * (y - x**2) ** 2

    values = minimize(valley, optim.Adam([point], lr=0.02))
    for i, value in enumerate(islice(values, steps)):
        if i % 500 == 0:
            print(f"step {i}: {value.item():.6f}")
    print(f"the lowest point is near {point.detach().numpy().round(3)}")


if __name__ == "__main__":
    main()
