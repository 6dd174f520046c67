"""Networks that nobody tuned for, as users of PyTorch write them; ``ci/unseen.py`` runs them.

Each is a function of the library (``torch`` or ``clnet``) that gives a :class:`Case`.
"""

from .case import Case
from .convolutional import CONVOLUTIONAL
from .generative import GENERATIVE
from .large_pictures import LARGE_PICTURES
from .large_series import LARGE_SERIES
from .learning import LEARNING
from .scientific import SCIENTIFIC
from .sequences import SEQUENCES
from .signals import SIGNALS
from .tables import TABLES
from .texts import TEXTS
from .vision import VISION

NETWORKS = {
    made.__name__: made
    for made in (
        *CONVOLUTIONAL,
        *SEQUENCES,
        *TEXTS,
        *GENERATIVE,
        *TABLES,
        *SCIENTIFIC,
        *LEARNING,
        *VISION,
        *SIGNALS,
        *LARGE_PICTURES,
        *LARGE_SERIES,
    )
}

__all__ = ["NETWORKS", "Case"]
