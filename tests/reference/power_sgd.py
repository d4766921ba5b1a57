"""What torch's powerSGD_hook makes of given gradients on two ranks: `power_sgd.py rank1|rank3 OUTPUT.safetensors`.

For each step `<step>.<rank>.<name>` are a rank's gradients and `<step>.mean.<name>` what DDP makes of them; `q.<name>` is what the hook
begins with. Exit code 77: PyTorch can't be imported.
"""
import multiprocessing
import os
import sys
import tempfile

try:
    import numpy
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
except ImportError as error:
    print(f"PyTorch can't be imported: {error}", file=sys.stderr)
    sys.exit(77)

from optimizers import write_safetensors

SHAPES = {"wide": (12, 40), "tall": (30, 8), "kernel": (16, 4, 3, 3), "small": (3, 3), "bias": (12,)}
STEPS, START, RANKS = 6, 2, 2


class Sloped(torch.nn.Module):
    """A loss whose gradients are what they are told to be."""

    def __init__(self):
        super().__init__()
        for name, shape in SHAPES.items():
            setattr(self, name, torch.nn.Parameter(torch.zeros(shape, dtype=torch.float64)))

    def forward(self, slopes):
        return sum((getattr(self, name) * slope).sum() for name, slope in slopes.items())


def gradients(step, rank):
    generator = torch.Generator().manual_seed(100 * step + rank)
    return {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in SHAPES.items()}


def first_qs(state, bucket, names):
    """As the hook is about to draw them."""
    generator = numpy.random.RandomState()
    generator.set_state(state.rng.get_state())
    by_shape, qs = {}, {}
    for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
        n, m = gradient.shape[0], gradient[0].numel()
        rank = min(n, m, state.matrix_approximation_rank)
        if gradient.dim() > 1 and (n + m) * rank * state.min_compression_rate < n * m:
            by_shape.setdefault((n, m), []).append(names[id(parameter)])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator.randint(1_000_000_000))
        for (n, m), group in by_shape.items():
            for name in group:
                qs[name] = torch.randn(1, m, min(n, m, state.matrix_approximation_rank), dtype=torch.float64)[0]
    return qs


def work(rank, store, approximation, output):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    module = Sloped()
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    model = torch.nn.parallel.DistributedDataParallel(module)
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=approximation, start_powerSGD_iter=START)
    out = {}

    def hook(state, bucket):
        if state.iter == START:
            out.update({f"q.{name}": q for name, q in first_qs(state, bucket, names).items()})
        return powerSGD_hook.powerSGD_hook(state, bucket)

    model.register_comm_hook(state, hook)
    for step in range(STEPS):
        model.zero_grad()
        model(gradients(step, rank)).backward()
        for name, parameter in module.named_parameters():
            out[f"{step}.mean.{name}"] = parameter.grad.clone()
        for each in range(RANKS):
            out.update({f"{step}.{each}.{name}": gradient for name, gradient in gradients(step, each).items()})
    if rank == 0:
        write_safetensors(output, out)
    dist.barrier()
    # Without destructors: DDP's joins Gloo's thread and holds the interpreter's lock, for which that thread may wait.
    os._exit(0)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        arguments = (f"{directory}/store", int(sys.argv[1].removeprefix("rank")), sys.argv[2])
        fork = multiprocessing.get_context("fork")
        ranks = [fork.Process(target=work, args=(rank, *arguments)) for rank in range(RANKS)]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
    sys.exit(max(process.exitcode != 0 for process in ranks))
