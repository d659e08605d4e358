"""Trains a residual network and a transformer on the device `tpu`, and compares the losses with PyTorch's CPU.

`python tests/torch_tpu/train.py` prints the losses and the median time of a step. Set `PJRT_DEVICE` to the plugin.
"""

import statistics
import sys
import time

import torch
from torch import nn

STEPS = 12


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return torch.relu(self.layers(x) + self.shortcut(x))


def residual():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        Block(16, 16, 1),
        Block(16, 32, 2),
        Block(32, 64, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    ), torch.randn(32, 3, 32, 32)


class Transformer(nn.Module):
    """An encoder over 128 tokens."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(100, 64)
        layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(64, 10)

    def forward(self, tokens):
        return self.head(self.encoder(self.embedding(tokens)).mean(1))


def transformer():
    return Transformer(), torch.randint(0, 100, (16, 128))


def train(make, device, compiled):
    torch.manual_seed(0)
    model, x = make()
    y = torch.randint(0, 10, (len(x),))
    model, x, y = model.to(device), x.to(device), y.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    call = torch.compile(model) if compiled else model
    losses, times = [], []
    for _ in range(STEPS):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(call(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        times.append(time.perf_counter() - start)
    return losses, statistics.median(times[STEPS // 2 :])


def main():
    failed = False
    for make in (residual, transformer):
        expected, own = train(make, "cpu", False)
        for compiled in (False, True):
            losses, seconds = train(make, "tpu", compiled)
            difference = max(abs(a - b) for a, b in zip(losses, expected))
            failed |= not difference < 5e-3 or not losses[-1] < losses[0]
            how = "compiled" if compiled else "eager"
            print(
                f"{make.__name__}, {how}: loss {losses[0]:.4f} to {losses[-1]:.4f}, difference {difference:.1e}, "
                f"{seconds * 1e3:.1f} ms per step, PyTorch's CPU {own * 1e3:.1f} ms"
            )
    return failed


if __name__ == "__main__":
    sys.exit(main())
