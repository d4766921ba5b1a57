"""What goes wrong around a run, and what a user is told of it: files that change, runs that are started again, data without targets."""
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import unittest

from trainctl_process import TRAINCTL, InScratch, newest_checkpoint, run, start, write_experiment, write_images
from waits import PATIENCE_S, ReservedPort, num_records, wait_for

TINY = """
name: tiny
seed: 1
dataset: {kind: synthetic_images, num_samples: 64, num_eval_samples: 16, channels: 1, height: 8, width: 8, num_classes: 4, batch_size: 8, num_workers: 1}
model: {kind: mlp, hidden: [16]}
train: {steps: 3, log_every: 1}
device: {kind: cpu, num_threads: 1}
"""
MASKED = """
name: masked
seed: 1
dataset: {kind: synthetic_tokens, num_samples: 64, num_eval_samples: 8, seq_len: 4, vocab_size: 50, mask_probability: 1e-300, batch_size: 4, num_workers: 1}
model: {kind: bert, hidden_size: 16, num_layers: 1, num_heads: 2, intermediate_size: 16, max_position_embeddings: 8}
task: {kind: masked_lm}
train: {steps: 3, log_every: 1}
device: {kind: cpu, num_threads: 1}
"""
TOKENS = """
name: tokens
seed: 1
dataset: {kind: tokenized, train: [tokens.bin], vocab_size: 50, seq_len: 64, batch_size: 4, num_workers: 1}
model: {kind: gpt2, hidden_size: 16, num_layers: 1, num_heads: 2, max_position_embeddings: 64}
task: {kind: causal_lm}
train: {steps: 1000000, log_every: 1}
device: {kind: cpu, num_threads: 1}
"""
PHOTOS = """
name: photos
dataset: {kind: image_folder, train: photos, batch_size: 1, num_workers: 1, cache_dir: lists, transforms: [{kind: center_crop, size: 8}]}
model: {kind: cnn, channels: [4], hidden: 8}
train: {epochs: 1}
device: {kind: cpu, num_threads: 1}
"""
TABLE = """
name: table
seed: 1
dataset: {kind: table, train: [rows.csv], label: y, eval_fraction: 0.2, missing_values: drop, batch_size: 4, num_workers: 1}
model: {kind: mlp, hidden: [8]}
train: {steps: 2}
device: {kind: cpu, num_threads: 1}
"""


class Faults(InScratch):
    def train(self, text, *more, name="exp.yaml"):
        return run("train", write_experiment(self.root, text, name), *more, cwd=self.root)

    def start(self, *arguments):
        process = start(*arguments, cwd=self.root)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def wait_for_records(self, process, directory, count):
        wait_for(lambda: num_records(directory) >= count, process)

    def test_replicas_start_together(self):
        config = write_experiment(self.root, TINY)
        for i in range(12):
            shutil.rmtree(self.root / "run", ignore_errors=True)
            result = run("train", config, "--run-dir", "run", "--no-progress", "--set", "distributed={kind: local_replicas, devices: 8}", cwd=self.root)
            self.assertEqual(result.returncode, 0, f"run {i}: {result.stderr}")

    def test_a_token_file_that_is_cut_short_is_told_in_a_line(self):
        (self.root / "tokens.bin").write_bytes(b"".join((i % 50).to_bytes(2, "little") for i in range(1 << 20)))
        process = self.start("train", write_experiment(self.root, TOKENS), "--run-dir", "run", "--no-progress")
        self.wait_for_records(process, self.root / "run", 3)
        os.truncate(self.root / "tokens.bin", 100)
        _, errors = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 1, errors[-500:])
        self.assertRegex(errors, r"trainctl: cannot read tokens.bin: it has become shorter since it was opened[^\n]*\n  try: ")

    def test_tokenized_text_that_is_cut_short_is_told_in_a_line(self):
        (self.root / "text.txt").write_text("some words of no meaning\n" * 100_000)
        text = TOKENS.replace("{kind: tokenized, train: [tokens.bin], vocab_size: 50,", "{kind: text_lm, train: {files: [text.txt]}, tokenizer: bytes, cache_dir: cache,")
        process = self.start("train", write_experiment(self.root, text), "--run-dir", "run", "--no-progress")
        self.wait_for_records(process, self.root / "run", 3)
        for shard in (self.root / "cache").rglob("shard_*.tokens"):
            os.truncate(shard, 100)
        _, errors = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 1, errors[-500:])
        self.assertRegex(errors, r"trainctl: cannot read \S+shard_00000.tokens: it has become shorter")

    def test_data_without_a_target_has_no_loss_and_no_metrics(self):
        result = self.train(MASKED, "--run-dir", "run")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("no sample of step 1 has a target", result.stderr)
        self.assertIn("no sample of the evaluation set has a target", result.stderr)
        self.assertRegex(result.stderr, r"\ntrainctl: none of the 3 steps changed the weights[^\n]*\n  try: ")
        records = [json.loads(line) for line in (self.root / "run/metrics.jsonl").read_text().splitlines()]
        self.assertNotIn("loss", records[0])
        self.assertEqual(records[2]["skipped_steps"], 3)

    def test_steps_that_overflow_are_recorded_as_skipped_and_a_run_of_nothing_else_fails(self):
        result = self.train(TINY, "--run-dir", "run", "--set", "train.steps=8", "--set", "amp={mode: fp16, loss_scaling: {init_scale: 1e30}}")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("none of the 8 steps changed the weights", result.stderr)
        records = [json.loads(line) for line in (self.root / "run/metrics.jsonl").read_text().splitlines()]
        steps = [record for record in records if record["event"] == "step"]
        self.assertEqual([record["skipped_steps"] for record in steps], list(range(1, 9)))
        self.assertFalse(any("loss" in record for record in steps), steps)
        self.assertEqual(json.loads((self.root / "run/summary.json").read_text())["outcome"], "failed")

    def test_files_are_made_by_the_umask(self):
        config = write_experiment(self.root, TINY)
        for umask, file_mode, directory_mode in ((0o077, 0o600, 0o700), (0o022, 0o644, 0o755)):
            directory = self.root / f"run_{umask:o}"
            done = subprocess.run([TRAINCTL, "train", config, "--run-dir", directory], capture_output=True, text=True, cwd=self.root, umask=umask)
            self.assertEqual(done.returncode, 0, done.stderr)
            for path in [directory, *directory.rglob("*")]:
                if not path.is_symlink():
                    self.assertEqual(path.stat().st_mode & 0o777, directory_mode if path.is_dir() else file_mode, path)

    def test_a_finished_run_that_is_started_again_stays_as_it_is(self):
        self.assertEqual(self.train(TINY, "--run-dir", "run").returncode, 0)
        before = {path.name: path.read_bytes() for path in (self.root / "run").iterdir() if path.is_file()}
        again = self.train(TINY, "--run-dir", "run", "--json")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("run has finished: it stands at step 3 of 3", again.stderr)
        self.assertEqual(json.loads(again.stdout), json.loads(before["summary.json"]))
        self.assertEqual(before, {path.name: path.read_bytes() for path in (self.root / "run").iterdir() if path.is_file()})
        longer = self.train(TINY, "--run-dir", "run", "--set", "train.steps=5")
        self.assertEqual(longer.returncode, 0, longer.stderr)
        self.assertEqual(newest_checkpoint(self.root / "run").name, "step_00000005")
        alone = run("train", "run", "--set", "train.steps=7", cwd=self.root)
        self.assertEqual(alone.returncode, 0, alone.stderr)
        self.assertIn("resuming run/checkpoints/step_00000005", alone.stderr)
        self.assertEqual(newest_checkpoint(self.root / "run").name, "step_00000007")
        (self.root / "run/summary.json").unlink()  # of a run that was killed
        past = run("train", "run", "--set", "train.steps=4", "--json", cwd=self.root)
        self.assertEqual(past.returncode, 1, past.stderr)
        self.assertIn("run is at step 7, past the end", past.stderr)
        (self.root / "empty").mkdir()
        wrong = run("train", "empty", cwd=self.root)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("this directory has no config.yaml", wrong.stderr)

    def test_of_all_unfinished_runs_the_one_of_this_config_goes_on(self):
        config = write_experiment(self.root, TINY)
        runs = []
        for lr in ("0.001", "0.002"):
            process = self.start("train", config, "--no-progress", "--set", "train.steps=1000000", "--set", f"optimizer.lr={lr}")
            runs += wait_for(lambda: [path for path in (self.root / "runs/tiny").glob("*") if path not in runs and num_records(path) > 0], process)
            process.terminate()
            process.communicate(timeout=PATIENCE_S)
            self.assertEqual(process.returncode, 143)
        process = self.start("train", config, "--no-progress", "--set", "train.steps=1000000", "--set", "optimizer.lr=0.001")
        told = "".join(itertools.takewhile(lambda line: not line.startswith("step "), process.stderr))
        process.terminate()
        process.communicate()
        self.assertIn(f"resuming {runs[0].relative_to(self.root)}", told)

    def test_a_run_directory_that_is_removed_is_made_anew_and_that_is_said(self):
        process = self.start("train", write_experiment(self.root, TINY), "--run-dir", "run", "--no-progress", "--set", "train.steps=1000000")
        self.wait_for_records(process, self.root / "run", 3)
        (self.root / "run").rename(self.root / "removed")  # at one moment: the run may make files while others are removed
        shutil.rmtree(self.root / "removed", ignore_errors=True)
        self.wait_for_records(process, self.root / "run", 3)
        process.terminate()
        _, errors = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 143, errors[-500:])
        self.assertIn("run was removed or moved while the run writes to it: it is made anew", errors)
        for name in ("config.yaml", "metrics.jsonl", "summary.json", ".lock", ".config_hash"):
            self.assertTrue((self.root / "run" / name).exists(), name)

    def test_a_run_directory_that_is_moved_is_made_anew_and_that_is_said(self):
        process = self.start("train", write_experiment(self.root, TINY), "--run-dir", "above/run", "--no-progress", "--set", "train.steps=1000000")
        self.wait_for_records(process, self.root / "above/run", 3)
        (self.root / "above").rename(self.root / "elsewhere")
        self.wait_for_records(process, self.root / "above/run", 3)
        process.terminate()
        _, errors = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 143, errors[-500:])
        self.assertIn("run was removed or moved while the run writes to it: it is made anew", errors)
        records = [json.loads(line)["step"] for directory in ("elsewhere", "above") for line in (self.root / directory / "run/metrics.jsonl").read_text().splitlines()]
        self.assertEqual(records, list(range(1, len(records) + 1)), "each step is in one of the two")

    def test_rows_that_are_left_out_are_counted(self):
        rows = "".join(f"{i},{'' if i % 4 == 0 else i * 2},{'ab'[i % 2]}\n" for i in range(100))
        (self.root / "rows.csv").write_text("a,b,y\n" + rows)
        result = self.train(TABLE, "--run-dir", "run")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("dataset.train: 25 of 100 rows are left out", result.stderr)
        self.assertIn("dataset.train: 25 of 100 rows are left out", run("data", "stats", self.root / "exp.yaml", cwd=self.root).stderr)

    def test_a_named_pipe_is_refused_at_once(self):
        os.mkfifo(self.root / "pipe")
        for text in (TOKENS.replace("tokens.bin", "pipe"), TABLE.replace("rows.csv", "pipe").replace("missing", "format: csv, missing")):
            result = subprocess.run([TRAINCTL, "train", write_experiment(self.root, text), "--run-dir", "run"], capture_output=True, text=True, cwd=self.root, timeout=PATIENCE_S)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("pipe: it is a named pipe", result.stderr)
        self.assertIn("it is a named pipe", run("check", self.root / "pipe", timeout=PATIENCE_S).stderr)
        (self.root / "pipe").rename(self.root / "pipe.parquet")
        parquet = subprocess.run([TRAINCTL, "train", write_experiment(self.root, TABLE.replace("rows.csv", "pipe.parquet")), "--run-dir", "run"],
                                 capture_output=True, text=True, cwd=self.root, timeout=PATIENCE_S)
        self.assertEqual(parquet.returncode, 1, parquet.stderr)
        self.assertIn("pipe.parquet: it is a named pipe", parquet.stderr)

    def test_a_named_pipe_among_images_is_a_sample_that_cannot_be_read(self):
        write_images(self.root / "photos")
        os.mkfifo(self.root / "photos/class_0/zz.png")
        experiment = write_experiment(self.root, PHOTOS)
        problem = "cannot read photos/class_0/zz.png: it is a named pipe, not a file"
        for command, code, words in ((("train",), 1, f"trainctl: {problem}"), (("data", "verify"), 1, problem), (("data", "stats"), 0, "1 unreadable")):
            with self.subTest(command):
                result = subprocess.run([TRAINCTL, *command, experiment], capture_output=True, text=True, cwd=self.root, timeout=PATIENCE_S)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertIn(words, result.stderr + result.stdout)

    def test_a_model_that_fits_no_machine_is_refused_before_memory_is_asked(self):
        for model in ("{kind: mlp, hidden: [100000000000]}", "{kind: cnn, channels: [1000000], hidden: 1000000}", "{kind: mlp, hidden: [1000000000000, 1000000000000]}"):
            result = self.train(TINY, "--run-dir", "run", "--set", f"model={model}")
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertRegex(result.stderr, r"\Atrainctl: (the model has [\d,]+ parameters|a layer of the model is)[^\n]*\n  try: [^\n]+\n\Z")

    def test_a_peer_that_says_nothing_is_waited_for_no_longer_than_was_said(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            ranks = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(listener.getsockname()[1])}
            # The default of timeout_s is longer than the test's patience.
            result = run("train", write_experiment(self.root, TINY), "--run-dir", "run", "--set", "distributed={kind: ddp, timeout_s: 3}",
                         cwd=self.root, timeout=PATIENCE_S, env=ranks)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, r"trainctl: [^\n]*within 3\S* s[^\n]*\n  try: ")

    def test_a_stack_that_is_too_small_is_told(self):
        config = write_experiment(self.root, TINY)
        for limit, code in ((64, 1), (512, 0)):
            result = subprocess.run(["sh", "-c", f"ulimit -s {limit}; exec \"$0\" \"$@\"", TRAINCTL, "train", config, "--run-dir", f"run{limit}"],
                                    capture_output=True, text=True, cwd=self.root, timeout=PATIENCE_S)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertEqual(code == 1, "of stack, and needs 256.0 KiB\n  try: ulimit -s 8192" in result.stderr, result.stderr)

    def test_every_limit_of_the_address_space_ends_in_a_run_or_a_word(self):
        config = write_experiment(self.root, TINY)
        for mib in (200, 400, 470, 560, 639, 640, 660, 680, 700, 760, 900, 1200):
            result = subprocess.run(["sh", "-c", f"ulimit -v {mib << 10}; exec \"$0\" \"$@\"", TRAINCTL, "train", config, "--run-dir", f"run{mib}",
                                     "--set", "dataset.num_workers=8"], capture_output=True, text=True, cwd=self.root, timeout=PATIENCE_S)
            with self.subTest(mib):
                self.assertIn(result.returncode, (1,) if mib < 640 else (0, 1), result.stderr)
                words = [line for line in result.stderr.splitlines() if line.startswith("trainctl: ")]
                self.assertEqual(len(words), result.returncode, result.stderr)
                self.assertNotRegex(result.stderr, r"std::|frame #|enforce fail|DefaultCPUAllocator|terminate called")

    def test_a_segmentation_fault_under_a_limit_of_the_address_space_is_told(self):
        config = write_experiment(self.root, TINY)
        process = subprocess.Popen(["sh", "-c", "ulimit -v 8000000; exec \"$0\" \"$@\"", TRAINCTL, "train", config, "--set", "train.steps=100000000"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=self.root)
        for line in process.stderr:
            if line.startswith("step "):
                break
        process.send_signal(signal.SIGSEGV)
        text = process.stderr.read()
        self.assertEqual(process.wait(PATIENCE_S), 1)
        self.assertIn("a segmentation fault: out of memory? 'ulimit -v' limits", text)

    def test_nobody_at_the_port_is_told_without_frames(self):
        with ReservedPort() as port:
            ranks = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            result = run("train", write_experiment(self.root, TINY), "--run-dir", "run", "--set", "distributed={kind: ddp, timeout_s: 2}",
                         cwd=self.root, timeout=PATIENCE_S, env=ranks)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, r"^trainctl: rank 1 cannot reach [^\n]*: nothing listens there\n  try: [^\n]*\n$")

    def test_a_cut_off_file_of_torch_save_is_told(self):
        (self.root / "weights.pth").write_bytes(b"PK\x03\x04\x00\x00\x08\x08" + bytes(200))
        result = self.train(TINY, "--run-dir", "run", "--set", "model.init_from=weights.pth")
        self.assertEqual(result.returncode, 1)
        self.assertIn("the file is cut off while reading weights.pth", result.stderr)

    def test_a_snapshot_directory_of_somebody_else_is_not_used(self):
        elsewhere = self.root / "elsewhere"
        elsewhere.mkdir()
        (self.root / "place").mkdir()
        all_runs = self.root / "place" / f"trainctl-snapshots-{os.getuid()}"

        def snapshots():
            return self.train(TINY, "--run-dir", "run", "--set", "checkpoint.in_memory={every: 1, path: place}")

        def expect_refusal(words):
            result = snapshots()
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(words, result.stderr)
            self.assertEqual(list(elsewhere.iterdir()), [])

        all_runs.symlink_to(elsewhere)
        expect_refusal(f"{all_runs.name} is not a directory")
        all_runs.unlink()
        all_runs.mkdir()
        all_runs.chmod(0o777)
        expect_refusal("may be written to by other users")
        all_runs.chmod(0o700)
        self.assertEqual(snapshots().returncode, 0)
        self.assertEqual(all_runs.stat().st_mode & 0o777, 0o700)


if __name__ == "__main__":
    unittest.main()
