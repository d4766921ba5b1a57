"""Commands of the matrix: the tests of kernels and quantization, without those that take minutes emulated."""
import re

import emulator_faults
from cpus import LACKS, features_of_this_machine
from machine import TRAINCTL, Failure, Skipped, message_of

# Left out where the CPU is emulated: each takes more than half a minute there.
LONG = {
    "test_kernels": ["chunked cross-entropy takes less than half*", "attention of short sequences and its gradients*"],
    "test_quantization": ["every engine gives the same levels", "a quantized model comes back from disk*", "a sweep names the layer*", "damaged quantized models*",
                          "layers stay in float by name*", "int8 gives what training for it saw"],
}

# Without AVX2, LibTorch has QNNPACK alone: its linear layers round their outputs, and the engine x86 is refused. These tests name x86.
NAME_X86 = {"test_quantization": ["int8 of a network for text gives*"]}

EXIT_SKIPPED = 77  # as in tests/support/main.cpp
EXPORTS = ["eight bits of language models*", "a first layer of floats*"]  # of test_exporters: engines against ONNX Runtime


def run_tests(machine, name, only=()):
    """Runs a program of tests: those named, or all but the long ones."""
    has_x86 = machine.cpu.has_avx2
    if name == "test_exporters" and not has_x86:
        own = "" if machine.cpu.is_emulated else f"{LACKS} AVX2: "
        raise Skipped(f"{own}without AVX2 LibTorch lacks the engine x86, which these tests name")
    left_out = [*LONG[name], *emulator_faults.tests_that_see_it(machine.cpu, name)] if machine.cpu.is_emulated and not only else []
    left_out += [] if has_x86 else NAME_X86.get(name, [])
    filters = [",".join(only)] if only else [f"~{test}" for test in left_out]
    result = machine.program(TRAINCTL.parent / name, *filters)
    if result.returncode == EXIT_SKIPPED:
        raise Skipped("; ".join(re.findall(r"^SKIPPED: .* -- (.+)$", result.stdout, re.MULTILINE)))
    if result.returncode != 0:
        raise Failure(f"exit {result.returncode}: {message_of(result)}")
    counted = re.search(r"in (\d+) test cases?", result.stdout)
    if counted is None:
        raise Failure("no test ran")
    return f"{counted[1]} tests" + (f", {len(left_out)} left out" if left_out else "")


def expect_features(machine, features):
    """That the tests, which have passed, ran with instruction sets that qemu doesn't emulate."""
    if machine.cpu.is_emulated:
        raise Skipped("qemu doesn't emulate it")
    if missing := features - features_of_this_machine():
        raise Skipped(f"{LACKS} {', '.join(sorted(missing))}")
