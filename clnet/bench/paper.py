"""Seconds per mini-batch as Shi et al. (2016, arXiv:1608.07249) published them, and their oddities.

Columns: threads of a desktop processor (D, i7-3820) and of a server's (S, E5-2630), and three GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

CAPTION = (
    "Shi et al. 2016, seconds a mini-batch: D, S: a desktop's and a server's processor with so "
    "many threads; G980, G1080, K80: GPUs. Ours in columns of our own: another machine. "
    "(!): not comparable, see below"
)
COLUMNS = (
    *("D1", "D2", "D4", "D8", "S1", "S2", "S4", "S8", "S16", "S32"),
    *("G980", "G1080", "K80"),
)
_CPU, _GPU = COLUMNS[:10], COLUMNS[10:]

_SECONDS = """
# FCN-S
Caffe 1.324 0.790 0.578 15.444 1.355 0.997 0.745 0.573 0.608 1.130 0.041 0.030 0.071
CNTK 1.227 0.660 0.435 - 1.340 0.909 0.634 0.488 0.441 1.000 0.045 0.033 0.074
TF 7.062 4.789 2.648 1.938 9.571 6.569 3.399 1.710 0.946 0.630 0.060 0.048 0.109
MXNet 4.621 2.607 2.162 1.831 5.824 3.356 2.395 2.040 1.945 2.670 - 0.106 0.216
Torch 1.329 0.710 0.423 - 1.279 1.131 0.595 0.433 0.382 1.034 0.040 0.031 0.070
# AlexNet-S
Caffe 1.606 0.999 0.719 - 1.533 1.045 0.797 0.850 0.903 1.124 0.034 0.021 0.073
CNTK 3.761 1.974 1.276 - 3.852 2.600 1.567 1.347 1.168 1.579 0.045 0.032 0.091
TF 6.525 2.936 1.749 1.535 5.741 4.216 2.202 1.160 0.701 0.962 0.059 0.042 0.130
MXNet 2.977 2.340 2.250 2.163 3.518 3.203 2.926 2.828 2.827 2.887 0.020 0.014 0.042
Torch 4.645 2.429 1.424 - 4.336 2.468 1.543 1.248 1.090 1.214 0.033 0.023 0.070
# ResNet-50
Caffe 11.554 7.671 5.652 - 10.643 8.600 6.723 6.019 6.654 8.220 - 0.254 0.766
CNTK - - - - - - - - - - 0.240 0.168 0.638
TF 23.905 16.435 10.206 7.816 29.960 21.846 11.512 6.294 4.130 4.351 0.327 0.227 0.702
MXNet 48.000 46.154 44.444 43.243 57.831 57.143 54.545 54.545 53.333 55.172 0.207 0.136 0.449
Torch 13.178 7.500 4.736 4.948 12.807 8.391 5.471 4.164 3.683 4.422 0.208 0.144 0.523
# FCN-R
Caffe 2.476 1.499 1.149 - 2.282 1.748 1.403 1.211 1.127 1.127 0.025 0.017 0.055
CNTK 1.845 0.970 0.661 0.571 1.592 0.857 0.501 0.323 0.252 0.280 0.025 0.017 0.053
TF 2.647 1.913 1.157 0.919 3.410 2.541 1.297 0.661 0.361 0.325 0.033 0.020 0.063
MXNet 1.914 1.072 0.719 0.702 1.609 1.065 0.731 0.534 0.451 0.447 0.029 0.019 0.060
Torch 1.670 0.926 0.565 0.611 1.379 0.915 0.662 0.440 0.402 0.366 0.025 0.016 0.051
# AlexNet-R
Caffe 3.558 2.587 2.157 2.963 4.270 3.514 3.381 3.364 4.139 4.930 0.041 0.027 0.137
CNTK 9.956 7.263 5.519 6.015 9.381 6.078 4.984 4.765 6.256 6.199 0.045 0.031 0.108
TF 4.535 3.225 1.911 1.565 6.124 4.229 2.200 1.396 1.036 0.971 0.227 0.317 0.385
MXNet 13.401 12.305 12.278 11.950 17.994 17.128 16.764 16.471 17.471 17.770 0.060 0.032 0.122
Torch 5.352 3.866 3.162 3.259 6.554 5.288 4.365 3.940 4.157 4.165 0.069 0.043 0.141
# ResNet-56
Caffe 6.741 5.451 4.989 6.691 7.513 6.119 6.232 6.689 7.313 9.302 - 0.116 0.378
CNTK - - - - - - - - - - 0.206 0.138 0.562
TF - - - - - - - - - - 0.225 0.152 0.523
MXNet 34.409 31.255 30.069 31.388 44.878 43.775 42.299 42.965 43.854 44.367 0.105 0.074 0.270
Torch 5.758 3.222 2.368 2.475 8.691 4.965 3.040 2.560 2.575 2.811 0.150 0.101 0.301
# LSTM
Caffe - - - - - - - - - - - - -
CNTK 0.186 0.120 0.090 0.118 0.211 0.139 0.117 0.114 0.114 0.198 0.018 0.017 0.043
TF 4.662 3.385 1.935 1.532 6.449 4.351 2.238 1.183 0.702 0.598 0.133 0.065 0.140
MXNet - - - - - - - - - - 0.089 0.079 0.149
Torch 6.921 3.831 2.682 3.127 7.471 4.641 3.580 3.260 5.148 5.851 0.399 0.324 0.560
"""

# Entries that do not time what the others time; they are shown and never taken as the best.
NOT_COMPARABLE = {
    ("AlexNet-S", "MXNet"): "conv4, conv5, fc6 and fc7 were built but led nowhere: half the "
    "arithmetic, a fifth of the weights",
    ("LSTM", "CNTK"): "a batch of 128 words, not of 128 rows of 32: 1/32 of the work",
}
REMARKS = {
    "FCN-S": "Caffe with 8 threads on the desktop (15.444 s) is an outlier of the paper; TF also "
    "measured accuracy within the step and fed 64-bit arrays",
    "AlexNet-S": "Torch ran without a loss and skipped the gradient of the input; TF's network "
    "has 76 M parameters",
    "ResNet-50": "Caffe used stored statistics in batch norm, which costs less; MXNet ran version "
    "2 of the network. Here: version 1.5 with statistics of the batch",
    "AlexNet-R": "Caffe pools with rounding up (89,578 parameters, as here), Torch and TF with "
    "rounding down (85,098)",
    "ResNet-56": "MXNet has one batch norm more, on the input",
    "LSTM": "Torch seems to have given cuDNN its sizes in the wrong order; TF looked words up on "
    "the CPU",
}


class Entry(NamedTuple):
    """One figure of the table.

    Attributes:
        net, tool, column: where it stands.
        seconds: per mini-batch.
        anomaly: why it cannot be compared, or None.
    """

    net: str
    tool: str
    column: str
    seconds: float
    anomaly: str | None

    def text(self) -> str:
        """Seconds and where they stand, flagged if they cannot be compared."""
        flag = "" if self.anomaly is None else " (!)"
        return f"{self.seconds:.3f} {self.tool} {self.column}{flag}"


def _parse() -> tuple[Entry, ...]:
    entries: list[Entry] = []
    net = ""
    for line in _SECONDS.strip().splitlines():
        tool, *cells = line.split()
        if tool == "#":
            (net,) = cells
            continue
        anomaly = NOT_COMPARABLE.get((net, tool))
        entries += [
            Entry(net, tool, column, float(cell), anomaly)
            for column, cell in zip(COLUMNS, cells, strict=True)
            if cell != "-"
        ]
    return tuple(entries)


TABLE = _parse()
TOOLS = ("Caffe", "CNTK", "TF", "MXNet", "Torch")
NETS = tuple(dict.fromkeys(e.net for e in TABLE))


def best(net: str, columns: tuple[str, ...]) -> Entry | None:
    """The fastest figure of a network that can be compared, or None.

    Args:
        net: as the paper names it.
        columns: where to look.
    """
    fit = [e for e in TABLE if e.net == net and e.column in columns and e.anomaly is None]
    return min(fit, key=lambda e: e.seconds, default=None)


def beside(net: str, threads: int | None) -> list[Entry]:
    """What stands beside our figure: the best with as many threads, of all processors, of GPUs.

    Args:
        net: as the paper names it.
        threads: ours on a CPU, or None on a GPU.
    """
    same = () if threads is None else equal_threads(threads)
    found = [best(net, columns) for columns in ((same, _CPU, _GPU) if same else (_CPU, _GPU))]
    return [entry for entry in found if entry is not None]


def table(
    ours: Mapping[tuple[str, int | None], float] | None = None, *, nets: Sequence[str] | None = None
) -> list[tuple[str, ...]]:
    """The paper's rows, five for each network, with ours below them; empty if there are none.

    Args:
        ours: seconds by network and threads (None on a GPU).
        nets: which networks; None: those of ``ours``.
    """
    ours = ours or {}
    wanted = dict.fromkeys(net for net, _ in ours) if nets is None else nets
    columns = sorted({t for _, t in ours}, key=lambda t: t or 0)
    heads = [f"ours {'GPU' if t is None else t}" for t in columns]
    rows: list[tuple[str, ...]] = []
    for net in wanted:
        for tool in TOOLS if net in NETS else ():
            cells = {e.column: e for e in TABLE if (e.net, e.tool) == (net, tool)}
            shown = [_cell(cells.get(column)) for column in COLUMNS]
            rows.append((*shown, *("" for _ in columns), tool, net))
        if net in NETS and ours:
            times = [ours.get((net, t)) for t in columns]
            own = ["" if s is None else f"{s:.3f}" for s in times]
            rows.append((*("" for _ in COLUMNS), *own, "clnet", net))
    return [(*COLUMNS, *heads, "tool", "network"), *rows] if rows else []


def _cell(entry: Entry | None) -> str:
    if entry is None:
        return "-"
    return f"{entry.seconds:.3f}" + ("" if entry.anomaly is None else "(!)")


def equal_threads(threads: int | None) -> tuple[str, ...]:
    """The paper's columns of processors with as many threads; of its GPUs, if there are none.

    Args:
        threads: ours, or None on a GPU. Empty if the paper had no processor with so many.
    """
    if threads is None:
        return _GPU
    return tuple(c for c in _CPU if c[1:] == str(threads))
