"""What the scripts that compare models of ours with stock ones share. Not run by itself.

  SCRIPT record FILE    writes for each PART, as PART/...: weights/NAME (of named_parameters), the model's inputs, labels,
                        output, loss (a sum), gradients/NAME, and losses [20], the mean before each of 20 AdamW steps
  SCRIPT check FILE     reads for each PART of the file weights/NAME, inputs and output of ours; exits with 1 unless the
                        weights, all of them, give that output here
"""
import sys

import torch
from safetensors.torch import load_file, save_file


def loss_of(output, labels):
    """Summed: squared errors of numbers, else cross-entropy where labels aren't negative."""
    if labels.is_floating_point():
        return torch.nn.functional.mse_loss(output.flatten(), labels, reduction="sum")
    return torch.nn.functional.cross_entropy(output.flatten(0, -2), labels.flatten(), reduction="sum", ignore_index=-100)


def shake(model):
    """Moves biases, norms and learned tokens away from their first values."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1 or parameter.size(0) == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)


def record(model, forward, inputs, labels):
    tensors = {**inputs, "labels": labels}
    tensors |= {f"weights/{name}": value.detach().clone() for name, value in model.named_parameters()}
    output = forward(model, inputs)
    loss = loss_of(output, labels)
    loss.backward()
    tensors |= {"output": output.detach(), "loss": loss.detach()}
    tensors |= {f"gradients/{name}": value.grad.clone() for name, value in model.named_parameters()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    count = labels.numel() if labels.is_floating_point() else (labels >= 0).sum().item()
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = loss_of(forward(model, inputs), labels) / count
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    tensors["losses"] = torch.tensor(losses, dtype=torch.float64)
    return {name: value.contiguous() for name, value in tensors.items()}


def check(part, tensors, model, forward, to_theirs):
    weights = {name.removeprefix("weights/"): value for name, value in tensors.items() if name.startswith("weights/")}
    parameters = dict(model.named_parameters())
    weights = to_theirs(weights, parameters)
    if weights.keys() != parameters.keys():
        sys.exit(f"{part}: names differ: {sorted(weights.keys() ^ parameters.keys())}")
    with torch.no_grad():
        for name, parameter in parameters.items():
            if parameter.shape != weights[name].shape:
                sys.exit(f"{part}: {name}: {tuple(weights[name].shape)}, expected {tuple(parameter.shape)}")
            parameter.copy_(weights[name])
        output = forward(model.eval(), tensors)
    is_masked = output.dim() == 3 and "key_mask" in tensors and "decoder_ids" not in tensors
    counts = tensors["key_mask"].unsqueeze(2) if is_masked else 1  # what comes out at padding is nobody's business
    worst = (((tensors["output"] - output) * counts).abs().max() / output.abs().max()).item()
    print(f"{part}, our weights there: largest relative difference of the output {worst:.2e}", file=sys.stderr)
    if not worst <= 1e-5:
        sys.exit(f"{part}: outputs differ")


def run(parts, build, samples, forward, to_ours=lambda tensors: tensors, to_theirs=lambda tensors, names: tensors):
    """`build(part)` is a model, `samples(part)` its inputs and labels, `forward(model, inputs)` its output. `to_ours` and `to_theirs` give
    tensors the names of the other side."""
    command, path = sys.argv[1:]
    torch.set_num_threads(1)  # small models: waking others takes longer
    if command == "check":
        tensors = load_file(path)
        for part in sorted({name.partition("/")[0] for name in tensors}):
            check(part, {name.removeprefix(f"{part}/"): value for name, value in tensors.items() if name.startswith(f"{part}/")}, build(part), forward, to_theirs)
        return
    tensors = {}
    for part in parts:
        torch.manual_seed(7)
        model = build(part)
        shake(model)
        tensors |= {f"{part}/{name}": value for name, value in to_ours(record(model, forward, *samples(part))).items()}
    save_file(tensors, path)
