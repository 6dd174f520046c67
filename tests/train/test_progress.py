"""What is shown of a training."""

from __future__ import annotations

import io

import pytest

from clnet.train.callback import StepFigures
from clnet.train.progress import Bar, epoch_line, steps_line

EPOCH = {
    "epoch": 2,
    "loss": 0.25,
    "validation_accuracy": 0.875,
    "lr": 0.1,
    "seconds": 2.0,
    "examples_per_second": 1500.0,
}


class Terminal(io.StringIO):
    """A text stream that says of itself that it is one."""

    def isatty(self):
        return True


def show(stream, monkeypatch, *, shown=True):
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("COLUMNS", "120")
    with Bar("epoch 1/2", 10, done=4, shown=shown) as bar:
        bar.advance(6, {"loss": 0.5}, 1234.0)
    return stream.getvalue()


def test_bar_on_a_terminal_starts_where_the_epoch_stands(monkeypatch):
    text = show(Terminal(), monkeypatch)
    assert "epoch 1/2:  40%" in text
    assert "4/10" in text


@pytest.mark.parametrize(("stream", "shown"), [(io.StringIO, True), (Terminal, False)])
def test_bar_is_quiet_without_a_terminal_or_wish(stream, shown, monkeypatch):
    assert show(stream(), monkeypatch, shown=shown) == ""


def test_line_of_an_epoch_has_all_figures():
    assert epoch_line(EPOCH, 4) == (
        "epoch 2/4: loss 0.2500, validation accuracy 0.8750, 2.0 s, 1,500 examples/s"
    )


def test_line_of_some_steps_has_their_means():
    steps = [StepFigures(7, {"loss": 1.0}, 0.1), StepFigures(8, {"loss": 0.5}, 0.05)]
    assert steps_line("epoch 1/2", steps, 1234.0) == (
        "epoch 1/2, step 8: loss 0.7500, lr 0.05, 1,234 examples/s"
    )
