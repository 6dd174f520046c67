"""Which problems of tunable kernels programs have."""

from __future__ import annotations

from clnet.bench import gemm, tuning_problems
from clnet.bench.workload import WORKLOADS
from clnet.kernels.tunables import TUNABLES


def test_products_of_the_benchmark_are_asked_for(device):
    problems = tuning_problems.of_op("gemm", device)
    sizes = {(p["m"], p["n"], p["k"]) for _, p in problems}
    assert {(case.m, case.n, case.k) for case in gemm.SQUARES} <= sizes
    assert all(TUNABLES[name].problem(**problem) for name, problem in problems)


def test_convolutions_of_the_benchmark_are_asked_for(device):
    problems = tuning_problems.of_op("conv", device)
    if device.traits.dedicated_local_memory:
        assert problems == []
        return
    names = {"conv_blocked", "conv_blocked_direct", "conv_blocked_winograd"}
    assert {name for name, _ in problems} == names <= {*TUNABLES}
    assert {p["direction"] for _, p in problems} == {"forward", "input_grad", "weight_grad"}
    assert all(TUNABLES[name].problem(**problem).geometry.flops for name, problem in problems)


def test_networks_ask_for_what_their_step_computes(device):
    problems = tuning_problems.of_network(WORKLOADS["fashion-cnn"], device)
    sizes = {frozenset((p["m"], p["n"], p["k"])) for name, p in problems if "gemm" in name}
    assert frozenset((64, 128, 3136)) in sizes
