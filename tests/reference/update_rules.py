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


class Soap(torch.optim.Optimizer):
    """Algorithm 3 of https://arxiv.org/abs/2409.11321 in plain Python, with the details of the authors' soap.py: no update in the first step, one
    preconditioner for each dim, and eigenbases that change by power iteration and QR. Unlike soap.py it computes eigenvectors in the weights' type,
    and turns the average only when a basis changes."""

    def __init__(self, groups, lr, betas=(0.95, 0.95), shampoo_beta=None, eps=1e-8, precondition_frequency=10, max_precond_dim=10000,
                 precondition_1d=False):
        super().__init__(groups, dict(lr=lr, betas=betas, shampoo_beta=betas[1] if shampoo_beta is None else shampoo_beta, eps=eps, weight_decay=0.0,
                                      frequency=precondition_frequency, largest=max_precond_dim, precondition_1d=precondition_1d))

    @staticmethod
    def project(tensor, bases, side):
        for basis in bases:
            tensor = tensor.movedim(0, -1) if basis is None else torch.tensordot(tensor, basis, dims=[[0], [side]])
        return tensor

    @staticmethod
    def precondition(state, g, beta):
        for dim, preconditioner in enumerate(state["L"]):
            if preconditioner is not None:
                others = [other for other in range(g.ndim) if other != dim]
                preconditioner.lerp_(torch.tensordot(g, g, dims=[others, others]), 1 - beta)

    def turn(self, state):
        unrotated = self.project(state["m"], state["Q"], side=1)
        for dim, (preconditioner, basis) in enumerate(zip(state["L"], state["Q"])):
            if basis is not None:
                order = torch.argsort(torch.diag(basis.T @ preconditioner @ basis), descending=True)
                state["v"] = state["v"].index_select(dim, order)
                state["Q"][dim] = torch.linalg.qr(preconditioner @ basis[:, order])[0]
        state["m"] = self.project(unrotated, state["Q"], side=0)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state, g = self.state[p], p.grad
                if not state:
                    rotates = p.ndim > 1 or group["precondition_1d"]
                    state.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                    state["L"] = [torch.zeros(n, n, dtype=p.dtype) if rotates and n <= group["largest"] else None for n in p.shape]
                    self.precondition(state, g, group["shampoo_beta"])
                    state["Q"] = [None if one is None else torch.linalg.eigh(one)[1].flip(1) for one in state["L"]]
                    continue
                state["t"] += 1
                t = state["t"]
                projected = self.project(g, state["Q"], side=0)
                state["m"].mul_(beta1).add_(projected, alpha=1 - beta1)
                state["v"].mul_(beta2).add_(projected.square(), alpha=1 - beta2)
                step_size = group["lr"] * (1 - beta2**t) ** 0.5 / (1 - beta1**t)
                p.add_(self.project(state["m"] / state["v"].sqrt().add_(group["eps"]), state["Q"], side=1), alpha=-step_size)
                p.add_(p, alpha=-group["lr"] * group["weight_decay"])
                self.precondition(state, g, group["shampoo_beta"])
                if t % group["frequency"] == 0:
                    self.turn(state)


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
