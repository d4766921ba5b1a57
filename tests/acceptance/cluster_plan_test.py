"""What `plan --nodes-of` says of clusters that are not here, and how it refuses what can't be."""
import json
import pathlib
import re
import unittest

from trainctl_process import run, temporary_directory, write_experiment

TRILLION = """
name: trillion
dataset: {kind: synthetic_tokens, num_samples: 100000, num_eval_samples: 0, seq_len: 2048, vocab_size: 51200, batch_size: 1}
model: {kind: gpt2, hidden_size: 25600, num_layers: 128, num_heads: 160, max_position_embeddings: 2048}
task: {kind: causal_lm}
amp: bf16
accumulation: {steps: 12}
train: {steps: 10}
"""
SMALL = """
name: small
device: {kind: cpu, num_threads: 1}
dataset: {kind: synthetic_tokens, num_samples: 256, num_eval_samples: 0, seq_len: 32, vocab_size: 128, batch_size: 2}
model: {kind: gpt2, hidden_size: 64, num_layers: 4, num_heads: 4, max_position_embeddings: 32}
task: {kind: causal_lm}
accumulation: {steps: 4}
train: {steps: 2}
distributed: {kind: ddp, pipeline: 2}
"""
WIRE = "networks: [{name: wire, domain: 2, link_gbs: 1, port_gbs: 0.001, port_efficiency: 1, source: mine}]\n"
SLOW = "networks: [{name: slow, domain: 8, link_gbs: 300, port_gbs: 0, source: mine}]\n"

MOST_LAYOUTS = 40_000  # micro-batches of all divisors up to 64


class ClusterPlanTest(unittest.TestCase):
    def setUp(self):
        self.temporary = temporary_directory()
        self.addCleanup(self.temporary.cleanup)
        self.root = pathlib.Path(self.temporary.name)
        self.config = write_experiment(self.root, TRILLION)

    def plan(self, *options, device="h200", world=256, nodes=8):
        return run("plan", self.config, "--world", str(world), "--device", device, "--nodes-of", str(nodes), *options)

    def refused(self, code, text, **options):
        arguments = options.pop("arguments", ())
        result = self.plan(*arguments, **options)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertRegex(result.stderr, text)
        self.assertLessEqual(len(result.stderr.strip().splitlines()), 2, result.stderr)

    def test_a_trillion_parameters_are_searched(self):
        result = self.plan("--json", "--explain")
        self.assertEqual(result.returncode, 0, result.stderr)
        document = json.loads(result.stdout)
        self.assertLess(document["num_layouts"], MOST_LAYOUTS)  # the time that the search takes is in proportion
        self.assertEqual(len(document["layouts"]), 10)
        first = document["layouts"][0]
        self.assertEqual(first["data"] * first["context"] * first["tensor"] * first["pipeline"], 256)
        self.assertGreaterEqual(first["scaling_efficiency"], 0.92)
        rates = [layout["tokens_per_second"] for layout in document["layouts"]]
        self.assertEqual(rates, sorted(rates, reverse=True))
        parts = [first[key] for key in ("computed_s", "bubble_s", "exposed_copies_s", "optimizer_s")]
        self.assertAlmostEqual(sum(parts), first["step_s"], delta=1e-9 * first["step_s"])
        self.assertTrue(all(term["formula"] for term in document["terms"]))

    def test_the_printed_yaml_is_an_experiment_that_check_takes(self):
        result = self.plan("--json")
        yaml = json.loads(result.stdout)["yaml"]
        settings = re.sub(r"(?m)^(dataset|accumulation):\n", "", yaml)  # one-line sections of the file above
        batch, steps = re.search(r"batch_size: (\d+)", yaml).group(1), re.search(r"(?m)^  steps: (\d+)", yaml).group(1)
        settings = re.sub(r"(?m)^  (batch_size|steps): \d+\n", "", settings)
        text = TRILLION.replace("batch_size: 1}", f"batch_size: {batch}}}").replace("steps: 12", f"steps: {steps}") + settings
        checked = run("check", "--file-only", write_experiment(self.root, text))
        self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_the_page_has_the_layouts_the_scaling_and_the_timeline(self):
        path = self.root / "plan.html"
        result = self.plan("--html", path, "--cost-per-hour", "2.5")
        self.assertEqual(result.returncode, 0, result.stderr)
        data = json.loads(re.search(r'id="data"[^>]*>(.*?)</script>', path.read_text(), re.S).group(1))
        self.assertEqual(len(data["layouts"]), 10)
        self.assertGreaterEqual(len(data["scaling"]), 3)
        self.assertEqual(len(data["memory"]), data["layouts"][0]["pipeline"])
        self.assertEqual(len(data["timeline"]["tracks"]), data["layouts"][0]["pipeline"])

    def test_the_own_layout_stands_beside_the_best(self):
        sets = ("--set", "distributed.kind=ddp", "--set", "distributed.tensor=8", "--set", "distributed.pipeline=32")
        document = json.loads(self.plan("--json", "--global-batch", "3072", *sets).stdout)
        self.assertEqual((document["own"]["tensor"], document["own"]["pipeline"]), (8, 32))
        self.assertIn("\nown", self.plan("--global-batch", "3072", *sets).stdout)

    def test_what_cannot_be_is_refused_in_one_line(self):
        network = self.root / "slow.yaml"
        network.write_text(SLOW)
        self.refused(2, r"unknown device 'h20'; known are|did you mean 'h200'", device="h20")
        self.refused(2, r"slow\.yaml:1:\d+: networks\[0\]\.port_gbs: expected a positive number, got 0", arguments=("--network", network))
        self.refused(2, r"unknown network 'nvlink44', did you mean 'nvlink4'\?", arguments=("--network", "nvlink44"))
        self.refused(2, r"250 devices are not whole nodes of 8", world=250)
        self.refused(2, r"joins 8 devices, got nodes of 16", nodes=16)
        self.refused(1, r"no layout fits: the smallest, .* needs .* on each device", world=8)
        self.refused(2, r"amp\.mode: products in 32 bits", arguments=("--set", "amp.mode=fp32"))
        self.refused(2, r"model\.kind: lstm is not predicted on nodes; expected bert, gpt2 or llama",
                     arguments=("--set", "model={kind: lstm}"))

    def test_own_ranks_are_replayed_on_a_network(self):
        config, network = write_experiment(self.root, SMALL), self.root / "wire.yaml"
        network.write_text(WIRE)
        options = ("plan", config, "--world", "4", "--device", "here", "--network", network)
        result = run(*options, "--nodes-of", "2", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        document = json.loads(result.stdout)
        self.assertEqual([rank["rank"] for rank in document["ranks"]], [0, 2])
        for rank in document["ranks"]:
            self.assertAlmostEqual(rank["compute_ms"] + rank["bubble_ms"] + rank["exposed_ms"], rank["total_ms"], places=3)
            # The gradients of half a network are summed at 1 GB/s, and eight messages of 16 KiB go over the wire.
            self.assertGreater(rank["exposed_ms_by_axes"]["data"], 0)
            self.assertGreater(rank["bubble_ms"] + rank["exposed_ms"], 4 * 16.384)
        self.assertRegex(run(*options, "--nodes-of", "2").stdout, r"small: 4 ranks, 2 of a node.*\n\nstep [\d.]+ ms\n\nrank +computing ms")
        refused = run(*options, "--nodes-of", "2", "--html", self.root / "plan.html")
        self.assertEqual((refused.returncode, len(refused.stderr.splitlines())), (2, 1), refused.stderr)
        refused = run("plan", config, "--world", "3", "--device", "here", "--network", network, "--nodes-of", "1")
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertIn("distributed.pipeline is 2, which doesn't divide the 3 ranks", refused.stderr)
        refused = run("plan", config, "--world", "2", "--device", "here", "--nodes-of", "2")
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("expected --network", refused.stderr)
        refused = run("plan", config, "--device", "here")
        self.assertEqual((refused.returncode, len(refused.stderr.splitlines())), (2, 1), refused.stderr)


if __name__ == "__main__":
    unittest.main()
