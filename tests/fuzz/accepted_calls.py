"""Calls that clnet takes and PyTorch refuses, as they are meant: reason, text, error, example."""

from __future__ import annotations

ACCEPTED_CALLS = (
    (
        "options of compile are taken, whatever they are",
        r"\bcompile\(.*options=",
        r"Boolean value of Tensor",
        "m.compile(model=lambda a=1, *b: a * 2, options=w3)",
    ),
    (
        "of two bounds one may be a number",
        r"(clip|clamp)_?\(",
        r"received an invalid combination",
        "x.clip(c, 0.5)",
    ),
    (
        "of two tolerances one may be a number",
        r"(pinv|matrix_rank)\(.*[ar]tol=",
        r"received an invalid combination",
        "m.linalg.matrix_rank(y, atol=v, rtol=2)",
    ),
    (
        "a tensor without axes stands for a size",
        r"[Aa]daptive.*m\.tensor\(\d\)",
        r"len\(\) of a 0-d tensor",
        "run(nn.AdaptiveMaxPool2d(m.tensor(1)), lay(image, 'offset'))",
    ),
    (
        "out of whole numbers may be of floating numbers",
        r"(searchsorted|bucketize|arg(max|min)|topk|sort|kthvalue|mode|median|cum(max|min))\(.*out=",
        r"output tensor's dtype is wrong|Expected out tensor to have dtype long int",
        "m.argmin(x, out=v)",
    ),
    (
        "no axes are shifted to the middle",
        r"fftshift\(.*((dim=|, )(\(\)|\[\])|m.tensor\()",
        r"`shifts` required",
        "m.fft.fftshift(x, dim=())",
    ),
    (
        "an operand may lie in the result itself: it is read before that is written",
        r"\w_\(|out=|[-+*/|&^]= ",
        r"refer to a single memory location",
        "c[None].logical_xor_(c[0])",
    ),
    (
        "an operand of a chain of products may be written at its end",
        r"chain_matmul\(.*out=",
        r"shapes cannot be multiplied",
        "m.chain_matmul(x, square, y.T, out=x)",
    ),
    (
        "map_ writes to what is on no tape, though it requires gradients",
        r"\bmap2?_\(",
        r"Can't call map2?_\(\) on Variable that requires grad",
        "i.map_(x, lambda a=1, *b: a * 2)",
    ),
    (
        "output_size of repeats that lie on the device is taken as it is: nothing waits",
        r"repeat_interleave\(.*output_size",
        r"allocated size does not match",
        "x.repeat_interleave(index, 0, output_size=1)",
    ),
    (
        "normal has a mean of 0 where none is given",
        r"normal\(std=",
        r"received an invalid combination",
        "m.normal(std=p, requires_grad=True)",
    ),
    (
        "arange takes a step without a beginning",
        r"arange\(.*step=",
        r"received an invalid combination",
        "m.arange(5, dtype=m.float32, step=2)",
    ),
    (
        "tolerances are numbers: one that requires gradients gets none",
        r"(pinv|matrix_rank)\(.*[ar]tol=",
        r"not differentiable with respect to argument",
        "m.linalg.pinv(y, atol=x)",
    ),
    (
        "places may be any sequence, a range, too",
        r"range\(",
        r"received an invalid combination",
        "t.dsplit(range(3))",
    ),
    (
        "whether a sum or a product is 0 is told of tensors on the tape, too",
        r"(sum|prod).*bool",
        r"Autograd not support dtype",
        "m.prod(x, 1, dtype=m.bool)",
    ),
    (
        "SparseAdam takes dense gradients, too",
        r"SparseAdam",
        r"does not support dense gradients",
        "steps(optim.SparseAdam(weights, lr=2))",
    ),
    (
        "out may be written on the tape: what is returned leads back to the operands",
        r"out=",
        r"don't support automatic differentiation",
        "m.cat([x], out=x.detach())",
    ),
    (
        "the gradient of a result without elements is 0",
        r"[Aa]daptive_?([Mm]ax|[Aa]vg)_?[Pp]ool",
        r"Expected grad_output to have non-zero size",
        "F.adaptive_max_pool2d(image, (0, 1))",
    ),
    (
        "a rate of 0 leaves parameters as they are; eps is 0 where the user wants it so",
        r"SparseAdam.*(lr|eps)=0",
        r"Invalid learning rate|Invalid epsilon",
        "optim.SparseAdam(weights, lr=0.0)",
    ),
    (
        "NumPy's arrays are asked for by clnet's dtypes, too",
        r"__array__\(.*m\.",
        r"Cannot interpret '.*' as a data type",
        "x.detach().__array__(dtype=m.bool)",
    ),
    (
        "a lazy layer finds the channels of one example, too",
        r"LazyInstanceNorm",
        r"running_mean should contain",
        "run(nn.LazyInstanceNorm1d(affine=False), x)",
    ),
    (
        "a distribution of one formula, where PyTorch's chain of transforms leaves the range",
        r"distributions\.(Gumbel|Kumaraswamy|Pareto|Weibull)\(",
        r"within the support \(Interval\(lower_bound=tensor\(\[\[1\.1755e-38",
        "m.distributions.Gumbel(300, p).cdf(y)",
    ),
    (
        "rates are computed from the base, not step from step: one of 0 is left again",
        r"schedule\.\w+\(",
        r"ZeroDivisionError: float division by zero",
        "rates(schedule.ConstantLR(o, False, 3))",
    ),
    (
        "validate_args=False leaves out the checks of a distribution's parts, too",
        r"distributions\..*validate_args=False",
        r"Expected parameter \w+ \(.* to satisfy",
        "m.distributions.StudentT(y, validate_args=False).log_prob(t)",
    ),
    (
        "a scheduler that begins later needs no marks in its optimiser",
        r"schedule\.",
        r"param 'initial_lr' is not specified",
        "rates(schedule.PolynomialLR(o, 5, 2.0, 2))",
    ),
    (
        "PyTorch's CPU has no kernel for the dtype, clnet has one",
        r"",
        r"not implemented for|not supported for|does not support bool|"
        r"not support .* inputs|is not implemented|Unsupported input type encountered",
        "F.gelu(i)",
    ),
    (
        "a number stands for a tensor without axes",
        r"",
        r"must be Tensor, not (int|float|bool|complex|numpy)|any\(\) received .* got \(bool\)|"
        r"got \(Tensor, Tensor, (min|max)=(float|int)|"
        r"got \((min|max)=(Tensor, (min|max)=(float|int)|(float|int), (min|max)=Tensor)|"
        r"received an invalid combination of arguments - got \((int|float|bool|complex|"
        r"numpy\.\w+), Tensor|got \(Tensor, (float|int), Tensor\)|got \(Tensor, (min|"
        r"max)=Tensor, (min|max)=(float|int)|got \(Tensor, Tensor, (float|int)\)",
        "x.fmax(2)",
    ),
    (
        "an argument that PyTorch asks for has a default",
        r"",
        r"missing \d+ required positional",
        "m.alpha_dropout(p, training=False)",
    ),
    (
        "None stands for no such argument",
        r"None",
        r"received an invalid combination|must be .*, not NoneType|got multiple values|"
        r"object of type 'NoneType' has no len",
        "m.eye(3, None)",
    ),
    (
        "numbers, dtypes and sizes are taken from NumPy and Python, too",
        r"np\.|\bint\b|\bfloat\b|m\.tensor\(",
        r"must be|invalid combination|failed to unpack|expected .* to be|can't convert|"
        r"Expected|iteration over a 0-d|only integers|has no len|expects dims|Can't call numpy|"
        r"should be (a number|of type)|must all be instances of Number|"
        r"not supported between instances of 'Tensor'|truth value of an array|"
        r"takes 1 positional argument|len\(\) of unsized object|unsupported operand type|"
        r"unhashable type|Cannot access data pointer|only supports Tensor or scalar",
        "x.clamp(max=np.array(2))",
    ),
    (
        "methods take what functions take",
        r"out=|keepdim=|dim=",
        r"invalid combination|takes no keyword|argument 'dim' \(position 1\) must be int",
        "x.ceil(out=x.detach())",
    ),
    (
        "out may have any dtype that holds the result",
        r"(is(neg|pos)inf|signbit).*out=",
        r"does not support non-boolean",
        "m.isneginf(u, out=x.detach())",
    ),
    (
        "one axis, or a sequence of one, are the same",
        r"\(-?\w+,\)|\[|flip|Pad",
        r"got \(int, tuple\)|got \(tuple, int\)|got \(Tensor, int, (tuple|list)|"
        r"must be tuple of ints, not int|Padding length must be divisible",
        "x.movedim(0, (1,))",
    ),
    (
        "a bound or number beyond the dtype's range is infinite",
        r"",
        r"cannot be converted to type (float|double|c10::Half|c10::BFloat16) without overflow|"
        r"but found (inf|1e\+300)",
        "run(nn.LeakyReLU(-1e39), x)",
    ),
    (
        "operands without elements give results without",
        r":0[\],]|\[\]",
        r"non-empty|not be empty|to be at least 1|no elements|optional 0 dim batch size|"
        r"Only zero batch|possibly 0 batch size and other non|-1 can be any value and is|"
        r"Inconsistent configuration parameters|step must be nonzero|"
        r"'channel' dimension to be divisible",
        "x[[], :1].quantile(0.4, 1)",
    ),
    (
        "devices are numbered, the first of this machine is 0",
        r"\.to\(\d|device=|device\(type=",
        r"Cannot access accelerator|Torch not compiled|Invalid device|NVIDIA|"
        r"argument 'type' must be str, not int",
        "x.to(0)",
    ),
    (
        "memory that is neither pinned nor shared takes any argument of the versions that did",
        r"share_memory_|pin_memory|pinned",
        r"takes \d positional|unexpected|must be|invalid|Cannot access accelerator|Expected one of",
        "u.share_memory_(v)",
    ),
    (
        "a matrix of less than full rank is definite or not by its rounding",
        r"cholesky",
        r"not positive-definite",
        "m.linalg.cholesky(square[..., :0] @ square[..., :0].T + 2 ** 31)",
    ),
    (
        "sizes come in any sequence",
        r"range\(|Size\(|quantile\(.*[\[(]",
        r"must be tuple of ints, not range|takes an iterable of 'int'|"
        r"got \((Tensor, )?(list|tuple)",
        "m.tile(x, range(1, 3))",
    ),
    (
        "the old constructor new() takes what clnet.tensor takes",
        r"\.new\(",
        r"Legacy tensor|legacy|new\(\)",
        "t.new(0.5)",
    ),
    (
        "kinds of memory are named by any object",
        r"m\.(layout|memory_format|dtype)\(",
        r"cannot create",
        "m.layout(0.5)",
    ),
    (
        "PyTorch asks for a view of what lies otherwise",
        r"lay\(",
        r"view size is not compatible",
        "m.kron(lay(x, 'transposed'), lay(v, 'transposed'))",
    ),
    (
        "windows take each of their numbers by name",
        r"_window\(",
        r"invalid combination",
        "m.hamming_window(7, periodic=False, beta=1.5)",
    ),
    (
        "a whole number is a size of one axis",
        r"full\(|flip\(|reshape\(|tile\(|(rms|layer)_norm\(",
        r"must be tuple of ints, not (int|Tensor)",
        "m.full(7, 1.5)",
    ),
    (
        "booleans are numbers",
        r"trapezoid|trapz|np\.bool_|zeta\((True|False)|dropout=(True|False)",
        r"received a bool input|(numpy|torch) boolean negative|dropout should be a number",
        "m.trapezoid(c)",
    ),
    (
        "one number may overwrite elements that stand for several",
        r"expanded.*__setitem__",
        r"more than one element of the written-to tensor",
        "lay(x, 'expanded').detach().__setitem__((slice(1, None), 0), 7)",
    ),
    (
        "what drops nothing writes nothing, in place either; PyTorch refuses one shape of two",
        r"dropout\dd\(.*inplace=True",
        r"leaf Variable",
        "F.dropout1d(y, training=False, inplace=True)",
    ),
    (
        "a packed sequence takes numbers, too, and looks at them where it is used",
        r"PackedSequence\(",
        r"Dimension out of range|has no attribute",
        "nn.utils.rnn.PackedSequence(x, (2, 1), sorted_indices=i)",
    ),
    (
        "an empty batch has a density's shape, too",
        r"Independent\(.*(False|:0)\]",
        r"cannot reshape tensor of 0 elements",
        "m.distributions.Independent(m.distributions.Normal(x[None], p[False]), 1).log_prob(x)",
    ),
    (
        "of numbers in a tuple only booleans are a mask: NumPy's bytes are places, as in NumPy",
        r"np\.uint8",
        r"shape of the mask",
        "x[index, (np.uint8(1),)]",
    ),
    (
        "where no element is moved, no index is looked at, as PyTorch's own t[index] does not",
        r"Embedding\(\d+, 0\b",
        r"out of DATA bounds",
        "run(nn.Embedding(3, 0), i)",
    ),
    (
        "what is assigned may be a list or a tuple",
        r"__setitem__.*[\[(]",
        r"can't assign a",
        "x.detach().__setitem__((slice(1, None), 0), [True])",
    ),
    (
        "a dtype is named by 1, too, where PyTorch has an argument of its own",
        r"softm",
        r"must be torch.dtype, not int",
        "m.log_softmax(x, 1, 1)",
    ),
    (
        "whole numbers of 64 bits and a sign at most, else floats",
        r"2 \*\* (63|70)",
        r"Overflow when unpacking",
        "m.asarray([2 ** 63, 7])",
    ),
    (
        "PyTorch fails an assertion of its own",
        r"",
        r"nested_tensorlist|INTERNAL ASSERT|invalid gradient at index|"
        r"select\(\): index 0 out of range for tensor of size \[0\]|"
        r"could not create a primitive|modified by an inplace operation|"
        r"Expected a proper Tensor but got None",
        "nn.utils.clip_grad_value_(weights, 1.0)",
    ),
    (
        "correction counts beside unbiased",
        r"var|std",
        r"correction=",
        "m.var(x, 1, unbiased=True, correction=1)",
    ),
    (
        "whole numbers have a mean, and pass for floats",
        r"m\.(int|uint|bool)|\b[ijc]\b|index|signs|m\.tensor\(\d+\)",
        r"mean\(\): could not infer output dtype|can't be cast|did not match|dtype|"
        r"expected scalar type|Integral|integral|Long|Bool|Byte|Int\b|Short|"
        r"requires a floating point input type",
        "F.kl_div(i, y)",
    ),
    (
        "operands of two dtypes are promoted, and 16-bit floats go with wider ones",
        r"to\((m\.|float)|float64|float16",
        r"same dtype|expected scalar type|dtype|Half|BFloat16|Double|type",
        "m.addmm(square.to(m.float64), square, square)",
    ),
    (
        "losses broadcast their operands",
        r"(?i)margin_?(ranking_?)?loss",
        r"doesn't match the broadcast shape|should have same dimension",
        "F.soft_margin_loss(x[0], signs)",
    ),
    (
        "normal() has PyTorch's defaults of normal_()",
        r"m\.normal\(.*size=",
        r"normal\(\) received an invalid combination",
        "m.normal(size=(0, 2), generator=m.Generator())",
    ),
    (
        "PyTorch's gradients of reductions over other indices than elements fail",
        r"scatter_reduce\(.*'(prod|amax|amin)'",
        r"must match the size of tensor b",
        "x.scatter_reduce(0, places[:, []] % 3, y[:, :2], 'prod')",
    ),
    (
        "a whole number divided by 0 has no value, and no device says so",
        r"//|%|div|mod|remainder",
        r"ZeroDivisionError",
        "i // 0",
    ),
    (
        "a sequence inside an index is an array of indices, as NumPy has it",
        r"\[.*[(\[]",
        r"only integer tensors of a single element can be converted to an index",
        "x[i.abs() % 3, (i % 3, j % 3)]",
    ),
    (
        "a storage is made of what a tensor is made of",
        r"Storage\(",
        r"Expected a sequence type|TypedStorage.__init__ received",
        "m.UntypedStorage(w3)",
    ),
    (
        "arguments of one name have one place, in each of PyTorch's versions of a function",
        r"argsort\(.*stable|result_type\(.*tensor\d=",
        r"invalid combination",
        "x.argsort(1, stable=True)",
    ),
    (
        "device() is the current one",
        r"m\.device\(",
        r"device\(\) received an invalid combination",
        "m.device()",
    ),
    (
        "a flag is whatever has a truth",
        r"copy_\(|dim_order\(|numpy\(",
        r"must be (a )?bool",
        "x.detach().copy_(v, v)",
    ),
    (
        "losses name their reductions under each of their names",
        r"m\.\w+\(.*reduction=",
        r"argument 'reduction'",
        "m.binary_cross_entropy_with_logits(y, u2, reduction='sum', pos_weight=y)",
    ),
    (
        "what is on the tape has numbers, too",
        r"__array__|np\.|numpy",
        r"Can't call numpy",
        "x.__array__(dtype=m.float16)",
    ),
    (
        "gradients flow to weights and targets of losses, too",
        r"(?i)cross_?entropy|bceloss|soft_?margin_?loss|nll_?loss",
        r"not differentiable with respect to argument",
        "F.binary_cross_entropy(u2, u2, m.sigmoid(x))",
    ),
    (
        "what is not 0 is true",
        r"where\(",
        r"expected condition to be a boolean tensor",
        "m.where(x, x, y)",
    ),
    (
        "a NumPy array without axes is a number: it does not widen",
        r"np\.(array\([\d.]+|bool_\(\w+|float64\()",
        r"Float did not match Double",
        "m.isclose(x, x + np.array(0.5))",
    ),
    (
        "operands of two dtypes are promoted",
        r"heaviside|quantile|isclose|allclose",
        r"different dtypes|same dtype|Float did not match",
        "m.heaviside(x, c.long())",
    ),
    (
        "one bound is the upper one, by any name",
        r"randint(_like)?\(.*low=|random_\(.*(low|high)=",
        r"invalid combination",
        "m.randint_like(j, low=3)",
    ),
    (
        "a cycle of next to no steps is one",
        r"CyclicLR\(.*1e-320",
        r"cannot convert float infinity",
        "rates(schedule.CyclicLR(o, 0.1, 1.0, 1e-320, cycle_momentum=False))",
    ),
    (
        "a convolution to no channels gives no elements",
        r"(?i)conv",
        r"expected weight to be at least \d+ at dimension 0",
        "run(nn.Conv1d(3, 0, 3), t)",
    ),
    (
        "NumPy's booleans are booleans",
        r"\[.*np\.bool_",
        r"too many indices for tensor",
        "x[1:, np.bool_(True), ::2]",
    ),
    (
        "each of the lengths is a tensor or a sequence",
        r"ctc_loss\(|CTCLoss\(",
        r"invalid combination",
        "F.ctc_loss(F.log_softmax(sequence, 2), labels, lengths, (0, 1))",
    ),
    (
        "a tensor without elements yet can be taken off the tape",
        r"Uninitialized",
        r"Attempted to use an uninitialized parameter",
        "nn.UninitializedBuffer(persistent=False)",
    ),
    (
        "gradients of forms in place are those of the others, for every slope",
        r"r?elu_\(",
        r"In-place (leakyReLu|elu) backward calculation",
        "F.rrelu_(x * 2, -1, 0.2)",
    ),
    (
        "derivatives along tangents take operands in any layout",
        r"func\.(jvp|jacfwd|hessian)",
        r"more than one element of the written-to tensor",
        "m.func.jvp(lambda a: a.sin(), (lay(x, 'expanded'),), (y,))",
    ),
    (
        "gradients flow through all functions of mathematics, to the operands that have one",
        r"zeta|igamma|gammainc",
        r"the derivative for '.*' is not implemented",
        "m.special.zeta(p, u)",
    ),
)
