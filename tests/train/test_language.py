"""Language models: states carried on, perplexity, what a model makes up."""

from __future__ import annotations

import re
from math import exp, log
from random import Random

import numpy as np
import pytest

import clnet
from clnet.cli import main
from clnet.data import DataLoader, columns
from clnet.errors import ArgumentError
from clnet.models import GPT, LSTMLanguageModel
from clnet.train import Carried, Perplexity, Trainer, continuation, perplexity, token_loss
from clnet.values import mode

pytestmark = pytest.mark.device

VOCABULARY, HIDDEN, COLUMNS = 7, 6, 3


@pytest.fixture(autouse=True)
def own_generator():
    with mode.using(generator=clnet.Generator().manual_seed(3)):
        yield


@pytest.fixture
def text(tmp_path) -> str:
    """A file of 600 sentences that never change, of a grammar that can be learnt."""
    words = Random(5)
    subjects, verbs = "a cat,the old dog,my friend".split(","), "sees,hears,follows".split(",")
    sentences = (
        f"{words.choice(subjects)} {words.choice(verbs)} {words.choice(subjects)} .\n"
        for _ in range(600)
    )
    path = tmp_path / "sentences.txt"
    path.write_text("".join(sentences))
    return str(path)


def model() -> LSTMLanguageModel:
    return LSTMLanguageModel(VOCABULARY, HIDDEN, hidden_size=HIDDEN, num_layers=1)


def carried(inner) -> Carried:
    return Carried(inner, *[(1, COLUMNS, HIDDEN)] * 2)


def tokens(steps=12) -> np.ndarray:
    return np.random.default_rng(0).integers(0, VOCABULARY, (steps, COLUMNS))


def test_state_is_carried_and_gradients_end_with_the_batch():
    inner = model()
    whole, _ = inner(clnet.tensor(tokens()))
    parts = carried(inner)
    first = parts(clnet.tensor(tokens()[:8]))
    second = parts(clnet.tensor(tokens()[8:]))
    joined = np.concatenate([first.detach().numpy(), second.detach().numpy()])
    np.testing.assert_allclose(joined, whole.detach().numpy(), rtol=1e-5, atol=1e-6)
    second.sum().backward()  # reaches the parameters, though the first batch's state was written
    assert inner.encoder.weight.grad is not None
    used = set(tokens()[8:].ravel().tolist())
    touched = set(np.flatnonzero(inner.encoder.weight.grad.numpy().any(1)).tolist())
    assert touched <= used


def test_another_mode_begins_another_text():
    both = carried(model())
    x = clnet.tensor(tokens())
    first = both(x).detach().numpy()
    assert (both(x).detach().numpy() != first).any()
    both.train()  # no change
    assert both.state0.numpy().any()
    both.eval()
    assert not both.state0.numpy().any()
    np.testing.assert_array_equal(both(x).detach().numpy(), first)


@pytest.mark.parametrize("compile_step", [True, False], ids=["compiled", "eager"])
def test_perplexity_of_a_pattern_falls(compile_step):
    pattern = np.tile(np.arange(VOCABULARY), 60)
    inner = model()
    optimizer = clnet.optim.Adam(inner.parameters(), lr=0.05)
    trainer = Trainer(
        carried(inner),
        token_loss,
        optimizer,
        clip_grad_norm=1.0,
        compile=compile_step,
        callbacks=[Perplexity()],
        progress=False,
    )
    loader = DataLoader(columns(pattern, COLUMNS), 10)
    history = trainer.fit(loader, loader, epochs=6)
    perplexities = [epoch["perplexity"] for epoch in history.epochs]
    assert 4 < perplexities[0] < 2 * VOCABULARY
    assert perplexities[-1] < 1.5
    last = history.epochs[-1]
    assert last["validation_perplexity"] == pytest.approx(exp(last["validation_loss"]))
    assert continuation(inner, list(range(VOCABULARY)), 5) == [0, 1, 2, 3, 4]


def test_resumed_training_carries_the_state_on(tmp_path):
    def fitted(epochs, *, resume=False):
        with mode.using(generator=clnet.Generator().manual_seed(5)):
            inner = model()
            optimizer = clnet.optim.SGD(inner.parameters(), lr=0.1)
            trainer = Trainer(
                carried(inner), token_loss, optimizer, progress=False, checkpoint=tmp_path
            )
            if resume:
                trainer.resume()
            trainer.fit(DataLoader(columns(tokens(40).ravel(), COLUMNS), 10), epochs=epochs)
        return trainer

    whole = fitted(2)
    fitted(1)
    again = fitted(2, resume=True)
    assert again.history.losses == whole.history.losses
    for name, value in whole.model.state_dict().items():
        np.testing.assert_array_equal(again.model.state_dict()[name].numpy(), value.numpy())


def test_perplexity_is_the_number_of_likely_tokens():
    assert perplexity(log(50)) == pytest.approx(50)
    assert perplexity(1e6) > 1e300
    uniform = token_loss(clnet.zeros(4, 2, 50), clnet.zeros(4, 2, dtype=clnet.int64))
    assert perplexity(uniform.item()) == pytest.approx(50, rel=1e-5)


def test_continuation_of_windows_and_its_temperature():
    gpt = GPT(5, 4, n_layer=1, n_head=1, n_embd=4).train()
    first, *_ = gpt.children()
    first.eval()
    assert len(continuation(gpt, [1, 2, 3, 4, 0, 1], 3, window=4)) == 3
    assert gpt.training
    assert not first.training
    cold = [continuation(gpt, [1], 4, temperature=1e-3, window=4) for _ in range(2)]
    assert cold[0] == cold[1]
    with pytest.raises(ArgumentError, match="temperature is positive"):
        continuation(gpt, [1], 1, temperature=0)
    with pytest.raises(ArgumentError, match="a token to begin with"):
        continuation(gpt, [], 1)


SMALL = ["--hidden", "16", "--layers", "1", "--steps", "16", "--batch-size", "8"]


@pytest.mark.parametrize(
    "chosen",
    [
        ["--model", "lstm", "--vocabulary", "300", "--lr", "0.01"],
        ["--model", "gpt", "--level", "char", "--lr", "0.01", "--heads", "2"],
    ],
    ids=["lstm of words", "gpt of characters"],
)
def test_text_is_learnt(chosen, text, capsys):
    assert main(["train", "text", text, *SMALL, *chosen, "--epochs", "3"]) == 0
    out = capsys.readouterr().out
    perplexities = [float(x) for x in re.findall(r", perplexity ([\d.]+)", out)]
    validation = [float(x) for x in re.findall(r"validation perplexity ([\d.]+)", out)]
    assert len(perplexities) == len(validation) == 3
    assert perplexities == sorted(perplexities, reverse=True)
    assert perplexities[-1] < 0.85 * perplexities[0]
    assert validation[-1] < validation[0]
    assert re.search(r"test perplexity [\d.]+ on ", out)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--steps", "0"], "steps is 1 or more"),
        (["--batch-size", "5000"], "the text is too short"),
        (["--model", "gpt", "--heads", "3"], "n_head divides n_embd"),
        (["--vocabulary", "1"], "most is 2 or more"),
    ],
)
def test_unfit_text_options_are_refused(options, complaint, text, capsys):
    assert refusal(text, options, capsys).count(complaint) == 1


def test_a_text_that_is_not_there_is_refused(capsys):
    assert "cannot be read" in refusal("nowhere.txt", [], capsys)


def refusal(path, options, capsys) -> str:
    """The line that an unfit ``clnet train text`` ends with."""
    assert main(["train", "text", path, *SMALL, *options]) == 1
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    return complaint
