"""Trains a linear model on the plugin through PyTorch/XLA, and compares the losses with those of PyTorch's CPU:

    python torch/train.py target/release/libpjrt_plugin_opencl.so

Needs `pip install torch==2.9.0 torch_xla==2.9.0`."""

import os
import sys

os.environ.update(PJRT_DEVICE="LIBRARY", PJRT_LIBRARY_PATH=sys.argv[1])

import torch
import torch_xla


def train(device):
    torch.manual_seed(0)
    x, weights = torch.randn(32, 8), torch.randn(8, 1)
    y = (x @ weights + 0.1).to(device)
    model, x = torch.nn.Linear(8, 1).to(device), x.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        losses.append(loss.item())
    return torch.tensor(losses)


found, expected = train(torch_xla.device()), train("cpu")
torch.testing.assert_close(found, expected, rtol=1e-4, atol=0)
assert found[-1] < found[0], found
print(f"linear model: losses from {found[0]:.5f} to {found[-1]:.5f}, as on the CPU")
