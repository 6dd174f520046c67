"""A generator and a discriminator of images, trained against each other."""

import argparse
import os

import numpy as np
import torch
import torch.nn as nn


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        torch.nn.init.normal_(m.weight, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        torch.nn.init.normal_(m.weight, 1.0, 0.02)
        torch.nn.init.zeros_(m.bias)


def generator():
    return nn.Sequential(
        *(nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False), nn.BatchNorm2d(16), nn.ReLU(True)),
        *(nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(True)),
        *(nn.ConvTranspose2d(8, 1, 4, 2, 1, bias=False), nn.Tanh()),
    )


def discriminator():
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)),
        *(nn.Conv2d(8, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16)),
        *(nn.LeakyReLU(0.2, inplace=True), nn.Conv2d(16, 1, 4, 1, 0, bias=False), nn.Sigmoid()),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--start", default="", help="weights to begin with; written if not there")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    both = nn.ModuleDict({"g": generator(), "d": discriminator()}).to(device)
    both.apply(weights_init)
    begin(both, args.start)
    net_g, net_d = both["g"], both["d"]
    criterion = nn.BCELoss()
    opt_d = torch.optim.Adam(net_d.parameters(), lr=args.lr, betas=(0.5, 0.999))
    opt_g = torch.optim.Adam(net_g.parameters(), lr=args.lr, betas=(0.5, 0.999))
    for step in range(args.steps):
        real = torch.from_numpy(rng.uniform(-1, 1, (4, 1, 16, 16)).astype(np.float32)).to(device)
        noise = torch.from_numpy(rng.standard_normal((4, 8, 1, 1)).astype(np.float32)).to(device)
        net_d.zero_grad()
        label = torch.full((4,), 1.0, dtype=real.dtype, device=device)
        err_real = criterion(net_d(real).view(-1), label)
        err_real.backward()
        fake = net_g(noise)
        label.fill_(0.0)
        err_fake = criterion(net_d(fake.detach()).view(-1), label)
        err_fake.backward()
        opt_d.step()
        net_g.zero_grad()
        label.fill_(1.0)
        err_g = criterion(net_d(fake).view(-1), label)
        err_g.backward()
        opt_g.step()
        print(f"step {step} loss {(err_real + err_fake).item():.6f} loss {err_g.item():.6f}")


def begin(model, path):
    """Weights from a file, or into it."""
    if path and os.path.exists(path):
        model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    elif path:
        torch.save(model.state_dict(), path)


if __name__ == "__main__":
    main()
