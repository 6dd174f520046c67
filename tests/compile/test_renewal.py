"""Calls that are traced anew again and again: what is told, and that they run uncompiled."""

import warnings
from threading import Thread
from time import sleep
from types import SimpleNamespace

import pytest

import clnet
from clnet.compat.dynamo import Lenient
from clnet.compile.renewal import Renewals

pytestmark = pytest.mark.device


def calls(f, made, num):
    """Results of some calls, and what was told."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        return [f(*made(k)).tolist() for k in range(num)], [str(each.message) for each in told]


@pytest.mark.parametrize("way", ["own", "outside", "argument", "named", "length"])
def test_a_number_that_shapes_follow_is_not_traced_for_each_value(way):
    """Neither one that the function counts, nor that others set, nor an argument."""
    state, x = SimpleNamespace(at=0), clnet.arange(100.0)

    def counting(x):
        state.at += 1
        return x[state.at - 1] * 2

    functions = {"own": counting, "outside": lambda x: x[state.at] * 2, "length": lambda x: x * 2}
    f = clnet.compile(functions.get(way, lambda x, at: x[at] * 2))

    def asked(k):
        if way == "own":
            return f(x)
        state.at = k
        given = {"argument": (x, k), "length": (x[: k + 1],), "named": (x,)}.get(way, (x,))
        return f(*given, **({"at": k} if way == "named" else {}))

    found, (told,) = calls(asked, lambda k: (k,), 90)
    whole = way == "length"
    expected = [[2.0 * each for each in range(k + 1)] if whole else 2.0 * k for k in range(90)]
    assert found == expected
    name = {"argument": "argument 1", "named": "argument at", "length": "argument 0"}.get(way, "at")
    assert f"changed={name}." in told
    assert "run uncompiled from now on" in told
    assert f.num_traces <= (11 if way in {"own", "outside"} else 49)


def test_who_finds_rest_is_compiled_again():
    state, x = SimpleNamespace(at=0), clnet.arange(100.0)
    f = clnet.compile(lambda x: x[state.at] * 2)

    def turn(k):
        state.at = min(k, 30)
        return (x,)

    found, told = calls(f, turn, 200)
    assert found == [2.0 * min(k, 30) for k in range(200)]
    assert len(told) == 1
    traces = f.num_traces
    assert traces < 12
    assert calls(f, lambda _: (x,), 3) == ([60.0] * 3, [])
    assert f.num_traces == traces


def test_replays_repay_traces():
    renewals = Renewals("f")
    for _ in range(40):
        renewals.end(["n"])
        renewals.repay()
    assert not renewals.spares(1)
    for _ in range(8):
        renewals.end(["n"])
    with pytest.warns(RuntimeWarning, match="changed=n"):
        assert renewals.spares(1)
    assert [renewals.spares(1) for _ in range(130)].count(False) == 2
    for _ in range(8):
        renewals.repay()
    assert not renewals.spares(1)
    assert not renewals.owed


def test_where_there_is_no_room_plans_go_that_were_not_used_last(device):
    """Each holds the gradients that it leaves: a step of many lengths had a set for each."""
    weight = clnet.ones(2**20, requires_grad=True)

    def step(x):
        weight.grad = None
        loss = (weight * x.sum()).sum()
        loss.backward()
        return loss

    f, limit = clnet.compile(step), device.pool.limit
    found = [f(clnet.ones(1)).item()]
    kept = weight.grad
    clnet.empty_cache()
    clnet.set_memory_limit(clnet.memory_reserved() + 2**24)
    try:
        found += [f(clnet.ones(n)).item() for n in range(2, 13)]
    finally:
        clnet.set_memory_limit(limit)
    assert found == [n * 2**20 for n in range(1, 13)]
    assert (kept.sum().item(), weight.grad.sum().item()) == (2**20, 12 * 2**20)
    assert 1 <= len(f.plans) < 6


def test_what_cannot_be_traced_keeps_no_signature_of_each_call():
    """One that ``torch.compile`` runs uncompiled, of a sequence that grows."""
    f = Lenient(lambda x: x * 2 if x.sum().item() > 0 else x)
    found, told = calls(f, lambda k: (clnet.ones(k % 100 + 1),), 100)
    assert found == [[2.0] * (k + 1) for k in range(100)]
    assert len(told) == 1
    assert len(f._eager) == 64


@pytest.mark.parametrize("way", ["uncompiled", "replayed"])
def test_calls_of_threads_that_count_follow_one_another(way):
    """Beside a trace, too, while which something else stands in the counter's place."""
    state, x = SimpleNamespace(at=0, inside=0, most=0), clnet.arange(2.0**17)

    def function(x):
        state.inside += 1
        state.most = max(state.most, state.inside)
        at = state.at + 1
        sleep(1e-4)  # others' turn
        state.at = at
        result = x[at] * 2 if way == "uncompiled" else (x * at).sum()
        state.inside -= 1
        return result

    def made(k):
        return (x if way == "uncompiled" else x[2 ** (k % 9 + 9) :],)

    f = clnet.compile(function)
    calls(f, made, 10 if way == "uncompiled" else 1)
    before = state.at
    threads = [Thread(target=calls, args=(f, made, 20)) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert (state.at - before, state.most, state.inside) == (80, 1, 0)
