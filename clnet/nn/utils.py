"""``nn.utils`` in PyTorch's names: gradients clipped, parameters as a vector, packed sequences."""

from . import packed as rnn  # noqa: F401 # pyright: ignore[reportUnusedImport] - PyTorch's name
from .parameters import clip_grad_norm_ as clip_grad_norm_
from .parameters import clip_grad_value_ as clip_grad_value_
from .parameters import parameters_to_vector as parameters_to_vector
from .parameters import vector_to_parameters as vector_to_parameters
