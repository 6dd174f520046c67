"""What looks on at a training: times by phase, statistics of tensors, curves, TensorBoard."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.data import ArrayDataset, DataLoader
from clnet.errors import ArgumentError
from clnet.nn import functional as F
from clnet.train import (
    Callback,
    Curves,
    StepTimes,
    TensorBoard,
    TensorStatistics,
    Trainer,
    save_curves,
    statistics_of,
    statistics_of_model,
    statistics_table,
)
from clnet.values import mode

pytestmark = pytest.mark.device

STEPS = 4  # in an epoch


def trained(*callbacks, epochs=2, compiled=True):
    """A trainer of a small network after some epochs, with those callbacks."""
    rng = np.random.default_rng(0)
    data = ArrayDataset(rng.random((16, 5), dtype=np.float32), rng.integers(0, 3, 16))
    with mode.using(generator=clnet.Generator().manual_seed(1)):
        model = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.ReLU(), nn.Linear(7, 3))
        optimizer = clnet.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        trainer = Trainer(
            model,
            F.cross_entropy,
            optimizer,
            progress=False,
            callbacks=callbacks,
            compile=compiled,
        )
        trainer.fit(DataLoader(data, 4), DataLoader(data, 8), epochs=epochs)
    return trainer


def test_callbacks_change_nothing():
    looking_on = (StepTimes(2), TensorStatistics())
    alone, observed = trained(), trained(*looking_on)
    assert alone.history.losses == observed.history.losses
    steps: list[Any] = [alone._train_step, observed._train_step]
    assert [step.num_traces for step in steps] == [1, 1]


def test_callbacks_are_called_in_order():
    told = []

    class Teller(Callback):
        def measure(self, trainer, measured):
            told.append(("measure", sorted(measured)))
            return {"answer": 42.0}

        def end_epoch(self, trainer, epoch):
            told.append(("end", epoch["epoch"], epoch["answer"], trainer.num_steps))

    trained(Teller())
    measured = ("measure", ["loss", "validation_loss"])
    assert told == [measured, ("end", 1, 42.0, STEPS), measured, ("end", 2, 42.0, 2 * STEPS)]


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "eager"])
def test_time_is_split_by_phase(compiled, capsys):
    times = StepTimes(3, shown=True)
    trainer = trained(times, compiled=compiled)
    assert [s.step for s in times.steps] == [3, 6]
    assert all(min(s.forward, s.backward, s.update) > 0 for s in times.steps)
    assert trainer.history.epochs[1]["backward_ms"] == times.steps[1].backward
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("step 3: forward ")


def test_every_step_is_shown_once_with_its_rate():
    seen = []

    class Watcher(Callback):
        def read_steps(self, trainer, steps):
            seen.extend(steps)

    trainer = trained(Watcher())
    assert [s.step for s in seen] == list(range(1, 2 * STEPS + 1))
    assert [s.values["loss"] for s in seen] == trainer.history.losses
    assert [s.lr for s in seen] == trainer.history.rates == [0.1] * 8


def test_first_images_and_texts_are_written_for_tensorboard(tmp_path):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason='pip install "clnet[tensorboard]"',
    )
    writer = TensorBoard(tmp_path, images=2, texts={"settings": "--lr 1\n--seed 0"})
    images = np.zeros((3, 1, 4, 5), np.float32)
    images[1] = 1
    trainer: Any = type("Trainer", (), {"num_steps": 0})()
    for _ in range(2):  # the first batch alone is shown
        with writer.around_step(trainer, clnet.tensor(images), clnet.tensor([0, 0, 0])):
            pass
    writer.close()
    events = accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    (shown,) = events.Images("inputs")
    assert (shown.height, shown.width) == (4, 11)
    assert shown.encoded_image_string.startswith(b"\x89PNG")
    (text,) = events.Tensors("settings")
    assert text.tensor_proto.string_val[0] == b"    --lr 1\n    --seed 0"


def test_epoch_without_a_measured_step_has_no_times():
    assert "forward_ms" not in trained(StepTimes(100)).history.epochs[0]


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_], ids=lambda d: d.__name__)
def test_statistics_agree_with_numpy(dtype):
    x = np.random.default_rng(0).standard_normal((37, 11)) * 3
    x = x > 0 if dtype is np.bool_ else x.astype(dtype)
    s = statistics_of(clnet.tensor(x))
    values = x.astype(np.float64)
    assert s.shape == (37, 11)
    np.testing.assert_allclose(
        [s.mean, s.std, s.least, s.most],
        [values.mean(), values.std(), values.min(), values.max()],
        rtol=1e-5,
    )
    counts, _ = np.histogram(values, 16, (s.least, s.most))
    np.testing.assert_array_equal(s.counts, counts)


def test_statistics_of_equal_elements():
    s = statistics_of(clnet.full((5,), 2.0))
    assert (s.mean, s.std, s.least, s.most) == (2, 0, 2, 2)
    assert s.counts.sum() == 5
    assert s.sketch.strip() == "█"


def test_every_tensor_of_a_model_has_statistics():
    model = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.ReLU(), nn.Linear(7, 3))
    before = {name: x.numpy() for name, x in model.state_dict().items()}
    version = [m._clnet_version for m in model.modules()]
    x = clnet.randn(4, 5)
    found = statistics_of_model(model, F.cross_entropy, x, clnet.tensor([0, 1, 2, 0]))
    parameters = {name for name, _ in model.named_parameters()}
    expected = parameters | {f"{name}.grad" for name in parameters}
    expected |= {"1.running_mean", "1.running_var", "0()", "1()", "2()", "3()"}
    assert set(found) == expected
    first = model[0](x).detach().numpy()
    assert found["0()"].mean == pytest.approx(first.mean(), rel=1e-4, abs=1e-6)
    assert [m._clnet_version for m in model.modules()] == version
    assert all(p.grad is None for p in model.parameters())
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])
    table = statistics_table(found).splitlines()
    assert len(table) == 1 + len(found)
    assert table[1].startswith("0.weight")
    assert "7x5" in table[1]


def test_layer_used_twice_has_both_results():
    relu = nn.ReLU()
    model = nn.Sequential(nn.Linear(2, 2), relu, nn.Linear(2, 2), relu)
    found = statistics_of_model(model, F.cross_entropy, clnet.ones(1, 2), clnet.tensor([0]))
    assert {"1()", "1() 2"} <= set(found)


def test_results_may_be_containers_or_nothing():
    class Named(nn.Module):
        def forward(self, x):
            return {"note": "first", "scores": [x * 2, x]}

    class Silent(nn.Module):
        def forward(self, x):
            del x

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.head, self.named, self.silent = nn.Linear(2, 3), Named(), Silent()

        def forward(self, x):
            self.silent(x)
            return self.named(self.head(x))["scores"][0]

    found = statistics_of_model(Model(), F.cross_entropy, clnet.ones(1, 2), clnet.tensor([0]))
    assert "silent()" not in found
    assert found["named()"].mean == pytest.approx(2 * found["head()"].mean, rel=1e-5)


def test_curves_are_drawn(tmp_path):
    image = pytest.importorskip("matplotlib.image", reason='pip install "clnet[plot]"')
    path = tmp_path / "new" / "curves.png"
    trained(Curves(path))
    assert path.stat().st_size > 1000
    save_curves(path, [], ("loss",))  # before the first epoch
    epochs = [{"epoch": 1, "loss": 0.75, "lr": 0.0}, {"epoch": 2, "loss": 0.25, "lr": 0.0}]
    save_curves(path, epochs, losses=[1.0, 0.5, 0.3, 0.2], rates=[0.1, 0.1, 0.05, 0.01])
    pixels = image.imread(path)
    assert pixels.shape[1] > pixels.shape[0] > 100
    assert 0.5 < pixels[..., :3].mean() < 1  # lines on white


def test_curves_in_no_known_format_are_refused(tmp_path):
    pytest.importorskip("matplotlib", reason='pip install "clnet[plot]"')
    epoch = {"epoch": 1, "loss": 1.0, "lr": 0.1}
    with pytest.raises(ArgumentError, match="cannot be written"):
        save_curves(tmp_path / "curves.nothing", [epoch])
    with pytest.raises(ArgumentError, match="no such format"):  # not after the first epoch
        Curves(tmp_path / "curves.nothing")


def test_tensorboard_reads_what_was_written(tmp_path):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason='pip install "clnet[tensorboard]"',
    )
    statistics = TensorStatistics()
    writer = TensorBoard(tmp_path, statistics)
    trainer = trained(statistics, writer)
    writer.close()
    events = accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    assert set(events.Tags()["scalars"]) >= {"training/loss", "validation/loss", "training/lr"}
    losses = [(e.step, e.value) for e in events.Scalars("training/loss")]
    expected = [(i + 1, e["loss"]) for i, e in enumerate(trainer.history.epochs)]
    np.testing.assert_allclose(losses, expected, rtol=1e-6)
    steps = [(e.step, e.value) for e in events.Scalars("step/loss")]
    np.testing.assert_allclose(steps, list(enumerate(trainer.history.losses, 1)), rtol=1e-6)
    assert [e.value for e in events.Scalars("step/learning rate")] == pytest.approx([0.1] * 8)
    histogram = events.Histograms("tensors/0.weight")[-1].histogram_value
    assert histogram.num == 35
    assert sum(histogram.bucket) == 35


@pytest.mark.parametrize(
    ("package", "make", "extra"),
    [
        ("matplotlib", lambda path: save_curves(path / "c.png", []), "clnet\\[plot\\]"),
        ("tensorboard", lambda path: TensorBoard(path), "clnet\\[tensorboard\\]"),
    ],
)
def test_absent_package_says_what_to_install(package, make, extra, tmp_path, monkeypatch):
    original = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.partition(".")[0] == package:
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ArgumentError, match=extra):
        make(tmp_path)


def test_steps_are_measured_at_least_one_by_one():
    with pytest.raises(ArgumentError, match="every is 1 or more"):
        StepTimes(0)


def test_gradients_are_clipped():
    rng = np.random.default_rng(0)
    data = ArrayDataset(100 * rng.random((4, 5), dtype=np.float32), rng.integers(0, 3, 4))
    model = nn.Linear(5, 3)
    before = model.weight.detach().numpy(), model.bias.detach().numpy()
    optimizer = clnet.optim.SGD(model.parameters(), lr=1.0)
    trainer = Trainer(model, F.cross_entropy, optimizer, clip_grad_norm=0.5, progress=False)
    trainer.fit(DataLoader(data, 4), epochs=1)
    after = model.weight.detach().numpy(), model.bias.detach().numpy()
    moved = np.sqrt(sum(((a - b) ** 2).sum() for a, b in zip(after, before, strict=True)))
    assert moved == pytest.approx(0.5, rel=1e-4)
    with pytest.raises(ArgumentError, match="clip_grad_norm is positive"):
        Trainer(model, F.cross_entropy, optimizer, clip_grad_norm=0)


def test_a_scheduler_that_needs_a_metric_is_refused():
    model = nn.Linear(5, 3)
    optimizer = clnet.optim.SGD(model.parameters(), lr=1.0)
    plateau = clnet.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    with pytest.raises(ArgumentError, match="needs no metric"):
        Trainer(model, F.cross_entropy, optimizer, scheduler=plateau)
