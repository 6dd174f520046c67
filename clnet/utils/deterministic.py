"""``torch.utils.deterministic``: a switch of PyTorch's, kept for programs that set it."""

fill_uninitialized_memory = True
"""Whether memory that nobody wrote is filled: ``CLNET_POISON=1`` says so here, and this nothing."""
