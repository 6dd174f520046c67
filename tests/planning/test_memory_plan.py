"""``clnet.plan``: the memory foretold is the memory a run takes, and nothing runs for it."""

from __future__ import annotations

import dataclasses
import gc

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.device import AbsentDevice, DeviceTraits, traits_for
from clnet.errors import ArgumentError, DeviceError, OutOfDeviceMemory
from clnet.nn import functional as F
from clnet.values import mode

pytestmark = pytest.mark.device


@pytest.fixture(scope="module", autouse=True)
def searches_of_what_is_new():
    """What other tests left is left out of the search for garbage that a plan begins with."""
    gc.collect()
    gc.freeze()


def block(a: int, b: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())


def deep() -> nn.Sequential:
    return nn.Sequential(
        block(3, 8), *(block(8, 8) for _ in range(8)), nn.Flatten(), nn.Linear(8 * 256, 10)
    )


def network() -> nn.Sequential:
    return nn.Sequential(
        block(3, 8),
        block(8, 8),
        nn.MaxPool2d(2),
        block(8, 16),
        nn.Flatten(),
        nn.Linear(16 * 64, 10),
    )


def momentum(params):
    return clnet.optim.SGD(params, lr=0.1, momentum=0.9)


SHAPE = (16, 3, 16, 16)


def with_memory(nbytes: int, **changes) -> DeviceTraits:
    return dataclasses.replace(traits_for(None), global_memory_bytes=nbytes, **changes)


def measured(compiled: bool) -> int:
    """The peak of real training steps."""
    model = network()
    optimizer = momentum(model.parameters())

    def step(x, target):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = clnet.compile(step) if compiled else step
    x, target = clnet.zeros(*SHAPE), clnet.zeros(16, dtype=clnet.int64)
    clnet.empty_cache()
    clnet.reset_peak_memory_stats()
    for _ in range(2):
        run(x, target)
    return clnet.max_memory_allocated()


@pytest.mark.parametrize("compiled", [False, True])
def test_the_peak_is_the_one_that_comes(compiled, device):
    gc.collect()
    device.queue.workspace.release()
    before = clnet.memory_allocated()
    found = measured(compiled) - before
    forecast = clnet.plan(network, SHAPE, optimizer=momentum)
    assert forecast.needs["compiled" if compiled else "eager"].used == found


def test_nothing_is_enqueued_or_allocated(device):
    class Watch:
        profiling = False
        seen = 0

        def command(self, record):
            self.seen += 1

    watch, before = Watch(), clnet.memory_allocated()
    built = device.programs.statistics.built + device.programs.statistics.loaded
    with device.queue.observe(watch):
        clnet.plan(network, SHAPE, optimizer=momentum)
    assert watch.seen == 0
    assert clnet.memory_allocated() == before
    assert device.programs.statistics.built + device.programs.statistics.loaded == built


def test_a_models_parameters_stay_as_they_are():
    model = network()
    model(clnet.zeros(*SHAPE)).sum().backward()
    bits = {n: t.detach().numpy().tobytes() for n, t in model.state_dict().items()}
    grads = [p.grad for p in model.parameters()]
    forecast = clnet.plan(model, SHAPE, optimizer=momentum)
    assert {n: t.detach().numpy().tobytes() for n, t in model.state_dict().items()} == bits
    assert all(p.grad is g for p, g in zip(model.parameters(), grads, strict=True))
    assert forecast.parameters == sum(len(b) for b in bits.values())


def test_random_numbers_are_not_used_up():
    before = clnet.get_rng_state().tolist()
    clnet.plan(lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout()), (2, 4), optimizer=momentum)
    assert clnet.get_rng_state().tolist() == before


def test_checkpoints_and_inference_need_less():
    forecast = clnet.plan(deep, (64, 3, 16, 16), optimizer=momentum)
    needs = {way: need.used for way, need in forecast.needs.items()}
    assert needs["eager, checkpoints"] < 0.8 * needs["eager"]
    assert needs["compiled, checkpoints"] < 0.9 * needs["compiled"]
    _, heads, *rows = str(forecast).splitlines()
    assert {line.index("fits") for line in rows[:-1]} == {len(heads) + 2}
    inference = clnet.plan(deep, (64, 3, 16, 16))
    assert inference.peak_bytes < 0.7 * needs["compiled"]
    assert set(inference.needs) == {"eager", "compiled"}


class Shared(nn.Module):
    """One block twice, and a row of layers that adds what it was given."""

    def __init__(self):
        super().__init__()
        again = nn.Linear(8, 8)
        self.blocks = nn.ModuleList([again, again])
        self.residual = Residual(nn.Linear(8, 4), nn.Linear(4, 8))

    def forward(self, x):
        for each in self.blocks:
            x = each(x).relu()
        return self.residual(x)


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


def test_blocks_are_computed_again_as_the_model_has_them():
    model = Shared()
    doubled = model.residual[1].forward = lambda x: 2 * nn.Linear.forward(model.residual[1], x)
    forecast = clnet.plan(model, (4, 8), optimizer=momentum)
    assert forecast.needs["eager, checkpoints"].problem is None
    assert vars(model.residual[1])["forward"] is doubled
    assert not any("forward" in vars(m) for m in (model.blocks[0], model.residual))


def test_whether_it_fits():
    need = clnet.plan(network, SHAPE, optimizer=momentum).needs["compiled"].taken
    assert clnet.plan(network, SHAPE, with_memory(9 * need), optimizer=momentum).fits()
    tight = clnet.plan(network, SHAPE, with_memory(need // 2), optimizer=momentum)
    assert not tight.fits()
    assert tight.peak_bytes <= need
    assert "does not fit" in str(tight)


def test_a_buffer_that_is_too_large_is_told():
    traits = with_memory(2**33, max_allocation_bytes=2**16)
    forecast = clnet.plan(network, SHAPE, traits, optimizer=momentum)
    assert not forecast.fits("eager")
    assert "one buffer may have 65,536 bytes" in str(forecast)


def test_workspaces():
    forecast = clnet.plan(network, SHAPE, optimizer=momentum)
    assert forecast.workspaces["separate"] >= forecast.workspaces["shared"]
    assert "workspaces, MiB: separate" in str(forecast)


def test_losses_and_targets_of_other_kinds():
    forecast = clnet.plan(
        lambda: nn.Linear(8, 3),
        (5, 8),
        optimizer=clnet.optim.Adam,
        loss=F.mse_loss,
        target_shape=(5, 3),
        target_dtype=clnet.float32,
    )
    assert forecast.fits()
    words = clnet.plan(
        lambda: nn.Sequential(nn.Embedding(100, 8), nn.Flatten(), nn.Linear(40, 3)),
        (4, 5),
        optimizer=clnet.optim.Adam,
        input_dtype=clnet.int64,
    )
    assert words.parameters == 4 * (800 + 120 + 3)


# The device that is not here.


def test_tensors_on_an_absent_device_have_shapes_alone():
    absent = AbsentDevice(with_memory(2**20))
    x = clnet.ones(3, 4, device=absent)
    y = (x @ x.T).exp()
    assert (y.shape, y.device) == ((3, 3), absent)
    for read in (y.numpy, y.tolist, lambda: y[0, 0].item(), y.map().__enter__):
        with pytest.raises(DeviceError, match="it is absent: tensors on it have shapes, but no"):
            read()
    with pytest.raises(DeviceError, match="operands are on different devices"):
        x + clnet.ones(3, 4)
    assert clnet.memory_allocated(absent) > 0


def test_an_absent_device_runs_out_of_memory_as_one_that_is_here():
    absent = AbsentDevice(with_memory(2**20))
    law = r"no room left; got asked_by=full, inputs=\[\], need=2,097,152 bytes"
    with pytest.raises(OutOfDeviceMemory, match=law):
        clnet.zeros(2**19, device=absent)


def test_compiled_functions_on_an_absent_device():
    absent = AbsentDevice(traits_for(None))
    with mode.using(device=absent):
        step = clnet.compile(lambda x: (x * 2).sum())
        assert step(clnet.zeros(4, 4)).shape == ()
        assert step(clnet.zeros(4, 4)).shape == ()
    assert step.num_traces == 1


def test_traits_as_json():
    traits = traits_for(None)
    assert DeviceTraits.from_dict(traits.to_dict()) == traits


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"simd_width": "16"}, "'simd_width'"),
        ({"speed": 3}, "'speed'"),
        ({"kind": "abacus"}, "'kind'"),
        ({"float16": 1}, "'float16'"),
    ],
)
def test_wrong_traits(change, wrong):
    with pytest.raises(ArgumentError, match=rf"clnet devices --json prints; got wrong=\[{wrong}\]"):
        DeviceTraits.from_dict({**traits_for(None).to_dict(), **change})


def test_missing_traits():
    values = traits_for(None).to_dict()
    del values["float64"]
    with pytest.raises(ArgumentError, match="'float64'"):
        DeviceTraits.from_dict(values)
    values["float64"] = True
    del values["asynchronous_copies"]
    assert not DeviceTraits.from_dict(values).asynchronous_copies


def test_references_stay_usable_on_the_real_device():
    clnet.plan(network, SHAPE)
    assert np.array_equal(clnet.ones(2).numpy(), [1, 1])


def test_what_makes_no_model_is_refused():
    with pytest.raises(ArgumentError, match=r"^plan: model is a module or makes one; got made=2"):
        clnet.plan(lambda: 2, (1, 4))
