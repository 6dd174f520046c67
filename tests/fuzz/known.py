"""Differences from PyTorch that stay, each with its reason; a test keeps the list honest."""

from __future__ import annotations

import re
from typing import NamedTuple

from .evaluate import ACCEPTED, DIFFERS, Outcome


class Known(NamedTuple):
    """A difference that is meant.

    Attributes:
        why: the reason, as reports print it.
        kind: what the call ends with.
        text: a pattern of the call.
        detail: a pattern of what differs, or of PyTorch's error.
        example: a call of which it is true; a test sees to it that it still is.
    """

    why: str
    kind: str
    text: str
    detail: str
    example: str


KNOWN = (
    Known(
        "PyTorch's CPU has no kernel for the dtype, clnet has one",
        ACCEPTED,
        r"",
        r"not implemented for|not supported for|does not support bool|"
        r"not support .* inputs|is not implemented",
        "F.gelu(i)",
    ),
    Known(
        "a number stands for a tensor without axes",
        ACCEPTED,
        r"",
        r"must be Tensor, not (int|float|bool|numpy)|"
        r"received an invalid combination of arguments - got \((int|float|bool|"
        r"numpy\.\w+), Tensor|got \(Tensor, (float|int), Tensor\)|got \(Tensor, (min|"
        r"max)=Tensor, (min|max)=(float|int)|got \(Tensor, Tensor, (float|int)\)",
        "x.fmax(2)",
    ),
    Known(
        "an argument that PyTorch asks for has a default",
        ACCEPTED,
        r"",
        r"missing \d+ required positional",
        "m.alpha_dropout(p, training=False)",
    ),
    Known(
        "None stands for no such argument",
        ACCEPTED,
        r"None",
        r"received an invalid combination|must be .*, not NoneType",
        "m.eye(3, None)",
    ),
    Known(
        "gradients flow to targets and other operands, too",
        DIFFERS,
        r"",
        r"gradients flow in clnet alone",
        "run(nn.HingeEmbeddingLoss(), x, signs)",
    ),
    Known(
        "ties are taken in order",
        DIFFERS,
        r"topk|sort|kthvalue|median|cummax|cummin|max|min|mode",
        r"int64\(",
        "m.topk(m.zeros(3, 4), 2)",
    ),
    Known(
        "numbers, dtypes and sizes are taken from NumPy and Python, too",
        ACCEPTED,
        r"np\.|\bint\b|\bfloat\b|m\.tensor\(",
        r"must be|invalid combination|failed to unpack|expected .* to be|can't convert|"
        r"Expected|iteration over a 0-d|only integers|has no len|expects dims|Can't call numpy|"
        r"should be (a number|of type)",
        "x.clamp(max=np.array(2))",
    ),
    Known(
        "NumPy's numbers are operands of operators, too",
        DIFFERS,
        r"\.__\w+__\(.*(np\.|out=)",
        r"not NotImplemented",
        "(x * 2).__imul__(np.array(0.5))",
    ),
    Known(
        "a NumPy array without axes is a number: it does not widen",
        DIFFERS,
        r"[-+*/%] np\.(array\([\d.]+|bool_\(\w+)\)",
        r"float32, not float64|int64, not float32",
        "x + np.array(2)",
    ),
    Known(
        "methods take what functions take",
        ACCEPTED,
        r"out=|keepdim=|dim=",
        r"invalid combination|takes no keyword",
        "x.ceil(out=x.detach())",
    ),
    Known(
        "out may have any dtype that holds the result",
        ACCEPTED,
        r"is(neg|pos)inf.*out=",
        r"does not support non-boolean",
        "m.isneginf(u, out=x.detach())",
    ),
    Known(
        "elements are of any value",
        DIFFERS,
        r"\b(new_)?empty(_like|_strided)?\(|Tensor\(\d|\.new\(\d",
        r"elements, at",
        "m.empty(2, 3)",
    ),
    Known(
        "a product to booleans is one of whole numbers",
        DIFFERS,
        r"(sum|prod).*bool",
        r"not bool",
        "m.prod(x, 1, dtype=m.bool)",
    ),
    Known(
        "finfo and iinfo are tuples of fields",
        DIFFERS,
        r"info\(",
        r"results, not",
        "m.finfo(m.float16)",
    ),
    Known(
        "booleans are subtracted as numbers",
        ACCEPTED,
        r"bool|\bc\b|False|True",
        r"with two bool tensors|bool tensor|Boolean alpha only",
        "m.subtract(2, c)",
    ),
    Known(
        "one axis, or a sequence of one, are the same",
        ACCEPTED,
        r"\(-?\w+,\)|\[|flip|Pad",
        r"got \(int, tuple\)|got \(tuple, int\)|got \(Tensor, int, (tuple|list)|"
        r"must be tuple of ints, not int|Padding length must be divisible",
        "x.movedim(0, (1,))",
    ),
    Known(
        "a bound or number beyond the dtype's range is infinite",
        ACCEPTED,
        r"",
        r"cannot be converted to type (float|double|c10::Half|c10::BFloat16) without overflow|"
        r"but found inf",
        "run(nn.LeakyReLU(-1e39), x)",
    ),
    Known(
        "a convolution over no channels gives zeros",
        DIFFERS,
        r"conv.*:0\]",
        r"shape \(.*\), not \(\d+, 0",
        "F.conv2d(image[:, :0], kernel[:, :0])",
    ),
    Known(
        "an empty batch has the shape that any other has",
        DIFFERS,
        r"pixel_unshuffle.*:0\]",
        r"shape",
        "F.pixel_unshuffle(image[:0], 2)",
    ),
    Known(
        "operands without elements give results without",
        ACCEPTED,
        r"\[:0\]|\[\]|:0\]",
        r"non-empty|not be empty|to be at least 1|no elements|optional 0 dim batch size|"
        r"Only zero batch",
        "x[[], :1].quantile(0.4, 1)",
    ),
    Known(
        "devices are numbered, the first of this machine is 0",
        ACCEPTED,
        r"\.to\(\d|device=",
        r"Cannot access accelerator|Torch not compiled|Invalid device|NVIDIA",
        "x.to(0)",
    ),
    Known(
        "a constant written over an operand ends its history: no gradient, not zeros",
        DIFFERS,
        r"\.(fill_|zero_)\(",
        r"gradients flow in PyTorch alone",
        "(x * 2).fill_(3)",
    ),
    Known(
        "the largest that are not to be in order may come in any",
        DIFFERS,
        r"topk\(.*sorted=False",
        r"elements, at",
        "m.tensor([[3.0, 1, 4, 1, 5, 9, 2, 6]]).topk(5, sorted=False)",
    ),
    Known(
        "the exponent of a norm beyond the dtype's range is infinite",
        DIFFERS,
        r"norm\(.*1e\+?39",
        r"elements, at",
        "x.norm(-1e39, 1)",
    ),
    Known(
        "memory that is neither pinned nor shared takes any argument of the versions that did",
        ACCEPTED,
        r"share_memory_|pin_memory|pinned",
        r"takes \d positional|unexpected|must be|invalid",
        "u.share_memory_(v)",
    ),
    Known(
        "a matrix of less than full rank is definite or not by its rounding",
        ACCEPTED,
        r"cholesky",
        r"not positive-definite",
        "m.linalg.cholesky(square[..., :0] @ square[..., :0].T + 2 ** 31)",
    ),
    Known(
        "sizes come in any sequence",
        ACCEPTED,
        r"range\(|Size\(",
        r"must be tuple of ints, not range|takes an iterable of 'int'",
        "m.tile(x, range(1, 3))",
    ),
    Known(
        "the old constructor new() takes what clnet.tensor takes",
        ACCEPTED,
        r"\.new\(",
        r"Legacy tensor|legacy|new\(\)",
        "t.new(0.5)",
    ),
    Known(
        "kinds of memory are named by any object",
        ACCEPTED,
        r"m\.(layout|memory_format|dtype)\(",
        r"cannot create",
        "m.layout(0.5)",
    ),
    Known(
        "where a tensor lies has another number on each device",
        DIFFERS,
        r"data_ptr",
        r"",
        "x.data_ptr()",
    ),
    Known(
        "PyTorch asks for a view of what lies otherwise",
        ACCEPTED,
        r"lay\(",
        r"view size is not compatible",
        "m.kron(lay(x, 'transposed'), lay(v, 'transposed'))",
    ),
    Known(
        "PyTorch sorts an expanded tensor in its own memory",
        DIFFERS,
        r"(median|kthvalue)\(.*expanded",
        r"elements, at",
        "m.median(lay(x, 'expanded'), 0, True)",
    ),
    Known(
        "a number beyond the dtype's range is infinite",
        DIFFERS,
        r"pow.*1e\+?300|1e\+?300 \*\*",
        r"nan",
        "m.pow(1e300, y)",
    ),
    Known(
        "windows take each of their numbers by name",
        ACCEPTED,
        r"_window\(",
        r"invalid combination",
        "m.hamming_window(7, periodic=False, beta=1.5)",
    ),
    Known(
        "a whole number is a size of one axis",
        ACCEPTED,
        r"full\(|flip\(",
        r"must be tuple of ints, not (int|Tensor)",
        "m.full(7, 1.5)",
    ),
    Known(
        "booleans are numbers",
        ACCEPTED,
        r"trapezoid|trapz",
        r"received a bool input",
        "m.trapezoid(c)",
    ),
    Known(
        "one number may overwrite elements that stand for several",
        ACCEPTED,
        r"expanded.*__setitem__",
        r"more than one element of the written-to tensor",
        "lay(x, 'expanded').detach().__setitem__((slice(1, None), 0), 7)",
    ),
    Known(
        "what is assigned may be a list",
        ACCEPTED,
        r"__setitem__.*\[",
        r"can't assign a",
        "x.detach().__setitem__((slice(1, None), 0), [True])",
    ),
    Known(
        "the median of nothing, and a copy, begin a history of their own",
        DIFFERS,
        r"median\(.*:0|asarray\(.*requires_grad|\.new\(|Buffer\(",
        r"gradients flow in PyTorch alone|None, not a tensor",
        "m.median(x[..., :0])",
    ),
    Known(
        "a dtype is named by 1, too, where PyTorch has an argument of its own",
        ACCEPTED,
        r"softm",
        r"must be torch.dtype, not int",
        "m.log_softmax(x, 1, 1)",
    ),
    Known(
        "whole numbers of 64 bits and a sign at most, else floats",
        ACCEPTED,
        r"2 \*\* 63",
        r"Overflow when unpacking",
        "m.asarray([2 ** 63, 7])",
    ),
    Known(
        "the entropy over no classes is 0",
        DIFFERS,
        r"cross_entropy.*:0\]",
        r"0\.0\), not np\.float32\(nan",
        "F.cross_entropy(x[..., :0], y[..., :0])",
    ),
    Known(
        "1 + |x|, and the difference of two, do not overflow the bytes that they are of",
        DIFFERS,
        r"softsign|(?i:margin_?ranking_?loss).*uint8|uint8.*(?i:margin_?ranking_?loss)",
        r"elements, at",
        "F.softsign(m.tensor([255, 1], dtype=m.uint8))",
    ),
    Known(
        "PyTorch fails an assertion of its own",
        ACCEPTED,
        r"",
        r"nested_tensorlist|INTERNAL ASSERT|invalid gradient at index|"
        r"could not create a primitive|modified by an inplace operation",
        "nn.utils.clip_grad_value_(weights, 1.0)",
    ),
    Known(
        "bounds in the wrong order: the upper one counts",
        ACCEPTED,
        r"(?i)hardtanh",
        r"greater than",
        "run(nn.Hardtanh(1, -1), x)",
    ),
    Known(
        "correction counts beside unbiased",
        ACCEPTED,
        r"var|std",
        r"correction=",
        "m.var(x, 1, unbiased=True, correction=1)",
    ),
    Known(
        "packed sequences have fields of their own",
        DIFFERS,
        r"pack_",
        r"results, not|a tensor of int64",
        "nn.utils.rnn.pack_sequence([x, y])",
    ),
    Known(
        "whole numbers have a mean, and pass for floats",
        ACCEPTED,
        r"m\.(int|uint|bool)|\b[ijc]\b|index|signs",
        r"mean\(\): could not infer output dtype|can't be cast|did not match|dtype|"
        r"expected scalar type|Integral|integral|Long|Bool|Byte|Int\b|Short",
        "F.kl_div(i, y)",
    ),
    Known(
        "operands of two dtypes are promoted, and 16-bit floats go with wider ones",
        ACCEPTED,
        r"to\(m\.|float64|float16",
        r"same dtype|expected scalar type|dtype|Half|BFloat16|Double|type",
        "m.addmm(square.to(m.float64), square, square)",
    ),
    Known(
        "losses broadcast their operands",
        ACCEPTED,
        r"(?i)margin_?(ranking_?)?loss",
        r"doesn't match the broadcast shape|should have same dimension",
        "F.soft_margin_loss(x[0], signs)",
    ),
    Known(
        "a list inside a list is an array of indices, as NumPy has it",
        DIFFERS,
        r"\[\[+",
        r"shape \(1, ",
        "x[[[1]]]",
    ),
    Known(
        "a whole number divided by 0 has no value, and no device says so",
        ACCEPTED,
        r"",
        r"ZeroDivisionError",
        "i // 0",
    ),
    Known(
        "signs of eigenvectors and singular vectors are arbitrary",
        DIFFERS,
        r"svd|eigh|lowrank|lobpcg",
        r"elements, at|gradient",
        "m.linalg.svd(x)",
    ),
    Known(
        "a generator's state is its seed and counter",
        DIFFERS,
        r"get_rng_state|get_state",
        r"'seed'",
        "m.get_rng_state()",
    ),
    Known(
        "milestones are whole numbers, whoever's",
        DIFFERS,
        r"MultiStepLR\(.*(tensor|np\.)",
        r"",
        "rates(schedule.MultiStepLR(o, [2, m.tensor(1)]))",
    ),
    Known(
        "no step at the smaller rate is none",
        DIFFERS,
        r"ConstantLR\(.*total_iters=(0|False|-)|ConstantLR\(o, [^,]*, (0|False|-)",
        r"",
        "rates(schedule.ConstantLR(o, total_iters=0))",
    ),
    Known(
        "padding is at most half of what a dilated window covers, in each number of axes",
        ACCEPTED,
        r"(?i)max_?pool1d",
        r"padding should be at most half",
        "F.max_pool1d(square, 3, 1, 2, 3)",
    ),
    Known(
        "a sequence inside an index is an array of indices, as NumPy has it",
        ACCEPTED,
        r"\[.*[(\[]",
        r"only integer tensors of a single element can be converted to an index",
        "x[i.abs() % 3, (i % 3, j % 3)]",
    ),
    Known(
        "a storage is made of what a tensor is made of",
        ACCEPTED,
        r"Storage\(",
        r"Expected a sequence type|TypedStorage.__init__ received",
        "m.UntypedStorage(w3)",
    ),
    Known(
        "losses of whole numbers are floats",
        DIFFERS,
        r"(_loss|Loss)\(",
        r"float32, not int64",
        "F.hinge_embedding_loss(index, index, margin=1.0, reduction='none')",
    ),
    Known(
        "the mean over nothing is NaN",
        DIFFERS,
        r"(?i)loss.*:0\]",
        r"np\.float32\(nan\), not",
        "run(nn.MultiMarginLoss(), x[:0], index[:0])",
    ),
    Known(
        "arguments of one name have one place, in each of PyTorch's versions of a function",
        ACCEPTED,
        r"argsort\(.*stable",
        r"invalid combination",
        "x.argsort(1, stable=True)",
    ),
    Known(
        "NumPy's booleans are booleans",
        DIFFERS,
        r"np\.bool_",
        r"(int\d+|bool), not float32",
        "index.clamp_min(np.bool_(True))",
    ),
    Known(
        "device() is the current one",
        ACCEPTED,
        r"m\.device\(",
        r"device\(\) received an invalid combination",
        "m.device()",
    ),
    Known(
        "a flag is whatever has a truth",
        ACCEPTED,
        r"copy_\(",
        r"must be bool, not Tensor",
        "x.detach().copy_(v, v)",
    ),
    Known(
        "losses have one default, the mean, under each of their names",
        DIFFERS,
        r"m\.\w*(loss|cross_entropy\w*|kl_div)\(",
        r"shape \(\), not",
        "m.binary_cross_entropy_with_logits(y, signs)",
    ),
    Known(
        "losses name their reductions under each of their names",
        ACCEPTED,
        r"m\.\w+\(.*reduction=",
        r"argument 'reduction'",
        "m.binary_cross_entropy_with_logits(y, u2, reduction='sum', pos_weight=y)",
    ),
    Known(
        "a number less than the least of the dtype is 0",
        DIFFERS,
        r"pow.*1e-320|\*\* -?1e-320|\*\* \(?-?float\(1e-320",
        r"elements, at",
        "i.pow(1e-320)",
    ),
    Known(
        "NumPy's unsigned numbers are whole numbers, whose negative is negative",
        DIFFERS,
        r"np\.uint8",
        r"elements, at",
        "steps(optim.SGD(weights, lr=np.uint8(1), momentum=0.9))",
    ),
    Known(
        "what is on the tape has numbers, too",
        ACCEPTED,
        r"__array__|np\.|numpy",
        r"Can't call numpy",
        "x.__array__(dtype=m.float16)",
    ),
    Known(
        "gradients flow to weights of losses, too",
        ACCEPTED,
        r"(?i)binary_?cross_?entropy|bceloss",
        r"not differentiable with respect to argument",
        "F.binary_cross_entropy(u2, u2, m.sigmoid(x))",
    ),
    Known(
        "what is not 0 is true",
        ACCEPTED,
        r"where\(",
        r"expected condition to be a boolean tensor",
        "m.where(x, x, y)",
    ),
    Known(
        "a NumPy array without axes is a number: it does not widen",
        ACCEPTED,
        r"np\.(array\([\d.]+|bool_\(\w+|float64\()",
        r"Float did not match Double",
        "m.isclose(x, x + np.array(0.5))",
    ),
    Known(
        "operands of two dtypes are promoted",
        ACCEPTED,
        r"heaviside|quantile",
        r"different dtypes|same dtype",
        "m.heaviside(x, c.long())",
    ),
    Known(
        "one bound is the upper one, by any name",
        ACCEPTED,
        r"randint(_like)?\(.*low=",
        r"invalid combination",
        "m.randint_like(j, low=3)",
    ),
    Known(
        "random numbers are others than PyTorch's",
        DIFFERS,
        r"(?i)rand|normal|bernoulli|uniform|multinomial|dropout|gumbel|rrelu|Transformer|xavier|kaiming|"
        r"geometric|exponential_|cauchy|"
        r"orthogonal|fractional",
        r"",
        "m.rand(2)",
    ),
)


def reason(text: str, outcome: Outcome) -> str:
    """Why a difference is meant, or nothing."""
    for known in KNOWN:
        if (
            known.kind == outcome.kind
            and re.search(known.text, text)
            and re.search(known.detail, outcome.detail)
        ):
            return known.why
    return ""
