"""What a person meets at the command line: help, exit codes, errors that name the place, stopping and going on."""
import json
import signal
import subprocess
import unittest

from trainctl_process import EXPERIMENT, TRAINCTL, InScratch, run, start, write_experiment
from waits import PATIENCE_S, num_records, wait_for

TEN_MISTAKES = """\
name: ten-mistakes
sed: 1
dataset:
  kind: idx
  train: {images: a.gz}
  batch_size: 0
  num_workers: many
model: {kind: cnn, chanels: [16]}
optimizer:
  kind: adamw
  lr: -1e-3
  lr: 0.1
  lr_scheduler: {kind: one_cicle}
amp: {mode: fp61}
train: {steps: 1.5}
"""


class CommandLine(InScratch):
    def test_help_and_version_answer(self):
        self.assertIn("train", run("--help").stdout)
        self.assertRegex(run("--version").stdout, r"^trainctl \d+\.\d+\.\d+")
        for command in ("train", "profile", "eval", "check", "config"):
            self.assertEqual(run(command, "--help").returncode, 0)

    def test_unknown_commands_and_options_exit_with_2(self):
        result = run("trian")
        self.assertEqual(result.returncode, 2)
        self.assertIn("did you mean 'train'", result.stderr)
        self.assertEqual(run("train").returncode, 2)
        self.assertEqual(run("check", "--nonsense").returncode, 2)

    def test_a_working_directory_that_was_removed_is_told(self):
        config = write_experiment(self.root, EXPERIMENT)
        command = ["bash", "-c", 'mkdir gone && cd gone && rmdir ../gone && exec "$@"', "bash", TRAINCTL, "train", str(config), "--run-dir", str(self.root / "run")]
        result = subprocess.run(command, capture_output=True, text=True, cwd=self.root, timeout=PATIENCE_S)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, r"\Atrainctl: cannot find the working directory[^\n]*\n  try: [^\n]+\n\Z")

    def test_an_option_that_is_a_key_is_answered_with_its_set(self):
        for typed, advice in ((["--epochs", "3"], "--set train.epochs=3"), (["--batch-size=8"], "--set dataset.batch_size=8"), (["--lr"], "--set optimizer.lr=VALUE")):
            refused = run("train", "x.yaml", *typed)
            self.assertEqual(refused.returncode, 2)
            self.assertIn(f"train has no option {typed[0].split('=')[0]}\n  try: {advice}\n", refused.stderr)
        self.assertIn("doctor has no option --wings\n  try: trainctl doctor --help", run("doctor", "--wings").stderr)
        self.assertIn("runs clean has no option --wings\n  try: trainctl runs clean --help", run("runs", "clean", "--yes", "--wings").stderr)
        # An option of the sub-command is not what is wrong here.
        wrong = run("runs", "clean", "--yes", "--older-than", "much").stderr
        self.assertNotIn("has no option", wrong)
        self.assertIn("--older-than", wrong)
        self.assertIn("try: trainctl runs clean --help", wrong)

    def test_a_number_that_is_none_or_beyond_its_range_is_refused(self):
        config = write_experiment(self.root)
        (self.root / "runs/kept").mkdir(parents=True)
        (self.root / "runs/kept/config.yaml").write_text("")
        (self.root / "runs/kept/.config_hash").write_text("")
        for command in (["runs", "clean", "--whole-runs", "--yes", "--older-than"], ["generate", config, "--checkpoint", "x", "--prompt", "x", "--temperature"],
                        ["generate", config, "--checkpoint", "x", "--prompt", "x", "--top-p"], ["plan", config, "--memory"], ["plan", config, "--cost-per-hour"],
                        ["data", "bench", config, "--seconds"], ["data", "bench", config, "--warmup"]):
            for value in ("nan", "inf", "1e12", "-1"):
                refused = run(*command, value, cwd=self.root)
                self.assertEqual(refused.returncode, 2, (command, value, refused.stderr))
        self.assertTrue((self.root / "runs/kept/config.yaml").exists())
        for command in (["predict", self.root, "--batch-size"], ["generate", self.root, "--prompt", "x", "--seed"], ["data", "bench", config, "--from"]):
            refused = run(*command, "99999999999999999999", cwd=self.root)
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn("64 bits", refused.stderr)

    def test_an_option_without_effect_is_refused(self):
        config = write_experiment(self.root)
        for command, option in ((["export", config, "--checkpoint", "x", "--output", "y", "--format", "onnx", "--outtype", "q8_0"], "--outtype"),
                                (["export", config, "--checkpoint", "x", "--output", "y", "--format", "onnx", "--naming", "timm"], "--naming"),
                                (["tokenize", config, "--tokenizer", "bytes", "--output", "y"], "--train-bpe"),
                                (["tokenize", config, "--tokenizer", "bytes", "--vocab-size", "300"], "--train-bpe"),
                                (["compare", self.root, self.root, "--steps", "3"], "--ablate"), (["compare", self.root, self.root, "--rounds", "3"], "--ablate"),
                                (["plan", config, "--device", "h100", "--calibrate"], "--calibrate")):
            refused = run(*command, cwd=self.root)
            self.assertEqual(refused.returncode, 2, (command, refused.stderr))
            self.assertIn(option, refused.stderr)

    def test_ten_mistakes_are_reported_at_once_each_at_its_place(self):
        config = write_experiment(self.root, TEN_MISTAKES)
        result = run("check", config, cwd=self.root)
        self.assertEqual(result.returncode, 2)
        for place in ("2:1: sed", "5:10: dataset.train", "6:15: dataset.batch_size", "7:16: dataset.num_workers", "8:20: model.chanels",
                      "11:7: optimizer.lr", "12:3: optimizer.lr", "13:24: optimizer.lr_scheduler", "14:13: amp.mode", "15:16: train.steps"):
            self.assertIn(f"exp.yaml:{place}", result.stderr)
        self.assertEqual(len(result.stderr.strip().splitlines()), 10, result.stderr)

    def test_training_evaluating_and_reading_back_agree(self):
        config = write_experiment(self.root)
        trained = run("train", config, "--run-dir", self.root / "run", "--set", "train.steps=30", "--json")
        self.assertEqual(trained.returncode, 0, trained.stderr)
        summary = json.loads(trained.stdout)
        evaluated = run("eval", config, "--checkpoint", self.root / "run", "--set", "train.steps=30", "--json")
        self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
        self.assertEqual(json.loads(evaluated.stdout)["metrics"], summary["final_metrics"])
        again = run("check", self.root / "run" / "config.yaml")
        self.assertEqual(again.returncode, 0, again.stderr)

    def test_a_summary_that_cannot_be_written_is_an_error_and_no_older_one_stands_for_it(self):
        command = ["train", write_experiment(self.root), "--run-dir", self.root / "run", "--json", "--set"]
        self.assertEqual(json.loads(run(*command, "train.steps=30").stdout)["steps"], 30)
        (self.root / "run/summary.json.tmp").mkdir()
        failed = run(*command, "train.steps=40")
        self.assertEqual((failed.returncode, failed.stdout), (1, ""))
        self.assertIn("summary.json could not be written", failed.stderr)

    def test_an_output_that_is_a_run_or_what_is_read_is_refused(self):
        config = write_experiment(self.root)
        for name, file in (("run", ".config_hash"), ("old", "metrics.jsonl"), ("step", "manifest.json"), ("hf", "config.json")):
            (self.root / name).mkdir()
            (self.root / name / file).write_text("")
            for command in ("export", "quantize"):
                refused = run(command, config, "--checkpoint", self.root / "hf", "--output", self.root / name)
                self.assertEqual(refused.returncode, 2, refused.stderr)
                self.assertIn("--output", refused.stderr)

    def stop_with(self, signal_number):
        config = write_experiment(self.root, EXPERIMENT.replace("steps: 300", "steps: 100000"))
        directory = self.root / f"run-{signal_number}"
        process = start("train", config, "--run-dir", directory)
        self.addCleanup(process.kill)
        wait_for(lambda: num_records(directory) > 0, process)
        process.send_signal(signal_number)
        process.communicate(timeout=PATIENCE_S)
        return process.returncode, directory

    def test_signals_stop_after_a_checkpoint_and_exit_with_128_plus_the_signal(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            code, directory = self.stop_with(number)
            self.assertEqual(code, 128 + number)
            summary = json.loads((directory / "summary.json").read_text())
            self.assertEqual(summary["outcome"], "stopped")
            self.assertTrue((directory / "checkpoints" / f"step_{summary['steps']:08d}" / "manifest.json").exists())

    def test_missing_data_fails_with_the_files_name(self):
        config = write_experiment(self.root, """
name: missing
dataset: {kind: idx, train: {images: nowhere-images.gz, labels: nowhere-labels.gz}}
model: cnn
train: {steps: 1}
""")
        result = run("train", config, "--run-dir", self.root / "run")
        self.assertEqual(result.returncode, 1)
        self.assertIn("nowhere-images.gz", result.stderr)

    def test_several_processes_are_refused_with_the_reason(self):
        result = run("train", write_experiment(self.root), "--run-dir", self.root / "run", env={"WORLD_SIZE": "4"})
        self.assertEqual(result.returncode, 1)
        self.assertIn("WORLD_SIZE", result.stderr)

    def test_a_profile_names_the_dearest_operators_and_leaves_a_trace(self):
        result = run("profile", write_experiment(self.root), "--run-dir", self.root / "run", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        summary = json.loads(result.stdout)
        self.assertIn("aten::", json.dumps(summary))
        traces = list((self.root / "run" / "profile").glob("*.pt.trace.json"))
        self.assertEqual(len(traces), 1)
        self.assertIn("traceEvents", json.loads(traces[0].read_text()))


if __name__ == "__main__":
    unittest.main()
