"""``clnet.special``: functions of mathematics by the names that PyTorch has there."""

from __future__ import annotations

from .ops.machinery.function import PUBLIC_OPS, Face
from .values.place import placed

_NAMES = """
    digamma=digamma psi=digamma gammaln=lgamma polygamma=polygamma multigammaln=mvlgamma erf=erf
    erfc=erfc erfinv=erfinv exp2=exp2 expit=sigmoid expm1=expm1 log1p=log1p logit=logit round=round
    gammainc=igamma gammaincc=igammac i0=i0
    log_softmax=log_softmax logsumexp=logsumexp sinc=sinc softmax=softmax xlogy=xlogy
"""
for _pair in _NAMES.split():
    _name, _, _op = _pair.partition("=")
    if _op in PUBLIC_OPS:
        globals()[_name] = PUBLIC_OPS[_op][0]
_OWN = {n: f for n, (f, face) in PUBLIC_OPS.items() if Face.SPECIAL in face}
globals().update(placed(__name__, {n.removeprefix("special."): f for n, f in _OWN.items()}))
