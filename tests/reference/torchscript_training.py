"""Loads every <name>.pt of a directory, compares its outputs and parameters with <name>.safetensors, and trains it at another batch size."""
import pathlib
import sys

try:
    import torch
    from safetensors.torch import load_file
except ImportError:
    sys.exit(77)


def grown(tensor):
    """A larger batch of the same samples."""
    return torch.cat([tensor, tensor, tensor[:1].repeat(3, *[1] * (tensor.dim() - 1))])


def loss_of(logits):
    """Whatever it is: the first output of each row is wanted."""
    logits = logits.flatten(0, -2)
    if logits.shape[1] == 1:
        return (logits - 3).square().mean()
    return torch.nn.functional.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))


def training_loss(module, inputs):
    """The same dropout at every call, so that losses can be compared."""
    torch.manual_seed(0)
    return loss_of(module(*inputs))


def descend(module, inputs, name):
    """One step against the gradient and the loss after it. A short enough step lowers any differentiable loss by half of what its gradient
    promises at least (Armijo's rule), whatever the machine rounds: one that finds no such step has a wrong gradient."""
    module.zero_grad()
    loss = training_loss(module, inputs)
    loss.backward()
    moved = [parameter for parameter in module.parameters() if parameter.grad is not None]
    slope = sum(parameter.grad.square().sum().item() for parameter in moved)
    before = [parameter.detach().clone() for parameter in moved]
    for halvings in range(18):
        step = 0.5 * min(1.0, slope**-0.5) * 0.5**halvings
        with torch.no_grad():
            for parameter, value in zip(moved, before):
                parameter.copy_(value - step * parameter.grad)
        after = training_loss(module, inputs).item()  # not inside: without gradients TorchScript draws other dropout
        if loss.item() - after >= 0.5 * step * slope:
            return after
    raise AssertionError(f"{name}: no step against the gradient lowers the loss as it should: {loss.item()}, {after}")


def check(path):
    tensors = load_file(path.with_suffix(".safetensors"))
    module = torch.jit.load(path)
    inputs = [tensors[f"input{i}"] for i in range(sum(name.startswith("input") for name in tensors))]
    with torch.no_grad():
        difference = (module(*inputs) - tensors["output"]).abs().max() / tensors["output"].abs().max()
    assert difference < 1e-5, (path.stem, difference)
    parameters = dict(module.named_parameters())
    assert parameters.keys() == {name.removeprefix("parameter.") for name in tensors if name.startswith("parameter.")}, path.stem
    assert all(parameter.requires_grad for parameter in parameters.values()), path.stem
    module.train()
    larger = [grown(tensor) for tensor in inputs]
    losses = [descend(module, larger, path.stem) for _ in range(4)]
    assert losses == sorted(losses, reverse=True), (path.stem, losses)
    used = [name for name, parameter in parameters.items() if parameter.grad is not None and parameter.grad.abs().sum() > 0]
    assert len(used) > 0.5 * len(parameters), (path.stem, used)


torch.manual_seed(0)
torch.set_num_threads(1)
paths = sorted(pathlib.Path(sys.argv[-1]).glob("*.pt"))
assert paths
for path in paths:
    check(path)
