"""Which names of PyTorch do not count as public, and why clnet leaves some out."""

# ruff: noqa: E501 - patterns in a line each

from __future__ import annotations

_TORCHSCRIPT = (
    r"parse_(ir|schema|type_comment)|import_ir_module\w*|merge_type_from_type_comment|fork|wait"
)
LEFT_OUT: dict[str, str] = {
    "torch": r"\w+_copy|sym_\w+|unify_type_list|init_num_threads|compiled_with_cxx11_abi|hash_tensor"
    rf"|thread_safe_generator|get_file_path|{_TORCHSCRIPT}",
    "nn": "Container|DataParallel|NLLLoss2d|CrossMapLRN2d|RNNCellBase",
    "nn.functional": r"\w+_with_indices|boolean_dispatch|handle_torch_function|has_torch_function\w*"
    "|assert_int_or_pair",
    "nn.init": "constant|dirac|eye|kaiming_\\w+[^_]|normal|orthogonal|sparse|uniform|xavier_\\w+[^_]",
    "Tensor": "ipu|xpu|mtia|module_load|const_data_ptr|storage_type",
    "utils.data": r"\w*DataPipe|DataChunk|\w*_datapipe\w*|argument_validation|runtime_validation\w*"
    "|non_deterministic",
}
"""Names of each section that have a docstring and no place in PyTorch's manual, or a deprecated one."""
KNOWN = {
    "true_divide": "true_divide(input, other, *, out=None)",
    "where": "where(condition, input, other, *, out=None)",
    "Tensor.where": "where(self, condition, other)",
    "true_divide_": "true_divide_(self, other)",
    "arccosh_": "arccosh_(self)",
    "arctan2_": "arctan2_(self, other)",
    "cumsum_": "cumsum_(self, dim, *, dtype=None)",
    "cumprod_": "cumprod_(self, dim, *, dtype=None)",
    "concatenate": "concatenate(tensors, dim=0, *, out=None)",
    "arctanh_": "arctanh_(self)",
    "cumulative_trapezoid": "cumulative_trapezoid(y, x=None, *, dx=1, dim=-1)",
    "compile": "compile(model=None, *, fullgraph=False, dynamic=None, backend='inductor', mode=None,"
    " options=None, disable=False)",
    "type_as": "type_as(self, other)",
    "copy_": "copy_(self, src, non_blocking=False)",
    "split": "split(input, split_size_or_sections, dim=0)",
    "RNN": "RNN(input_size, hidden_size, num_layers=1, nonlinearity='tanh', bias=True,"
    " batch_first=False, dropout=0.0, bidirectional=False, device=None, dtype=None)",
    "GRU": "GRU(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,"
    " bidirectional=False, device=None, dtype=None)",
    "LSTM": "LSTM(input_size, hidden_size, num_layers=1, bias=True, batch_first=False,"
    " dropout=0.0, bidirectional=False, proj_size=0, device=None, dtype=None)",
}
"""What calls PyTorch takes where its docstring says otherwise, or nothing."""
_SPARSE = "no kernels of sparse blocks, and no sparse results in place"
_QUANTISED = "there are no quantised numbers"
REASONS: dict[str, str] = {
    "nn.Hardtanh": "deprecated names of min_val and max_val",
    "Tensor.set_": "there are no storages",
}
"""Why a name is missing or differs, by section and name."""
ROOMS: dict[str, str] = {
    r".*(chalf|ComplexHalf).*": "no complex numbers of 16-bit parts",
    r".*(sparse|coalesce|indices|hspmm|smm|sspaddmm|addmm|to_dense|dense_dim).*|Tensor.values": _SPARSE,
    r".*(quantize|q_scale|q_zero|q_per|qscheme|int_repr|quantized).*": _QUANTISED,
    r"(torch|Tensor)\.(stft|istft)": "not written",
    r"distributions\..*": "rarely used: not written yet",
    r"utils.data.Distributed\w+": "one device, one process",
}
"""The same for patterns of names."""
