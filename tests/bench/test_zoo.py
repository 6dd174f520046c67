"""The benchmark of today's networks: what it times, how it reports, what it refuses."""

from __future__ import annotations

import dataclasses
import gc
import json

import numpy as np
import pytest

import clnet
from clnet.bench import contest, shi2016, workload, zoo, zoo_memory, zoo_networks
from clnet.bench.imported import through_onnx
from clnet.bench.own_process import parted
from clnet.bench.precision import PRECISIONS
from clnet.bench.zoo_networks import NAMES, OF_TORCHVISION
from clnet.device import AbsentDevice, DeviceKind, size_class
from clnet.errors import ArgumentError
from clnet.values import mode
from tests.bench.test_shi2016 import outcome

OWN = [name for name in NAMES if name not in OF_TORCHVISION]


@pytest.mark.device
def test_networks_go_through_onnx(device):
    """What is asked was read from the file; what begins both sides is the original's."""
    pytest.importorskip("onnx")
    work = zoo_networks.workload("vae", 1, training=False)
    ours = contest.Ours(through_onnx(work), device)
    assert [w.shape for w in ours.weights()] == [tuple(p.shape) for p in work.make().parameters()]
    ours.step()
    found = ours.result()
    ours.model.original.load_state_dict(
        {k: clnet.zeros_like(x) for k, x in ours.model.original.state_dict().items()}
    )
    ours.step()
    np.testing.assert_array_equal(ours.result(), found)
    assert found.std() > 0


@pytest.mark.parametrize("name", OWN)
def test_twins_have_the_same_parameters(name):
    torch = pytest.importorskip("torch")
    found = zoo_networks.workload(name, 1, training=True)
    with torch.device("meta"):
        twin = zoo_networks._ZOO[name].twin(torch)
    with clnet.abstract():
        ours = zoo_networks._ZOO[name].make()
    assert [p.shape for p in ours.parameters()] == [tuple(p.shape) for p in twin.parameters()]
    (x, *_), y = found.batch()
    assert x.shape[0] == len(y) > 0
    (again, *_), _ = found.batch()
    np.testing.assert_array_equal(x, again)
    # Those with images may lie by channels in PyTorch.
    assert (len(found.input_shape) == 4) == (x.ndim == 4)


@pytest.mark.device
def test_networks_are_trained_and_asked_beside_pytorch(device, monkeypatch, capsys, tmp_path):
    pytest.importorskip("torch")
    monkeypatch.setattr(contest, "_LEAST_ROUNDS", 2)
    monkeypatch.setattr(contest, "_TURN_SECONDS", 0.0)
    limits = clnet.profiling.Limits(100.0, 10.0)
    monkeypatch.setattr(contest, "measured_limits", lambda device: limits)

    def here(module, job):
        assert module == "zoo"
        zoo.worker(job)
        (found,), _ = parted(capsys.readouterr().out)
        return found

    monkeypatch.setattr(zoo, "measured", here)
    results = tmp_path / "found.jsonl"
    settings = ["--only", "vae", "--batch", "1", "--seconds", "1e-9", "--threads", "1"]
    assert zoo.main([*settings, "--results", str(results)]) == 0
    text = capsys.readouterr().out
    for direction in ("training", "inference"):
        assert f"vae {direction}, batch 32" in text
        assert f"{direction}, beside default: geometric mean" in text
    found = [json.loads(line) for line in results.read_text().splitlines()]
    assert [f["workload"] for f in found] == ["vae, training", "vae, inference"]
    assert all(f["ratios"]["default"] > 0 < f["fastest"]["default"] for f in found)


@pytest.mark.device
def test_both_sides_compute_in_16_bits_and_losses_are_compared(device, monkeypatch, capsys):
    pytest.importorskip("torch")
    monkeypatch.setattr(contest, "_LEAST_ROUNDS", 1)
    monkeypatch.setattr(contest, "_TURN_SECONDS", 0.0)
    limits = clnet.profiling.Limits(100.0, 10.0)
    monkeypatch.setattr(contest, "measured_limits", lambda device: limits)
    # (PyTorch has no LSTM of 16 bits on every processor, and takes seconds for a GRU.)
    job = {"net": "vae", "batch": 1, "direction": "training", "device": None, "threads": None}
    job |= {"modes": ["default"], "seconds": 0.0, "compile": True, "recompute": None}
    zoo.worker({**job, "precision": "bf16"})
    (found,), _ = parted(capsys.readouterr().out)
    assert found["ratios"]["default"] > 0
    exact = dataclasses.replace(PRECISIONS["bf16"], most_wrong=0.0)
    monkeypatch.setitem(PRECISIONS, "bf16", exact)
    with pytest.raises(ArithmeticError, match="differ from PyTorch"):
        zoo.worker({**job, "precision": "bf16"})


@pytest.mark.parametrize("name", PRECISIONS)
def test_precisions(name):
    precision = PRECISIONS[name]
    with precision.ours():
        now = mode.current()
        assert now.float32_precision == {"tf32": "high", "tf32x3": "tf32x3"}.get(name, "highest")
        state = now.autocast
        assert (state and state.dtype) is precision.narrow
        product = (clnet.ones(2, 2) @ clnet.ones(2, 2)).dtype
    assert product is (precision.narrow or clnet.float32)


def test_memory_is_foretold(capsys, monkeypatch):
    """On a device with local memory, where backward makes values again."""
    traits = dataclasses.replace(
        clnet.device().traits, dedicated_local_memory=True, simd_width=1, max_group_size=256
    )
    monkeypatch.setattr(zoo, "device", lambda name: AbsentDevice(traits))
    options = ["--only", "dcgan,vae", "--batch", "8", "--foretell", "--direction", "training"]
    assert zoo.main(options) == 0
    head, dcgan, vae, mean = capsys.readouterr().out.splitlines()
    assert head.split()[-1] == "trained"
    assert dcgan.split()[-1] == "dcgan"
    assert 0.5 < float(dcgan.split()[2]) < 0.95
    assert float(vae.split()[2]) == 1.0
    assert mean.endswith("of 2")


def test_threads_are_refused_for_a_gpu(monkeypatch):
    traits = dataclasses.replace(clnet.device().traits, kind=DeviceKind.GPU)
    monkeypatch.setattr(zoo, "device", lambda name: AbsentDevice(traits))
    with pytest.raises(ArgumentError, match="threads are a CPU's"):
        zoo.main(["--threads", "2"])


def test_memory_is_foretold_of_networks_that_are_asked(tmp_path, capsys):
    """Exact bytes, on a device by its traits; the last answer is still there."""
    traits = dataclasses.replace(
        clnet.device().traits, dedicated_local_memory=True, simd_width=1, max_group_size=256
    )
    file = tmp_path / "traits.json"
    file.write_text(json.dumps({"selector": "gpu:0", "traits": traits.to_dict()}))
    options = ["--only", "vae", "--batch", "1", "--foretell", "--traits", str(file)]
    assert zoo.main(options) == 0
    trained, asked = capsys.readouterr().out.split("\n\n")
    assert trained.splitlines()[1].endswith("vae")
    assert "made once" in asked.splitlines()[0]
    found = zoo_memory.asked("vae", 1, traits)
    answer = size_class(32 * 784 * 4)
    assert found.nbytes == sum(found.parts.values()) + answer
    assert found.parts["results"] == answer
    assert found.parts["arguments"] == answer + size_class(32 * 20 * 4)  # pixels and noise
    assert found.parts["arenas"] == size_class(sum(found.held.values()))
    assert f"{found.nbytes / 2**20:,.1f}" == asked.splitlines()[1].split()[0]
    assert next(iter(found.held)).startswith("forward linear")


@pytest.mark.device
def test_peaks_are_those_of_a_later_step(device):
    """As PyTorch's: what making the network needed, and what came before it, is left out."""
    ours = contest.Ours(zoo_networks.workload("vae", 1, training=False), device)
    clnet.zeros(2**22)
    gc.collect()
    _, costs = contest._first_steps(ours, keep_gradients=False)
    assert costs.peak_bytes == clnet.memory_allocated(device) + size_class(32 * 784 * 4)


def test_nothing_is_dropped_and_no_answer_is_zero():
    clnet.manual_seed(0)
    found = zoo_networks._undropped(
        lambda: clnet.nn.Sequential(
            clnet.nn.Dropout(0.5), clnet.models.MLPMixer(8, 1, image_size=16)
        )
    )
    assert found[0].p == 0
    assert found[1].head.weight.detach().numpy().std() == pytest.approx(0.02, rel=0.1)


def test_report_has_means_and_reasons():
    fields = {"ratios": {"default": 2.0}, "fastest": {"default": 4.0}, "peer_peak_bytes": {}}
    rows = [
        outcome(workload=f"{name}, training", title=f"{name} training", **{**fields, **more})
        for name, more in (("one", {}), ("two", {"ratios": {"default": 8.0}}))
    ]
    rows[1]["peers"] = {"default": 1.0, "compile": "failed: no compiler"}
    text = zoo.report(rows, ["default", "compile"])
    mean = "training, beside default: geometric mean 4.00 of 2 (of the fastest turns 4.00), least 2"
    assert mean in text
    assert "two training, compile: failed: no compiler" in text
    assert "inference" not in text


def test_networks_of_torchvision_are_left_out_without_it(monkeypatch, capsys):
    monkeypatch.setattr(zoo, "has_torchvision", lambda: False)
    assert zoo._names("vae,vgg11", alone=False) == ["vae"]
    assert "left out: vgg11" in capsys.readouterr().err
    with pytest.raises(ArgumentError, match="a network is left to be timed"):
        zoo._names("vgg11", alone=False)
    assert zoo._names("vae,vgg11", alone=True) == ["vae", "vgg11"]
    assert zoo._names("resnet50", alone=True) == ["resnet50"]
    assert zoo._names("vae,", alone=True) == ["vae"]
    assert zoo._names("net50", alone=True) == ["wide_resnet50_2", "resnet50"]
    with pytest.raises(ArgumentError, match="no name contains"):
        zoo._names("nothing", alone=True)


@pytest.mark.parametrize(
    ("settings", "law"),
    [
        (["--batch", "0"], "--batch is 1 or more"),
        (["--threads", "-3"], "--threads is 1 or more"),
        (["--traits", "x"], "for --foretell alone"),
        (["--foretell", "--traits", "x", "--device", "cpu"], "without --device"),
        (["--foretell", "--traits", "/nowhere"], "cannot read the traits"),
        (["--torch-mode", "x"], "no such mode"),
        (["--only", ","], "a network is left to be timed"),
    ],
)
def test_settings_that_are_no_good(settings, law):
    with pytest.raises(ArgumentError, match=law):
        zoo.main(settings)


def test_batches_of_other_sizes():
    network = workload.WORKLOADS["resnet-56"]
    found = workload.with_batch(network, 32)
    assert (found.input_shape, found.title) == ((32, 3, 32, 32), "ResNet-56, batch 32")
    assert found.gflop == pytest.approx(network.gflop / 4)
    assert workload.with_batch(workload.WORKLOADS["lstm"], 4).input_shape == (32, 4)
    assert workload.with_batch(network, 128) is network is workload.with_batch(network, None)
    with pytest.raises(ArgumentError, match="1 or more"):
        shi2016.main(["--batch", "0"])
