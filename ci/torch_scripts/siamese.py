"""Two images through one network: are they of one kind?"""

import argparse
import os

import numpy as np
import torch
import torch.nn as nn


class SiameseNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.MaxPool2d(2))
        self.fc = nn.Sequential(nn.Linear(6 * 25 * 2, 16), nn.ReLU(inplace=True), nn.Linear(16, 1))
        self.features.apply(self.init_weights)

    def init_weights(self, m):
        if isinstance(m, nn.Conv2d):
            torch.nn.init.xavier_uniform_(m.weight)
            m.bias.data.fill_(0.01)

    def forward(self, one, two):
        outs = [self.features(x).view(x.size()[0], -1) for x in (one, two)]
        return torch.sigmoid(self.fc(torch.cat(outs, 1)))


class Pairs(torch.utils.data.Dataset):
    def __init__(self, rng):
        self.x = torch.from_numpy(rng.standard_normal((24, 1, 12, 12)).astype(np.float32))
        self.kind = rng.integers(0, 3, 24)

    def __len__(self):
        return 16

    def __getitem__(self, i):
        same = self.kind[i] == self.kind[-1 - i]
        return self.x[i], self.x[-1 - i], torch.tensor(same, dtype=torch.float)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--start", default="", help="weights to begin with; written if not there")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    loader = torch.utils.data.DataLoader(Pairs(rng), batch_size=4, num_workers=0, drop_last=True)
    model = SiameseNetwork().to(device)
    begin(model, args.start)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=args.lr)
    criterion = nn.BCELoss()
    for step, (one, two, target) in enumerate(loader):
        optimizer.zero_grad()
        output = model(one.to(device), two.to(device)).squeeze()
        loss = criterion(output, target.to(device))
        loss.backward()
        optimizer.step()
        right = torch.where(output > 0.5, 1, 0).eq(target.to(device)).sum().item()
        print(f"step {step} loss {loss.item():.6f} right {right}")


def begin(model, path):
    """Weights from a file, or into it."""
    if path and os.path.exists(path):
        model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    elif path:
        torch.save(model.state_dict(), path)


if __name__ == "__main__":
    main()
