"""What cannot be found out about ops: how they differ from PyTorch's of the same name."""

INTRODUCTION = """
# Ops

Written by `python ci/ops_page.py`; a test compares it with what the code does. `F` is
`clnet.nn.functional`. *dtypes* are those of the operands that hold numbers. *gradients* says how
often an op can be differentiated. *kernels* are the rooms of `clnet/kernels` that the op's own
functions launch from (none of a view's); an op that is composed of others shows theirs.

What holds for all of them, beside PyTorch's documentation:

- Results have PyTorch's shapes and dtypes. Floats of 16 bits are stored in 16 and added up in 32,
  also on devices without `cl_khr_fp16`. float64 needs a device that has it. There are no complex
  numbers.
- The first tensor is given by position; it is called `x`, not `input`.
- Everything is deterministic: the same inputs give the same bits on the same device.
- An index out of range is not an error, which would have to wait for the device: it reads NaN (0 of
  whole numbers) and writes nothing.
- Writes in place (`x.add_`, `x += y`, `x[0] = y`, `F.relu(x, inplace=True)`) are on the tape as
  PyTorch's are: what backward saved must not change afterwards, leaves are written under
  `clnet.no_grad()`, views write what they are views of. A constant written over all of a tensor
  (`x.zero_()`) takes it off the tape; `x.mul_(x)` and its like work where PyTorch gives up.
- Random numbers are the same on all devices, and others than PyTorch's.
- Where the size of the result depends on data (`nonzero`, `masked_select`, boolean indices,
  `one_hot` without the number of classes), the host waits for the device once.
"""

NOTES = {
    "cdist": "`compute_mode` changes nothing: differences one by one",
    "cross_entropy": "settings are given by name",
    "ctc_loss": "targets in a row: reads lengths",
    "cumprod": "second derivatives only where no factor is 0",
    "dropout": "takes a `generator`",
    "gumbel_softmax": "`eps` changes nothing",
    "multinomial": "weight 0 comes last, no error",
    "nll_loss": "settings are given by name",
    "scaled_dot_product_attention": "a row for which no key counts is 0, not NaN",
    "inverse": "singular: infinities or NaN",
    "linalg.qr": "R's diagonal is positive",
    "linalg.solve": "singular: infinities or NaN",
    "Tensor.unfold": "a copy",
    "unique": "elements, not slices: `dim` is None",
}
"""By the name of the op."""
