"""What clnet and PyTorch are compared by: names, and calls that mean the same in both.

A call is Python text. ``m`` is the package (``torch`` or ``clnet``), ``F`` its ``nn.functional``,
``nn`` its ``nn``; the other names are the inputs of :func:`inputs`, the same for both.
"""

from __future__ import annotations

import numpy as np

# Names, by where they are found; those of one line are of one paragraph of the vocabulary.
FUNCTIONS = """
add sub mul div floor_divide remainder fmod pow neg abs sign reciprocal sqrt rsqrt square exp exp2
expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh atan2 hypot
erf erfc sigmoid logit floor ceil round trunc frac clamp maximum minimum fmax fmin where lerp
addcmul addcdiv copysign logaddexp xlogy nan_to_num isnan isinf isfinite eq ne lt le gt ge
logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not
bitwise_left_shift bitwise_right_shift
sum mean prod amax amin max min argmax argmin std var std_mean var_mean logsumexp all any norm
linalg.norm linalg.vector_norm cumsum cumprod count_nonzero
matmul mm bmm mv dot addmm addmv baddbmm addbmm einsum outer inner tensordot kron
reshape permute transpose movedim squeeze unsqueeze flatten unflatten broadcast_to tile flip roll
rot90 cat stack hstack vstack split chunk unbind narrow select tril triu diag diagonal
masked_fill index_select gather scatter scatter_add take_along_dim index_put masked_select nonzero
sort topk argsort meshgrid arange linspace eye full zeros ones empty zeros_like ones_like full_like
empty_like
manual_seed Generator rand randn randint randperm bernoulli normal multinomial rand_like randn_like
relu softmax log_softmax tanh clone tensor no_grad enable_grad is_grad_enabled cdist
"""

METHODS = """
add sub mul div floor_divide remainder fmod pow neg abs sign reciprocal sqrt rsqrt square exp exp2
expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh atan2 hypot
erf erfc sigmoid logit floor ceil round trunc frac clamp maximum minimum fmax fmin where lerp
addcmul addcdiv copysign logaddexp xlogy nan_to_num isnan isinf isfinite eq ne lt le gt ge
logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not sum
mean prod amax amin max min argmax argmin std var logsumexp all any norm cumsum cumprod
count_nonzero matmul mm bmm mv dot addmm addmv baddbmm addbmm outer inner reshape view permute
transpose movedim squeeze unsqueeze flatten unflatten expand broadcast_to repeat tile flip roll
rot90 split chunk unbind narrow select tril triu diag diagonal masked_fill index_select gather
scatter scatter_add take_along_dim index_put masked_select nonzero sort topk argsort relu softmax
log_softmax clone contiguous detach item tolist numpy size dim numel stride is_contiguous backward
register_hook retain_grad retains_grad requires_grad_ to float double half long int short char bool
type_as add_ sub_ mul_ div_ pow_ clamp_ exp_ sqrt_ neg_ copy_ fill_ zero_ __getitem__ __setitem__
__and__ __or__ __xor__ __invert__ __lshift__ __rshift__
"""

FUNCTIONAL = """
relu relu6 leaky_relu elu selu celu gelu silu mish softplus softsign hardtanh hardsigmoid hardswish
hardshrink softshrink tanhshrink logsigmoid glu prelu rrelu threshold softmin softmax log_softmax
tanh sigmoid
linear bilinear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d unfold fold
max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_max_pool1d
adaptive_max_pool2d adaptive_max_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
max_unpool1d max_unpool2d max_unpool3d
batch_norm layer_norm group_norm instance_norm rms_norm local_response_norm embedding
embedding_bag pad
interpolate pixel_shuffle pixel_unshuffle grid_sample dropout dropout1d dropout2d dropout3d
alpha_dropout cosine_similarity pairwise_distance normalize scaled_dot_product_attention one_hot
pdist
cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy
binary_cross_entropy_with_logits kl_div poisson_nll_loss gaussian_nll_loss hinge_embedding_loss
margin_ranking_loss cosine_embedding_loss triplet_margin_loss soft_margin_loss multi_margin_loss
ctc_loss
"""

MODULES = """
ReLU ReLU6 LeakyReLU ELU SELU CELU GELU SiLU Mish Softplus Softsign Hardtanh Hardsigmoid Hardswish
Hardshrink Softshrink Tanhshrink LogSigmoid GLU PReLU RReLU Threshold Softmin Softmax LogSoftmax
Tanh Sigmoid
Identity Linear Bilinear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Unfold
Fold MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d AvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d
AdaptiveMaxPool3d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d MaxUnpool1d MaxUnpool2d
MaxUnpool3d
BatchNorm1d BatchNorm2d BatchNorm3d LayerNorm GroupNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d
RMSNorm LocalResponseNorm Embedding EmbeddingBag Upsample PixelShuffle
PixelUnshuffle Dropout Dropout1d Dropout2d
Dropout3d AlphaDropout CosineSimilarity PairwiseDistance Flatten Unflatten
ConstantPad1d ConstantPad2d ConstantPad3d ZeroPad1d ZeroPad2d ZeroPad3d ReflectionPad1d
ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d CircularPad1d
CircularPad2d CircularPad3d
CrossEntropyLoss NLLLoss MSELoss L1Loss SmoothL1Loss HuberLoss BCELoss BCEWithLogitsLoss KLDivLoss
PoissonNLLLoss GaussianNLLLoss HingeEmbeddingLoss MarginRankingLoss CosineEmbeddingLoss
TripletMarginLoss SoftMarginLoss MultiMarginLoss CTCLoss
RNN GRU LSTM RNNCell GRUCell LSTMCell MultiheadAttention TransformerEncoderLayer
TransformerDecoderLayer TransformerEncoder TransformerDecoder Transformer
Module Parameter Sequential ModuleList ModuleDict ParameterList ParameterDict
"""

UTILITIES = """
clip_grad_norm_ clip_grad_value_ parameters_to_vector vector_to_parameters rnn.PackedSequence
rnn.pack_padded_sequence rnn.pad_packed_sequence rnn.pad_sequence rnn.pack_sequence
rnn.unpad_sequence
"""

MODULE_METHODS = """
parameters named_parameters buffers named_buffers children named_children modules named_modules
apply train eval requires_grad_ zero_grad state_dict load_state_dict register_buffer
register_parameter register_module add_module get_submodule get_parameter get_buffer to float double
half bfloat16 register_forward_hook register_forward_pre_hook register_full_backward_hook
register_full_backward_pre_hook
"""

OPTIMISERS = "SGD Adam AdamW Adamax Adagrad Adadelta ASGD LBFGS NAdam RAdam RMSprop Rprop"

SCHEDULERS = """
StepLR MultiStepLR ExponentialLR ConstantLR LinearLR PolynomialLR CosineAnnealingLR
CosineAnnealingWarmRestarts OneCycleLR CyclicLR LambdaLR MultiplicativeLR SequentialLR
ReduceLROnPlateau
"""

# Calls of functions and methods, differentiated where their results can be.
CALLS = """
m.add(x, v, alpha=2)
m.sub(x, y, alpha=2)
m.mul(x, y)
m.div(x, p)
m.div(i, j, rounding_mode="floor")
m.div(x, p, rounding_mode="trunc")
m.floor_divide(i, j)
m.remainder(i, j)
m.remainder(x, p)
m.fmod(x, p)
m.pow(p, y)
m.pow(i, 5)
m.pow(i, j)
m.logit(u, 0.1)
m.round(x, decimals=1)
m.clamp(x, -0.5, 0.5)
m.clamp(x, max=0.5)
m.where(c, x, y)
m.lerp(x, y, u)
m.addcmul(x, y, p, value=0.5)
m.addcdiv(x, y, p, value=0.5)
m.nan_to_num(x)
m.bitwise_and(i, j)
m.bitwise_or(i, j)
m.bitwise_xor(i, j)
m.bitwise_xor(c, c)
m.bitwise_left_shift(i, j)
m.bitwise_right_shift(i, j)
m.sum(x, (0, 1), True)
m.sum(i)
m.mean(x, 1)
m.prod(x, 0)
m.amax(x, 1, True)
m.amin(x, (0, 1))
m.max(x)
m.max(x, 1)
m.max(x, y)
m.min(x, 0, True)
m.argmax(x, 1)
m.argmin(x)
m.std(x, 1)
m.std(x, (0, 1), correction=0)
m.var(x, 0, False)
m.std_mean(x, 1)
m.var_mean(x, 1, keepdim=True)
m.logsumexp(x, 1)
m.all(c, 1)
m.any(c)
m.norm(x)
m.norm(x, 3, 1)
m.linalg.norm(x, 1)
m.linalg.vector_norm(x, 3, 1, True)
m.cumsum(x, 1)
m.cumprod(x, 0)
m.count_nonzero(i, 1)
m.matmul(x, x.T)
m.mm(x, x.T)
m.bmm(t, t.transpose(1, 2))
m.mv(x, v)
m.dot(v, v)
m.addmm(v, x, square, beta=0.5, alpha=2)
m.addmv(w3, x, v)
m.baddbmm(x, t, square.expand(2, 4, 4))
m.addbmm(x, t, square.expand(2, 4, 4))
m.einsum("bij,kj->bik", t, x)
m.outer(v, v)
m.inner(x, v)
m.tensordot(t, x, ([1, 2], [0, 1]))
m.kron(x, v)
m.reshape(x, (2, 6))
m.permute(t, (2, 0, 1))
m.transpose(x, 0, 1)
m.movedim(t, 0, 2)
m.squeeze(t[:1], 0)
x.squeeze()
m.unsqueeze(x, 1)
m.flatten(t, 1)
m.unflatten(x, 1, (2, 2))
m.broadcast_to(v, (3, 4))
m.tile(x, (2, 1))
m.flip(x, (0, 1))
m.roll(x, 1, 1)
m.rot90(x, 1, (0, 1))
m.cat((x, y), 1)
m.stack((x, y), 1)
m.hstack((x, y))
m.vstack((x, y))
m.split(x, 2, 1)
m.chunk(x, 2, 1)
m.unbind(x, 0)
m.narrow(x, 1, 1, 2)
m.select(x, 1, 2)
m.tril(x, 1)
m.triu(x)
m.diag(v)
m.diagonal(square, 1)
m.masked_fill(x, c, 2.0)
m.index_select(x, 1, index)
m.gather(x, 1, places)
m.scatter(x, 1, places, y)
m.scatter_add(x, 1, places, y)
m.take_along_dim(x, places, 1)
m.index_put(x, (index,), y[:3])
m.masked_select(x, c)
m.nonzero(c)
m.sort(x, 1)
m.topk(x, 2, 1)
m.argsort(x, 1)
m.meshgrid(v, v[:2], indexing="ij")
m.arange(2, 9, 3)
m.linspace(0, 1, 5)
m.eye(3, 4)
m.full((2, 3), 1.5)
m.zeros(2, 3)
m.ones(2, 3)
m.zeros_like(x)
m.ones_like(x)
m.full_like(x, 2)
m.softmax(x, 1)
m.log_softmax(x, 1)
m.tensor([1.5, 2.5])
m.no_grad()(lambda: x * 2)()
m.is_grad_enabled()
x.where(c, y)
x.view(2, 6)
v.expand(3, 4)
x.repeat(2, 1)
x.contiguous()
x.detach()
v[0].item()
x.tolist()
x.detach().numpy()
x.size()
x.dim()
x.numel()
x.stride()
x.is_contiguous()
x.to(m.float64)
x.float()
x.double()
x.half()
x.long()
x.int()
x.short()
x.char()
x.bool()
i.type_as(x)
x[1:, None, ::2]
x[index, 1]
x[c]
i & 3
c | c
i ^ j
~i
i << 1
i >> 1
F.leaky_relu(x, 0.2)
F.elu(x, 0.5)
F.celu(x, 0.5)
F.gelu(x, approximate="tanh")
F.softplus(x, 2)
F.hardtanh(x, -0.5, 0.5)
F.hardshrink(x, 0.3)
F.softshrink(x, 0.3)
F.glu(x, 1)
F.prelu(x, v[:1])
F.rrelu(x, 0.2, 0.2)
F.threshold(x, 0.1, 2.0)
F.softmin(x, 1)
F.softmax(x, 1)
F.log_softmax(x, 1)
F.linear(x, square, v)
F.bilinear(x, y, square[None].expand(2, 4, 4), v[:2])
F.conv1d(t, t, v[:2], padding=1)
F.conv2d(image, kernel, stride=2, padding=1)
F.conv2d(image, kernel, padding="same", dilation=2)
F.conv3d(volume, kernel[:, :, None], padding=1)
F.conv_transpose1d(t, x[:, :, None].expand(3, 4, 2), stride=2)
F.conv_transpose2d(image, kernel.transpose(0, 1), stride=2, padding=1, output_padding=1)
F.conv_transpose3d(volume, kernel.transpose(0, 1)[:, :, None], stride=2)
F.unfold(image, 2, padding=1, stride=2)
F.fold(columns, (4, 4), 2, stride=2)
F.max_pool1d(t, 2)
F.max_pool2d(image, 3, 2, 1, return_indices=True)
F.max_pool2d(image, 2, 2, ceil_mode=True, dilation=2)
F.max_pool3d(volume, 2)
F.avg_pool1d(t, 2, 1, 1)
F.avg_pool2d(image, 3, 2, 1, True, False)
F.avg_pool3d(volume, 2)
F.adaptive_max_pool1d(t, 3)
F.adaptive_max_pool2d(image, (3, 2))
F.adaptive_max_pool3d(volume, 2)
F.adaptive_avg_pool1d(t, 3)
F.adaptive_avg_pool2d(image, (3, 2))
F.adaptive_avg_pool3d(volume, (1, 2, 3))
F.max_unpool1d(*F.max_pool1d(t, 2, return_indices=True), 2)
F.max_unpool2d(*F.max_pool2d(image, 2, return_indices=True), 2)
F.max_unpool3d(*F.max_pool3d(volume, 2, return_indices=True), 2)
F.batch_norm(image, None, None, w3, w3, True)
F.layer_norm(x, (4,), v, v)
F.group_norm(volume[:, :, 0], 3, w3)
F.instance_norm(image)
F.rms_norm(x, (4,), v, 1e-5)
F.local_response_norm(image, 3)
F.embedding(index, x)
F.embedding_bag(index[None], x, mode="max")
F.pad(x, (1, 2), value=2.0)
F.pad(image, (1, 2, 1, 0), mode="reflect")
F.pad(image, (1, 2, 1, 0), mode="replicate")
F.pad(image, (1, 2, 1, 0), mode="circular")
F.interpolate(image, scale_factor=2, mode="nearest")
F.interpolate(image, (9, 5), mode="bilinear", align_corners=True)
F.interpolate(image, (9, 5), mode="bicubic")
F.pixel_shuffle(blocks, 2)
F.pixel_unshuffle(image, 2)
F.grid_sample(image, grid, align_corners=False)
F.dropout(x, 0.5, False)
F.dropout1d(x, 0.5, False)
F.dropout2d(image, 0.5, False)
F.dropout3d(volume, 0.5, False)
F.alpha_dropout(x, 0.5, False)
F.cosine_similarity(x, y, 1)
F.pairwise_distance(x, y)
F.pdist(x)
m.cdist(x, y)
m.cdist(x, y, 1.0)
F.normalize(x, dim=1)
F.scaled_dot_product_attention(t, t, t, is_causal=True)
F.one_hot(index, 4)
F.cross_entropy(x, index, weight=w4.detach(), ignore_index=1, label_smoothing=0.1)
F.cross_entropy(x, F.softmax(y, 1))
F.nll_loss(F.log_softmax(x, 1), index, reduction="sum")
F.mse_loss(x, y)
F.l1_loss(x, y)
F.smooth_l1_loss(x, y, beta=0.5)
F.huber_loss(x, y, delta=0.5)
F.binary_cross_entropy(u, u2)
F.binary_cross_entropy_with_logits(x, u, pos_weight=w4.detach())
F.kl_div(x, F.softmax(y, 1), reduction="batchmean")
F.poisson_nll_loss(x, p)
F.gaussian_nll_loss(x, y, p)
F.hinge_embedding_loss(x, signs)
F.margin_ranking_loss(x, y, signs, margin=0.2)
F.cosine_embedding_loss(x, y, signs[:, 0])
F.triplet_margin_loss(x, y, p)
F.soft_margin_loss(x, signs.detach())
F.multi_margin_loss(x, index)
F.ctc_loss(F.log_softmax(sequence, 2), labels, lengths, label_lengths)
"""

UNARY = """
neg abs sign square reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos
atan sinh cosh tanh asinh atanh erf erfc sigmoid floor ceil trunc frac relu clone
isnan isinf isfinite logical_not
"""
BINARY = """
atan2 hypot maximum minimum fmax fmin copysign logaddexp xlogy eq ne lt le gt ge logical_and
logical_or logical_xor
"""
ACTIVATIONS = """
relu relu6 selu gelu silu mish softsign hardsigmoid hardswish tanhshrink logsigmoid tanh sigmoid
"""
CALLS += "".join(f"m.{name}(u)\n" for name in UNARY.split())
CALLS += "".join(f"m.{name}(x, p)\n" for name in BINARY.split())
CALLS += "".join(f"F.{name}(x)\n" for name in ACTIVATIONS.split())
CALLS += "m.acosh(p)\nm.bitwise_not(i)\n"

# Calls that overwrite their operand, or whose results are compared in shape and dtype alone.
IN_PLACE = """
x.add_(y)
x.sub_(y)
x.mul_(y)
x.div_(p)
p.pow_(2)
x.clamp_(-0.5, 0.5)
x.exp_()
p.sqrt_()
x.neg_()
x.copy_(v)
x.fill_(3)
x.zero_()
x.requires_grad_()
x.__setitem__((slice(1, None), 0), 7)
"""
DRAWN = """
m.empty(2, 3)
m.empty_like(x)
m.rand(2, 3)
m.randn(2, 3)
m.randint(0, 5, (2, 3))
m.randperm(5)
m.bernoulli(u)
m.normal(0.0, 1.0, (2, 3))
m.multinomial(p, 2)
m.rand_like(x)
m.randn_like(x)
"""

# Layers, and after the bar what they are called with; the weights are PyTorch's.
LAYERS = """
nn.LeakyReLU(0.2) | x
nn.GLU(1) | x
nn.PReLU(4) | x
nn.RReLU(0.2, 0.2) | x
nn.Threshold(0.1, 2.0) | x
nn.Softmin(1) | x
nn.Softmax(1) | x
nn.LogSoftmax(1) | x
nn.Identity() | x
nn.Linear(4, 5) | x
nn.Bilinear(4, 4, 3) | x, y
nn.Conv1d(3, 6, 3, padding=1, groups=3) | t
nn.Conv2d(3, 4, 3, stride=2, padding=1) | image
nn.Conv3d(3, 4, 2) | volume
nn.ConvTranspose1d(3, 4, 2, stride=2) | t
nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1) | image
nn.ConvTranspose3d(3, 4, 2) | volume
nn.Unfold(2) | image
nn.Fold((4, 4), 2, stride=2) | columns
nn.MaxPool1d(2) | t
nn.MaxPool2d(3, 2, 1) | image
nn.MaxPool3d(2) | volume
nn.AvgPool1d(2) | t
nn.AvgPool2d(3, 2, 1) | image
nn.AvgPool3d(2) | volume
nn.AdaptiveMaxPool1d(2) | t
nn.AdaptiveMaxPool2d(3) | image
nn.AdaptiveMaxPool3d(2) | volume
nn.AdaptiveAvgPool1d(3) | t
nn.AdaptiveAvgPool2d((3, 2)) | image
nn.AdaptiveAvgPool3d(2) | volume
nn.MaxUnpool1d(2) | *F.max_pool1d(t, 2, return_indices=True)
nn.MaxUnpool2d(2) | *F.max_pool2d(image, 2, return_indices=True)
nn.MaxUnpool3d(2) | *F.max_pool3d(volume, 2, return_indices=True)
nn.BatchNorm1d(3) | t
nn.BatchNorm2d(3) | image
nn.BatchNorm3d(3) | volume
nn.LayerNorm(4) | x
nn.GroupNorm(3, 3) | image
nn.InstanceNorm1d(3, affine=True) | t
nn.InstanceNorm2d(3) | image
nn.InstanceNorm3d(3) | volume
nn.RMSNorm(4) | x
nn.LocalResponseNorm(3) | image
nn.Embedding(4, 5) | index
nn.EmbeddingBag(4, 5) | index[None]
nn.Upsample(scale_factor=2) | image
nn.PixelShuffle(2) | blocks
nn.PixelUnshuffle(2) | image
nn.Dropout().eval() | x
nn.Dropout1d().eval() | t
nn.Dropout2d().eval() | image
nn.Dropout3d().eval() | volume
nn.AlphaDropout().eval() | x
nn.CosineSimilarity() | x, y
nn.PairwiseDistance() | x, y
nn.Flatten() | t
nn.Unflatten(1, (2, 2)) | x
nn.ConstantPad1d(1, 2.0) | t
nn.ConstantPad2d((1, 0, 2, 1), 2.0) | image
nn.ConstantPad3d(1, 2.0) | volume
nn.ZeroPad1d(1) | t
nn.ZeroPad2d(1) | image
nn.ZeroPad3d(1) | volume
nn.ReflectionPad1d(1) | t
nn.ReflectionPad2d((1, 0, 2, 1)) | image
nn.ReflectionPad3d(1) | volume
nn.ReplicationPad1d(1) | t
nn.ReplicationPad2d(1) | image
nn.ReplicationPad3d(1) | volume
nn.CircularPad1d(1) | t
nn.CircularPad2d(1) | image
nn.CircularPad3d(1) | volume
nn.CrossEntropyLoss() | x, index
nn.NLLLoss() | F.log_softmax(x, 1), index
nn.MSELoss() | x, y
nn.L1Loss() | x, y
nn.SmoothL1Loss() | x, y
nn.HuberLoss() | x, y
nn.BCELoss() | u, u2
nn.BCEWithLogitsLoss() | x, u
nn.KLDivLoss(reduction="batchmean") | x, u
nn.PoissonNLLLoss() | x, p
nn.GaussianNLLLoss() | x, y, p
nn.HingeEmbeddingLoss() | x, signs
nn.MarginRankingLoss() | x, y, signs
nn.CosineEmbeddingLoss() | x, y, signs[:, 0]
nn.TripletMarginLoss() | x, y, p
nn.SoftMarginLoss() | x, signs.detach()
nn.MultiMarginLoss() | x, index
nn.CTCLoss() | F.log_softmax(sequence, 2), labels, lengths, label_lengths
nn.RNN(4, 5, 2, batch_first=True, bidirectional=True) | t
nn.GRU(4, 5, 2, batch_first=True, bidirectional=True) | t
nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True) | t
nn.RNNCell(4, 5) | x
nn.GRUCell(4, 5) | x
nn.LSTM(4, 5, 2, bidirectional=True, proj_size=3) | t
nn.LSTMCell(4, 5) | x
nn.MultiheadAttention(4, 2, batch_first=True) | t, t, t
nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True) | t
nn.TransformerDecoderLayer(4, 2, 8, 0.0, batch_first=True) | t, t
nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.0), 2, enable_nested_tensor=False) | t
nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8, 0.0), 2) | t, t
nn.Transformer(4, 2, 1, 1, 8, 0.0, batch_first=True) | t, t
nn.Sequential(nn.Linear(4, 3), nn.ReLU()) | x
"""
PLAIN = """
ReLU ReLU6 ELU SELU CELU GELU SiLU Mish Softplus Softsign Hardtanh Hardsigmoid Hardswish Hardshrink
Softshrink Tanhshrink LogSigmoid Tanh Sigmoid
"""
LAYERS += "".join(f"nn.{name}() | x\n" for name in PLAIN.split())

OPTIMISER_CALLS = """
optim.SGD(weights, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)
optim.Adam(weights, lr=0.1, weight_decay=0.01)
optim.AdamW(weights, lr=0.1)
optim.Adagrad(weights, lr=0.1, lr_decay=0.1)
optim.Adadelta(weights, lr=1.0)
optim.RMSprop(weights, lr=0.01, momentum=0.9, centered=True)
optim.NAdam(weights, lr=0.1)
optim.Adamax(weights, lr=0.1)
optim.RAdam(weights, lr=0.1)
optim.ASGD(weights, lr=0.1)
optim.Rprop(weights, lr=0.1)
optim.LBFGS(weights, lr=0.1, max_iter=3)
optim.LBFGS(weights, line_search_fn="strong_wolfe")
"""

SCHEDULER_CALLS = """
schedule.StepLR(o, 3)
schedule.MultiStepLR(o, [2, 5])
schedule.ExponentialLR(o, 0.9)
schedule.ConstantLR(o, 0.5, 3)
schedule.LinearLR(o, 0.1, 1.0, 4)
schedule.PolynomialLR(o, 5, 2.0)
schedule.CosineAnnealingLR(o, 5, 0.01)
schedule.CosineAnnealingWarmRestarts(o, 3, 2)
schedule.OneCycleLR(o, 1.0, total_steps=12, cycle_momentum=False)
schedule.CyclicLR(o, 0.1, 1.0, 3, cycle_momentum=False)
schedule.LambdaLR(o, lambda step: 0.9**step)
schedule.MultiplicativeLR(o, lambda step: 0.9)
schedule.SequentialLR(o, [schedule.ConstantLR(o, 0.1, 2), schedule.ExponentialLR(o, 0.9)], [3])
schedule.ReduceLROnPlateau(o, patience=1)
"""


def inputs() -> dict[str, np.ndarray]:
    """The operands of the calls, drawn anew but always the same."""
    rng = np.random.default_rng(0)
    normal, whole = rng.standard_normal, rng.integers
    drawn = {
        "x": normal((3, 4)),
        "y": normal((3, 4)),
        "p": rng.uniform(1.1, 2.5, (3, 4)),
        "u": rng.uniform(0.1, 0.9, (3, 4)),
        "u2": rng.uniform(0.1, 0.9, (3, 4)),
        "v": normal(4),
        "w3": rng.uniform(0.5, 1.5, 3),
        "w4": rng.uniform(0.5, 1.5, 4),
        "square": normal((4, 4)),
        "t": normal((2, 3, 4)),
        "image": normal((2, 3, 8, 8)),
        "blocks": normal((2, 4, 3, 3)),
        "volume": normal((2, 3, 4, 4, 4)),
        "kernel": normal((4, 3, 3, 3)),
        "columns": normal((2, 12, 4)),
        "grid": rng.uniform(-1, 1, (2, 5, 5, 2)),
        "sequence": normal((6, 2, 5)),
        "signs": np.where(rng.random((3, 4)) < 0.5, -1.0, 1.0),
    }
    drawn = {name: value.astype(np.float32) for name, value in drawn.items()}
    return drawn | {
        "i": whole(-9, 9, (3, 4)),
        "j": whole(1, 5, (3, 4)),
        "c": rng.random((3, 4)) < 0.5,
        "index": np.array([2, 0, 1]),
        "places": np.array([[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2]]),
        "labels": whole(1, 5, (2, 3)),
        "lengths": np.array([6, 5]),
        "label_lengths": np.array([3, 2]),
    }


# Why a name is missing, where that is meant to stay so.
REASONS: dict[str, str] = {}
