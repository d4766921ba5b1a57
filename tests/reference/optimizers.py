"""What stock PyTorch computes for the tests of optimizer/ and amp/: `optimizers.py PART OUTPUT.safetensors`.

PART is training, matrices, schedules, clipping, averaging or scaling. Exit code 77: PyTorch can't be imported.
"""

import json
import math
import struct
import sys

try:
    import schedulefree
    import timm.optim
    import torch

    from update_rules import HIDDEN, Lamb, PackagedMuon, Soap, StockMuon
except ImportError as error:
    print(f"a reference can't be imported: {error}", file=sys.stderr)
    sys.exit(77)

from torch.optim import lr_scheduler

DTYPES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}


def write_safetensors(path, tensors):
    header, blobs, offset = {}, [], 0
    for name, tensor in tensors.items():
        tensor = tensor.detach().contiguous()
        blob = bytes(tensor.reshape(-1).view(torch.uint8).tolist())
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def doubles(values):
    return torch.tensor(values, dtype=torch.float64)


# Training: a small convolutional network, 20 steps with each rule. tests/optimizer/training_test.cpp has the same cases.

NUM_STEPS, LONG, BATCH, CLASSES = 20, 50, 8, 5


def initial_weights():
    generator = torch.Generator().manual_seed(7)
    shapes = {
        "conv1.weight": (4, 1, 3, 3), "conv1.bias": (4,), "norm.weight": (4,), "conv2.weight": (6, 4, 3, 3), "conv2.bias": (6,),
        "hidden.weight": (16, 96), "hidden.bias": (16,), "head.weight": (CLASSES, 16), "head.bias": (CLASSES,),
    }
    return {name: torch.randn(shape, generator=generator) * (0.3 if len(shape) > 1 else 0.1) + (1.0 if name == "norm.weight" else 0.0)
            for name, shape in shapes.items()}


def forward(w, images):
    x = torch.relu(torch.conv2d(images, w["conv1.weight"], w["conv1.bias"], padding=1) * w["norm.weight"].view(1, -1, 1, 1))
    x = torch.relu(torch.conv2d(x, w["conv2.weight"], w["conv2.bias"], stride=2, padding=1))
    x = torch.relu(torch.nn.functional.linear(x.flatten(1), w["hidden.weight"], w["hidden.bias"]))
    return torch.nn.functional.linear(x, w["head.weight"], w["head.bias"])


SGD, Adam, AdamW, RMSprop, Adafactor = (getattr(torch.optim, n) for n in ("SGD", "Adam", "AdamW", "RMSprop", "Adafactor"))
ScheduleFree = schedulefree.AdamWScheduleFree
TRAINING_CASES = {
    # name: (rule, its arguments, weight decay, other things)
    "sgd": (SGD, dict(lr=0.05), 0.0, {}),
    "sgd_momentum": (SGD, dict(lr=0.02, momentum=0.9), 0.0, {}),
    "sgd_nesterov": (SGD, dict(lr=0.02, momentum=0.9, nesterov=True), 0.01, {}),
    "sgd_weight_decay": (SGD, dict(lr=0.02, momentum=0.9), 0.05, {}),
    "sgd_dampening": (SGD, dict(lr=0.05, momentum=0.9, dampening=0.3), 0.01, {}),
    "adam": (Adam, dict(lr=3e-3), 0.0, {}),
    "adam_weight_decay": (Adam, dict(lr=3e-3, betas=(0.8, 0.95), eps=1e-6), 0.1, {}),
    "adam_amsgrad": (Adam, dict(lr=3e-3, betas=(0.5, 0.7), amsgrad=True), 0.05, {}),
    "adamw": (AdamW, dict(lr=3e-3), 0.1, {}),
    "adamw_amsgrad": (AdamW, dict(lr=3e-3, betas=(0.5, 0.7), amsgrad=True), 0.1, {}),
    "adamw_decay_all": (AdamW, dict(lr=3e-3), 0.5, {"decay_all": True}),
    "rmsprop": (RMSprop, dict(lr=1e-3), 0.0, {}),
    "rmsprop_momentum": (RMSprop, dict(lr=1e-3, alpha=0.9, momentum=0.9, eps=0.0316), 1e-2, {}),
    "rmsprop_centered": (RMSprop, dict(lr=1e-3, alpha=0.9, centered=True, eps=1e-4), 0.0, {}),
    "rmsprop_all": (RMSprop, dict(lr=1e-3, alpha=0.9, momentum=0.9, centered=True, eps=0.01), 1e-2, {}),
    "adafactor": (Adafactor, dict(lr=1e-2), 0.0, {}),
    "adafactor_all": (Adafactor, dict(lr=3e-2, beta2_decay=-0.7, eps=(1e-6, 1e-2), d=1.5), 0.1, {}),
    "lion": (timm.optim.Lion, dict(lr=1e-3), 0.0, {}),
    "lion_weight_decay": (timm.optim.Lion, dict(lr=1e-3, betas=(0.8, 0.95)), 0.1, {"double": True, "steps": 50}),
    "schedule_free": (ScheduleFree, dict(lr=5e-3), 0.0, {"steps": 50}),
    "schedule_free_double": (ScheduleFree, dict(lr=5e-3), 0.0, {"double": True, "steps": 50}),
    "schedule_free_warmup": (ScheduleFree, dict(lr=1e-2, betas=(0.95, 0.99), eps=1e-6, warmup_steps=10), 0.1, {"double": True, "steps": 50}),
    "schedule_free_power": (
        ScheduleFree, dict(lr=1e-2, r=1.5, weight_lr_power=1.0, warmup_steps=10), 0.1, {"double": True, "steps": 50}),
    "muon": (StockMuon, dict(lr=0.02, adamw=dict(lr=3e-3, betas=(0.9, 0.95), eps=1e-10)), 0.1, {"double": True, "steps": 50}),
    "muon_plain": (
        StockMuon, dict(lr=0.01, momentum=0.8, nesterov=False, ns_steps=3, adjust_lr_fn="match_rms_adamw", adamw=dict(lr=3e-3, eps=1e-8)),
        0.0, {"double": True, "steps": 50}),
    "muon_package": (PackagedMuon, dict(lr=0.02, adamw=dict(lr=3e-3)), 0.1, {"double": True, "steps": 50}),
    "soap": (Soap, dict(lr=3e-3, max_precond_dim=64), 0.1, {"double": True, "steps": 50}),
    "soap_all": (
        Soap, dict(lr=3e-3, betas=(0.8, 0.9), shampoo_beta=0.95, eps=1e-6, precondition_frequency=20, max_precond_dim=64, precondition_1d=True),
        0.0, {"double": True, "steps": 50}),
    "lamb": (Lamb, dict(lr=1e-2), 0.1, {"double": True}),
    "lamb_ceiling": (Lamb, dict(lr=1e-2, betas=(0.8, 0.9), max_trust_ratio=0.5), 0.0, {"double": True}),
    "sgd_groups": (SGD, dict(lr=0.02, momentum=0.9, dampening=0.3), 0.05, {"groups": True}),
    "adam_groups": (Adam, dict(lr=3e-3), 0.05, {"groups": True}),
    "adamw_groups": (AdamW, dict(lr=3e-3), 0.1, {"groups": True}),
    "rmsprop_groups": (RMSprop, dict(lr=1e-3, momentum=0.9), 1e-2, {"groups": True}),
    "adafactor_groups": (Adafactor, dict(lr=1e-2), 0.1, {"groups": True}),
    "lion_groups": (timm.optim.Lion, dict(lr=1e-3), 0.1, {"double": True, "groups": True}),
    "schedule_free_groups": (ScheduleFree, dict(lr=1e-2), 0.1, {"double": True, "groups": True}),
    "lamb_groups": (Lamb, dict(lr=1e-2), 0.1, {"double": True, "groups": True}),
    "recipe": (SGD, dict(lr=0.1, momentum=0.9), 1e-2, {"clip": 0.5, "one_cycle": True}),
}


LAYERS = ["head", "hidden", "conv2", "norm", "conv1"]  # from the output on


def group_of(name, parameter, lr, weight_decay):
    """A param group for each parameter: rates and decay by layer, times 0.8 for each layer after it. Vectors aren't decayed."""
    layer = name.split(".")[0]
    scale, decay = {"conv2": (0.1, weight_decay), "head": (3.0, 0.0)}.get(layer, (0.5, 0.2) if name.endswith(".weight") else (1.0, weight_decay))
    group = {"params": [parameter], "lr": lr * scale * 0.8 ** LAYERS.index(layer), "weight_decay": decay if parameter.ndim > 1 else 0.0}
    return group if parameter.ndim > 1 else group | {"adapt": False}


def train(weights, images, labels, rule, arguments, weight_decay, extra):
    dtype = torch.float64 if extra.get("double") else torch.float32
    w = {name: value.detach().clone().to(dtype).requires_grad_() for name, value in weights.items()}
    if rule in (StockMuon, PackagedMuon):
        return train_matrices(w, images, labels, rule, arguments, weight_decay, extra["steps"])
    matrices = [p for p in w.values() if p.ndim > 1 or extra.get("decay_all")]
    vectors = [p for p in w.values() if not (p.ndim > 1 or extra.get("decay_all"))]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    if rule is Lamb:
        groups[1]["adapt"] = False
    if "groups" in extra:
        groups = [group_of(name, p, arguments["lr"], weight_decay) for name, p in w.items()]
    optimizer = rule([group for group in groups if group["params"]], **arguments)
    scheduler = None
    if extra.get("one_cycle"):
        scheduler = lr_scheduler.OneCycleLR(optimizer, arguments["lr"], total_steps=NUM_STEPS, cycle_momentum=False)
    if rule is ScheduleFree:
        optimizer.train()
    losses = []
    for step in range(extra.get("steps", NUM_STEPS)):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(forward(w, images[step].to(dtype)), labels[step])
        loss.backward()
        if "clip" in extra:
            torch.nn.utils.clip_grad_norm_(w.values(), extra["clip"])
        optimizer.step()
        if scheduler:
            scheduler.step()
        losses.append(loss.item())
    if rule is ScheduleFree:
        optimizer.eval()
    return losses, w


def train_matrices(w, images, labels, rule, arguments, weight_decay, steps):
    """Of filters, the optimizers see matrices. Newton-Schulz iterations take bfloat16() of a gradient, which here is the gradient."""
    leaves = {name: p.detach().flatten(1).requires_grad_() if name in HIDDEN else p for name, p in w.items()}
    optimizer = rule(leaves, {name: weight_decay if p.ndim > 1 else 0.0 for name, p in leaves.items()}, **arguments)
    losses = []
    rounded = torch.Tensor.bfloat16
    torch.Tensor.bfloat16 = lambda gradient: gradient.clone()
    try:
        for step in range(steps):
            optimizer.zero_grad()
            seen = {name: leaf.view(w[name].shape) for name, leaf in leaves.items()}
            loss = torch.nn.functional.cross_entropy(forward(seen, images[step].to(torch.float64)), labels[step])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    finally:
        torch.Tensor.bfloat16 = rounded
    return losses, {name: leaf.detach().view(w[name].shape) for name, leaf in leaves.items()}


def matrices():
    """torch.optim.Muon in bf16, from gradients that don't depend on the weights."""
    generator = torch.Generator().manual_seed(13)
    out = {}
    for name, shape in {"wide": (16, 48), "tall": (48, 16), "square": (12, 12), "filters": (24, 2, 3, 3)}.items():
        first = torch.randn(shape, generator=generator)
        gradients = torch.randn(LONG, *shape, generator=generator)
        leaf = first.flatten(1).clone().requires_grad_()
        optimizer = torch.optim.Muon([leaf], lr=0.02, weight_decay=0.1)
        for gradient in gradients:
            leaf.grad = gradient.flatten(1).clone()
            optimizer.step()
        out |= {f"{name}.first": first, f"{name}.gradients": gradients, f"{name}.final": leaf.detach().view(shape)}
    return out


def training():
    generator = torch.Generator().manual_seed(11)
    images = torch.randn(LONG, BATCH, 1, 8, 8, generator=generator)
    labels = torch.randint(CLASSES, (LONG, BATCH), generator=generator)
    weights = initial_weights()
    out = {"images": images, "labels": labels} | {f"weight.{name}": value for name, value in weights.items()}
    for name, case in TRAINING_CASES.items():
        losses, final = train(weights, images, labels, *case)
        out[f"{name}.losses"] = doubles(losses)
        out |= {f"{name}.final.{key}": value for key, value in final.items()}
    return out


# Schedules: the learning rate of every step. tests/optimizer/schedule_test.cpp has the same cases.


def decay_at_end(length, share, shape, floor):
    """https://arxiv.org/abs/2405.18392, section 3; linear and cosine alike."""
    decay = math.floor(share * length + 0.5)  # half a unit counts as one

    def factor(unit):
        x = max(0.0, unit - (length - decay)) / decay
        left = {"linear": 1 - x, "sqrt": 1 - math.sqrt(x), "cosine": (1 + math.cos(math.pi * x)) / 2}[shape]
        return floor + (1 - floor) * left

    return lambda optimizer: lr_scheduler.LambdaLR(optimizer, factor)


def warmed_up(units, start, shape):
    """Linear warm-up, then `shape` from its own beginning."""

    def build(optimizer):
        if start > 0:
            warmup = lr_scheduler.LinearLR(optimizer, start_factor=start, total_iters=units)
        else:
            warmup = lr_scheduler.LambdaLR(optimizer, lambda unit: unit / units)
        return lr_scheduler.SequentialLR(optimizer, [warmup, shape(optimizer)], milestones=[units])

    return build


LR = 0.4
SCHEDULE_CASES = {
    # name: (scheduler of an optimizer, steps, steps of a unit)
    "constant": (lambda o: lr_scheduler.ConstantLR(o, factor=1.0), 10, 1),
    "step": (lambda o: lr_scheduler.StepLR(o, 7, 0.3), 40, 1),
    "step_epochs": (lambda o: lr_scheduler.StepLR(o, 2, 0.5), 37, 5),
    "step_warmup": (warmed_up(6, 0.1, lambda o: lr_scheduler.StepLR(o, 7, 0.3)), 40, 1),
    "multistep": (lambda o: lr_scheduler.MultiStepLR(o, [5, 5, 20, 31], 0.2), 40, 1),
    "multistep_epochs": (lambda o: lr_scheduler.MultiStepLR(o, [2, 5], 0.1), 43, 6),
    "linear": (lambda o: lr_scheduler.LinearLR(o, 1.0, 0.0, 40), 40, 1),
    "linear_floor": (lambda o: lr_scheduler.LinearLR(o, 1.0, 0.25, 33), 33, 1),
    "linear_warmup": (warmed_up(8, 0.25, lambda o: lr_scheduler.LinearLR(o, 1.0, 0.1, 32)), 40, 1),
    "cosine": (lambda o: lr_scheduler.CosineAnnealingLR(o, 50), 50, 1),
    "cosine_floor": (lambda o: lr_scheduler.CosineAnnealingLR(o, 1000, 0.01), 1000, 1),
    "cosine_warmup": (warmed_up(10, 0.01, lambda o: lr_scheduler.CosineAnnealingLR(o, 90, 0.001)), 100, 1),
    "cosine_warmup_zero": (warmed_up(10, 0.0, lambda o: lr_scheduler.CosineAnnealingLR(o, 90)), 100, 1),
    "cosine_epochs_warmup": (warmed_up(2, 0.1, lambda o: lr_scheduler.CosineAnnealingLR(o, 8)), 68, 7),
    "polynomial": (lambda o: lr_scheduler.PolynomialLR(o, 30, 0.9), 30, 1),
    "polynomial_square": (lambda o: lr_scheduler.PolynomialLR(o, 30, 2.0), 30, 1),
    "polynomial_warmup": (warmed_up(5, 0.2, lambda o: lr_scheduler.PolynomialLR(o, 25, 1.0)), 30, 1),
    "one_cycle": (lambda o: lr_scheduler.OneCycleLR(o, LR, 60), 60, 1),
    "one_cycle_linear": (
        lambda o: lr_scheduler.OneCycleLR(o, LR, 47, pct_start=0.17, anneal_strategy="linear", div_factor=10, final_div_factor=100), 47, 1),
    "one_cycle_falling": (lambda o: lr_scheduler.OneCycleLR(o, LR, 20, pct_start=0.0), 20, 1),
    "one_cycle_epochs": (lambda o: lr_scheduler.OneCycleLR(o, LR, 9), 43, 5),
    "wsd_linear": (decay_at_end(50, 0.2, "linear", 0.0), 50, 1),
    "wsd_sqrt": (warmed_up(10, 0.0, decay_at_end(90, 0.3, "sqrt", 0.05)), 100, 1),
    "wsd_cosine": (decay_at_end(33, 0.5, "cosine", 0.1), 33, 1),
}
PLATEAU_CASES = {
    "lower": dict(mode="min", factor=0.5, patience=2),
    "cooldown": dict(mode="min", factor=0.1, patience=0, cooldown=3, min_lr=1e-3),
    "higher": dict(mode="max", factor=0.3, patience=1, threshold=0.05, min_lr=1e-6),
}


def schedules():
    out = {}
    for name, (build, steps, unit) in SCHEDULE_CASES.items():
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=LR)
        scheduler = build(optimizer)
        rates = []
        for step in range(steps):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            if (step + 1) % unit == 0:
                scheduler.step()
        out[name] = doubles(rates)
    generator = torch.Generator().manual_seed(3)
    metrics = (torch.rand(60, generator=generator, dtype=torch.float64) + doubles([1.0 / (1 + i) for i in range(60)]))
    metrics[30] = math.nan
    out["plateau.metrics"] = metrics
    for name, arguments in PLATEAU_CASES.items():
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=LR)
        scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, **arguments)
        rates = []
        for metric in metrics.tolist():
            scheduler.step(metric)
            rates.append(optimizer.param_groups[0]["lr"])
        out[f"plateau.{name}"] = doubles(rates)
    return out


def clipping():
    generator = torch.Generator().manual_seed(5)
    gradients = [torch.randn(shape, generator=generator) for shape in [(300, 40), (7,), (16, 3, 3, 3), (), (70000,)]]
    out = {f"gradient.{i}": g for i, g in enumerate(gradients)}
    broken = [g.clone() for g in gradients]
    broken[1][3] = math.inf
    for name, values, max_norm in [("tight", gradients, 0.5), ("loose", gradients, 1e6), ("infinite", broken, 1.0)]:
        parameters = [torch.zeros_like(g, requires_grad=True) for g in values]
        for parameter, value in zip(parameters, values):
            parameter.grad = value.clone()
        out[f"{name}.norm"] = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
        out |= {f"{name}.{i}": p.grad for i, p in enumerate(parameters)}
    return out


def averaging():
    generator = torch.Generator().manual_seed(9)
    module = torch.nn.Linear(5, 3)
    averaged = torch.optim.swa_utils.AveragedModel(module, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    out = {}
    for step in range(12):
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
                out[f"{step}.{name}"] = parameter.detach().clone()
        averaged.update_parameters(module)
    return out | {f"average.{name}": p for name, p in averaged.module.named_parameters()}


SCALING_CASES = {
    # name: (GradScaler's arguments, steps whose gradient is infinite)
    "growing": (dict(init_scale=16.0, growth_interval=3), [5, 6, 17]),
    "falling": (dict(init_scale=65536.0, growth_factor=3.0, backoff_factor=0.25, growth_interval=2), list(range(12)) + [20]),
    "at_the_limit": (dict(init_scale=2.0**125, growth_interval=1), [9]),
}


def scaling():
    out = {}
    for name, (arguments, overflows) in SCALING_CASES.items():
        scaler = torch.amp.GradScaler("cpu", **arguments)
        weight = torch.tensor([1.0, 2.0], requires_grad=True)
        optimizer = torch.optim.AdamW([weight], lr=0.01, weight_decay=0.0)
        scales, weights = [], []
        for step in range(30):
            optimizer.zero_grad()
            slope = math.inf if step in overflows else 1e-3 * (step + 1)
            scaler.scale((weight * slope).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            scales.append(scaler.get_scale())
            weights.append(weight.detach().clone())
        out[f"{name}.overflows"] = torch.tensor(overflows)
        out[f"{name}.scales"] = doubles(scales)
        out[f"{name}.weights"] = torch.stack(weights)
    return out


if __name__ == "__main__":
    torch.set_num_threads(1)
    parts = {f.__name__: f for f in (training, matrices, schedules, clipping, averaging, scaling)}
    if sys.argv[1] == "all":
        tensors = {f"{name}/{key}": value for name, part in parts.items() for key, value in part().items()}
    else:
        tensors = parts[sys.argv[1]]()
    write_safetensors(sys.argv[2], tensors)
