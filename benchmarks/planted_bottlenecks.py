#!/usr/bin/env python3
"""Runs in which a bottleneck is planted, and healthy ones: the finding that `trainctl profile` puts first. Measured times decide, so that this is
for a quiet machine: on a busy one, runs have other bottlenecks. The rules themselves are tested on given figures (tests/profiler).

  .deps/python/bin/python3 benchmarks/planted_bottlenecks.py [Planted.NAME…]
"""
import json
import os
import pathlib
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/acceptance"))

from profile_test import FOLDER, IMAGES, PERCEPTRON, PIPELINE, RANKS, RESNET, Profile  # noqa: E402
from trainctl_process import run, write_images  # noqa: E402


def precision():
    """Options: where bf16 is faster, that is the first finding of whatever computes in fp32, so runs with another bottleneck use it."""
    return ("--set", "amp.mode=bf16") if json.loads(run("doctor", "--json").stdout)["kernels"]["bf16_is_fast"] else ()


class Planted(Profile):
    def first_finding(self, summary):
        self.assertTrue(summary["findings"], f"nothing was found in {summary['steps']['split']}, {summary['host']}")
        return self.well_formed(summary["findings"])[0]

    def test_a_healthy_run_has_none(self):
        summary = self.profile(IMAGES, "--set", "dataset.batch_size=128", "--set", "model.channels=[32, 64]")
        self.assertEqual([finding["rule"] for finding in summary["findings"] if finding["rule"] != "fp32_where_bf16_pays"], [])

    def test_slow_loader(self):
        # Large images that are shrunk to what a small network takes: on any CPU the loader has more to do.
        summary = self.profile(IMAGES, "--set", "dataset.num_workers=0", "--set", "dataset.height=256", "--set", "dataset.width=256",
                               "--set", "dataset.transforms=[{kind: random_resized_crop, size: 16}]", "--set", "model={kind: mlp, hidden: [32]}")
        first = self.first_finding(summary)
        self.assertEqual(first["rule"], "slow_loader")
        self.assertGreater(first["gain_ms"], 0)
        self.check_that_the_change_is_taken(first)

    def test_tiny_batch(self):
        first = self.first_finding(self.profile(PERCEPTRON, "--set", "dataset.batch_size=1"))
        self.assertEqual(first["rule"], "tiny_batch")
        self.check_that_the_change_is_taken(first)

    def test_unfused_optimizer(self):
        first = self.first_finding(self.profile(PERCEPTRON, "--set", "optimizer.fused=false", *precision()))
        self.assertEqual(first["rule"], "unfused_optimizer")
        self.check_that_the_change_is_taken(first)

    def test_logging_too_often(self):
        # A source that costs nothing, and a network that is soon done.
        (self.root / "images").write_bytes(struct.pack(">IIII", 0x803, 8192, 8, 8) + os.urandom(8192 * 64))
        (self.root / "labels").write_bytes(struct.pack(">II", 0x801, 8192) + bytes(i % 4 for i in range(8192)))
        files = f"{{images: {self.root}/images, labels: {self.root}/labels}}"
        first = self.first_finding(self.profile(
            f"name: profiled\ndataset: {{kind: idx, train: {files}, batch_size: 256, num_workers: 1}}\nmodel: {{kind: mlp, hidden: [64]}}\n"
            "train: {steps: 100, log_every: 1}\ndevice: {kind: cpu, num_threads: 1}\n"))
        self.assertEqual(first["rule"], "frequent_logging")
        self.check_that_the_change_is_taken(first)

    def test_layout_thrash(self):
        # In fp32, where the formats differ most; whether bf16 would win more is the device's affair.
        summary = self.profile(IMAGES, "--set", "model.memory_format=contiguous", "--set", "dataset.batch_size=32",
                               "--set", "model.channels=[32, 64, 64]")
        findings = [finding for finding in summary["findings"] if finding["rule"] != "fp32_where_bf16_pays"]
        if not findings and summary["layout"]["channels_last_ms"] > 0.85 * summary["layout"]["contiguous_ms"]:
            self.skipTest(f"this processor's convolutions hardly differ by layout: {summary['layout']}")
        self.assertEqual([finding["rule"] for finding in findings][:1], ["layout_thrash"], summary["layout"])
        self.check_that_the_change_is_taken(findings[0])

    def test_fp32_where_bf16_pays(self):
        summary = self.profile(PERCEPTRON, "--set", "model.hidden=[2048, 2048, 2048]", "--set", "dataset.batch_size=512")
        peaks = summary["peaks"]["flops_per_s"]
        if peaks.get("bf16", 0) < 1.3 * peaks["fp32"]:
            self.skipTest(f"bf16 isn't faster here: {peaks}")
        first = self.first_finding(summary)
        self.assertEqual(first["rule"], "fp32_where_bf16_pays")
        self.check_that_the_change_is_taken(first)

    def test_needless_recomputation(self):
        first = self.first_finding(self.profile(IMAGES, "--set", "activation_checkpointing=full", *precision(),
                                                "--set", "model.channels=[32, 64, 64]"))
        self.assertEqual(first["rule"], "needless_recomputation")
        self.check_that_the_change_is_taken(first)

    def test_fragmentation(self):
        environment = self.disturbed("scattered_memory", count=600, kib=512)
        healthy = (IMAGES, "--set", "dataset.batch_size=128", "--set", "model.channels=[32, 64]", *precision())
        first = self.first_finding(self.profile(*healthy, env=environment))
        self.assertEqual(first["rule"], "fragmentation")
        self.assertGreater(first["gain_mib"], 150)
        self.assertEqual([change["yaml"] for change in first["change"]], ["device: {caching_allocator: false}"])
        self.check_that_the_change_is_taken(first)
        changed = self.profile(*healthy, "--set", "device.caching_allocator=false", env=environment, directory="changed")
        self.assertNotIn("fragmentation", [finding["rule"] for finding in changed["findings"]])

    def test_healthy_ranks_have_none(self):
        for attempt in range(3):  # what else runs on this machine may well make one rank slow
            summary = self.profile(IMAGES, "--nproc", "2", "--set", "dataset.batch_size=512", "--set", "dataset.num_samples=8192", "--set", "model.channels=[32, 64]",
                                   directory=f"run{attempt}")
            found = [finding["rule"] for finding in summary["findings"] if finding["rule"] != "fp32_where_bf16_pays"]
            if not found:
                return
        self.fail(f"{found}, {summary['distributed']}")

    def test_exposed_communication(self):
        first = self.first_finding(self.profile(RANKS, "--nproc", "2", *precision(), env=self.disturbed("slow_network", mib_s=30)))
        self.assertEqual(first["rule"], "exposed_communication")
        self.assertEqual(first["change"][0], {"key": "accumulation.steps", "value": "2", "yaml": "accumulation: {steps: 2}"})
        self.check_that_the_change_is_taken(first)

    def test_needless_synchronisation_of_ranks(self):
        network = RANKS.replace("{kind: mlp, hidden: [1024, 1024]}", "{kind: cnn, channels: [4, 8, 8, 8], batch_norm: true, hidden: 16}")
        summary = self.profile(network, "--nproc", "2", "--set", "dataset.height=32", "--set", "dataset.width=32", "--set", "dataset.batch_size=32",
                               "--set", "distributed.sync_batch_norm=true", env=self.disturbed("slow_network", us=3000))
        first = self.first_finding(summary)
        self.assertEqual(first["rule"], "needless_synchronisation", summary["host"])
        self.assertEqual(first["change"][0]["yaml"], "distributed: {sync_batch_norm: false}")
        self.check_that_the_change_is_taken(first)

    def test_straggler(self):
        write_images(self.root / "images")
        summary = self.profile(FOLDER, "--nproc", "2", env=self.disturbed("slow_reads", path=self.root / "images", us=10000, rank=1))
        first = self.first_finding(summary)
        self.assertEqual(first["rule"], "straggler", summary["distributed"])
        self.assertIn("Rank 1", first["what"])
        self.assertIn("for data", first["evidence"])
        self.check_that_the_change_is_taken(first)

    def test_spans_cover_the_step(self):
        steps = self.profile(RESNET)["steps"]
        self.assertGreater(sum(part["mean_ms"] for part in steps["split"] if part["name"] != "other"), 0.97 * steps["mean_ms"])

    def test_a_pipeline_waits_as_its_schedule_says(self):
        summary = self.profile(PIPELINE, "--nproc", "2", *precision())
        pipeline = summary["distributed"]["pipeline"]
        times = {action: (begin, end) for rank in pipeline["ranks"] for action, begin, end in rank["actions"]}
        for micro_batch in range(4):  # by one clock, up to how closely the ranks begin
            self.assertGreater(times[f"1F{micro_batch}"][0], times[f"0F{micro_batch}"][1] - 10)
            self.assertGreater(times[f"0B{micro_batch}"][0], times[f"1B{micro_batch}"][1] - 10)
        # (p - 1) / (m + p - 1) of a pass with equal stages is the bubble of 1F1B; these are nearly equal.
        self.assertGreater(pipeline["bubble"], 0.1)
        self.assertLess(pipeline["bubble"], 0.4)
        self.assertAlmostEqual(pipeline["simulated_ms"] / pipeline["pass_ms"], 1, delta=0.3)
        self.assertIn("pipeline_bubble", [finding["rule"] for finding in summary["findings"]])
        self.assertNotIn("exposed_communication", [finding["rule"] for finding in summary["findings"]])


if __name__ == "__main__":
    unittest.main()
