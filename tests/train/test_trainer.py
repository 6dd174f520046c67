"""The training loop: what it measures, saves and resumes."""

from __future__ import annotations

import gc
import os
import signal
import threading
from typing import Any

import numpy as np
import pytest

import clnet
from clnet.data import ArrayDataset, DataLoader, Digits, Normalize
from clnet.errors import ArgumentError, CheckpointError, NonFiniteError
from clnet.io import load_checkpoint, save_checkpoint
from clnet.models import CNN, MLP
from clnet.ops import cross_entropy
from clnet.train import Trainer, accuracy
from clnet.train.steps import training_step
from clnet.values import mode

pytestmark = pytest.mark.device

EPOCHS, BATCH, EXAMPLES = 3, 32, 150  # five batches an epoch, the last one partial
BATCHES = 5


@pytest.fixture(autouse=True)
def own_generator():
    with mode.using(generator=clnet.Generator().manual_seed(5)):
        yield


class Stage:
    """A small network with dropout and momentum, and the loaders that train it."""

    def __init__(self, folder=None, *, per_batch=False, lr=0.3, seed=1, **options):
        data = Digits()
        images, labels = data.arrays[0], data.arrays[1]
        normalize = Normalize.of(images)
        mode.current().generator.manual_seed(seed)
        self.model = CNN((1, 8, 8), 10, channels=(8, 16), features=32, dropout=0.3)
        self.optimizer = clnet.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        scheduler = clnet.optim.lr_scheduler.StepLR(self.optimizer, 2, gamma=0.8)
        self.trainer = Trainer(
            self.model,
            cross_entropy,
            self.optimizer,
            scheduler=scheduler,
            scheduler_per_batch=per_batch,
            metrics={"accuracy": accuracy},
            checkpoint=folder,
            progress=False,
            **options,
        )
        self.examples = ArrayDataset(images[:EXAMPLES], labels[:EXAMPLES])
        self.loader = DataLoader(self.examples, BATCH, shuffle=True, transform=normalize)
        held_out = ArrayDataset(images[EXAMPLES : EXAMPLES + 70], labels[EXAMPLES : EXAMPLES + 70])
        self.validation = DataLoader(held_out, 40, transform=normalize)

    def fit(self, epochs=EPOCHS):
        return self.trainer.fit(self.loader, self.validation, epochs=epochs)

    def weights(self):
        return {name: x.numpy() for name, x in self.model.state_dict().items()}


def figures(history):
    """Everything measured but the time it took."""
    timed = ("seconds", "examples_per_second")
    return [{k: v for k, v in e.items() if k not in timed} for e in history.epochs], history.losses


def assert_same(stage, other):
    assert figures(stage.trainer.history) == figures(other.trainer.history)
    for name, value in stage.weights().items():
        np.testing.assert_array_equal(value, other.weights()[name], err_msg=name)
    assert len(stage.trainer.history.losses) == EPOCHS * BATCHES


def interrupt_after(stage, steps):
    """Let Ctrl-C come in the middle of a step."""
    count = 0

    def pressing(outputs, targets):
        nonlocal count
        count += 1
        if count == steps:
            os.kill(os.getpid(), signal.SIGINT)
        return cross_entropy(outputs, targets)

    return pressing


@pytest.fixture
def ctrl_c():
    """Python's own handler in place: a shell starts what runs in the background without it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def straight():
    with mode.using(generator=clnet.Generator()):
        stage = Stage()
        stage.fit()
        yield stage


def test_loss_falls_and_figures_are_right(straight):
    first, *_, last = straight.trainer.history.epochs
    assert last["loss"] < 0.95 * first["loss"]
    assert [e["epoch"] for e in straight.trainer.history.epochs] == [1, 2, 3]
    assert [e["lr"] for e in straight.trainer.history.epochs] == [0.3, 0.3, 0.3 * 0.8]
    sizes = np.array([32, 32, 32, 32, 22])
    expected = np.dot(straight.trainer.history.losses[:5], sizes) / EXAMPLES
    assert first["loss"] == pytest.approx(expected, rel=1e-12)
    assert 0 < first["accuracy"] < 1
    assert first["examples_per_second"] == pytest.approx(EXAMPLES / first["seconds"])


def test_evaluation_agrees_with_a_plain_loop(straight):
    model = straight.model
    first, *_ = model.children()
    first.eval()
    found = straight.trainer.evaluate(straight.validation)
    assert model.training
    assert not first.training
    model.eval()
    losses, hits = [], []
    with clnet.no_grad():
        for images, labels in straight.validation:
            scores = model(clnet.tensor(images)).numpy().astype(np.float64)
            scores -= scores.max(axis=1, keepdims=True)
            logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
            losses.extend(-logs[np.arange(len(labels)), labels])
            hits.extend(scores.argmax(axis=1) == labels)
    model.train()
    assert found["loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    assert found["accuracy"] == pytest.approx(np.mean(hits), abs=1e-6)
    assert straight.trainer.history.epochs[-1]["validation_loss"] == found["loss"]


def test_same_seed_gives_the_same_bits(straight):
    again = Stage()
    again.fit()
    assert_same(again, straight)


def test_other_seed_gives_another_run(straight):
    other = Stage(seed=2)
    other.fit(epochs=1)
    assert other.trainer.history.losses[0] != straight.trainer.history.losses[0]


def test_eager_run_gives_the_same_losses(straight):
    eager = Stage(compile=False)
    eager.fit()
    np.testing.assert_allclose(
        eager.trainer.history.losses, straight.trainer.history.losses, rtol=1e-4
    )


def test_a_model_on_two_devices_is_trained_by_one_compiled_step(device, part_of_device):
    losses = []
    for compile_it in (True, False):
        clnet.manual_seed(3)
        inner = MLP((64,), 10, hidden=(16,))
        model = clnet.nn.DataParallel(inner, [device, part_of_device])
        optimizer = clnet.optim.SGD(inner.parameters(), lr=0.1)
        trainer = Trainer(model, cross_entropy, optimizer, progress=False, compile=compile_it)
        images, labels = Digits().arrays
        loader = DataLoader(
            ArrayDataset(images[:40].reshape(40, 64).astype(np.float32), labels[:40]), 20
        )
        trainer.fit(loader, epochs=2)
        losses.append(trainer.history.losses)
        if compile_it:
            step: Any = trainer._train_step
            (plan,) = step.plans
            assert [part.device for part in plan.parts] == [device, part_of_device]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


def test_step_is_traced_once_for_each_batch_size(straight):
    assert straight.trainer._train_step.num_traces == 2
    assert straight.trainer._evaluate_step.num_traces == 2


def test_resume_after_an_epoch_equals_uninterrupted(straight, tmp_path):
    Stage(tmp_path).fit(epochs=2)
    resumed = Stage(seed=9)
    resumed.trainer.resume(tmp_path / "last.safetensors")
    resumed.fit()
    assert_same(resumed, straight)


@pytest.mark.parametrize("per_batch", [False, True], ids=["epoch", "batch"])
@pytest.mark.parametrize("steps", [2, 5, 8], ids=lambda n: f"step {n}")
def test_resume_within_an_epoch_equals_uninterrupted(steps, per_batch, tmp_path):
    whole = Stage(per_batch=per_batch)
    whole.fit()
    stopped = Stage(tmp_path, per_batch=per_batch, checkpoint_every=steps)

    class Stop(Exception):
        pass

    def write_and_stop():
        write()
        if len(stopped.trainer.history.losses) == steps:
            raise Stop

    write = stopped.trainer._write
    stopped.trainer._write = write_and_stop
    with pytest.raises(Stop):
        stopped.fit()
    resumed = Stage(tmp_path, per_batch=per_batch, seed=9)
    resumed.trainer.resume()
    assert len(resumed.trainer.history.losses) == steps
    resumed.fit()
    assert_same(resumed, whole)


def test_ctrl_c_finishes_the_step_and_leaves_a_checkpoint(straight, tmp_path, ctrl_c):
    stage = Stage(tmp_path, compile=False)
    pressing = interrupt_after(stage, 7)
    stage.trainer._train_step = training_step(stage.model, pressing, stage.optimizer, [accuracy])
    with pytest.raises(KeyboardInterrupt):
        stage.fit()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    resumed = Stage(tmp_path, seed=9, compile=False)
    resumed.trainer.resume()
    assert len(resumed.trainer.history.losses) == 7
    resumed.fit()
    whole = Stage(compile=False)
    whole.fit()
    assert_same(resumed, whole)


def test_ctrl_c_during_validation_leaves_a_checkpoint(straight, tmp_path, ctrl_c):
    stage = Stage(tmp_path)
    evaluate = stage.trainer._evaluate_step

    def pressing(inputs, targets):
        os.kill(os.getpid(), signal.SIGINT)
        return evaluate(inputs, targets)

    stage.trainer._evaluate_step = pressing
    with pytest.raises(KeyboardInterrupt):
        stage.fit()
    resumed = Stage(tmp_path, seed=9)
    resumed.trainer.resume()
    resumed.fit()
    assert_same(resumed, straight)


def test_second_ctrl_c_stops_at_once(tmp_path, ctrl_c):
    stage = Stage(tmp_path, compile=False)

    def pressing(inputs, targets):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("went on")

    stage.trainer._train_step = pressing
    with pytest.raises(KeyboardInterrupt):
        stage.fit()
    assert not list(tmp_path.iterdir())


def test_fit_runs_in_another_thread(straight):
    stage = Stage()
    generator = mode.current().generator

    def work():
        with mode.using(generator=generator):
            stage.fit()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert_same(stage, straight)


def test_nan_names_the_step_and_spares_the_checkpoint(tmp_path):
    stage = Stage(tmp_path)
    stage.fit(epochs=1)
    before = (tmp_path / "last.safetensors").read_bytes()
    images = stage.examples.arrays[0].astype(np.float32)
    order = [i for batch in DataLoader(ArrayDataset(np.arange(EXAMPLES)), BATCH) for i in batch[0]]
    images[order[2 * BATCH]] = np.nan  # in the third batch
    labels = stage.examples.arrays[1]
    with pytest.raises(NonFiniteError, match=r"loss=nan, step=8\."):
        stage.trainer.fit(DataLoader(ArrayDataset(images, labels), BATCH), epochs=2)
    assert (tmp_path / "last.safetensors").read_bytes() == before
    assert len(stage.trainer.history.losses) == 7


def damage(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def drop_part(path):
    state: Any = load_checkpoint(path)
    del state["optimizer"]["state"]["3"]
    save_checkpoint(path, state)


def wrong_type(path):
    save_checkpoint(path, {**load_checkpoint(path), "history": {"epochs": [1], "losses": 2}})


def foreign(path):
    save_checkpoint(path, {"model": {}})


@pytest.mark.parametrize("spoil", [damage, truncate, drop_part, wrong_type, foreign])
def test_bad_checkpoint_leaves_everything_as_it_was(spoil, straight, tmp_path):
    Stage(tmp_path).fit(epochs=1)
    spoil(tmp_path / "last.safetensors")
    stage = Stage()
    with pytest.raises(CheckpointError):
        stage.trainer.resume(tmp_path / "last.safetensors")
    stage.fit()
    assert_same(stage, straight)


def test_checkpoint_of_another_trainer_is_refused(tmp_path):
    Stage(tmp_path).fit(epochs=1)
    path = tmp_path / "last.safetensors"
    model = MLP((1, 8, 8), 10, hidden=(8,))
    trainer = Trainer(model, cross_entropy, clnet.optim.SGD(model.parameters()))
    with pytest.raises(CheckpointError, match="scheduler"):
        trainer.resume(path)
    stage = Stage()
    stage.trainer.model = model
    with pytest.raises(CheckpointError, match=r"key\(s\) in state_dict"):
        stage.trainer.resume(path)
    with pytest.raises(CheckpointError, match="cannot be read"):
        stage.trainer.resume(tmp_path / "absent.safetensors")
    with pytest.raises(ArgumentError, match="folder"):
        trainer.resume()


def test_resumed_with_another_loader_is_refused(tmp_path):
    Stage(tmp_path).fit(epochs=1)
    stage = Stage(tmp_path)
    stage.trainer.resume()
    other = DataLoader(stage.loader.dataset, BATCH + 1, shuffle=True)
    with pytest.raises(CheckpointError, match="other batches"):
        stage.trainer.fit(other, epochs=2)
    assert len(stage.trainer.history.losses) == BATCHES


def test_unwritable_folder_is_a_checkpoint_error(tmp_path):
    (tmp_path / "file").write_text("")
    stage = Stage(tmp_path / "file" / "folder")
    with pytest.raises(CheckpointError, match="cannot be made"):
        stage.fit(epochs=1)


def test_arguments_are_checked():
    with pytest.raises(ArgumentError, match="checkpoint_every"):
        Stage(checkpoint_every=3)
    stage = Stage()
    with pytest.raises(ArgumentError, match=r"\(inputs, targets\)"):
        stage.trainer.fit(DataLoader(ArrayDataset(np.zeros((4, 1, 8, 8))), 2), epochs=1)


def test_epochs_are_printed_as_lines(capsys):
    stage = Stage()
    stage.trainer.progress = True
    stage.fit(epochs=2)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("epoch 2/2: loss ")
    assert "validation accuracy" in lines[1]
    assert "examples/s" in lines[1]


def test_dropped_trainer_frees_its_memory_without_the_collector():
    Stage().fit(epochs=1)
    gc.collect()
    pool = clnet.device().pool
    before = pool.statistics().allocated
    gc.disable()
    try:
        Stage().fit(epochs=1)
        assert pool.statistics().allocated == before
    finally:
        gc.enable()


def test_training_does_not_grow_memory_without_the_collector():
    stage = Stage()
    stage.fit(epochs=2)
    pool = clnet.device().pool
    before = pool.statistics().allocated
    gc.disable()
    try:
        stage.fit(epochs=12)
        assert pool.statistics().allocated == before
    finally:
        gc.enable()


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision_trains_about_as_float32(tmp_path, precision):
    losses = []
    for kind, folder in (("fp32", None), (precision, tmp_path)):
        stage = Stage(folder, lr=0.05, precision=kind)
        losses.append(stage.trainer.fit(stage.loader, epochs=1).epochs[-1]["loss"])
        assert all(p.dtype is clnet.float32 for p in stage.model.parameters())
    assert losses[0] != losses[1]
    assert losses[1] == pytest.approx(losses[0], rel=0.05)
    again = Stage(tmp_path, lr=0.05, precision=precision)
    again.trainer.resume()
    assert again.trainer._scaler.state_dict() == stage.trainer._scaler.state_dict()
    assert again.trainer._scaler.is_enabled() == (precision == "fp16")


def test_an_unknown_precision_is_named():
    with pytest.raises(ArgumentError, match="it is one of fp32, bf16, fp16"):
        Stage(precision="fp8")
