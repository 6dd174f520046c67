"""A Wasserstein GAN: gradient penalty, weights averaged by `.data`."""

import argparse
import os

import numpy as np
import torch
import torch.nn as nn


class Average:
    """Moving averages of weights, put in their place for a while."""

    def __init__(self, model, decay=0.5):
        self.model, self.decay, self.backup = model, decay, {}
        self.shadow = {n: p.data.clone() for n, p in model.named_parameters()}

    def update(self):
        for name, p in self.model.named_parameters():
            self.shadow[name] = self.decay * self.shadow[name] + (1 - self.decay) * p.data

    def apply(self):
        for name, p in self.model.named_parameters():
            self.backup[name] = p.data
            p.data = self.shadow[name]

    def restore(self):
        for name, p in self.model.named_parameters():
            p.data = self.backup[name]
        self.backup = {}


def penalty(critic, real, fake, share):
    between = (share * real + (1 - share) * fake).requires_grad_(True)
    score = critic(between)
    (grad,) = torch.autograd.grad(
        score, between, torch.ones_like(score), create_graph=True, retain_graph=True
    )
    return ((grad.norm(2, dim=1) - 1) ** 2).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--start", default="", help="weights to begin with; written if not there")
    args = parser.parse_args()
    torch.manual_seed(0)
    rng = np.random.default_rng(0)

    def drawn(*shape):
        return torch.from_numpy(rng.standard_normal(shape).astype(np.float32))

    generator = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    critic = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    begin(nn.ModuleList([generator, critic]), args.start)
    average = Average(generator)
    g_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-2, betas=(0.0, 0.9))
    c_optimizer = torch.optim.RMSprop(critic.parameters(), lr=1e-2)

    @torch.compile(backend="eager")
    def criticise(real, noise, share):
        fake = generator(noise).detach()
        loss = critic(fake).mean() - critic(real).mean()
        loss = loss + 10 * penalty(critic, real, fake, share)
        c_optimizer.zero_grad()
        loss.backward()
        c_optimizer.step()
        for p in critic.parameters():
            p.data.clamp_(-0.8, 0.8)
        return loss

    evaluate = torch.compile(lambda z: critic(generator(z)).mean(), backend="eager")
    for step in range(args.steps):
        for _ in range(2):
            loss = criticise(drawn(6, 2) + 3, drawn(6, 2), torch.rand(6, 1) * 0 + 0.3)
            print(f"step {step} critic loss {loss.item():.5f}")
        noise = drawn(6, 2)
        g_loss = -critic(generator(noise)).mean()
        g_optimizer.zero_grad()
        g_loss.backward()
        g_optimizer.step()
        average.update()
        average.apply()
        averaged = evaluate(noise).item()
        average.restore()
        print(f"step {step} loss {g_loss.item():.5f} averaged loss {averaged:.5f}")
        print(f"step {step} restored loss {evaluate(noise).item():.5f}")


def begin(model, path):
    """Take the weights of a file, or write them there."""
    if path and os.path.exists(path):
        model.load_state_dict(torch.load(path, weights_only=True))
    elif path:
        torch.save(model.state_dict(), path)


if __name__ == "__main__":
    main()
