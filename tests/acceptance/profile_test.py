"""profile as a user meets it: its files, its figures, and the findings of runs in which a bottleneck was planted."""
import json
import pathlib
import subprocess
import sys
import unittest

from trainctl_process import ROOT, preloaded, run, temporary_directory, write_experiment, write_images

IMAGES = """
name: profiled
dataset: {kind: synthetic_images, num_samples: 2048, num_eval_samples: 0, channels: 3, height: 32, width: 32, num_classes: 4, batch_size: 64, num_workers: 1}
model: {kind: cnn, channels: [16, 32], hidden: 64}
train: {steps: 100}
device: {kind: cpu, num_threads: 1}
"""
PERCEPTRON = """
name: profiled
dataset: {kind: synthetic_images, num_samples: 8192, num_eval_samples: 0, channels: 1, height: 8, width: 8, num_classes: 4, batch_size: 256, num_workers: 1}
model: {kind: mlp, hidden: [1024, 1024, 1024]}
train: {steps: 100}
device: {kind: cpu, num_threads: 1}
"""
SCHEDULE = ("--set", "profiler.wait=5", "--set", "profiler.warmup=1", "--set", "profiler.active=4")
RANKS = """
name: profiled
dataset: {kind: synthetic_images, num_samples: 4096, num_eval_samples: 0, channels: 1, height: 8, width: 8, num_classes: 4, batch_size: 128, num_workers: 1}
model: {kind: mlp, hidden: [1024, 1024]}
train: {steps: 100}
device: {kind: cpu, num_threads: 1}
distributed: {kind: ddp, timeout_s: 120}
"""
PIPELINE = """
name: profiled
dataset: {kind: synthetic_tokens, num_samples: 4096, num_eval_samples: 0, seq_len: 64, vocab_size: 256, batch_size: 4, num_workers: 1}
model: {kind: gpt2, hidden_size: 192, num_layers: 6, num_heads: 4}
task: {kind: causal_lm}
accumulation: {steps: 4}
train: {steps: 100}
device: {kind: cpu, num_threads: 1}
distributed: {kind: ddp, pipeline: 2, timeout_s: 120}
"""
FOLDER = """
name: profiled
dataset: {kind: image_folder, train: images, batch_size: 8, num_workers: 1, cache_dir: cache, transforms: [{kind: random_resized_crop, size: 8}]}
model: {kind: mlp, hidden: [64]}
train: {steps: 100}
device: {kind: cpu, num_threads: 1}
distributed: {kind: ddp, timeout_s: 120}
"""
RESNET = """
name: profiled
dataset: {kind: synthetic_images, num_samples: 256, num_eval_samples: 0, channels: 3, height: 64, width: 64, num_classes: 10, batch_size: 8, num_workers: 1}
model: {kind: resnet18}
train: {steps: 100}
device: {kind: cpu, num_threads: 1}
"""


class Profile(unittest.TestCase):
    def setUp(self):
        self.temporary = temporary_directory()
        self.addCleanup(self.temporary.cleanup)
        self.root = pathlib.Path(self.temporary.name)

    def profile(self, text, *options, directory="run", env=None):
        config = write_experiment(self.root, text)
        directory = self.root / directory
        result = run("profile", config, "--run-dir", directory, "--json", *SCHEDULE, *options, cwd=self.root, env=env)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout), json.loads((directory / "profile/summary.json").read_text()))
        return json.loads(result.stdout)

    def disturbed(self, source, **settings):
        """The environment of a slow disk or network."""
        environment = preloaded(source, self.root, **settings)
        if environment is None:
            self.skipTest("no C compiler for what slows the run down")
        return environment

    def well_formed(self, findings):
        self.assertLessEqual(len(findings), 5)
        for finding in findings:
            for key in ("what", "evidence", "gain"):
                self.assertTrue(finding[key], finding)
        return findings

    def found(self, rule, summary):
        """The finding of a bottleneck that was planted, whatever else a busy machine adds."""
        findings = {finding["rule"]: finding for finding in self.well_formed(summary["findings"])}
        self.assertIn(rule, findings, f"{summary['steps']['split']}, {summary['host']}, {summary.get('distributed')}")
        return findings[rule]

    def check_that_the_change_is_taken(self, finding):
        """What a finding advises is a line that `check` accepts."""
        sets = [argument for change in finding["change"] for argument in ("--set", f"{change['key']}={change['value']}")]
        self.assertTrue(sets)
        result = run("check", "--file-only", self.root / "exp.yaml", *sets)
        self.assertEqual(result.returncode, 0, result.stderr)


class Findings(Profile):
    """Bottlenecks that don't depend on what else the machine does: benchmarks/planted_bottlenecks.py has the others, and healthy runs."""

    def test_slow_loader(self):
        # Large images that are shrunk to what a small network takes: on any CPU the loader has more to do.
        summary = self.profile(IMAGES, "--set", "dataset.num_workers=0", "--set", "dataset.height=256", "--set", "dataset.width=256",
                               "--set", "dataset.transforms=[{kind: random_resized_crop, size: 16}]", "--set", "model={kind: mlp, hidden: [32]}")
        self.check_that_the_change_is_taken(self.found("slow_loader", summary))

    def test_fragmentation(self):
        environment = self.disturbed("scattered_memory", count=600, kib=512)
        healthy = (IMAGES, "--set", "dataset.batch_size=128", "--set", "model.channels=[32, 64]")
        found = self.found("fragmentation", self.profile(*healthy, env=environment))
        self.assertGreater(found["gain_mib"], 150)
        self.assertEqual([change["yaml"] for change in found["change"]], ["device: {caching_allocator: false}"])
        self.check_that_the_change_is_taken(found)
        changed = self.profile(*healthy, "--set", "device.caching_allocator=false", env=environment, directory="changed")
        self.assertNotIn("fragmentation", [finding["rule"] for finding in changed["findings"]])

    def test_exposed_communication(self):
        found = self.found("exposed_communication", self.profile(RANKS, "--nproc", "2", env=self.disturbed("slow_network", mib_s=10)))
        self.assertEqual(found["change"][0], {"key": "accumulation.steps", "value": "2", "yaml": "accumulation: {steps: 2}"})
        self.check_that_the_change_is_taken(found)

    def test_needless_synchronisation_of_ranks(self):
        network = RANKS.replace("{kind: mlp, hidden: [1024, 1024]}", "{kind: cnn, channels: [4, 8, 8, 8], batch_norm: true, hidden: 16}")
        summary = self.profile(network, "--nproc", "2", "--set", "dataset.height=32", "--set", "dataset.width=32", "--set", "dataset.batch_size=32",
                               "--set", "distributed.sync_batch_norm=true", env=self.disturbed("slow_network", us=10000))
        found = self.found("needless_synchronisation", summary)
        self.assertEqual(found["change"][0]["yaml"], "distributed: {sync_batch_norm: false}")
        self.check_that_the_change_is_taken(found)

    def test_straggler(self):
        write_images(self.root / "images")
        found = self.found("straggler", self.profile(FOLDER, "--nproc", "2", env=self.disturbed("slow_reads", path=self.root / "images", us=50000, rank=1)))
        self.assertIn("Rank 1", found["what"])
        self.assertIn("for data", found["evidence"])
        self.check_that_the_change_is_taken(found)

    def test_a_pipeline_shows_its_schedule(self):
        pipeline = self.profile(PIPELINE, "--nproc", "2")["distributed"]["pipeline"]
        self.assertEqual([rank["stages"] for rank in pipeline["ranks"]], [[0], [1]])
        for rank in pipeline["ranks"]:
            self.assertEqual(len(rank["actions"]), 8)
            self.assertGreater(rank["compute_ms"], 0)
            self.assertAlmostEqual(rank["compute_ms"] + rank["transfer_ms"] + rank["bubble_ms"], pipeline["pass_ms"], delta=0.01)
            for (_, _, end), (_, begin, _) in zip(rank["actions"], rank["actions"][1:]):
                self.assertGreaterEqual(begin, end)  # a rank does one thing at a time
        self.assertEqual({action for rank in pipeline["ranks"] for action, _, _ in rank["actions"]},
                         {f"{stage}{kind}{micro_batch}" for stage in range(2) for kind in "FB" for micro_batch in range(4)})

    def test_two_ranks_are_compared(self):
        summary = self.profile(PERCEPTRON, "--nproc", "2", "--set", "dataset.batch_size=8")
        ranks = summary["distributed"]["ranks"]
        self.assertEqual([rank["rank"] for rank in ranks], [0, 1])
        self.assertTrue(all(0 < rank["exposed_ms"] <= rank["step_ms"] for rank in ranks), ranks)
        self.assertGreater(summary["steps"]["split"][5]["mean_ms"], 0)
        self.assertEqual(len(list((self.root / "run/profile").glob("*.pt.trace.json"))), 2)


class Figures(Profile):
    def test_spans_sum_to_the_step_and_the_files_are_small(self):
        summary = self.profile(RESNET)
        steps = summary["steps"]
        self.assertAlmostEqual(sum(part["mean_ms"] for part in steps["split"]), steps["mean_ms"], delta=1e-3 * steps["mean_ms"])
        self.assertLess((self.root / "run/profile/report.html").stat().st_size, 5 << 20)
        modules = {module["name"]: module for module in summary["modules"]}
        convolution = modules["layer1.0.conv1"]
        self.assertGreater(convolution["forward_ms"], 0)
        self.assertGreater(convolution["backward_ms"], 0)
        self.assertAlmostEqual(convolution["flops"], 3 * 2 * 8 * 64 * 16 * 16 * 64 * 9, delta=1)
        kept = sum(module["activations_mib"] for module in summary["modules"] if module["kind"] == "block")
        self.assertGreater(kept, 0)
        memory = summary["memory"]
        self.assertAlmostEqual(sum(memory["peak"]["by_category"].values()), memory["peak"]["mib"], delta=0.1)
        self.assertGreater(memory["peak"]["by_category"]["gradients"] + memory["peak"]["by_category"]["activations"], 1)

    def test_operators_are_those_of_stock_pytorch(self):
        # In this layout, LibTorch's operators do the work that our own do in channels_last.
        summary = self.profile(RESNET, "--set", "optimizer.kind=adamw", "--set", "model.memory_format=contiguous")
        ours = {}
        for row in summary["operators"]:
            ours[row["name"]] = ours.get(row["name"], 0) + row["calls"]
        script = ROOT / "tests/reference/torch_profile.py"
        result = subprocess.run([sys.executable, script, "--threads", "1", "--contiguous"], capture_output=True, text=True)
        if result.returncode != 0:
            self.skipTest(f"stock PyTorch doesn't run here: {result.stderr[-200:]}")
        theirs = json.loads(result.stdout)["operators"]
        for name in ("aten::mkldnn_convolution", "aten::convolution_backward", "aten::native_batch_norm",
                     "aten::native_batch_norm_backward", "aten::max_pool2d_with_indices"):
            self.assertEqual(ours[name], theirs[name]["calls"], name)  # their times: benchmarks/profile_overhead.py

    def test_a_trace_is_kept_below_its_limit(self):
        summary = self.profile(RESNET, "--set", "profiler.max_trace_mib=1")
        trace = summary["traces"][0]
        self.assertLessEqual(trace["bytes"], 1 << 20)
        self.assertGreater(trace["dropped_events"], 0)
        self.assertIn("arrows", trace["dropped"])
        document = json.loads(pathlib.Path(trace["path"]).read_text())
        self.assertEqual(len(document["traceEvents"]), trace["events"])
        spans = {event["name"] for event in document["traceEvents"] if event.get("cat") == "user_annotation"}
        self.assertIn("layer4.1.conv2", spans)


class OtherTools(Profile):
    """The trace in TensorBoard's profiler plugin and in Holistic Trace Analysis."""

    def test_they_read_the_trace_and_agree(self):
        summary = self.profile(RESNET, "--set", "model.memory_format=contiguous")
        script = ROOT / "tests/reference/read_trace.py"
        result = subprocess.run([sys.executable, script, summary["traces"][0]["path"]], capture_output=True, text=True)
        if "No module named" in result.stderr:
            self.skipTest(f"{result.stderr.splitlines()[-1]} (scripts/setup.sh --tests)")
        self.assertEqual(result.returncode, 0, result.stderr)
        read = json.loads(result.stdout.splitlines()[-1])
        steps = {step["number"]: step for step in summary["steps"]["each"]}

        page = read["tensorboard"]
        self.assertEqual(len(page["steps"]), len(steps))
        for number, microseconds in page["steps"].items():
            self.assertAlmostEqual(microseconds / 1e3, steps[int(number)]["ms"], delta=0.02 * steps[int(number)]["ms"])
        ours = {}
        for row in summary["operators"]:
            entry = ours.setdefault(row["name"], [0, 0])
            entry[0] += row["calls"] * len(steps)
            entry[1] += row["self_ms"] * 1e3 * len(steps)
        for name in ("aten::mkldnn_convolution", "aten::convolution_backward", "aten::native_batch_norm", "trainctl::adam_"):
            its = page["operators"][name]
            self.assertAlmostEqual(ours[name][0], its["calls"], delta=1e-3)
            self.assertAlmostEqual(ours[name][1], its["self_us"], delta=0.01 * its["self_us"] + 50)

        self.assertTrue(read["hta"], "no whole step was found")
        for number, events in read["hta"].items():
            split = steps[int(number)]["split_ms"]
            for name in ("forward", "backward"):
                measured = events["user_annotation"][name]["sum"] / 1e3
                self.assertAlmostEqual(measured, split[name], delta=0.02 * split[name] + 0.05)
            self.assertEqual(events["cpu_op"]["aten::convolution_backward"]["count"], 20)


class InTraining(Profile):
    def test_training_records_itself_from_a_step_on(self):
        config = write_experiment(self.root, IMAGES)
        directory = self.root / "run"
        result = run("train", config, "--run-dir", directory, "--set", "train.steps=20", "--set", "profiler.start_step=6",
                     "--set", "profiler.wait=1", cwd=self.root)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("a profile of 3 steps", result.stderr)
        summary = json.loads((directory / "profile/summary.json").read_text())
        self.assertEqual(summary["steps"]["num"], 3)
        self.assertTrue((directory / "profile/report.html").exists())
        self.assertTrue((directory / "summary.json").exists())

    def test_without_the_key_nothing_is_recorded(self):
        config = write_experiment(self.root, IMAGES)
        directory = self.root / "run"
        result = run("train", config, "--run-dir", directory, "--set", "train.steps=5", cwd=self.root)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertFalse((directory / "profile").exists())


if __name__ == "__main__":
    unittest.main()
