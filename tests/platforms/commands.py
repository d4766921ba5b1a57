"""The commands of the matrix: the rows of the table in docs/platforms.md."""
import dataclasses
import functools
import typing

import serving
import training
import unit_tests
from networks import NETWORKS

AVX512 = {"avx512f", "avx512bw", "avx512dq", "avx512vl"}


@dataclasses.dataclass(frozen=True)
class Command:
    """run(machine) returns what the table's cell says besides, or raises Failure or Skipped."""
    name: str
    run: typing.Callable
    needs: tuple = ()  # names of commands whose files it reads
    cost: int = 1  # beside others, emulated: the longest begin first


def of_networks():
    for name, network in NETWORKS.items():
        train = f"train {name}"
        yield Command(train, functools.partial(training.train, name=name), cost=4 if network.is_large else 2)
        yield Command(f"plan and peak of {name}", functools.partial(training.planned_peak, name=name), needs=(train,))
        if not network.is_large:
            yield Command(f"resume {name} in bf16", functools.partial(training.resume_in_bf16, name=name), needs=(train,))


def of_serving():
    for name, served in serving.SERVED.items():
        before = f"train {served.network}"
        if served.method:
            yield Command(f"quantize {name}", functools.partial(serving.quantize, name=name), needs=(before,))
            before = f"quantize {name}"
        export = f"export {name} to ONNX"
        yield Command(export, functools.partial(serving.export_onnx, name=name), needs=(before,))
        yield Command(f"predict {name}", functools.partial(serving.predict, name=name), needs=(export,))
        if served.network == "cnn":
            yield Command(f"ONNX Runtime on {name}", functools.partial(serving.run_onnx_runtime, name=name), needs=(export,))
    yield Command("predict cnn static from TorchScript", functools.partial(serving.predict_from_archive, name="cnn static"), needs=("quantize cnn static",))


def of_unit_tests():
    yield Command("test_kernels", functools.partial(unit_tests.run_tests, name="test_kernels"), cost=3)
    yield Command("test_quantization", functools.partial(unit_tests.run_tests, name="test_quantization"), cost=3)
    yield Command("test_exporters of eight bits as ONNX", functools.partial(unit_tests.run_tests, name="test_exporters", only=unit_tests.EXPORTS), cost=3)
    for features, label, test in [(AVX512, "AVX-512", "test_kernels"), (AVX512 | {"avx512_vnni"}, "AVX-512 VNNI", "test_quantization"),
                                  ({"amx_tile", "amx_bf16"}, "AMX", "test_kernels")]:
        yield Command(f"{test} with {label}", functools.partial(unit_tests.expect_features, features=features), needs=(test,))


COMMANDS = [
    Command("check", training.check),
    *of_networks(),
    Command("resume mlp to the bit", training.resume_to_the_bit, needs=("train mlp",)),
    Command("plan with measured rates", training.plan, cost=3),
    Command("data bench of JPEG, PNG, WebP", training.data_bench),
    *of_serving(),
    *of_unit_tests(),
]
