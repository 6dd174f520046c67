"""Choose hyper-parameters: random search by hand, or Optuna's (pip install "clnet[search]")."""

import sys

import numpy as np

import clnet
from clnet import optim
from clnet.data import DataLoader, Digits, Normalize, Subset
from clnet.models import MLP
from clnet.nn import functional as F
from clnet.train import Trainer, accuracy

TRAIN = Digits(train=True)
NORMALIZE = Normalize.of(TRAIN.arrays[0])


def held_out_accuracy(rate, hidden, epochs=3):
    """How good a network with these settings is on images it was not trained with."""
    clnet.manual_seed(0)
    model = MLP((1, 8, 8), 10, hidden=(hidden,))
    optimizer = optim.Adam(model.parameters(), lr=rate)
    trainer = Trainer(
        model, F.cross_entropy, optimizer, metrics={"accuracy": accuracy}, progress=False
    )
    examples, rest = Subset(TRAIN, range(1200)), Subset(TRAIN, range(1200, len(TRAIN)))
    trainer.fit(DataLoader(examples, 64, shuffle=True, transform=NORMALIZE), epochs=epochs)
    return trainer.evaluate(DataLoader(rest, 256, transform=NORMALIZE))["accuracy"]


def random_search(trials):
    """Settings and accuracy of the best of some random trials."""
    rng = np.random.default_rng(0)
    best = (0.0, {})
    for trial in range(trials):
        settings = {"rate": 10 ** rng.uniform(-4, -1), "hidden": int(rng.choice([16, 32, 64]))}
        found = held_out_accuracy(**settings)
        print(f"trial {trial + 1}: {settings} gives {found:.3f}")
        best = max(best, (found, settings), key=lambda pair: pair[0])
    return best


def optuna_search(trials):
    """The same, with Optuna choosing what to try."""
    import optuna  # noqa: PLC0415 - optional

    def objective(trial):
        rate = trial.suggest_float("rate", 1e-4, 1e-1, log=True)
        return held_out_accuracy(rate, trial.suggest_categorical("hidden", [16, 32, 64]))

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(objective, n_trials=trials)
    return study.best_value, study.best_params


def main(steps=12):
    """Search in so many trials."""
    search = optuna_search if "--optuna" in sys.argv else random_search
    found, settings = search(steps)
    print(f"best: {settings} with accuracy {found:.3f}")


if __name__ == "__main__":
    main()
