"""Random values, their densities and entropies, as ``torch.distributions`` has them.

``continuous`` holds those of one formula, ``gammas`` those made of gamma variables, ``discrete``
categories, ``counts`` numbers of events, ``relaxed`` continuous stand-ins of categories and others,
``bounded`` what lies in an interval, ``tails`` those of powers, ``composed`` what is made of
others; ``transform`` are functions of values (``transform_base`` says what one is,
``transform_parts`` makes them of others), ``constraint`` the sets that they lie in,
``registry`` leads there, ``divergence`` says how far two are from each other, ``apart`` two of
different families, ``exp_family`` what programs' own families inherit. PyTorch's names of modules
stand beside ours.
"""

from __future__ import annotations

from . import apart  # noqa: F401 - declares its formulas
from . import bounded as continuous_bernoulli  # noqa: F401
from . import composed as independent
from . import composed as log_normal  # noqa: F401
from . import composed as mixture_same_family
from . import composed as multivariate_normal
from . import composed as transformed_distribution
from . import constraint as constraints
from . import continuous as cauchy  # noqa: F401
from . import continuous as exponential  # noqa: F401
from . import continuous as gumbel  # noqa: F401
from . import continuous as half_normal  # noqa: F401
from . import continuous as laplace
from . import continuous as normal
from . import continuous as uniform
from . import counts as binomial  # noqa: F401
from . import counts as multinomial  # noqa: F401
from . import counts as poisson  # noqa: F401
from . import discrete as bernoulli
from . import discrete as categorical
from . import discrete as geometric  # noqa: F401
from . import discrete as one_hot_categorical  # noqa: F401
from . import divergence as kl
from . import gammas as beta
from . import gammas as chi2  # noqa: F401
from . import gammas as dirichlet
from . import gammas as gamma
from . import gammas as studentT  # noqa: F401
from . import matrices as lkj_cholesky  # noqa: F401 - for packages
from . import matrices as wishart  # noqa: F401 - for packages
from . import parameter as utils
from . import registry as constraint_registry  # noqa: F401
from . import relaxed as logistic_normal  # noqa: F401
from . import relaxed as lowrank_multivariate_normal  # noqa: F401
from . import relaxed as negative_binomial  # noqa: F401
from . import relaxed as relaxed_bernoulli  # noqa: F401
from . import relaxed as relaxed_categorical  # noqa: F401
from . import relaxed as von_mises  # noqa: F401
from . import tails as fishersnedecor  # noqa: F401
from . import tails as generalized_pareto  # noqa: F401
from . import tails as half_cauchy  # noqa: F401
from . import tails as inverse_gamma  # noqa: F401
from . import tails as kumaraswamy  # noqa: F401
from . import tails as pareto  # noqa: F401
from . import tails as weibull  # noqa: F401
from . import transform as transforms
from .bounded import ContinuousBernoulli
from .composed import (
    Independent,
    LogNormal,
    MixtureSameFamily,
    MultivariateNormal,
    TransformedDistribution,
)
from .continuous import Cauchy, Exponential, Gumbel, HalfNormal, Laplace, Normal, Uniform
from .counts import Binomial, Multinomial, Poisson
from .discrete import (
    Bernoulli,
    Categorical,
    Geometric,
    OneHotCategorical,
)
from .distribution import Distribution
from .divergence import kl_divergence, register_kl
from .exp_family import ExponentialFamily
from .gammas import Beta, Chi2, Dirichlet, Gamma, StudentT
from .matrices import LKJCholesky, Wishart
from .registry import biject_to, identity_transform, transform_to
from .relaxed import (
    LogisticNormal,
    LowRankMultivariateNormal,
    NegativeBinomial,
    OneHotCategoricalStraightThrough,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
    VonMises,
)
from .tails import (
    FisherSnedecor,
    GeneralizedPareto,
    HalfCauchy,
    InverseGamma,
    Kumaraswamy,
    Pareto,
    Weibull,
)
from .transform import *

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ContinuousBernoulli",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "StudentT",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "bernoulli",
    "beta",
    "biject_to",
    "categorical",
    "constraints",
    "dirichlet",
    "gamma",
    "identity_transform",
    "independent",
    "kl",
    "kl_divergence",
    "laplace",
    "mixture_same_family",
    "multivariate_normal",
    "normal",
    "register_kl",
    "transform_to",
    "transformed_distribution",
    "transforms",
    "uniform",
    "utils",
]
__all__ += transforms.__all__
