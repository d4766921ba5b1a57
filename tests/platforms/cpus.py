"""The CPUs of the matrix: this machine's own, and CPU models that qemu emulates."""
import dataclasses
import pathlib
import shutil
import subprocess

EMULATOR = "qemu-x86_64-static"  # Debian's qemu-user-static


@dataclasses.dataclass(frozen=True)
class Cpu:
    name: str  # of the test: platform_NAME
    title: str  # of the column in docs/platforms.md
    model: str | None = None  # qemu's name for it; None: this machine's own CPU

    @property
    def is_emulated(self):
        return self.model is not None

    @property
    def has_avx2(self):
        return self.model != "Nehalem" if self.is_emulated else "avx2" in features_of_this_machine()

    def runner(self):
        """What comes before the program's own arguments."""
        return [EMULATOR, "-cpu", self.model] if self.is_emulated else []

    def reason_to_skip(self):
        """Why this CPU can't be had here, or None."""
        if self.is_emulated and shutil.which(EMULATOR) is None:
            return f"{EMULATOR} is not installed (Debian's qemu-user-static)"
        return None


NATIVE = Cpu("native", "native")
LACKS = "this CPU has no"  # how a cell of this machine's own CPU begins its reason; another machine's may have it
CPUS = [
    NATIVE,
    Cpu("nehalem", "Nehalem (Intel, SSE4.2)", "Nehalem"),
    Cpu("haswell", "Haswell (Intel, AVX2)", "Haswell"),
    Cpu("epyc_rome", "EPYC-Rome (AMD, AVX2)", "EPYC-Rome"),
]


def features_of_this_machine():
    """The names of /proc/cpuinfo's flags."""
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return frozenset(line.split(":", 1)[1].split())
    return frozenset()


def describe(cpu):
    """The vendor and the vector features of this machine's CPU, or the emulator's version."""
    if cpu.is_emulated:
        first = subprocess.run([EMULATOR, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
        return f"{cpu.model} by qemu {first.split('version ')[1].split()[0]}"
    vendor = next((line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("vendor_id")), "unknown vendor")
    telling = ["sse4_2", "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni", "amx_tile", "amx_bf16", "amx_int8"]
    return f"{vendor}: " + ", ".join(name for name in telling if name in features_of_this_machine())
