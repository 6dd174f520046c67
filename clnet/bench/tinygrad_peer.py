"""The side of tinygrad in ``clnet bench tinygrad``: a program that imports nothing of clnet.

It runs in a process of its own, and in an environment of its own where that has tinygrad. Called
with the name of a case and an ``.npz`` file of operands, it prints a line of JSON with the device
and the first results; then, for each number read, a line with the seconds of so many steps.
"""

# The peer is optional.

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Step = Callable[[], Any]
MARK = "clnet: "  # before each line that is an answer
CHECKED_STEPS = 3  # tinygrad records the second and replays from the third


def product(operands: dict[str, np.ndarray]) -> Step:
    """``a @ b``."""
    from tinygrad import Tensor, TinyJit  # noqa: PLC0415 - an optional peer

    a, b = (Tensor(operands[name]).contiguous().realize() for name in "ab")
    multiply = TinyJit(lambda a, b: (a @ b).realize())
    return lambda: multiply(a, b)


def training(name: str, operands: dict[str, np.ndarray]) -> Step:
    """A training step of a network from given weights, with SGD."""
    from tinygrad import Tensor, TinyJit, nn  # noqa: PLC0415 - an optional peer

    layers: list[Any] = []
    forward = _cnn(nn, layers) if name == "fashion-cnn" else _resnet50(nn, layers)
    parameters = [p for layer in layers for p in _learned(layer)]
    for i, parameter in enumerate(parameters):
        values = operands[f"p{i}"]
        if parameter.shape != values.shape:
            raise ValueError(f"parameter {i}: {parameter.shape}, not {values.shape}")
        parameter.assign(Tensor(values)).realize()
    x, y = (Tensor(operands[key]).contiguous().realize() for key in "xy")
    lr, momentum, weight_decay = operands["sgd"].tolist()
    optimizer = nn.optim.SGD(parameters, lr=lr, momentum=momentum, weight_decay=weight_decay)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = forward(x).sparse_categorical_crossentropy(y).backward()
        # Together: a loss that is realised later is one of the parameters after the step.
        return loss.realize(*optimizer.schedule_step())

    recorded = TinyJit(step)
    return lambda: recorded(x, y)


def _learned(layer: Any) -> Iterator[Any]:
    yield layer.weight
    if layer.bias is not None:
        yield layer.bias


def _cnn(nn: Any, layers: list[Any]) -> Callable[[Any], Any]:
    layers += [nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)]
    layers += [nn.Linear(3136, 128), nn.Linear(128, 10)]
    conv1, conv2, fc1, fc2 = layers

    def forward(x: Any) -> Any:
        x = conv2(conv1(x).relu().max_pool2d()).relu().max_pool2d()
        return fc2(fc1(x.flatten(1)).relu())

    return forward


def _resnet50(nn: Any, layers: list[Any]) -> Callable[[Any], Any]:
    def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> Callable[[Any], Any]:
        """A convolution and its batch norm."""
        filters = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
        norm = nn.BatchNorm(outputs)
        layers.extend((filters, norm))
        return lambda x: norm(filters(x))

    def bottleneck(inputs: int, planes: int, stride: int) -> Callable[[Any], Any]:
        first, second = conv(inputs, planes, 1), conv(planes, planes, 3, stride)
        third = conv(planes, 4 * planes, 1)
        beside = conv(inputs, 4 * planes, 1, stride) if inputs != 4 * planes else None

        def block(x: Any) -> Any:
            y = third(second(first(x).relu()).relu())
            return (y + (x if beside is None else beside(x))).relu()

        return block

    stem, blocks, inputs = conv(3, 64, 7, 2), [], 64
    for planes, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            blocks.append(bottleneck(inputs, planes, stride if i == 0 else 1))
            inputs = 4 * planes
    last = nn.Linear(2048, 1000)
    layers.append(last)

    def forward(x: Any) -> Any:
        x = stem(x).relu().max_pool2d((3, 3), stride=2, padding=1)
        for block in blocks:
            x = block(x)
        return last(x.mean((2, 3)))

    return forward


def main() -> None:
    """Serve a case until the input ends."""
    from tinygrad import Device  # noqa: PLC0415 - an optional peer
    from tinygrad.helpers import Context  # noqa: PLC0415

    name, file = sys.argv[1:]
    where: Any = Device["CL"]
    with np.load(file) as loaded:
        operands = dict(loaded)
    with Context(TRAINING=1, DEV="CL"):
        begin = time.perf_counter()
        step = product(operands) if "a" in operands else training(name, operands)
        results = [step().numpy() for _ in range(CHECKED_STEPS)]
        first = time.perf_counter() - begin
        shown = [r.reshape(-1)[:1000].tolist() for r in results]
        device = f"CL {where.device_name}"
        _say({"device": device, "results": shown, "first_seconds": first})
        for line in sys.stdin:
            start = time.perf_counter()
            for _ in range(int(line)):
                step()
            where.synchronize()
            _say(time.perf_counter() - start)


def _say(answer: object) -> None:
    print(MARK + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
