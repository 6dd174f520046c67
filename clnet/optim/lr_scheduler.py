"""Learning-rate schedules in PyTorch's names."""

from .combined_scheduler import ChainedScheduler as ChainedScheduler
from .combined_scheduler import SequentialLR as SequentialLR
from .cyclic_scheduler import ConstantLR as ConstantLR
from .cyclic_scheduler import CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts
from .cyclic_scheduler import CyclicLR as CyclicLR
from .cyclic_scheduler import OneCycleLR as OneCycleLR
from .cyclic_scheduler import PolynomialLR as PolynomialLR
from .cyclic_scheduler import ReduceLROnPlateau as ReduceLROnPlateau
from .function_scheduler import LambdaLR as LambdaLR
from .function_scheduler import MultiplicativeLR as MultiplicativeLR
from .scheduler import CosineAnnealingLR as CosineAnnealingLR
from .scheduler import ExponentialLR as ExponentialLR
from .scheduler import LinearLR as LinearLR
from .scheduler import LRScheduler as LRScheduler
from .scheduler import MultiStepLR as MultiStepLR
from .scheduler import StepLR as StepLR
from .scheduler import _LRScheduler as _LRScheduler
