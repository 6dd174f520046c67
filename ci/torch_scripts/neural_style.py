"""Fast style transfer: instance norm, reflection padding, Gram matrices."""

import argparse
import os

import numpy as np
import torch
import torch.nn as nn


class ConvLayer(torch.nn.Module):
    def __init__(self, inner, outer, kernel, stride, upsample=None):
        super().__init__()
        self.upsample = upsample
        self.pad = torch.nn.ReflectionPad2d(int(np.floor(kernel / 2)))
        self.conv = torch.nn.Conv2d(inner, outer, kernel, stride)

    def forward(self, x):
        if self.upsample:
            x = torch.nn.functional.interpolate(x, mode="nearest", scale_factor=self.upsample)
        return self.conv(self.pad(x))


class TransformerNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.in1 = ConvLayer(3, 6, 3, 2), nn.InstanceNorm2d(6, affine=True)
        self.conv2, self.in2 = ConvLayer(6, 6, 3, 1), nn.InstanceNorm2d(6, affine=True)
        self.deconv = ConvLayer(6, 3, 3, 1, upsample=2)
        self.relu = nn.ReLU()

    def forward(self, x):
        y = self.relu(self.in1(self.conv1(x)))
        return self.deconv(y + self.in2(self.conv2(y)))


def gram_matrix(y):
    b, ch, h, w = y.size()
    features = y.view(b, ch, w * h)
    return features.bmm(features.transpose(1, 2)) / (ch * h * w)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--start", default="", help="weights to begin with; written if not there")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    both = nn.ModuleDict({"net": TransformerNet(), "vgg": nn.Conv2d(3, 8, 3, padding=1)}).to(device)
    begin(both, args.start)
    net, vgg = both["net"], both["vgg"].requires_grad_(False)
    style = gram_matrix(
        vgg(torch.from_numpy(rng.random((1, 3, 16, 16)).astype(np.float32)).to(device))
    )
    optimizer, mse = torch.optim.Adam(net.parameters(), args.lr), torch.nn.MSELoss()
    for step in range(args.steps):
        x = torch.from_numpy(rng.random((2, 3, 16, 16)).astype(np.float32)).to(device)
        optimizer.zero_grad()
        y = net(x)
        features = vgg(y)
        content_loss = mse(features, vgg(x))
        style_loss = mse(gram_matrix(features), style.expand(2, -1, -1))
        total = content_loss + 1e2 * style_loss
        total.backward()
        optimizer.step()
        print(f"step {step} loss {total.item():.6f}")


def begin(model, path):
    """Weights from a file, or into it."""
    if path and os.path.exists(path):
        model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    elif path:
        torch.save(model.state_dict(), path)


if __name__ == "__main__":
    main()
