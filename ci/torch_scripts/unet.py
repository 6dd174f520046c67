"""Segmentation by a U-Net: skipped connections, Dice loss, a metric per class."""

import argparse
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def double_conv(inner, outer):
    return nn.Sequential(
        *(nn.Conv2d(inner, outer, 3, padding=1, bias=False), nn.BatchNorm2d(outer), nn.ReLU(True)),
        *(nn.Conv2d(outer, outer, 3, padding=1, bias=False), nn.BatchNorm2d(outer), nn.ReLU(True)),
    )


class UNet(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.down1, self.down2 = double_conv(1, 4), double_conv(4, 8)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.conv = double_conv(8, 4)
        self.outc = nn.Conv2d(4, classes, 1)

    def forward(self, x):
        x1 = self.down1(x)
        x2 = self.up(self.down2(self.pool(x1)))
        dy, dx = x1.size(2) - x2.size(2), x1.size(3) - x2.size(3)
        x2 = F.pad(x2, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.outc(self.conv(torch.cat([x1, x2], dim=1)))


def dice_loss(probs, target, eps=1e-6):
    inter = 2 * (probs * target).sum(dim=(-1, -2))
    sets = probs.sum(dim=(-1, -2)) + target.sum(dim=(-1, -2))
    return 1 - ((inter + eps) / (sets + eps)).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--start", default="", help="weights to begin with; written if not there")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    model = UNet().to(device=device, memory_format=torch.channels_last)
    begin(model, args.start)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=args.lr, momentum=0.9, foreach=True)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max", patience=1)
    scaler = torch.amp.GradScaler(enabled=False)
    for step in range(args.steps):
        images = torch.from_numpy(rng.standard_normal((2, 1, 15, 15)).astype(np.float32)).to(device)
        masks = torch.from_numpy(rng.integers(0, 3, (2, 15, 15))).to(device)
        with torch.autocast(device.type, enabled=False):
            pred = model(images)
            loss = F.cross_entropy(pred, masks)
            onehot = F.one_hot(masks, 3).permute(0, 3, 1, 2).float()
            loss = loss + dice_loss(F.softmax(pred, dim=1).float(), onehot)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        score = 1 - dice_loss(F.one_hot(pred.argmax(1), 3).permute(0, 3, 1, 2).float(), onehot)
        scheduler.step(score)
        print(f"step {step} loss {loss.item():.6f} dice {score.item():.4f}")


def begin(model, path):
    """Weights from a file, or into it."""
    if path and os.path.exists(path):
        model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    elif path:
        torch.save(model.state_dict(), path)


if __name__ == "__main__":
    main()
