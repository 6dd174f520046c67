"""``clnet train text``: a language model on a text of the user's."""

from __future__ import annotations

import argparse
from typing import Any

from ..data import DataLoader, Vocabulary, Windows, columns, load_text
from ..data.text import LEVELS
from ..device import Device
from ..errors import ArgumentError
from ..models import GPT, LSTMLanguageModel
from ..nn import Module
from ..train import Carried, Perplexity, Trainer, continuation, perplexity, token_loss
from ..values import mode
from ..values.dtypes import int64
from ..values.settings import SETTINGS
from . import options

_RATES = {"lstm": 2e-3, "gpt": 1e-3}  # Adam's


def add_command(kinds: Any, shared: argparse.ArgumentParser) -> None:
    """Put the command into the parser of ``clnet train``.

    Args:
        kinds: where data sets are added.
        shared: options of all commands.
    """
    parser = kinds.add_parser(
        "text",
        parents=[shared, options.training_options()],
        help="a language model on a text file, or on a folder with ptb.train.txt ...",
        description="Train a language model on a text, print its perplexity after every epoch, "
        "and at the end that of the test part and a text it makes up.",
    )
    add = parser.add_argument
    add("path", metavar="PATH", help="a text in UTF-8; or a folder with ptb.train.txt ...")
    add("--model", choices=_RATES, default="lstm", help="default: %(default)s")
    add(
        "--level",
        choices=LEVELS,
        default="word",
        help="words and punctuation, what blanks separate, or characters; default: %(default)s",
    )
    add("--vocabulary", type=int, default=10000, metavar="N", help="default: %(default)s")
    add("--steps", type=int, default=32, help="tokens a gradient goes back; default: %(default)s")
    add("--hidden", type=int, default=256, help="features; default: %(default)s")
    add("--layers", type=int, default=2, help="default: %(default)s")
    add("--heads", type=int, default=4, help="of the gpt's attention; default: %(default)s")
    add("--dropout", type=float, default=0.0, help="default: %(default)s")
    add("--sample", type=int, default=40, metavar="N", help="tokens to make up; default: 40")
    parser.set_defaults(run=run, epochs=5, batch_size=32, clip=5.0)


def run(arguments: argparse.Namespace) -> int:
    """Train and report."""
    options.check(arguments)
    if arguments.devices or SETTINGS.ranks > 1:
        raise ArgumentError("train", "texts are trained on in one process, on one device")
    chosen, generator = options.opened(arguments)
    if arguments.steps < 1:
        raise ArgumentError("train", "steps is 1 or more", steps=arguments.steps)
    texts = load_text(arguments.path)
    vocabulary = Vocabulary.of(texts.train, arguments.level, most=arguments.vocabulary)
    parts = [vocabulary.encode(text) for text in texts]
    loaders = [_loader(part, arguments, training=i == 0) for i, part in enumerate(parts)]
    with mode.using(device=chosen, generator=generator):
        model = _model(arguments, len(vocabulary))
        shape = (arguments.batch_size, arguments.steps)
        trained = model if arguments.model == "gpt" else _carried(model, arguments)
        _introduce(arguments, model, vocabulary, parts, chosen)
        optimizer = options.optimizer(model, arguments, lr=_RATES[arguments.model])
        steps = arguments.epochs * len(loaders[0])
        trainer = Trainer(
            trained,
            token_loss,
            optimizer,
            scheduler=options.scheduler(optimizer, arguments, steps=steps),
            scheduler_per_batch=True,
            precision=arguments.precision,
            clip_grad_norm=arguments.clip,
            compile=not arguments.no_compile,
            checkpoint=arguments.checkpoint,
            callbacks=[Perplexity(), *options.callbacks(arguments, model, shape, int64)],
            log_every=arguments.log_every,
        )
        if arguments.find_lr:
            return options.suggest_rate(trainer, loaders[0])
        with options.training(trainer, arguments):
            trainer.fit(loaders[0], loaders[1], epochs=arguments.epochs)
            result = trainer.evaluate(loaders[2])
        if arguments.sample > 0:
            window = arguments.steps if arguments.model == "gpt" else None
            begin = [int(n) for n in parts[2][: arguments.steps]]
            drawn = continuation(model, begin, arguments.sample, window=window)
            print(f"{vocabulary.decode(begin)} ... {vocabulary.decode(drawn)}")
    print(f"test perplexity {perplexity(result['loss']):.2f} on {options.described(chosen)}")
    return 0


def _loader(numbers: Any, arguments: argparse.Namespace, *, training: bool) -> DataLoader:
    """Batches in order for an LSTM, whose state is carried on; windows in any order for a GPT."""
    size, steps = arguments.batch_size, arguments.steps
    if arguments.model == "lstm":
        return DataLoader(columns(numbers, size), steps, seed=arguments.seed)
    return DataLoader(Windows(numbers, steps), size, shuffle=training, seed=arguments.seed)


def _model(arguments: argparse.Namespace, vocab_size: int) -> Module:
    hidden, layers = arguments.hidden, arguments.layers
    if arguments.model == "gpt":
        return GPT(
            vocab_size,
            arguments.steps,
            n_layer=layers,
            n_head=arguments.heads,
            n_embd=hidden,
            dropout=arguments.dropout,
        )
    return LSTMLanguageModel(
        vocab_size, hidden, hidden_size=hidden, num_layers=layers, dropout=arguments.dropout
    )


def _carried(model: Module, arguments: argparse.Namespace) -> Carried:
    shape = (arguments.layers, arguments.batch_size, arguments.hidden)
    return Carried(model, shape, shape)


def _introduce(
    arguments: argparse.Namespace,
    model: Module,
    vocabulary: Vocabulary,
    parts: Any,
    chosen: Device,
) -> None:
    train, validation, test = map(len, parts)
    print(f"{arguments.path}: {train:,} tokens to train, {validation:,} and {test:,} to measure")
    print(f"{len(vocabulary):,} different ones by {arguments.level}")
    print(f"{arguments.model}: {sum(p.numel() for p in model.parameters()):,} parameters")
    print(f"device: {options.described(chosen)}", flush=True)
