"""Two ranks by every launcher give the same losses, bit for bit; who fails or is killed is named; manifests are what Kubernetes takes."""
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import stat
import subprocess
import unittest

from trainctl_process import ROOT, TRAINCTL, metrics, temporary_directory, write_experiment
from nodes import Nodes, may_make_namespaces
from waits import PATIENCE_S, ReservedPort, catches, is_running, num_records, wait_for

LAUNCH = ROOT / "scripts/launch"
PYTHON = ROOT / ".deps/python/bin/python3"
EXPERIMENT = """
name: launched
seed: 5
dataset: {kind: synthetic_images, num_samples: 256, num_eval_samples: 32, channels: 1, height: 8, width: 8, num_classes: 4, batch_size: 8, num_workers: 1}
model: {kind: cnn, channels: [4], hidden: 16}
task: {kind: classification}
optimizer: {kind: adamw, lr: 2e-3}
train: {steps: 30, eval_every: 15, log_every: 1}
checkpoint: {every: 15}
tracking: {tensorboard: false}
device: {kind: cpu, num_threads: 1}
distributed: {timeout_s: 120}
"""
SLOW = EXPERIMENT.replace("steps: 30", "steps: 200000").replace("checkpoint: {every: 15}", "checkpoint: {every: 100000}")
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

FAKE_SRUN = """#!/usr/bin/env bash
# Two tasks on one node, with what Slurm tells them.
while [[ $1 == --* ]]; do shift; done
for task in 0 1; do
  env SLURM_JOB_ID=$$ SLURM_STEP_ID=0 SLURM_PROCID=$task SLURM_LOCALID=$task SLURM_NODEID=0 SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=2 \\
    SLURM_NNODES=1 SLURM_STEP_TASKS_PER_NODE=2 SLURM_STEP_NODELIST=localhost SLURM_NODELIST=localhost "$@" &
  pids+=($!)
done
code=0
for pid in "${pids[@]}"; do wait "$pid" || code=$?; done
exit $code
"""


def clean_environment(**more):
    kept = {k: v for k, v in os.environ.items() if k not in LAUNCHERS and not k.startswith(("SLURM_", "OMPI_", "PMI", "TORCHELASTIC"))}
    return {**kept, "TRAINCTL": TRAINCTL, "OMP_NUM_THREADS": "1", **more}


class Launch(unittest.TestCase):
    def setUp(self):
        self.temporary = temporary_directory()
        self.addCleanup(self.temporary.cleanup)
        self.root = pathlib.Path(self.temporary.name)
        self.config = write_experiment(self.root, EXPERIMENT)
        self.slow = write_experiment(self.root, SLOW, "slow.yaml")

    def launch(self, command, timeout=PATIENCE_S, **env):
        result = subprocess.run([*map(str, command)], cwd=self.root, env=clean_environment(**env), capture_output=True, text=True,
                                timeout=timeout)
        return result

    def reference(self):
        """Two ranks by --nproc."""
        if not (self.root / "nproc").exists():
            result = self.launch([TRAINCTL, "train", self.config, "--nproc", 2, "--run-dir", self.root / "nproc"])
            self.assertEqual(result.returncode, 0, result.stderr)
        return metrics(self.root / "nproc")

    def expect_the_same(self, directory, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(metrics(directory), self.reference())

    def test_nproc_shows_the_first_rank_and_logs_the_other(self):
        result = self.launch([TRAINCTL, "train", self.config, "--nproc", 2, "--run-dir", self.root / "nproc", "--json"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["outcome"], "finished")
        self.assertIn("30", (self.root / "nproc/logs/rank_1.log").read_text())
        self.assertEqual(len([r for r in metrics(self.root / "nproc") if r["event"] == "step"]), 30)

    def test_torchrun_gives_the_same_losses(self):
        result = self.launch([LAUNCH / "torchrun.sh", self.config, "--run-dir", self.root / "torchrun"], NPROC="2",
                             TORCHRUN=f"{shlex.quote(str(PYTHON))} -m torch.distributed.run")
        self.expect_the_same(self.root / "torchrun", result)

    def test_mpirun_gives_the_same_losses(self):
        if shutil.which("mpirun") is None:
            self.skipTest("no mpirun here (openmpi-bin)")
        mpirun = "mpirun --oversubscribe" + (" --allow-run-as-root" if os.geteuid() == 0 else "")
        result = self.launch([LAUNCH / "mpirun.sh", self.config, "--run-dir", self.root / "mpirun"], NPROC="2", MPIRUN=mpirun)
        self.expect_the_same(self.root / "mpirun", result)
        named = self.launch([LAUNCH / "mpirun.sh", self.config, "--run-dir", self.root / "named"], NPROC="2", MPIRUN=mpirun,
                            MASTER_ADDR="127.0.0.1", MASTER_PORT=str(self.enterContext(ReservedPort())))
        self.expect_the_same(self.root / "named", named)
        if (pathlib.Path(TRAINCTL).parent.parent / "lib/libtrainctl_mpi.so").exists():
            over_mpi = self.launch([LAUNCH / "mpirun.sh", self.config, "--run-dir", self.root / "mpi", "--set", "distributed.backend=mpi"],
                                   NPROC="2", MPIRUN=mpirun)
            self.expect_the_same(self.root / "mpi", over_mpi)

    def test_mpirun_hands_the_libraries_variables_on(self):
        shown = subprocess.run([LAUNCH / "mpirun.sh", "config.yaml"], env={"PATH": os.environ["PATH"], "MPIRUN": "printf '%s '", "NCCL_DEBUG": "INFO", "TRAINCTL": "/a b"},
                               capture_output=True, text=True)
        self.assertEqual(shown.stdout, "-n 2 --bind-to none -x NCCL_DEBUG /a b train config.yaml ", shown.stderr)

    def test_slurm_gives_the_same_losses(self):
        script = LAUNCH / "slurm.sbatch"
        self.assertEqual(subprocess.run(["bash", "-n", script]).returncode, 0)
        srun = self.root / "bin/srun"
        srun.parent.mkdir()
        srun.write_text(FAKE_SRUN)
        srun.chmod(srun.stat().st_mode | stat.S_IXUSR)
        result = self.launch(["bash", script, self.config, "--run-dir", self.root / "slurm"], PATH=f"{srun.parent}:{os.environ['PATH']}")
        self.expect_the_same(self.root / "slurm", result)

    def test_two_nodes_give_the_same_losses(self):
        if not may_make_namespaces():
            self.skipTest("network namespaces need root and iproute2")
        with Nodes() as nodes:
            for name, more in (("routed", []), ("interface", None)):
                directory = self.root / name
                ranks = []
                for rank in range(2):
                    options = more if more is not None else ["--set", f"distributed.network_interface={nodes.interfaces[rank]}"]
                    ranks.append(nodes.start(rank, [TRAINCTL, "train", self.config, "--run-dir", directory, *options], clean_environment(
                        RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="10.98.76.1", MASTER_PORT="29500")))
                outputs = [rank.communicate(timeout=PATIENCE_S)[0] for rank in ranks]
                if more is None:  # the interfaces' names differ between the nodes, and so do the configs
                    self.assertIn("another distributed.network_interface", outputs[1])
                    continue
                self.assertEqual([rank.returncode for rank in ranks], [0, 0], outputs)
                self.assertEqual(metrics(directory), self.reference())

    def test_ranks_with_other_configs_are_named(self):
        port = str(self.enterContext(ReservedPort()))
        ranks = [subprocess.Popen([TRAINCTL, "train", self.config, "--run-dir", self.root / "differ", "--set", f"optimizer.lr={lr}"],
                                  env=clean_environment(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2",
                                                        MASTER_ADDR="127.0.0.1", MASTER_PORT=port),
                                  stderr=subprocess.PIPE, text=True) for rank, lr in enumerate(("1e-3", "2e-3"))]
        for rank in ranks:
            _, error = rank.communicate(timeout=PATIENCE_S)
            self.assertEqual(rank.returncode, 1)
            self.assertIn("rank 1 on ", error.splitlines()[-2])
            self.assertIn("has another optimizer.lr (0.002) than rank 0", error.splitlines()[-2])

    def test_a_rank_with_another_build_is_named(self):
        original = pathlib.Path(TRAINCTL).parent.parent
        other = self.root / "other"
        for file in ("bin/trainctl", "lib/libtrainctl_engine.so", "lib/libtrainctl_tokenize.so"):
            (other / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(original / file, other / file)
        engine = other / "lib/libtrainctl_engine.so"
        notes = subprocess.run(["readelf", "-n", engine], capture_output=True, text=True, check=True).stdout
        build = bytes.fromhex(re.search(r"Build ID: (\w+)", notes)[1])
        data = engine.read_bytes()
        self.assertEqual(data.count(build), 1)
        engine.write_bytes(data.replace(build, bytes(len(build))))
        port = str(self.enterContext(ReservedPort()))
        ranks = [subprocess.Popen([program, "train", self.config, "--run-dir", self.root / "built"],
                                  env=clean_environment(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2",
                                                        MASTER_ADDR="127.0.0.1", MASTER_PORT=port),
                                  stderr=subprocess.PIPE, text=True) for rank, program in enumerate((TRAINCTL, other / "bin/trainctl"))]
        for rank in ranks:
            _, error = rank.communicate(timeout=PATIENCE_S)
            self.assertEqual(rank.returncode, 1)
            self.assertIn("has another build (0000", error)

    def test_half_an_environment_is_refused(self):
        result = self.launch([TRAINCTL, "train", self.config], RANK="0")
        self.assertEqual(result.returncode, 1)
        self.assertIn("WORLD_SIZE is not set", result.stderr)
        result = self.launch([TRAINCTL, "train", self.config, "--nproc", 2], WORLD_SIZE="4", RANK="1")
        self.assertIn("--nproc starts the ranks itself", result.stderr)


class Faults(unittest.TestCase):
    def setUp(self):
        self.temporary = temporary_directory()
        self.addCleanup(self.temporary.cleanup)
        self.root = pathlib.Path(self.temporary.name)
        self.slow = write_experiment(self.root, SLOW, "slow.yaml")
        self.run_directory = self.root / "run"

    def start(self, num_ranks=2, *options):
        return self.watch([TRAINCTL, "train", self.slow, "--nproc", num_ranks, "--run-dir", self.run_directory, "--no-progress", *options])

    def watch(self, command, **env):
        """A run that has made a few steps."""
        process = subprocess.Popen([*map(str, command)], env=clean_environment(**env), stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        wait_for(lambda: num_records(self.run_directory) >= 5, process)
        return process

    def ranks(self):
        """Process ids by rank, whoever started them."""
        found = {}
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                is_ours = str(self.run_directory).encode() in (process / "cmdline").read_bytes()
                variables = (process / "environ").read_bytes().split(b"\0") if is_ours else []
            except (FileNotFoundError, ProcessLookupError, PermissionError):  # it has ended meanwhile
                continue
            found.update({int(v[5:]): int(process.name) for v in variables if v.startswith(b"RANK=")})
        return found

    def ended(self, process):
        """What the run says, once it has ended by itself."""
        return process.communicate(timeout=PATIENCE_S)[1]

    def test_a_killed_rank_is_named_and_the_rest_end(self):
        process = self.start(3)
        os.kill(self.ranks()[1], signal.SIGKILL)
        error = self.ended(process)
        self.assertEqual(process.returncode, 128 + signal.SIGKILL)
        self.assertIn("rank 1 was ended by signal 9", error)
        self.assertRegex(error, r"trainctl: rank 1 on \S+ is gone \(killed\?\) since step \d+")
        self.assertRegex((self.run_directory / "logs/rank_2.log").read_text(), r"trainctl: rank 1 on \S+ is gone \(killed\?\) since step \d+\n$")
        self.assertIn("all_reduce", (self.run_directory / "logs/collectives_rank_0.txt").read_text())
        self.assertRegex(json.loads((self.run_directory / "summary.json").read_text())["error"], "rank 1 on .* is gone")

    def test_the_first_rank_killed_is_named(self):
        process = self.start(2)
        os.kill(self.ranks()[0], signal.SIGKILL)
        error = self.ended(process)
        self.assertEqual(process.returncode, 128 + signal.SIGKILL)
        self.assertIn("rank 0 was ended by signal 9", error.splitlines()[-1])
        self.assertRegex((self.run_directory / "logs/rank_1.log").read_text().splitlines()[-1], r"rank 0 on \S+ is gone")

    def test_a_rank_killed_under_torchrun_is_named(self):
        process = self.watch([LAUNCH / "torchrun.sh", self.slow, "--run-dir", self.run_directory], NPROC="2",
                             TORCHRUN=f"{shlex.quote(str(PYTHON))} -m torch.distributed.run")
        for pid in self.ranks().values():  # Python's launchers give it back: a write to the killed one would end the others
            self.assertTrue(catches(pid, signal.SIGPIPE))
        os.kill(self.ranks()[1], signal.SIGKILL)
        error = self.ended(process)
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(error, r"trainctl: rank 1 on \S+ is gone \(killed\?\) since step \d+")

    def test_torchrun_starts_a_killed_rank_again_and_the_run_goes_on(self):
        process = self.watch([LAUNCH / "torchrun.sh", self.slow, "--run-dir", self.run_directory, "--resume", "never", "--set", "train.steps=2000",
                              "--set", "checkpoint.every=5"], NPROC="2", RESTARTS="2", TORCHRUN=f"{shlex.quote(str(PYTHON))} -m torch.distributed.run")
        wait_for(lambda: len(list((self.run_directory / "checkpoints").glob("step_*"))) > 1, process)
        os.kill(self.ranks()[0], signal.SIGKILL)
        error = self.ended(process)
        self.assertEqual(process.returncode, 0, error)
        self.assertRegex(error, r"resumed after step \d+")
        self.assertEqual([r["step"] for r in metrics(self.run_directory) if r["event"] == "step"], list(range(1, 2001)))

    def test_sigterm_to_torchrun_saves(self):
        process = self.watch([LAUNCH / "torchrun.sh", self.slow, "--run-dir", self.run_directory], NPROC="2",
                             TORCHRUN=f"{shlex.quote(str(PYTHON))} -m torch.distributed.run")
        process.send_signal(signal.SIGTERM)
        error = self.ended(process)
        self.assertTrue(any((self.run_directory / "checkpoints").glob("step_*")), error)
        self.assertEqual(json.loads((self.run_directory / "summary.json").read_text())["outcome"], "stopped")

    def test_a_stopped_rank_is_named_at_the_timeout(self):
        process = self.start(2, "--set", "distributed.timeout_s=15")
        os.kill(self.ranks()[1], signal.SIGSTOP)
        error = self.ended(process)
        self.assertEqual(process.returncode, 1)
        # A run of a few steps may be younger than the second heartbeat, which would tell of the first collectives.
        self.assertRegex(error, r"trainctl: rank 1 on \S+ hangs: no sign of life since step \d+; (.*#\d+ of|no collective in) all ranks")

    def test_sigterm_saves_and_all_ranks_end(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number):
                self.run_directory = self.root / f"stopped-{number}"
                process = self.start(2)
                process.send_signal(number)
                error = self.ended(process)
                self.assertEqual(process.returncode, 128 + number, error)
                self.assertTrue(any((self.run_directory / "checkpoints").glob("step_*")))

    def test_ranks_end_with_their_parent(self):
        process = self.start(2)
        ranks = self.ranks()
        process.kill()
        process.wait()
        wait_for(lambda: not any(map(is_running, ranks.values())))


if __name__ == "__main__":
    unittest.main()
