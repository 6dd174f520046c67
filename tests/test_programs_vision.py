"""torchvision's operators, which it has in C++, beside loops; operators by dispatch keys."""

from __future__ import annotations

from itertools import product
from math import ceil, floor

import numpy as np
import pytest

import clnet
from clnet.compat import library, vision
from clnet.errors import ShapeError

pytestmark = pytest.mark.device
torchvision = library.operators.torchvision


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def boxes_of(rng, n, dtype=np.float32):
    corner = rng.uniform(0, 50, (n, 2))
    return np.concatenate([corner, corner + rng.uniform(1, 30, (n, 2))], 1).astype(dtype)


def kept_of(boxes, scores, threshold):
    """Greedy suppression by a loop, in the boxes' dtype; the threshold is a double."""
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    dropped, kept = np.zeros(len(boxes), bool), []
    for i in np.argsort(-scores, kind="stable"):
        if dropped[i]:
            continue
        kept.append(int(i))
        low, high = np.maximum(boxes[i, :2], boxes[:, :2]), np.minimum(boxes[i, 2:], boxes[:, 2:])
        sides = np.clip(high - low, 0, None)
        both = sides[:, 0] * sides[:, 1]
        dropped |= (both / (area[i] + area - both)).astype(np.float64) > threshold
    return kept


@pytest.mark.parametrize("n", [0, 1, 67, 300])
def test_suppression_is_greedy(rng, n, monkeypatch):
    boxes, scores = boxes_of(rng, n), rng.integers(0, 40, n).astype(np.float32)
    for block in (32, 2048):
        monkeypatch.setattr(vision, "_BLOCK", block)
        for threshold in (0.1, 0.5):
            found = torchvision.nms(clnet.tensor(boxes), clnet.tensor(scores), threshold)
            assert found.dtype is clnet.int64
            assert found.tolist() == kept_of(boxes, scores, threshold)


def test_suppression_compares_with_a_double():
    """3 of 10 is 0.3 in float32, which is more than the double 0.3: the box goes."""
    boxes = clnet.tensor([[0.0, 0.0, 10.0, 1.0], [0.0, 0.0, 3.0, 1.0]])
    scores = clnet.tensor([2.0, 1.0])
    assert kept_of(boxes.numpy(), scores.numpy(), 0.3) == [0]
    assert torchvision.nms(boxes, scores, 0.3).tolist() == [0]
    assert torchvision.nms(boxes, scores, 0.31).tolist() == [0, 1]


def value_at(picture, y, x):
    """Between pixels, as torchvision's regions are sampled; 0 further than one outside."""
    h, w = picture.shape[-2:]
    if not (-1 <= y <= h and -1 <= x <= w):
        return 0 * picture[..., 0, 0]
    y, x = min(max(y, 0), h - 1), min(max(x, 0), w - 1)
    i, j = int(y), int(x)
    k, m = min(i + 1, h - 1), min(j + 1, w - 1)
    upper = picture[..., i, j] * (1 - x + j) + picture[..., i, m] * (x - j)
    lower = picture[..., k, j] * (1 - x + j) + picture[..., k, m] * (x - j)
    return upper * (1 - y + i) + lower * (y - i)


def means_of(pictures, roi, scale, bins, ratio, *, aligned):
    """Each bin's mean of samples, of all channels: ``(c, bins high, bins wide)``."""
    left, top, right, bottom = roi[1:] * scale - (0.5 if aligned else 0)
    size = np.array([bottom - top, right - left])
    size = size if aligned else np.maximum(size, 1)
    step = size / bins
    grid = [ratio if ratio > 0 else ceil(s) for s in step]
    found = np.zeros((pictures.shape[1], *bins))
    for i, j in product(*map(range, bins)):
        for a, b in product(*map(range, grid)):
            y = top + (i + (a + 0.5) / grid[0]) * step[0]
            x = left + (j + (b + 0.5) / grid[1]) * step[1]
            found[:, i, j] += value_at(pictures[int(roi[0])], y, x) / (grid[0] * grid[1])
    return found


def regions_of(rng):
    """Inside, over the edges, smaller than a pixel, and outside."""
    corners = [[1.0, 2, 9, 8], [-6, -3, 4, 30], [3, 3, 3.2, 3.1], [40, 40, 50, 60]]
    return np.concatenate([[[0.0], [1], [1], [0]], np.array(corners) + rng.random((4, 4)) / 4], 1)


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [2, 0, -1])
def test_regions_are_means_of_samples(rng, ratio, aligned, monkeypatch):
    x, rois = rng.standard_normal((2, 3, 7, 9)), regions_of(rng)
    expected = [means_of(x, r, 0.5, (3, 2), ratio, aligned=aligned) for r in rois]
    for at_once in (1 << 24, 100):
        monkeypatch.setattr(vision, "_AT_ONCE", at_once)
        y = torchvision.roi_align(clnet.tensor(x), clnet.tensor(rois), 0.5, 3, 2, ratio, aligned)
        assert y.is_contiguous()
        np.testing.assert_allclose(y.numpy(), expected, atol=1e-12)


def test_regions_by_position(rng):
    x, rois = rng.standard_normal((2, 12, 7, 9)), regions_of(rng)
    y, channels = torchvision.ps_roi_align(clnet.tensor(x), clnet.tensor(rois), 0.5, 3, 2, 2)
    assert channels.dtype is clnet.int32
    assert channels.shape == y.shape == (4, 2, 3, 2)
    for k, c, i, j in product(range(4), range(2), range(3), range(2)):
        assert channels[k, c, i, j].item() == (c * 3 + i) * 2 + j
    full = np.array([means_of(x, r, 0.5, (3, 2), 2, aligned=True) for r in rois])
    expected = np.take_along_axis(full, channels.numpy().astype(np.int64), 1)
    np.testing.assert_allclose(y.numpy(), expected, atol=1e-12)


def test_regions_have_gradients_of_pictures_alone(rng):
    x = clnet.tensor(rng.standard_normal((2, 2, 5, 6)), requires_grad=True)
    rois = clnet.tensor(regions_of(rng), requires_grad=True)
    clnet.autograd.gradcheck(lambda v: torchvision.roi_align(v, rois, 0.5, 2, 2, 2, True), (x,))
    torchvision.roi_align(x, rois, 0.5, 2, 2, 2, True).sum().backward()
    assert rois.grad is None
    half = torchvision.roi_align(x.half(), rois, 0.5, 2, 2, 2, True)
    full = torchvision.roi_align(x.half().double(), rois, 0.5, 2, 2, 2, True)
    assert half.dtype is clnet.float16
    np.testing.assert_allclose(half.tolist(), full.tolist(), atol=2e-3)
    none = torchvision.roi_align(x, rois[:0], 0.5, 2, 2, -1, True)
    assert none.shape == (0, 2, 2, 2)


def zero_outside(picture, y, x):
    """Between pixels, those outside being 0, as deformable convolutions are sampled."""
    i, j, found = floor(y), floor(x), 0 * picture[..., 0, 0]
    for k, m in product((i, i + 1), (j, j + 1)):
        if 0 <= k < picture.shape[-2] and 0 <= m < picture.shape[-1]:
            found = found + picture[..., k, m] * (1 - abs(y - k)) * (1 - abs(x - m))
    return found


def convolved(x, weight, offset, mask, bias, stride, pad, dilation, groups, offset_groups):
    """A deformable convolution by loops; ``mask`` may be None."""
    (n, c, _, _), (oc, icg, kh, kw) = x.shape, weight.shape
    found = np.zeros((n, oc, *offset.shape[2:])) + bias[:, None, None]
    per = c // offset_groups
    for b, o, i, j, k, p, q in product(*map(range, (n, oc, *offset.shape[2:], icg, kh, kw))):
        channel = o // (oc // groups) * icg + k
        tap = channel // per * kh * kw + p * kw + q
        y = i * stride[0] - pad[0] + p * dilation[0] + offset[b, 2 * tap, i, j]
        at = j * stride[1] - pad[1] + q * dilation[1] + offset[b, 2 * tap + 1, i, j]
        factor = 1 if mask is None else mask[b, tap, i, j]
        found[b, o, i, j] += weight[o, k, p, q] * factor * zero_outside(x[b, channel], y, at)
    return found


@pytest.mark.parametrize("masked", [False, True])
def test_deformable_convolution(rng, masked):
    stride, pad, dilation, groups, offset_groups = (1, 2), (1, 0), (1, 2), 2, 2
    x, weight = rng.standard_normal((2, 4, 4, 7)), rng.standard_normal((4, 2, 3, 2))
    offset = rng.uniform(-2.5, 2.5, (2, 2 * 2 * 6, 4, 3))
    mask, bias = rng.random((2, 2 * 6, 4, 3)), rng.standard_normal(4)
    settings = (*stride, *pad, *dilation, groups, offset_groups, masked)
    given = [clnet.tensor(v, requires_grad=True) for v in (x, weight, offset, mask, bias)]
    y = torchvision.deform_conv2d(*given, *settings)
    factor = mask if masked else None
    expected = convolved(
        x, weight, offset, factor, bias, stride, pad, dilation, groups, offset_groups
    )
    np.testing.assert_allclose(y.detach().numpy(), expected, atol=1e-12)
    taken = given if masked else [*given[:3], given[4]]
    found = clnet.autograd.grad((y * y).sum(), taken)
    step = 1e-6
    for value, slope in zip(taken, found, strict=True):
        at = tuple(rng.integers(0, s) for s in value.shape)
        ends = []
        for sign in (1, -1):
            moved = [v.detach().clone() for v in given]
            moved[[v is value for v in given].index(True)][at] += sign * step
            ends.append((torchvision.deform_conv2d(*moved, *settings) ** 2).sum().item())
        assert slope[at].item() == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5)


def test_a_batch_of_nothing_is_convolved():
    x, offset, weight = clnet.zeros(0, 2, 4, 5), clnet.zeros(0, 8, 3, 4), clnet.zeros(3, 2, 2, 2)
    settings = (1, 1, 0, 0, 1, 1, 1, 1, False)
    y = torchvision.deform_conv2d(x, weight, offset, clnet.zeros(0, 1), clnet.zeros(3), *settings)
    assert y.shape == (0, 3, 3, 4)


def test_shapes_that_do_not_fit_are_refused():
    box = clnet.zeros(2, 4)
    with pytest.raises(ShapeError, match=r"boxes are \(n, 4\)"):
        torchvision.nms(box, clnet.zeros(3), 0.5)
    with pytest.raises(ShapeError, match="rois are"):
        torchvision.roi_align(clnet.zeros(1, 1, 2, 2), box, 1.0, 2, 2, 2, False)
    with pytest.raises(ShapeError, match="channels are a multiple"):
        torchvision.ps_roi_align(clnet.zeros(1, 3, 2, 2), clnet.zeros(1, 5), 1.0, 2, 2, 2)
    x, weight, offset = clnet.zeros(1, 1, 4, 4), clnet.zeros(1, 1, 3, 3), clnet.zeros(1, 18, 3, 3)
    nothing = clnet.zeros(1)
    with pytest.raises(ShapeError, match="offsets are"):
        torchvision.deform_conv2d(
            x, weight, offset, nothing, nothing, 1, 1, 0, 0, 1, 1, 1, 1, False
        )


def test_torchvision_does_without_its_library():
    library.operators.load_library("/site-packages/torchvision/_C.so")
    assert torchvision._cuda_version() == -1
    assert torchvision.nms.default is torchvision.nms
    with pytest.raises(library.OperatorError, match="nothing of C"):
        library.operators.load_library("/site-packages/torchvision/image.so")


def test_only_what_computes_becomes_an_operator():
    """Abstract twins, casts and other devices' functions do not take an operator's place."""
    own = library.Library("only_what_computes", "DEF")
    own.impl("twice", lambda x: x * 2, "CPU")
    own.impl("twice", lambda x: x * 0, "Meta")
    own.impl("twice", lambda x: x * 0, "CUDA")
    library.Library("only_what_computes", "IMPL", "Meta").impl("twice", lambda x: x * 0)
    library.impl("only_what_computes::twice", "AutocastCUDA")(lambda x: x * 0)
    library.impl("only_what_computes::thrice", ("cpu", "cuda"), lambda x: x * 3)
    named = library.operators.only_what_computes
    assert (named.twice(7), named.thrice(7)) == (14, 21)
    own.impl("far", lambda x: x * 0, "CUDA")
    own.impl("far", lambda x: x * 4, "CPU")
    assert named.far(7) == 28


def test_a_check_of_all_elements_raises_what_it_is_told():
    check = clnet._check_tensor_all_with
    check(ValueError, clnet.tensor([True, True]))
    with pytest.raises(KeyError, match="told"):
        check(KeyError, clnet.tensor([True, False]), lambda: "told")
