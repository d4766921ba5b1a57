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
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
    larger = [grown(tensor) for tensor in inputs]
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = loss_of(module(*larger))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert min(losses[1:]) < losses[0], (path.stem, losses)
    used = [name for name, parameter in parameters.items() if parameter.grad is not None and parameter.grad.abs().sum() > 0]
    assert len(used) > 0.5 * len(parameters), (path.stem, used)


torch.manual_seed(0)
torch.set_num_threads(1)
paths = sorted(pathlib.Path(sys.argv[-1]).glob("*.pt"))
assert paths
for path in paths:
    check(path)
