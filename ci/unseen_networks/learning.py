"""Ways to learn: of rewards, of learning itself, of pairs and teachers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Case, adam, normal, sgd, whole


def maml(torch: Any) -> Case:
    """Gradients through an inner step of gradients, for a batch of tasks."""
    nn, F = torch.nn, torch.nn.functional
    model = nn.Sequential(
        nn.Linear(1, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1)
    )

    def forward(p: Any, x: Any) -> Any:
        x = F.relu(F.linear(x, p[0], p[1]))
        x = F.relu(F.linear(x, p[2], p[3]))
        return F.linear(x, p[4], p[5])

    def loss(model: Any, x: Any, y: Any, xq: Any, yq: Any) -> Any:
        total = 0
        for task in range(x.shape[0]):
            p = list(model.parameters())
            inner = F.mse_loss(forward(p, x[task]), y[task])
            g = torch.autograd.grad(inner, p, create_graph=True)
            p = [w - 0.01 * d for w, d in zip(p, g, strict=True)]
            total = total + F.mse_loss(forward(p, xq[task]), yq[task])
        return total / x.shape[0]

    inputs = [normal(4, 10, 1, seed=s) for s in range(4)]
    return Case(model, inputs, loss, lambda m, x, *_: m(x), adam)


def proximal_policy(torch: Any) -> Case:
    """PPO's clipped objective, a value, an entropy, gradients clipped."""
    nn, F = torch.nn, torch.nn.functional

    class ActorCritic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(24, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh())
            self.pi, self.v = nn.Linear(128, 6), nn.Linear(128, 1)

        def forward(self, x: Any) -> Any:
            y = self.body(x)
            return torch.distributions.Categorical(logits=self.pi(y)), self.v(y).squeeze(-1)

    def train(model: Any, optimizer: Any, x: Any, a: Any, old: Any, adv: Any, ret: Any) -> Any:
        pi, v = model(x)
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        ratio = torch.exp(pi.log_prob(a) - old)
        clipped = torch.clamp(ratio, 0.8, 1.2) * adv
        loss = -torch.min(ratio * adv, clipped).mean()
        loss = loss + 0.5 * F.mse_loss(v, ret) - 0.01 * pi.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss.detach()

    inputs = [normal(256, 24), whole(6, 256), -1.8 + 0.1 * normal(256), normal(256), normal(256)]
    model = ActorCritic()
    return Case(model, inputs, None, lambda m, x, *_: m(x)[0].probs, adam, train)


def simclr(torch: Any) -> Case:
    """Two views of each image found among all by their similarity."""
    nn, F = torch.nn, torch.nn.functional
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, 2, 1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, 2, 1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.Conv2d(64, 128, 3, 2, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, 64),
    )

    def loss(model: Any, a: Any, b: Any) -> Any:
        z = F.normalize(model(torch.cat([a, b])), dim=1)
        s = z @ z.T / 0.5
        n = a.size(0)
        s = s.masked_fill(torch.eye(2 * n, dtype=torch.bool), -1e9)
        target = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
        return F.cross_entropy(s, target)

    inputs = [normal(16, 3, 32, 32), normal(16, 3, 32, 32, seed=2)]
    return Case(model, inputs, loss, lambda m, a, b: m(a), sgd)


def teacher(torch: Any) -> Case:
    """A small network learns a large one's softened answers; the large one stays."""
    nn, F = torch.nn, torch.nn.functional

    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.large = nn.Sequential(
                nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 10)
            )
            self.small = nn.Sequential(nn.Linear(64, 32), nn.Mish(), nn.Linear(32, 10))
            for p in self.large.parameters():
                p.requires_grad = False

    def loss(model: Any, x: Any, y: Any) -> Any:
        with torch.no_grad():
            soft = model.large(x)
        mine = model.small(x)
        kl = F.kl_div(
            F.log_softmax(mine / 4, dim=1), F.softmax(soft / 4, dim=1), reduction="batchmean"
        )
        return 0.3 * F.cross_entropy(mine, y) + 0.7 * 16 * kl

    inputs = [normal(128, 64), whole(10, 128)]
    return Case(Pair(), inputs, loss, lambda m, x, y: m.small(x), adam)


def q_learning(torch: Any) -> Case:
    """Double dueling Q-learning from frames, the target network followed softly."""
    nn, F = torch.nn, torch.nn.functional

    class Dueling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(4, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.Flatten()
            )
            self.a, self.v = nn.Linear(32 * 81, 6), nn.Linear(32 * 81, 1)

        def forward(self, x: Any) -> Any:
            y = self.body(x)
            a = self.a(y)
            return self.v(y) + a - a.mean(1, keepdim=True)

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.target = Dueling(), Dueling()
            for p in self.target.parameters():
                p.requires_grad_(False)

    def train(model: Any, optimizer: Any, s: Any, a: Any, r: Any, s2: Any, done: Any) -> Any:
        q = model.q(s).gather(1, a.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = model.q(s2).argmax(1, keepdim=True)
            y = r + 0.99 * (1 - done) * model.target(s2).gather(1, best).squeeze(1)
        loss = F.smooth_l1_loss(q, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for p, t in zip(model.q.parameters(), model.target.parameters(), strict=True):
                t.mul_(0.995).add_(0.005 * p)
        return loss.detach()

    inputs = [
        normal(8, 4, 84, 84),
        whole(6, 8),
        normal(8),
        normal(8, 4, 84, 84, seed=2),
        whole(2, 8).astype(np.float32),
    ]
    model = Both()

    def rms(library: Any, _: Any) -> Any:
        return library.optim.RMSprop(model.q.parameters(), lr=1e-4)

    return Case(model, inputs, None, lambda m, s, *_: m.q(s).argmax(1), rms, train)


LEARNING = (maml, proximal_policy, simclr, teacher, q_learning)
