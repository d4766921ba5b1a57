"""What qemu 7.2 itself computes wrongly: named here, so that the table says so instead of blaming the program.

oneDNN's LSTM for AVX2 (rnn,brgemm:avx2) gives the reference's values on CPUs, also where ONEDNN_MAX_CPU_ISA=AVX2 holds one to it, and other
values in qemu 7.2. With ONEDNN_MAX_CPU_ISA=AVX the emulated CPU gives the reference's values, too.
"""


def has_the_lstm_fault(cpu):
    return cpu.is_emulated and cpu.has_avx2


def in_losses(cpu, network):
    """What a cell says in place of a comparison, or None."""
    return "values not compared, qemu's LSTM is wrong" if has_the_lstm_fault(cpu) and network == "lstm" else None


def tests_that_see_it(cpu, name):
    """Patterns of Catch2 tests that fail for such a fault."""
    return ["an LSTM computes in eight bits*"] if has_the_lstm_fault(cpu) and name == "test_quantization" else []
