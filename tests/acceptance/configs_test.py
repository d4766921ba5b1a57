"""The files in configs/, the schema and the reference: in step with the program, and understood by other tools."""
import ast
import collections
import json
import pathlib
import re
import unittest

import jsonschema
import yaml

from trainctl_process import run, temporary_directory

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGS = sorted((ROOT / "configs").rglob("*.yaml"))
README_EXAMPLES = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.S)


# Pages that tell of the program; those on plug-ins have kinds of their own.
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/guides").glob("*.md"))]
PAGES.remove(ROOT / "docs/plugins.md")
# How pages name those that no key of an experiment chooses.
PLACES = {"Export formats": r"trainctl export [^`\n]*--format", "Quantization methods": r"trainctl quantize [^`\n]*--method", "Trackers": r"trainctl track [^`\n]*--to"}


def read_kinds():
    """The lists of docs/kinds.md: by the last key of their path, or by their title."""
    kinds = {}
    for section in re.split(r"^## ", (ROOT / "docs/kinds.md").read_text(), flags=re.M)[1:]:
        title, text = section.split("\n", 1)
        name = re.match(r"`(?:.*\.)?(\w+)(?:\[\])?`|(.*)", title)
        kinds.setdefault(name[1] or name[2], set()).update(re.findall(r"(?:\[|^\| )`(\w+)`", text, re.M))
    return {name: words for name, words in kinds.items() if name not in ("Metrics of each task", "Instruction sets", "Commands")}


KINDS = read_kinds()


def templates(source):
    """Texts of a Python program that str.format makes an experiment of, with the lines on which they begin."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search(r"^(dataset|model|optimizer|train): ", node.value, re.M):
            yield node.lineno, node.value


class Yaml12Loader(yaml.SafeLoader):
    """Numbers as YAML 1.2 and editors read them: PyYAML takes 3e-4 for a text, and `on` for true."""

    yaml_implicit_resolvers = {key: list(value) for key, value in yaml.SafeLoader.yaml_implicit_resolvers.items()}


for first, resolvers in Yaml12Loader.yaml_implicit_resolvers.items():
    resolvers[:] = [(tag, pattern) for tag, pattern in resolvers if tag not in ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:float")]
Yaml12Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(true|false)$"), list("tf"))
Yaml12Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][-+]?\d+)?$"), list("-+.0123456789"))


class Configs(unittest.TestCase):
    def assert_generated(self, name, *command):
        want = run("config", *command)
        self.assertEqual(want.returncode, 0, want.stderr)
        self.assertEqual((ROOT / name).read_text(), want.stdout,
                         f"{name} is out of date: trainctl config {' '.join(command)} > {name}")

    def test_schema_is_fresh(self):
        self.assert_generated("configs/schema.json", "schema")

    def test_reference_is_fresh(self):
        self.assert_generated("docs/reference.md", "reference")

    def test_kinds_are_fresh(self):
        self.assert_generated("docs/kinds.md", "kinds")

    def test_pages_link_to_the_kinds(self):
        for page in ("README.md", "docs/index.md", "docs/guides/scope.md", "docs/comparison.md", "docs/faq.md", "docs/layers.md"):
            self.assertIn("kinds.md", (ROOT / page).read_text(), page)

    def test_pages_name_no_kind_that_does_not_exist(self):
        num_named = 0
        for name, known in KINDS.items():
            place = PLACES.get(name, name + ": {kind:")
            for page in PAGES:
                for words in re.findall(place + r" ([a-z][\w,]*)", page.read_text()):
                    with self.subTest(page=page.name, of=name):
                        self.assertLessEqual(set(words.rstrip(",").split(",")), known)
                    num_named += 1
        self.assertGreater(num_named, 100)

    def test_every_config_checks(self):
        self.assertTrue(CONFIGS)
        for path in CONFIGS:
            result = run("check", "--file-only", path)
            self.assertEqual(result.returncode, 0, f"{path.name}: {result.stdout}{result.stderr}")

    def test_every_config_satisfies_the_schema(self):
        schema = json.loads((ROOT / "configs/schema.json").read_text())
        validator_type = jsonschema.validators.validator_for(schema)
        validator_type.check_schema(schema)
        validator = validator_type(schema)
        for path in CONFIGS:
            problems = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(yaml.load(path.read_text(), Yaml12Loader))]
            self.assertEqual(problems, [], path.name)

    def test_the_schema_refuses_an_unknown_key(self):
        schema = json.loads((ROOT / "configs/schema.json").read_text())
        document = yaml.load(CONFIGS[0].read_text(), Yaml12Loader)
        document["optimiser"] = {}
        self.assertFalse(jsonschema.validators.validator_for(schema)(schema).is_valid(document))

    def test_the_readme_shows_valid_experiments(self):
        self.assertTrue(README_EXAMPLES)
        for example in README_EXAMPLES:
            path = pathlib.Path(self.enterContext(temporary_directory())) / "exp.yaml"
            path.write_text(example)
            result = run("check", "--file-only", path)
            self.assertEqual(result.returncode, 0, f"{example}{result.stdout}{result.stderr}")

    def test_each_section_of_the_reference_has_an_example_that_checks(self):
        head, *sections = re.split(r"^## ", (ROOT / "docs/reference.md").read_text(), flags=re.M)
        directory = pathlib.Path(self.enterContext(temporary_directory()))
        (directory / "base.yaml").write_text(re.search(r"```yaml\n(.*?)```", head, re.S)[1])
        self.assertGreater(len(sections), 10)
        for section in sections:
            name = re.match(r"`(\w+)(?:\[\])?`", section)[1]
            examples = re.findall(r"```yaml\n(.*?)```", section, re.S)
            self.assertEqual(len(examples), 1, name)
            self.assertRegex(examples[0], rf"(?m)^{name}:")
            (directory / "example.yaml").write_text(examples[0])
            result = run("check", "--file-only", "example.yaml", cwd=directory)
            self.assertEqual(result.returncode, 0, f"{name}: {result.stdout}{result.stderr}")

    def test_the_reference_describes_each_key_of_a_mapping_once(self):
        tables = re.findall(r"^\| key \|.*?\n\n", (ROOT / "docs/reference.md").read_text(), re.M | re.S)
        repeated = [table.splitlines()[2] for table, count in collections.Counter(tables).items() if count > 1]
        self.assertGreater(len(tables), 50)
        self.assertEqual(repeated, [])

    def test_the_benchmarks_write_no_renamed_key(self):
        directory = pathlib.Path(self.enterContext(temporary_directory()))
        found = [(path, line, text) for path in sorted((ROOT / "benchmarks").glob("*.py")) for line, text in templates(path.read_text())]
        self.assertGreater(len(found), 10)
        for path, line, text in found:
            (directory / "exp.yaml").write_text(text.format_map(collections.defaultdict(int)) if "{{" in text else text)
            result = run("check", "--file-only", directory / "exp.yaml")
            with self.subTest(file=path.name, line=line):
                self.assertNotIn("renamed to", result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main()
