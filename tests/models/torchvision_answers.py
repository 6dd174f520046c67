"""What torchvision 0.29 (on PyTorch 2.13) gave for its networks, and the weights it was asked with.

Of each network the number of parameters, that of the entries of ``state_dict``, and a fingerprint
of their names, order and shapes; of some, with seven classes and entries drawn by their names, the
classes of the second of two images of 64x64 (inception_v3: 75x75), and the sum of the sizes of the
images' gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from math import prod, sqrt
from zlib import crc32

import numpy as np

STATES = {
    "resnet152": (60_192_808, 932, "685c66205bc8"),
    "resnext50_32x4d": (25_028_904, 320, "e3bad165c034"),
    "resnext101_32x8d": (88_791_336, 626, "da7dd7525807"),
    "wide_resnet50_2": (68_883_240, 320, "41203d1d536c"),
    "wide_resnet101_2": (126_886_696, 626, "4f088c0a152b"),
    "convnext_tiny": (28_589_128, 182, "2bc10f3450aa"),
    "convnext_small": (50_223_688, 344, "92e28edd02cc"),
    "convnext_base": (88_591_464, 344, "7a4c459fd822"),
    "vit_b_16": (86_567_656, 152, "b124b34d9346"),
    "vit_b_32": (88_224_232, 152, "f8bc3a1f2fd0"),
    "vit_l_16": (304_326_632, 296, "0fd5127fe79b"),
    "mobilenet_v3_large": (5_483_032, 312, "efe98e40831b"),
    "mobilenet_v3_small": (2_542_856, 244, "5f0efaf3ff4a"),
    "efficientnet_b0": (5_288_548, 360, "a04d0792ee39"),
    "efficientnet_b1": (7_794_184, 508, "9aaba0741e04"),
    "efficientnet_b2": (9_109_994, 508, "a6d3677e95ef"),
    "efficientnet_b3": (12_233_232, 574, "495111442d67"),
    "efficientnet_b4": (19_341_616, 706, "2974b9d3c055"),
    "mnasnet1_0": (4_383_312, 314, "c26097f381d5"),
    "shufflenet_v2_x0_5": (1_366_792, 338, "f0a5936e646f"),
    "shufflenet_v2_x1_0": (2_278_604, 338, "81b349bc1cbb"),
    "swin_t": (28_288_354, 185, "02c436acbe27"),
    "swin_s": (49_606_258, 353, "ecfabc2afa4f"),
    "googlenet": (13_004_888, 364, "7f541ca29410"),
    "inception_v3": (27_161_264, 580, "aab0ac2cbaf8"),
    "regnet_y_400mf": (4_344_144, 384, "f09a9d430ba9"),
    "regnet_x_400mf": (5_495_976, 428, "a620146711ee"),
}
RESULTS = {
    "mobilenet_v3_small": (
        [0.223903, -0.069094, -0.13051, 0.11535, -0.162605, 0.168792, 0.145149],
        0.00516767,
    ),
    "efficientnet_b0": (
        [0.124292, 0.0408568, 0.0366201, -0.0674641, 0.241605, 0.00242544, 0.087065],
        7.78411e-05,
    ),
    "mnasnet1_0": (
        [-0.0873055, 0.123133, 0.262969, -0.104708, 0.120976, 0.0891995, 0.0776697],
        1.5336,
    ),
    "shufflenet_v2_x0_5": (
        [0.083316, 0.0786019, -0.0857276, -0.183073, 0.349535, 0.314564, -0.368774],
        1.11311,
    ),
    "convnext_tiny": (
        [0.13656, -1.27713, -0.489845, -0.193912, 0.60488, -0.386116, 0.662906],
        184.682,
    ),
    "vit_b_32": (
        [-0.0414123, 1.65067, -0.724341, -1.10761, -1.10122, -0.545958, 0.342451],
        281.937,
    ),
    "resnext50_32x4d": (
        [-1.80763, -3.57786, 0.509687, 1.24143, -2.06747, -0.652478, 1.00452],
        96.652,
    ),
    "swin_t": (
        [-0.171574, -0.949864, -0.485119, 1.10994, -1.35418, 0.494255, 0.303912],
        144.282,
    ),
    "googlenet": (
        [-0.0991113, 0.230738, -0.255929, -0.00212901, 0.281925, 0.150124, -0.214519],
        1.82537,
    ),
    "inception_v3": (
        [0.055705, 0.166561, 0.0427404, -0.130585, 0.0533139, 0.275453, -0.157153],
        0.0429339,
    ),
    "regnet_y_400mf": (
        [-0.0491661, 0.890988, -0.102775, -0.585818, -0.766087, 1.3257, -1.40724],
        9.51675,
    ),
}


_CHUNK = 2**15  # numbers at a time: the pages of 88 million doubles take longer than to draw them


def drawn(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """An entry of a ``state_dict``, such that what goes through many layers keeps its size."""
    rng = np.random.default_rng(crc32(name.encode()))
    if name.endswith("num_batches_tracked"):
        return np.array(3, np.int64)
    if name.endswith("running_var"):
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)
    if len(shape) < 2:
        return (rng.standard_normal(shape) * 0.1 + name.endswith("weight") * 1.0).astype(np.float32)
    values = np.empty(prod(shape), np.float32)
    for i in range(0, len(values), _CHUNK):
        part = values[i : i + _CHUNK]
        part[:] = rng.standard_normal(len(part)) / sqrt(max(prod(shape[1:]), 1))
    return values.reshape(shape)


def fingerprint(shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Of all names with their shapes, in order."""
    text = "\n".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
    return sha256(text.encode()).hexdigest()[:12]
