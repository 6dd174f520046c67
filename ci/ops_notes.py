"""What cannot be found out about ops: how they differ from PyTorch's of the same name."""

INTRODUCTION = """
# Ops

Written by `python ci/ops_page.py`; a test compares it with what the code does. `F` is
`clnet.nn.functional`. *dtypes* are those of the operands that hold numbers. *gradients* says how
often an op can be differentiated. *kernels* are the rooms of `clnet/kernels` that the op's own
functions launch from (none of a view's); an op that is composed of others shows theirs.

What holds for all of them, beside PyTorch's documentation:

- Results have PyTorch's shapes and dtypes. Floats of 16 bits are stored in 16 and added up in 32,
  also on devices without `cl_khr_fp16`. float64 needs a device that has it. Complex
  numbers (complex64, complex128) are taken where PyTorch takes them and no order is asked for;
  conjugates are computed at once.
- The first tensor is given by position; it is called `x`, not `input`.
- Everything is deterministic: the same inputs give the same bits on the same device.
- What depends on elements is checked by kernels, and raised when the host next waits for the
  device (`item`, `numpy`, `tolist`, `synchronize`, the end of a profile): indices and classes out
  of range, probabilities outside [0, 1], negative variances, lengths and offsets. What programs
  catch, a matrix that is singular or not positive definite, is raised at once outside of compiled
  functions. The error is PyTorch's (`IndexError`, `ValueError`, `RuntimeError`,
  `linalg.LinAlgError`) and names op, argument, value and place; inside `clnet.debug()`, or with
  `CLNET_DEBUG=1`, it comes at once, from the line that called the op. Until then an index out of
  range reads NaN (0 of whole numbers) and writes nothing.
- What differs from PyTorch's checks: of several faults the first is raised and the others are
  counted; what a compiled function drops, because nobody reads it, is not checked; nor is an index
  of which nothing is picked (an axis of size 0). Whole numbers divided by 0 raise nothing, as on
  PyTorch's GPUs. Offsets of `embedding_bag` that descend are always refused. `linalg.*_ex`
  give the numbers instead, for which nobody need wait.
- Writes in place (`x.add_`, `x += y`, `x[0] = y`, `F.relu(x, inplace=True)`) are on the tape as
  PyTorch's are: what backward saved must not change afterwards, leaves are written under
  `clnet.no_grad()`, views write what they are views of. What is written over has a gradient of
  zeros; `x.mul_(x)` and its like work where PyTorch gives up.
- Random numbers are the same on all devices, and others than PyTorch's.
- Where the size of the result depends on data (`nonzero`, `masked_select`, boolean indices,
  `one_hot` without the number of classes), the host waits for the device once.
"""

NOTES = {
    "cdist": "`compute_mode` is without effect",
    "cross_entropy": "settings are given by name",
    "ctc_loss": "reads lengths",
    "cumprod": "second derivatives only where no factor is 0",
    "dropout": "takes a `generator`",
    "grouped_mm": "reads `offs`",
    "gumbel_softmax": "`eps` changes nothing",
    "multinomial": "weight 0 comes last, no error",
    "nll_loss": "settings are given by name",
    "scaled_dot_product_attention": "a row for which no key counts is 0, not NaN",
    "embedding": "compiled, sparse gradients are dense",
    "embedding_bag": "compiled, sparse gradients are dense",
    "linalg.eig": "real matrices; the order of the values is arbitrary",
    "linalg.eigvals": "real matrices; their order is arbitrary",
    "linalg.eigh": "signs are arbitrary",
    "linalg.svd": "signs are arbitrary",
    "linalg.lstsq": "one method",
    "matrix_exp": "up to 65536",
    "det": "cofactors at 0",
}
"""By the name of the op."""

# Corners that PyTorch answers otherwise, by their names in tests/cornercases.py.
# A call that PyTorch refuses is none: clnet may take more dtypes.
CORNERS = {
    "std-huge": "deviations are squared in float32 and overflow beyond 1e19, as var does",
    "std0-huge": "as std",
    "std_mean-huge": "as std",
    "std_mean-inf": "the mean of infinity and numbers is infinity; PyTorch's is NaN here",
    "std_mean-ninf": "as std_mean of infinity",
    "var_mean-inf": "as std_mean of infinity",
    "var_mean-ninf": "as std_mean of infinity",
    "kthvalue1-ties": "of equal elements the first; PyTorch leaves open which",
    "median-int64-empty": "an error: there is no element; PyTorch gives the least number",
    "median-int32-empty": "as median of no int64",
    "median-bool-empty": "as median of no int64",
    "median-uint8-empty": "as median of no int64",
    "linspace-(-3e+38, 3e+38, 3)": "the step is rounded once; PyTorch's overflows, and gives NaN",
}
