"""Whole programs of PyTorch. Each takes a device and returns tensors, which are the same on every device."""

import torch
import torch.nn as nn
import torch.nn.functional as F

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def data(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def labels(count, classes, seed=2):
    return torch.randint(0, classes, (count,), generator=torch.Generator().manual_seed(seed))


def sync(device):
    if device.type == "xla":
        import torch_xla

        torch_xla.sync()


def train(device, make, optimizer, inputs, targets, steps=4, loss=F.cross_entropy, autocast=None):
    """The losses of all steps, followed by the parameters."""
    torch.manual_seed(0)
    model = make().to(device)
    update = optimizer(model.parameters())
    inputs, targets = inputs.to(device), targets.to(device)
    losses = []
    for _ in range(steps):
        update.zero_grad()
        if autocast is None:
            error = loss(model(inputs), targets)
        else:
            with torch.autocast(device.type, dtype=autocast):
                error = loss(model(inputs).float(), targets)
        error.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        update.step()
        losses.append(error.detach())
        sync(device)
    return [*losses, *(p.detach() for p in model.parameters())]


def mlp():
    return nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 16), nn.GELU(), nn.Linear(16, 5))


def cnn():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 12, 3, stride=2), nn.GroupNorm(3, 12), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 5),
    )


class Transformer(nn.Module):
    """Maps tokens to classes: embedding, two encoder layers and a mean."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(20, 16)
        self.places = nn.Parameter(torch.zeros(6, 16))
        layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 5)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(6, device=tokens.device)
        return self.head(self.layers(self.tokens(tokens) + self.places, mask=mask).mean(1))


def sequences():
    return labels(48, 20, seed=3).reshape(8, 6)


@program
def mlp_sgd(device):
    return train(device, mlp, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=1e-3), data(16, 12), labels(16, 5))


@program
def mlp_adam(device):
    return train(device, mlp, lambda p: torch.optim.Adam(p, 1e-2), data(16, 12), labels(16, 5))


@program
def mlp_other_optimizers(device):
    results = []
    for optimizer in (torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.NAdam, torch.optim.Adamax):
        results += train(device, mlp, lambda p: optimizer(p, lr=1e-3), data(16, 12), labels(16, 5), steps=2)
    return results


@program
def cnn_sgd(device):
    return train(device, cnn, lambda p: torch.optim.SGD(p, 0.05), data(4, 3, 16, 16), labels(4, 5))


@program
def cnn_adam(device):
    return train(device, cnn, lambda p: torch.optim.Adam(p, 1e-3), data(4, 3, 16, 16), labels(4, 5))


@program
def transformer_adamw(device):
    return train(device, Transformer, lambda p: torch.optim.AdamW(p, 1e-3), sequences(), labels(8, 5))


@program
def transformer_sgd(device):
    return train(device, Transformer, lambda p: torch.optim.SGD(p, 0.1), sequences(), labels(8, 5))


@program
def mlp_autocast_bf16(device):
    return train(device, mlp, lambda p: torch.optim.SGD(p, 0.1), data(16, 12), labels(16, 5), autocast=torch.bfloat16)


@program
def transformer_bf16(device):
    """The forward pass of the whole model in bf16."""
    torch.manual_seed(0)
    model = Transformer().to(torch.bfloat16).to(device)
    return [model(sequences().to(device)).detach()]


def recurrent(kind):
    def run(device):
        torch.manual_seed(0)
        model = kind(6, 8, batch_first=True).to(device)
        out, _ = model(data(3, 5, 6).to(device))
        out.square().mean().backward()
        return [out.detach(), *(p.grad for p in model.parameters())]

    return run


PROGRAMS["lstm"] = recurrent(nn.LSTM)
PROGRAMS["rnn"] = recurrent(nn.RNN)


@program
def gru_cells(device):
    """PyTorch/XLA replaces `GRU` by its own class, which PyTorch's CPU does not support. The cell is the same
    everywhere.
    """
    torch.manual_seed(0)
    cell = nn.GRUCell(6, 8).to(device)
    state = torch.zeros(3, 8, device=device)
    for row in data(5, 3, 6).to(device):
        state = cell(row, state)
    state.square().mean().backward()
    return [state.detach(), *(p.grad for p in cell.parameters())]


@program
def evaluation(device):
    torch.manual_seed(0)
    model = cnn().eval().to(device)
    with torch.no_grad():
        return [model(data(4, 3, 16, 16).to(device)).softmax(1)]


@program
def python_control_flow(device):
    """Values that determine the control flow in Python."""
    x, steps = data(6).to(device), 0
    while x.norm().item() > 0.5 and steps < 20:
        x = x * 0.7 if x.sum().item() > 0 else x * 0.6 + 0.01
        steps += 1
    return [x, torch.tensor(steps)]


@program
def control_flow_on_the_device(device):
    """A loop and a branch within the program, which PyTorch/XLA can trace."""
    x, count = data(4).to(device), torch.tensor(0.0, device=device)
    if device.type != "xla":
        for _ in range(5):
            x = x * 1.5
        return [x, torch.tensor(5.0)]
    import torch_xla.experimental.fori_loop  # noqa: F401 (registers the lowering)
    from torch._higher_order_ops.while_loop import while_loop

    count, x = while_loop(lambda c, v: c < 5, lambda c, v: (c + 1, v * 1.5), (count, x))
    return [x, count]


@program
def scan_on_the_device(device):
    inputs = data(5, 3).to(device)
    if device.type != "xla":
        state, outputs = torch.zeros(3), []
        for row in inputs:
            state = state * 0.5 + row
            outputs.append(state.sin())
        return [state, torch.stack(outputs)]
    from torch_xla.experimental.scan import scan

    def step(state, row):
        state = state * 0.5 + row
        return state, state.sin()

    return list(scan(step, torch.zeros(3, device=device), inputs))


@program
def dropout(device):
    """The result is random, so only checks that some elements are dropped, the others are scaled, and no gradient flows
    through the dropped ones.
    """
    x = torch.ones(200, 100, device=device, requires_grad=True)
    out = F.dropout(x, 0.25)
    out.sum().backward()
    kept = out.detach() != 0
    share = kept.float().mean()
    return [(share - 0.75).abs() < 0.02, torch.where(kept, out.detach(), 4 / 3), (x.grad == out.detach()).all()]


@program
def random_numbers(device):
    torch.manual_seed(7)
    uniform, normal = torch.rand(100, 200, device=device), torch.randn(100, 200, device=device)
    whole = torch.randint(0, 10, (100, 200), device=device)
    coin = torch.bernoulli(torch.full((100, 200), 0.3, device=device))
    exponential = torch.empty(100, 200, device=device).exponential_(2.0)
    near = lambda value, want, by: (value.float() - want).abs() < by  # noqa: E731
    return [
        near(uniform.mean(), 0.5, 0.01), (uniform >= 0).all() & (uniform < 1).all(), near(uniform.var(), 1 / 12, 0.005),
        near(normal.mean(), 0, 0.03), near(normal.std(), 1, 0.03),
        near(whole.float().mean(), 4.5, 0.1), near(coin.mean(), 0.3, 0.02), near(exponential.mean(), 0.5, 0.02),
    ]


@program
def permutations(device):
    return [torch.randperm(50, device=device).sort()[0]]


@program
def compiled_with_dynamo(device):
    """`torch.compile`: PyTorch/XLA compiles its graphs once and then only runs them."""
    torch.manual_seed(0)
    model = mlp().eval().to(device)
    if device.type == "xla":
        model = torch.compile(model, backend="openxla")
    with torch.no_grad():
        return [model(data(16, 12, seed=seed).to(device)) for seed in range(3)]


@program
def transfers(device):
    """Transfers every type and unusual strides to the device and back."""
    tensors = [
        torch.tensor(3.5), torch.zeros(0, 3), data(4, 5).T, data(4, 5)[:, ::2], torch.arange(6, dtype=torch.uint8),
        torch.tensor([True, False]), data(3).to(torch.bfloat16), data(3).to(torch.float16), data(3).double(),
        torch.arange(-3, 3, dtype=torch.int8), torch.arange(5, dtype=torch.int16), torch.arange(5, dtype=torch.int32),
        torch.complex(data(3), data(3, seed=4)), torch.full((2,), 2**40),
    ]
    return [torch.view_as_real(t) if t.is_complex() else t for t in (t.to(device).cpu() for t in tensors)]


@program
def aliased_in_place(device):
    """Parameters that are updated in place, whose buffers the program may reuse."""
    weight = torch.ones(64, 64).to(device)
    for _ in range(5):
        weight.mul_(0.5).add_(weight.T @ weight * 0.01)
        sync(device)
    return [weight]


@program
def after_rejected_programs(device):
    """Runs programs after the device rejected others. PyTorch/XLA loses the values that a rejected program should have
    computed, on every device. It keeps those of earlier programs.
    """
    x = data(4).to(device)
    weight = torch.ones(4).to(device)
    results = []
    for number in range(3):
        weight.mul_(2).add_(x)
        sync(device)
        if device.type == "xla":
            reject(lambda call=unknown_call(x): sync(device))
            reject(lambda: unknown_call(x).cpu())
        results += [weight * number, (x + number).sum()]
        sync(device)
    return results


def reject(run):
    """Checks that the device rejects what `run` makes it compile."""
    try:
        run()
    except (RuntimeError, ValueError) as error:
        assert "no_such_target" in str(error), error
    else:
        raise AssertionError("the device accepted a call of an unknown function")


def unknown_call(x):
    """A call of a function that no device has, with a result like `x`."""
    from torch_xla.experimental.stablehlo_custom_call import stablehlo_custom_call

    result = stablehlo_custom_call((x,), "no_such_target", [list(x.shape)], [x.dtype], api_version=1)
    return result[0] if isinstance(result, (list, tuple)) else result


@program
def many_outputs(device):
    x = data(8).to(device)
    return [x + i for i in range(40)]


@program
def large(device):
    x = data(512, 512).to(device)
    return [(x @ x).relu().sum(1), F.softmax(x, 1), F.conv2d(x.reshape(4, 16, 64, 64), data(16, 16, 3, 3).to(device))]
