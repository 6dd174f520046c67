#!/usr/bin/env python3
"""Single ops, eager, beside PyTorch's: which are many times slower?

    python ci/op_speed.py [--device nvidia:0] [--rows 8] [--only TEXT/TEXT] [--below 0.5] [--core]

Prints for each op PyTorch's time over ours and the milliseconds of both, forward and with
gradients: the least of a few turns, each of as many calls as fit a moment. ``--rows`` multiplies
the first axis of operands. PyTorch takes two threads, or its first CUDA device. ``--core`` counts
milliseconds of cores in place of the clock's, PyTorch's on one thread: for machines that others
use, too, on which a thread that waits for another's turn takes ten times as long.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch

import clnet
from clnet.nn import functional

# An expression in x, y, z, the library t and its functions f; then operands: n normal, p positive,
# h and b normal of 16 bits (half, bfloat16), u between 0 and 1, s in order, d a definite matrix,
# and numbers whole ones below them.
CASES = """
x.sum(0) | n512x1024
x.sum(1) | n512x1024
x.sum() | n512x1024
x.mean() | n512x1024
x.std() | n512x1024
x.var(1) | n512x1024
x.prod(1) | n512x1024
x.norm(dim=1) | n512x1024
x.max(1).values | n512x1024
x.argmax(1) | n512x1024
(x > 3).any(1) | n512x1024
x.cumsum(0) | n512x1024
x.cumsum(1) | n512x1024
x.cumprod(1) | n512x1024
x.cummax(1).values | n512x1024
t.logcumsumexp(x, 1) | n512x1024
x.logsumexp(1) | n512x1024
x.softmax(0) | n512x1024
x.softmax(1) | n512x1024
x.log_softmax(1) | n512x1024
x.sort(1).values | n512x1024
x.flatten().sort().values | n512x1024
x.topk(8).values | n512x1024
x.median(1).values | n512x1024
x.quantile(0.3, dim=1) | n512x1024
t.unique(x) | 1000:512x1024
t.bincount(x) | 1000:524288
t.histc(x, 100, -3, 3) | n512x1024
t.searchsorted(x, y) | s4096 n512x1024
t.bucketize(y, x) | s64 n512x1024
(x > 0).nonzero() | n512x1024
x[x > 0] | n512x1024
t.where(x > 0, x, x * 2) | n512x1024
x.masked_fill(x > 1, 0.0) | n512x1024
x.t().contiguous() | n512x1024
x.permute(2, 0, 1).contiguous() | n64x128x64
x.flip(1) | n512x1024
x.roll(3, 1) | n512x1024
x.diff(dim=1) | n512x1024
x.tril() | n512x1024
t.cat([x, y], 1) | n512x1024 n512x1000
t.stack([x, y], -1) | n512x1024 n512x1024
x.repeat(2, 3) | n512x256
x.repeat_interleave(3, 1) | n512x256
sum(x.unbind(1)) | n512x16
f.pad(x, (3, 3, 2, 2), mode="reflect") | n8x16x64x64
x.gather(1, y) | n512x1024 1024:512x512
t.zeros_like(x).scatter_add(1, y, x) | n512x1024 1024:512x1024
x.index_select(0, y) | n512x1024 512:1024
t.zeros_like(x).index_add(0, y, x) | n512x1024 512:512
x[y, z] | n512x1024 512:32768 512:32768
t.take_along_dim(x, y, 1) | n512x1024 1024:512x100
f.embedding(y, x) | n10000x256 10000:512x16
f.embedding_bag(y, x) | n10000x64 10000:512x20
f.one_hot(x, 100) | 100:8192
f.gelu(x) | n512x1024
f.silu(x) | n512x1024
t.exp(x) | n512x1024
t.erf(x) | n512x1024
t.lgamma(x) | p512x1024
t.digamma(x) | p512x1024
x ** y | p512x1024 p512x1024
t.lerp(x, y, 0.3) | n512x1024 n512x1024
x + y | n512x1024 n512x1
(x[:, None] - y[None]).abs().sum(-1) | n256x64 n256x64
t.cdist(x, y) | n256x64 n512x64
x @ y | n32x64x64 n32x64x64
t.einsum("bihd,bjhd->bhij", x, y) | n4x64x8x32 n4x64x8x32
t.einsum("bi,bj->bij", x, y) | n512x64 n512x64
t.kron(x, y) | n32x32 n32x32
t.dot(x, y) | n524288 n524288
f.bilinear(x, y, z) | n512x32 n512x32 n16x32x32
f.conv2d(x, y, padding=1) | n8x32x32x32 n64x32x3x3
f.conv2d(x, y, padding=1, groups=32) | n8x32x32x32 n32x1x3x3
f.conv1d(x, y, padding=16) | n4x8x4096 n8x8x33
f.conv3d(x, y, padding=1) | n2x16x16x16x16 n16x16x3x3x3
f.conv_transpose2d(x, y, stride=2, padding=1) | n8x64x16x16 n64x32x4x4
f.conv_transpose3d(x, y, stride=2) | n2x16x8x8x8 n16x16x2x2x2
f.max_pool2d(x, 3, 2, 1) | n8x32x32x32
f.max_pool3d(x, 2) | n2x16x16x32x32
f.avg_pool2d(x, 3, 1, 1) | n8x32x32x32
f.adaptive_max_pool2d(x, 1) | n8x32x32x32
f.unfold(x, 3, padding=1) | n8x32x32x32
f.fold(x, (32, 32), 3, padding=1) | n8x144x1024
f.interpolate(x, scale_factor=2) | n8x32x32x32
f.interpolate(x, scale_factor=2, mode="bilinear") | n8x32x32x32
f.interpolate(x, scale_factor=2, mode="bicubic") | n8x32x32x32
f.grid_sample(x, y, align_corners=False) | n8x32x32x32 n8x32x32x2
f.pixel_shuffle(x, 4) | n8x32x32x32
f.batch_norm(x, None, None, y, z, True) | n8x32x32x32 n32 n32
f.layer_norm(x, (1024,), y, z) | n512x1024 n1024 n1024
f.group_norm(x, 8, y, z) | n8x32x32x32 n32 n32
f.local_response_norm(x, 5) | n8x32x32x32
f.cross_entropy(x, y) | n512x1024 1024:512
f.cross_entropy(x, y) | n8x21x64x64 21:8x64x64
f.binary_cross_entropy_with_logits(x, y) | n512x1024 p512x1024
f.smooth_l1_loss(x, y) | n512x1024 n512x1024
f.cosine_similarity(x, y) | n512x1024 n512x1024
f.ctc_loss(x.log_softmax(2), y + 1, y[:, 0] * 0 + 100, y[:, 0] * 0 + 20) | n100x16x40 39:16x20
f.scaled_dot_product_attention(x, y, z) | n4x4x128x32 n4x4x128x32 n4x4x128x32
t.fft.rfft(x).abs() | n512x1024
t.fft.rfft(x).abs() | n64x1009
t.fft.fft2(x).abs() | n16x64x64
t.stft(x, 400, 160, window=y, return_complex=True).abs() | n8x16000 p400
t.linalg.inv(x) | d16x32x32
t.linalg.inv(x) | d1x512x512
t.linalg.solve(x, y) | d16x32x32 n16x32x8
t.linalg.slogdet(x)[1] | d16x32x32
t.linalg.cholesky(x) | d16x32x32
t.linalg.cholesky(x) | d1x512x512
t.linalg.svdvals(x) | n4x32x32
t.linalg.eigvalsh(x) | d4x32x32
t.linalg.qr(x)[0] | n8x64x32
t.linalg.matrix_exp(x * 0.1) | n16x16x16
f.dropout(x, 0.3) | n512x1024
t.randn_like(x) | n512x1024
t.multinomial(x, 4, replacement=True) | p512x1024
(t.complex(x, y) * t.complex(y, x)).abs() | n512x1024 n512x1024
x[::2, 1::3] * 1 | n512x1024
f.glu(x) | n512x1024
x.to(t.float16) | n512x1024
x // 7 | 1000:512x1024
x.sum((0, 2)) | n64x32x256
x.std() | n64x128x64
x.var((0, 2)) | n64x128x64
x.amax((0, 2)) | n64x128x64
x.min() | n512x1024
x.argmin(0) | n512x1024
x.norm(3) | n512x1024
x.norm(1, dim=0) | n512x1024
t.linalg.vector_norm(x, 4, dim=1) | n512x1024
x.logsumexp(0) | n512x1024
x.logsumexp(1) | n8x21x64x64
x.prod(0) | n512x1024
x.cumprod(0) | n512x1024
x.cumsum(1) | n8x21x64x64
x.count_nonzero(1) | 3:512x1024
x.median() | n512x1024
x.kthvalue(9, 1).values | n512x1024
x.quantile(0.3) | n512x1024
x.mode(1).values | 50:64x128
x.sort(0).values | n512x1024
x.argsort(1) | n512x1024
x.softmax(1) | n8x21x64x64
x.log_softmax(1) | n8x21x64x64
sum(x.chunk(8, 1)) | n512x1024
sum(x.split(32, 1)) | n512x1024
t.cat([a.tanh() for a in x.chunk(4, -1)], -1) | n64x512
x.triu(1) | n16x128x128
x.diagonal(dim1=1, dim2=2).sum() | n64x64x64
t.diag_embed(x) | n64x64
f.pad(x, (3, 3, 2, 2), mode="replicate") | n8x16x64x64
f.pad(x, (3, 3, 2, 2), mode="circular") | n8x16x64x64
f.pad(x, (3, 3, 2, 2)) | n8x16x64x64
x.rot90(1, (2, 3)) | n8x16x64x64
x.expand(64, 512, 128) * 1 | n1x512x128
x.index_put((y, z), y * 0.5, accumulate=True) | n512x1024 512:32768 512:32768
t.scatter(x, 1, y, z) | n512x1024 1024:512x512 n512x512
x.scatter_reduce(1, y, x, "amax") | n512x1024 1024:512x1024
x.index_copy(0, t.arange(512, device=x.device), y) | n512x1024 n512x1024
x.masked_select(x > 1) | n512x1024
t.isin(x, y) | 1000:512x1024 1000:50
f.embedding(y, x) | n1000x64 1000:64x128
f.one_hot(x, 21).permute(0, 3, 1, 2) * 1.0 | 21:8x64x64
f.relu(x) | n512x1024
f.leaky_relu(x, 0.1) | n512x1024
f.elu(x) | n512x1024
f.selu(x) | n512x1024
f.celu(x) | n512x1024
f.mish(x) | n512x1024
f.softplus(x) | n512x1024
f.softsign(x) | n512x1024
f.hardswish(x) | n512x1024
f.hardsigmoid(x) | n512x1024
f.logsigmoid(x) | n512x1024
f.tanhshrink(x) | n512x1024
f.gelu(x, approximate="tanh") | n512x1024
f.prelu(x, y) | n8x32x32x32 n32
f.rrelu(x, training=True) | n512x1024
f.gumbel_softmax(x) | n512x1024
f.normalize(x, dim=1) | n512x1024
f.normalize(x, dim=1) | n8x32x32x32
x.tanh() | n512x1024
x.sin() | n512x1024
x.log() | p512x1024
x.sqrt() | p512x1024
x.rsqrt() | p512x1024
x ** 3 | n512x1024
x ** 1.7 | p512x1024
x / y | n512x1024 p512x1024
t.atan2(x, y) | n512x1024 n512x1024
x.clamp(-1, 1) | n512x1024
x.round() | n512x1024
x.fmod(0.7) | n512x1024
x % 0.7 | n512x1024
t.maximum(x, y) | n512x1024 n512x1024
t.addcmul(x, y, z) | n512x1024 n512x1024 n512x1024
x.erfinv() | u512x1024
t.polygamma(1, x) | p512x1024
t.special.i0(x) | n512x1024
x.lerp(y, z) | n512x1024 n512x1024 u512x1024
x > y | n512x1024 n512x1024
(x > 0) & (y > 0) | n512x1024 n512x1024
x == y | 9:512x1024 9:512x1024
x + y | 1000:512x1024 1000:512x1024
x % 7 | 1000:512x1024
x.sum(1) | 1000:512x1024
x.to(t.float32) | 1000:512x1024
x << 2 | 1000:512x1024
x + y | h512x1024 h512x1024
x + y | b512x1024 b512x1024
f.gelu(x) | b512x1024
x.sum(1) | h512x1024
x.softmax(1) | b512x1024
f.layer_norm(x, (1024,)) | b512x1024
x @ y | b256x256 b256x256
x.to(t.float32) | b512x1024
x.t() + y | n1024x512 n512x1024
x.t().sum(1) | n1024x512
x.transpose(1, 2).softmax(2) | n64x128x64
x[:, ::2].exp() | n512x1024
x.permute(0, 2, 3, 1) + y | n8x32x32x32 n32
x[:, None] * y | n512x128 n64x128
(x - x.mean(0)) / x.std(0) | n512x1024
t.pdist(x) | n128x64
f.pairwise_distance(x, y) | n512x1024 n512x1024
f.cosine_similarity(x[:, None], y[None], dim=2) | n64x64 n64x64
t.cdist(x, y, p=1) | n256x64 n128x64
t.einsum("bij,bjk,bkl->bil", x, x, x) | n8x32x32
t.einsum("nchw,kc->nkhw", x, y) | n8x32x32x32 n16x32
t.einsum("ii->i", x) | n512x512
t.tensordot(x, y, 2) | n64x32x32 n32x32x16
t.baddbmm(x, y, z) | n32x64x64 n32x64x64 n32x64x64
t.outer(x, y) | n1024 n512
t.mv(x, y) | n512x1024 n1024
t.linalg.multi_dot([x, y, x]) | n128x128 n128x128
t.cross(x, y, dim=1) | n8192x3 n8192x3
t.trace(x) | n512x512
f.conv2d(x, y, stride=2, padding=3) | n8x3x64x64 n32x3x7x7
f.conv2d(x, y, padding=2, dilation=2) | n4x16x32x32 n16x16x3x3
f.conv2d(x, y, groups=4, padding=1) | n8x32x32x32 n32x8x3x3
f.conv1d(x, y, padding=2, dilation=2) | n8x32x512 n32x32x3
f.conv_transpose1d(x, y, stride=4) | n8x32x128 n32x16x8
f.avg_pool1d(x, 4) | n8x32x512
f.max_pool1d(x, 4) | n8x32x512
f.avg_pool3d(x, 2) | n2x16x16x32x32
f.lp_pool2d(x, 2, 2) | n8x32x32x32
f.adaptive_avg_pool2d(x, 7) | n8x32x32x32
f.adaptive_avg_pool2d(x, 1) | n8x32x32x32
f.adaptive_max_pool2d(x, 7) | n8x32x32x32
f.max_unpool2d(*f.max_pool2d(x, 2, return_indices=True), 2) | n8x32x32x32
f.interpolate(x, size=(50, 50), mode="bilinear", align_corners=True) | n8x32x32x32
f.interpolate(x, size=(50, 50), mode="area") | n8x32x32x32
f.interpolate(x, scale_factor=2, mode="trilinear") | n2x8x16x16x16
f.interpolate(x, scale_factor=4, mode="linear") | n8x32x256
f.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True) | n8x32x32x32
f.grid_sample(x, y, mode="nearest", align_corners=False) | n8x32x32x32 u8x32x32x2
f.affine_grid(x, (8, 3, 32, 32), align_corners=False) | n8x2x3
f.pixel_unshuffle(x, 4) | n8x32x32x32
f.channel_shuffle(x, 4) | n8x32x32x32
f.instance_norm(x) | n8x32x32x32
f.group_norm(x, 1) | n8x32x32x32
f.batch_norm(x, y.detach(), z.detach(), training=False) | n8x32x32x32 n32 p32
f.batch_norm(x, None, None, y, z, True) | n512x256 n256 n256
f.rms_norm(x, (1024,), y) | n512x1024 n1024
f.layer_norm(x, (32, 32, 32)) | n8x32x32x32
f.cross_entropy(x, y, label_smoothing=0.1) | n8x21x64x64 21:8x64x64
f.cross_entropy(x, y.softmax(1)) | n512x100 n512x100
f.nll_loss(x, y) | n8x21x64x64 21:8x64x64
f.mse_loss(x, y) | n512x1024 n512x1024
f.l1_loss(x, y) | n512x1024 n512x1024
f.huber_loss(x, y) | n512x1024 n512x1024
f.binary_cross_entropy(x, y) | u512x1024 u512x1024
f.kl_div(x, y, reduction="batchmean") | n512x1024 u512x1024
f.gaussian_nll_loss(x, y, z) | n512x64 n512x64 p512x64
f.poisson_nll_loss(x, y) | n512x1024 p512x1024
f.hinge_embedding_loss(x, y.sign()) | n512x1024 n512x1024
f.margin_ranking_loss(x, y, z.sign()) | n8192 n8192 n8192
f.soft_margin_loss(x, y.detach().sign()) | n512x1024 n512x1024
f.multi_margin_loss(x, y) | n512x100 100:512
f.multilabel_margin_loss(x, y) | n512x100 100:512x100
f.multilabel_soft_margin_loss(x, y) | n512x100 u512x100
f.triplet_margin_loss(x, y, z) | n512x128 n512x128 n512x128
f.cosine_embedding_loss(x, y, z.sign()) | n512x128 n512x128 n512
f.linear(x, y, z) | n512x256 n128x256 n128
f.dropout2d(x, 0.3) | n8x32x32x32
f.alpha_dropout(x, 0.3) | n512x1024
t.bernoulli(x) | u512x1024
t.poisson(x) | p512x1024
t.randperm(100000, device=x.device) | n1
t.multinomial(x, 4) | p512x1024
t.empty_like(x).exponential_() | p512x1024
t.fft.fft(x).abs() | n512x1000
t.fft.irfft(t.fft.rfft(x) * 2) | n512x1024
t.linalg.det(x) | d16x32x32
t.linalg.pinv(x) | n4x32x16
t.linalg.eigh(x)[0] | d1x128x128
t.linalg.svd(x)[1] | n1x64x64
t.linalg.lstsq(x, y)[0] | n4x64x16 n4x64x2
t.linalg.solve_triangular(x, y, upper=False) | d8x64x64 n8x64x16
t.linalg.matrix_power(x, 5) | n8x32x32
t.vander(x.detach(), 8) | n1024
t.trapezoid(x) | n512x1024
t.histogramdd(x, [8, 8])[0] | n4096x2
t.combinations(x, 2) | n256
t.cartesian_prod(x, y) | n256 n256
t.tensor_split(x, 5, 1)[0] * 2 | n512x1024
x.unfold(1, 16, 8).sum(2) | n64x1024
t.nan_to_num(x) | n512x1024
t.corrcoef(x) | n64x512
t.cov(x) | n64x512
x.sum() | h512x1024
f.layer_norm(x, (1024,), y, z) | h512x1024 h1024 h1024
f.linear(x, y, z) | b512x256 b128x256 b128
f.conv2d(x, y, padding=1) | b8x32x32x32 b64x32x3x3
f.batch_norm(x, None, None, y, z, True) | b8x32x32x32 b32 b32
x[:, 5:900] * 2 | h512x1024
x.norm(dim=1) | b512x1024
x.clamp(-1, 1) | h512x1024
x.gather(1, y) | 1000:512x1024 1024:512x512
x[y] | n65536 65536:65536
x[y, :, z] | n64x32x64 64:1024 64:1024
t.unique(x) | 1000:8192
t.unique(x, return_inverse=True)[1] | 1000:65536
t.unique_consecutive(x) | 10:65536
x.permute(0, 2, 3, 1).mean((1, 2)) | n8x32x32x32
x.t().exp() | n1024x512
x[::2].sum() | n512x1024
x[:, -1] * 2 | n64x128x256
x.expand(512, 1024).sum(0) | n512x1
t.cat([x, y], -1) | n65536x3 n65536x5
x * y | n65536x3 n65536x1
x.max(0).values | n65536x4
x.sum(1) | n4x131072
x.mean((2, 3), keepdim=True) | n8x32x32x32
x.sum((0, 2, 3)) | n8x32x32x32
x.clone().index_fill_(1, y, 0.0) | n512x1024 1024:16
t.zeros_like(x).scatter_(1, y, 1.0) | n512x1024 1024:512x1
2 ** x | n512x1024
x.pow(y) | p512x1024 n1
x.cos() | n512x1024
x.tan() | n512x1024
t.special.log_ndtr(x) | n512x1024
x.erfc() | n512x1024
x + y | n4 n4
x * 2 | n4
x.sum() | n4
x @ y | n4x4 n4x4
f.linear(x, y, z) | n1x64 n128x64 n128
t.einsum("bhqd,bhkd->bhqk", x, y) | n4x4x64x32 n4x4x64x32
t.ones(256, 256, device=x.device).tril().bool() | n1
t.fft.ifft(t.fft.fft(x)).real | n512x256
t.linalg.matrix_norm(x) | n64x32x32
t.linalg.eig(x)[0].abs() | n4x16x16
t.cholesky_solve(y, t.linalg.cholesky(x)) | d8x32x32 n8x32x4
t.linalg.lu_factor(x)[0] | d8x32x32
f.huber_loss(x, y) | n512 n512
f.mse_loss(x, y) | n512 n512
f.cross_entropy(x, y) | n64x10 10:64
f.one_hot(x, 10).float() | 10:4096
f.adaptive_avg_pool3d(x, 1) | n2x16x16x16x16
f.conv3d(x, y) | n2x16x16x16x16 n32x16x1x1x1
f.embedding(y, x) | n100x16 100:8192
t.block_diag(x, x, x) | n64x64
t.nn.utils.clip_grad_norm_([x], 1.0) | n512x1024
x.item() * x | n1
x.nansum() | n512x1024
t.segment_reduce(x, "sum", lengths=y * 0 + 64) | n4096x16 2:64
x.softmax(-1) | n65536x8
x.log_softmax(-1) | n65536x10
f.cross_entropy(x, y) | n65536x10 10:65536
f.layer_norm(x, (10,)) | n16384x10
x.softmax(1) | n16384x49
f.rms_norm(x, (1024,), y) | b512x1024 b1024
x.topk(50).values | n4x50000
x.logsumexp(1) | n64x10
x.std(1) | h512x1024
f.conv2d(x, y, stride=4) | n16x4x84x84 n32x4x8x8
f.conv2d(x, y, padding=3) | n4x16x28x28 n16x16x7x7
f.conv2d(x, y) | n8x256x14x14 n512x256x1x1
f.conv1d(x, y) | n8x1x4000 n32x1x80
x.cumprod(-1) | n128x64
t.zeros(1000, device=x.device).scatter_add(0, y, x) | n8000 1000:8000
t.einsum("bhnd,bhmd->bhnm", x, y) | n8x4x50x16 n8x4x50x16
t.distributions.Normal(x, 1.0).log_prob(y).sum(-1) | n64x8 n64x8
t.distributions.Categorical(logits=x).log_prob(y) | n64x8 8:64
x @ y | n1024x8x8 n1024x8x8
""".strip().splitlines()

SIXTEEN = {"h": "float16", "b": "bfloat16"}
TURN = 0.06
TURNS = 5
# Whose first axis is not that of the examples.
PARAMETERS = """
n64x32x3x3 n32x1x3x3 n8x8x33 n16x16x3x3x3 n64x32x4x4 n16x16x2x2x2 n1024 n32 n16x32x32 p400 s4096 s64
n10000x256 n10000x64 d1x512x512 n100x16x40 39:16x20 n32x32x16 n1000x64 n32x3x7x7 n32x8x3x3
n32x32x3 n32x16x8 n128 p32 n1 n128x256 n16x32 h1024 b1024 b128x256 b128 b64x32x3x3 b32 n128x64
n32x16x1x1x1 n100x16 n32x4x8x8 n16x16x7x7 n512x256x1x1 n32x1x80
""".split()


def drawn(text: str, rows: int) -> np.ndarray:
    """An operand."""
    rng = np.random.default_rng(len(text))
    kind, _, sizes = text.rpartition(":") if ":" in text else (text[0], "", text[1:])
    shape = [int(n) for n in sizes.split("x")]
    if text not in PARAMETERS:
        shape[0] *= rows
    if kind.isdigit():
        return rng.integers(0, int(kind), shape)
    x = rng.standard_normal(shape)
    if kind == "p":
        x = abs(x) + 0.1
    elif kind == "u":
        x = rng.random(shape)
    elif kind == "s":
        x = np.sort(x)
    elif kind == "d":
        x = x @ np.swapaxes(x, -1, -2) + 2 * shape[-1] * np.eye(shape[-1])
    return x.astype(np.float32)


class Side:
    """An op in one library.

    Args:
        library: ``torch`` or ``clnet``.
        functions: its functional module.
        device: where.
        code: of the expression.
        operands: on the host.
        clock: which milliseconds count.
    """

    def __init__(
        self,
        library: Any,
        functions: Any,
        device: Any,
        code: Any,
        *,
        operands: list[tuple[np.ndarray, str]],
        clock: Callable[[], float],
    ) -> None:
        self.library, self.code, self.clock = library, code, clock
        self.tensors = [
            library.tensor(x).to(device, getattr(library, SIXTEEN.get(kind, str(x.dtype))))
            for x, kind in operands
        ]
        self.synchronize: Callable[[], object] = lambda: None
        if library is clnet:
            self.synchronize = device.synchronize
        elif device != "cpu":
            self.synchronize = torch.cuda.synchronize
        self.names = {"t": library, "f": functions, **dict(zip("xyz", self.tensors, strict=False))}
        self.seed: Any = None

    def forward(self) -> Any:
        """The result."""
        with self.library.no_grad():
            return eval(self.code, self.names)

    def both(self) -> None:
        """The result, and the gradients of what has some."""
        y = eval(self.code, self.names)
        if self.seed is None:
            self.seed = self.library.ones_like(y)
        for x in self.tensors:
            x.grad = None
        y.backward(self.seed)

    def differentiable(self) -> bool:
        """Whether there are gradients."""
        for x in self.tensors:
            x.requires_grad_(x.is_floating_point())
        return bool(eval(self.code, self.names).requires_grad)

    def milliseconds(self, call: Callable[[], object]) -> float:
        """The least of some turns."""
        for _ in range(2):
            call()
        self.synchronize()
        begin = self.clock()
        call()
        self.synchronize()
        one = self.clock() - begin
        count, least = max(1, min(50, int(TURN / TURNS / max(one, 1e-6)))), math.inf
        for _ in range(TURNS):
            begin = self.clock()
            for _ in range(count):
                call()
            self.synchronize()
            least = min(least, (self.clock() - begin) / count)
            if one > TURN:
                break
        return least * 1e3


def in_turns(calls: list[Callable[[], object]], sides: list[Side]) -> list[float]:
    """The milliseconds of both, PyTorch's before and after ours: the machine may have slowed."""
    first, ours, again = (sides[i].milliseconds(calls[i]) for i in (0, 1, 0))
    return [min(first, again), ours]


def main() -> None:
    """Print the table, and the worst once more."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--below", type=float, default=0.5)
    parser.add_argument("--core", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    where, theirs = clnet.device(options.device), "cpu" if options.device == "cpu" else "cuda"
    torch.set_num_threads(1 if options.core else 2)
    clock = time.process_time if options.core else time.perf_counter
    found: list[tuple[float, str]] = []
    for line in CASES:
        if not any(text in line for text in options.only.split("/")):
            continue
        expression, _, operands = line.partition(" | ")
        code = compile(expression, "<op>", "eval")
        values = [(drawn(text, options.rows), text[0]) for text in operands.split()]
        sides = [
            Side(library, functions, at, code, operands=values, clock=clock)
            for library, functions, at in (
                (torch, torch.nn.functional, theirs),
                (clnet, functional, where),
            )
        ]
        times = [in_turns([side.forward for side in sides], sides)]
        differentiable = [side.differentiable() for side in sides]
        if all(differentiable):
            times.append(in_turns([side.both for side in sides], sides))
        shown = "   ".join(f"{a / b:6.2f} ({a:.3f}, {b:.3f})" for a, b in times)
        text = f"{line[:76]:76} {shown}"
        print(text, flush=True)
        found.append((min(a / b for a, b in times), text))
    print(f"\nbelow {options.below}:")
    for ratio, text in sorted(found):
        if ratio < options.below:
            print(text)


if __name__ == "__main__":
    main()
