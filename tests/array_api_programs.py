"""SciPy and scikit-learn on clnet's arrays, beside the same calls on NumPy's.

A process of its own: SciPy looks at ``SCIPY_ARRAY_API`` when it is imported. Prints a line for each
call that gave another kind of array, or other numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

import clnet


def _untyped(name: str, *parts: str) -> Any:
    """A package, some of its modules imported; of no type.

    Else the type checker would find out what 23 calls give from all that SciPy and scikit-learn do
    for it: a tenth of its time.
    """
    for part in parts:
        import_module(f"{name}.{part}")
    return import_module(name)


scipy = _untyped("scipy", "cluster.vq", "fft", "integrate", "signal", "special", "stats")
sklearn = _untyped(
    *("sklearn", "decomposition", "discriminant_analysis", "linear_model", "metrics"),
    "preprocessing",
)
RNG = np.random.default_rng(1)
X = RNG.standard_normal((40, 4)).astype(np.float32)
Y = (X @ [1, 2, 3, 4]).astype(np.float32)
Call = Callable[[Any, Any], Any]

SCIPY: dict[str, Call] = {
    "fft.fft": lambda x, y: scipy.fft.fft(x, axis=0),
    "fft.rfft": lambda x, y: scipy.fft.rfft(x, axis=0),
    "special.logsumexp": lambda x, y: scipy.special.logsumexp(x, axis=0),
    "special.softmax": lambda x, y: scipy.special.softmax(x, axis=1),
    "special.expit": lambda x, y: scipy.special.expit(x),
    "stats.skew": lambda x, y: scipy.stats.skew(x, axis=0),
    "stats.kurtosis": lambda x, y: scipy.stats.kurtosis(x, axis=0),
    "stats.zscore": lambda x, y: scipy.stats.zscore(x, axis=0),
    "stats.pearsonr": lambda x, y: scipy.stats.pearsonr(x[:, 0], y).statistic,
    "stats.ttest_1samp": lambda x, y: scipy.stats.ttest_1samp(x, 0.0, axis=0).pvalue,
    "signal.detrend": lambda x, y: scipy.signal.detrend(x, axis=0),
    "integrate.trapezoid": lambda x, y: scipy.integrate.trapezoid(x, axis=0),
    "cluster.vq.whiten": lambda x, y: scipy.cluster.vq.whiten(x),
}
SKLEARN: dict[str, Call] = {
    "StandardScaler": lambda x, y: sklearn.preprocessing.StandardScaler().fit_transform(x),
    "MinMaxScaler": lambda x, y: sklearn.preprocessing.MinMaxScaler().fit_transform(x),
    "MaxAbsScaler": lambda x, y: sklearn.preprocessing.MaxAbsScaler().fit_transform(x),
    "Normalizer": lambda x, y: sklearn.preprocessing.Normalizer().fit_transform(x),
    "PCA": lambda x, y: abs(sklearn.decomposition.PCA(2, svd_solver="full").fit_transform(x)),
    "Ridge": lambda x, y: sklearn.linear_model.Ridge(solver="svd").fit(x, y).predict(x),
    "LDA": lambda x, y: (
        sklearn.discriminant_analysis.LinearDiscriminantAnalysis().fit(x, y > 0).predict_proba(x)
    ),
    "r2_score": lambda x, y: sklearn.metrics.r2_score(y, y * 1.1),
    "mean_squared_error": lambda x, y: sklearn.metrics.mean_squared_error(y, y * 1.1),
    "accuracy_score": lambda x, y: sklearn.metrics.accuracy_score(y > 0, y > 0.5),
}


def wrong(name: str, call: Call) -> str:
    """What differs; nothing, if all agrees."""
    found, expected = call(clnet.tensor(X), clnet.tensor(Y)), call(X, Y)
    if isinstance(expected, np.ndarray) and not isinstance(found, clnet.Tensor):
        return f"{name}: gave {type(found).__name__}, no tensor"
    error = float(np.abs(np.asarray(found) - np.asarray(expected)).max())
    most = 2e-5 * max(1.0, float(np.abs(np.asarray(expected)).max()))
    return "" if error <= most else f"{name}: is off by {error}"


def main() -> int:
    """Compare all; 1 if something differs."""
    bad = [text for name, call in SCIPY.items() if (text := wrong(name, call))]
    with sklearn.config_context(array_api_dispatch=True):
        bad += [text for name, call in SKLEARN.items() if (text := wrong(name, call))]
    print("\n".join(bad) or f"{len(SCIPY) + len(SKLEARN)} agree")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
