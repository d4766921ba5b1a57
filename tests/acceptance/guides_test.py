"""Every command in docs/guides, run in order on small data: it ends with the right code, and prints lines like those that the guide shows."""
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

import guide_page
from trainctl_process import ROOT, TRAINCTL, temporary_directory

GUIDES = sorted((ROOT / "docs/guides").glob("*.md"))
COMMANDS_FOR_OWN_DATA = 4
NO_DATA = 69  # of scripts/guide_data.py
OWN_DATA = ("photos", "texts", "table", "language_model", "fine_tune_bert")


SECTIONS = "device|dataset|model|task|optimizer|amp|accumulation|activation_checkpointing|distributed|train|checkpoint|tracking|quantization"
IN_TEXT = re.compile(rf"`((?:{SECTIONS}): [^`]+)`")
# Experiments under what the pages write in a line. A line that fits none of them is wrong.
BASES = {
    "images": "dataset: {kind: image_folder, train: photos, eval: photos, transforms: [{kind: random_resized_crop, size: 64}]}\nmodel: resnet18\n",
    "texts": "dataset: {kind: text_classification, train: a.csv, eval: b.csv, tokenizer: bytes}\nmodel: bert\n",
    "language": "dataset: {kind: text_lm, train: a.txt, eval: b.txt, tokenizer: bytes, seq_len: 128}\nmodel: gpt2\n",
    "tables": "dataset: {kind: table, train: a.csv, label: x}\nmodel: mlp\n",
}


def page_of(name):
    return guide_page.read_page((ROOT / f"docs/guides/{name}.md").read_text())


class Guides(unittest.TestCase):
    def run_command(self, command, root):
        environment = {**os.environ, "PATH": f"{root}/bin:{os.environ['PATH']}"}
        began = time.monotonic()
        result = subprocess.run(["bash", "-c", command.text], cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, timeout=900)
        print(f"  {time.monotonic() - began:5.1f} s  {command.text}", file=sys.stderr, flush=True)
        self.assertEqual(result.returncode, command.exit_code, f"line {command.line}: {command.text}\n{result.stdout}")
        missing = guide_page.missing_line(command.expected, result.stdout.splitlines())
        self.assertIsNone(missing, f"line {command.line}: {command.text}\nprints no line like the one above, after those before it:\n{result.stdout}")

    def follow(self, page):
        root = pathlib.Path(self.enterContext(temporary_directory()))
        (root / "bin").mkdir()
        (root / "bin/trainctl").symlink_to(TRAINCTL)
        if page.data:
            made = subprocess.run([sys.executable, ROOT / "scripts/guide_data.py", root, *page.data], capture_output=True, text=True)
            if made.returncode == NO_DATA:
                self.skipTest(made.stderr)
            self.assertEqual(made.returncode, 0, made.stderr)
        for step in page.steps:
            if isinstance(step, guide_page.Command):
                self.run_command(step, root)
            else:
                (root / step[0]).write_text(step[1])

    def test_own_data_takes_four_commands_at_most(self):
        for name in OWN_DATA:
            commands = [step for step in page_of(name).steps if isinstance(step, guide_page.Command)]
            verbs = [command.text.split()[1] for command in commands if command.text.startswith("trainctl ")]
            first = verbs[:COMMANDS_FOR_OWN_DATA]
            self.assertIn("train", first, name)
            self.assertTrue({"eval", "generate"} & set(first), f"{name}: {first}")
            self.assertIn("export", first, name)

    def test_a_translation_has_the_commands_of_its_original(self):
        steps = {name: [getattr(step, "text", step) for step in page_of(name).steps] for name in ("acceleration", "acceleration.zh")}
        self.assertEqual(steps["acceleration.zh"], steps["acceleration"])

    def test_a_command_that_is_not_run_has_its_reason(self):
        self.assertGreater(len(GUIDES), 8)
        for path in GUIDES:
            for line, reason in guide_page.read_page(path.read_text()).not_run:
                self.assertGreater(len(reason.split()), 2, f"{path.name}:{line}")


def test_of(path):
    """A test that follows the guide."""

    def test(self):
        page = guide_page.read_page(path.read_text())
        self.assertEqual(page.problems, [], path.name)
        self.assertTrue(page.steps)
        self.follow(page)

    return test


for guide in GUIDES:
    if not guide.stem.endswith(".zh"):
        setattr(Guides, f"test_{guide.stem}", test_of(guide))


class Lines(unittest.TestCase):
    """Lines of YAML inside sentences and tables."""

    def test_every_line_of_yaml_fits_an_experiment(self):
        directory = pathlib.Path(self.enterContext(temporary_directory()))
        for name, text in BASES.items():
            (directory / f"{name}.yaml").write_text(f"name: {name}\n{text}train: {{epochs: 1}}\n")
        pages = [*GUIDES, ROOT / "docs/faq.md"]
        lines = sorted({(path.name, line) for path in pages for line in IN_TEXT.findall(path.read_text())})
        self.assertGreater(len(lines), 30)
        for page, line in lines:
            answers = []
            for name in BASES:
                (directory / "line.yaml").write_text(f"base: {name}.yaml\n{line}\n")
                result = subprocess.run([TRAINCTL, "check", "--file-only", "line.yaml"], cwd=directory, capture_output=True, text=True)
                answers.append(result.stdout + result.stderr)
                if result.returncode == 0:
                    break
            else:
                self.fail(f"{page}: {line}\n" + "".join(answers))


class Pages(unittest.TestCase):
    """How a page is read."""

    def test_commands_files_options_and_exit_codes(self):
        page = guide_page.read_page("<!-- ci: data adult.data --share 4 -->\n<!-- ci: with trainctl train: --set a=1 -->\n"
                                    "<!-- ci: file x.yaml -->\n```yaml\nname: x\n```\n<!-- ci: exits 2 -->\n"
                                    "```console\n$ trainctl train x.yaml \\\n    --json > out\nwrong\n$ ls\n```\n```sh\nrm x\n```\n")
        self.assertEqual(page.data, ["adult.data", "--share", "4"])
        self.assertEqual(page.steps[0], ("x.yaml", "name: x\n"))
        self.assertEqual((page.steps[1].text, page.steps[1].expected, page.steps[1].exit_code),
                         ("trainctl train x.yaml --json --set a=1 > out", ["wrong"], 2))
        self.assertEqual(page.steps[2].text, "ls")
        self.assertEqual(len(page.problems), 1)

    def test_a_line_is_like_another_with_other_numbers_and_units(self):
        shown = "step 20/160  loss 2.3  lr 1e-05  1,204 samples/s  …  50 MiB  (1.2 s)"
        self.assertIsNone(guide_page.missing_line([shown], ["step 1/9  loss 12.25  lr 0.001  3 samples/s  data wait 1%  1.5 GiB  (80 ms)"]))
        self.assertEqual(guide_page.missing_line([shown], ["step 1/9  accuracy 12.25  lr 0.001  3 samples/s  x  1.5 GiB  (80 ms)"]), shown)
        self.assertIsNone(guide_page.missing_line(["  640 steps of 16 samples, 40 epochs"], ["  1 step of 16 samples, 1 epoch"]))
        self.assertEqual(guide_page.missing_line(["a 1", "b 2"], ["b 3", "a 4"]), "b 2")


if __name__ == "__main__":
    unittest.main()
