"""Update rules that optimizers.py compares with, where stock PyTorch has none, or only part of one."""
import muon
import torch


class Lamb(torch.optim.Optimizer):
    """Algorithm 2 of https://arxiv.org/abs/1904.00962 in plain Python, after timm.optim.Lamb and NVIDIA's FusedLAMB: the trust
    ratio applies to groups with `adapt`, and is limited to max_trust_ratio."""

    def __init__(self, groups, lr, betas=(0.9, 0.999), eps=1e-6, max_trust_ratio=10.0):
        super().__init__(groups, dict(lr=lr, betas=betas, eps=eps, max_trust_ratio=max_trust_ratio, weight_decay=0.0, adapt=True))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["t"] += 1
                t, g = state["t"], p.grad
                state["m"] = beta1 * state["m"] + (1 - beta1) * g
                state["v"] = beta2 * state["v"] + (1 - beta2) * g * g
                update = (state["m"] / (1 - beta1**t)) / ((state["v"] / (1 - beta2**t)).sqrt() + group["eps"])
                update = update + group["weight_decay"] * p
                ratio = 1.0
                if group["adapt"]:
                    weight_norm, update_norm = p.norm().item(), update.norm().item()
                    if weight_norm > 0 and update_norm > 0:
                        ratio = min(weight_norm / update_norm, group["max_trust_ratio"])
                p.sub_(group["lr"] * ratio * update)


HIDDEN = ("conv1.weight", "conv2.weight", "hidden.weight")


class StockMuon:
    """torch.optim.Muon for the hidden matrices, and torch.optim.AdamW for the other parameters."""

    def __init__(self, parameters, decays, lr, adamw, **arguments):
        hidden = [parameters[name] for name in HIDDEN]
        others = [{"params": [p], "weight_decay": decays[name]} for name, p in parameters.items() if name not in HIDDEN]
        self.parts = [torch.optim.Muon(hidden, lr=lr, weight_decay=decays[HIDDEN[0]], **arguments), torch.optim.AdamW(others, **adamw)]

    def zero_grad(self):
        for part in self.parts:
            part.zero_grad()

    def step(self):
        for part in self.parts:
            part.step()


class PackagedMuon(muon.SingleDeviceMuonWithAuxAdam):
    """The author's package."""

    def __init__(self, parameters, decays, lr, adamw, **arguments):
        super().__init__([{"params": [p], "use_muon": name in HIDDEN, "weight_decay": decays[name]}
                          | (arguments | {"lr": lr} if name in HIDDEN else adamw) for name, p in parameters.items()])
