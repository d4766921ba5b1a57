"""A run that is killed with SIGKILL at random steps and resumed equals an uninterrupted one, bit for bit."""
import json
import pathlib
import random
import unittest

from trainctl_process import metrics, newest_checkpoint, run, start, temporary_directory, write_experiment
from waits import num_records, wait_for


class Resume(unittest.TestCase):
    def setUp(self):
        self.temporary = temporary_directory()
        self.addCleanup(self.temporary.cleanup)
        self.root = pathlib.Path(self.temporary.name)
        self.config = write_experiment(self.root)

    def finish(self, directory, workers):
        result = run("train", self.config, "--run-dir", directory, "--set", f"dataset.num_workers={workers}")
        self.assertEqual(result.returncode, 0, result.stderr)

    def kill_at_random_steps(self, directory, workers, rng, kills):
        """Each process is killed a few records after the last one's, wherever it is then: in a step, a save or an evaluation."""
        for _ in range(kills):
            process = start("train", self.config, "--run-dir", directory, "--set", f"dataset.num_workers={workers}")
            self.addCleanup(process.stderr.close)
            self.addCleanup(process.kill)
            enough = num_records(directory) + rng.randint(1, 8)  # of 60 in all
            wait_for(lambda: num_records(directory) >= enough, process)
            process.kill()
            process.wait()

    def test_killed_runs_end_like_an_uninterrupted_one_whatever_workers_is(self):
        reference = self.root / "reference"
        self.finish(reference, workers=1)
        expected = metrics(reference)
        self.assertGreater(len(expected), 60)
        for seed, workers in enumerate((0, 1, 3)):
            with self.subTest(workers=workers):
                directory = self.root / f"killed-{workers}"
                self.kill_at_random_steps(directory, workers, random.Random(seed), kills=5)
                self.finish(directory, workers)
                self.assertEqual(metrics(directory), expected)
                for name in ("model.safetensors", "state.safetensors"):
                    self.assertEqual((newest_checkpoint(directory) / name).read_bytes(), (newest_checkpoint(reference) / name).read_bytes(), name)

    def test_a_finished_run_is_not_repeated(self):
        directory = self.root / "done"
        self.finish(directory, workers=1)
        before = metrics(directory)
        self.finish(directory, workers=1)
        self.assertEqual(metrics(directory), before)

    def test_a_run_killed_after_its_last_checkpoint_keeps_its_last_evaluation(self):
        directory = self.root / "unsummarized"
        self.finish(directory, workers=1)
        before = metrics(directory)
        summary = json.loads((directory / "summary.json").read_text())
        (directory / "summary.json").unlink()  # the last file that a run writes
        self.finish(directory, workers=1)
        self.assertEqual(metrics(directory), before)
        again = json.loads((directory / "summary.json").read_text())
        for key in ("outcome", "steps", "final_metrics", "best_metrics", "best_step"):
            self.assertEqual(again[key], summary[key], key)
        for key in ("samples_per_s", "median_step_ms", "time_to_first_step_s"):
            self.assertNotIn(key, again, "this start made no step")


if __name__ == "__main__":
    unittest.main()
