"""Every key of an experiment, one at a time, away from its default: it changes what the run leaves, or is refused.

Keys whose effect a run's records can't show are listed with the reason.
"""
import collections
import concurrent.futures
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

from every_key_experiments import COMMON, EXPERIMENTS, STARTS, UNSEEN, write_data
from schema_numbers import least, resolved
from trainctl_process import TRAINCTL, metrics, run, temporary_directory, write_experiment

LONGEST_RUN_S = 120


def options_of(node, schema):
    node = resolved(node, schema)
    return [inner for option in node["anyOf"] for inner in options_of(option, schema)] if "anyOf" in node else [node]


def key_of(option):
    return option.get("properties", {}).get("kind", {}).get("const")


def scalars(option, current):
    """Values that the schema takes here beside the present one."""
    if "const" in option:
        return [option["const"]]
    if "enum" in option:
        return option["enum"]
    if option["type"] == "boolean":
        return [False, True]
    if option["type"] == "null":
        return [None]
    if option["type"] == "string":
        return ["x"]
    is_number = isinstance(current, (int, float)) and not isinstance(current, bool)
    values = [current * 2, current / 2, current + 1, current - 1] if is_number else []
    values += [option.get("minimum", 0), 2, 1, 0.5, 0.1, 3]
    if option["type"] == "integer":
        values = [int(value) for value in values if value == int(value)]
    return [value for value in values if option.get("minimum", value) <= value <= option.get("maximum", value)]


def variations(node, schema, path, current, every_kind, depth=0):
    """(path, value before, values after) of a place: None before stands for what the experiment says. `current` is the resolved value."""
    options = list(options_of(node, schema))
    is_mapping = isinstance(current, dict)
    own = next((option["properties"] for option in options if is_mapping and "properties" in option and key_of(option) in (None, current.get("kind"))), {})
    for option in options:
        if "properties" in option:
            is_current = option["properties"] is own
            if not is_current and (key_of(option) and not every_kind or depth > 2):
                continue
            kind = {"kind": key_of(option)} if key_of(option) else {}
            place = path + "".join(f"{{{name}}}" for name in kind.values())
            starts = next((start for pattern, start in STARTS.items() if re.fullmatch(pattern, place)), {})
            chosen = current if is_current else {**kind, **least(option, schema), **starts}
            if not is_current and chosen:
                yield place, None, [chosen]
            kept = {} if is_current else chosen
            for key, child in option["properties"].items():
                if key == "kind" or not is_current and own.get(key) == child and is_nested(child, schema):
                    continue
                default = resolved(child, schema).get("default")
                for inner, before, after in variations(child, schema, f"{place}.{key}", chosen.get(key, default), every_kind, depth + 1):
                    yield inner, {**kept, **({} if before is None else {key: before})} or None, [{**kept, key: value} for value in after]
        elif option.get("type") == "array" and depth <= 2:
            yield from variations_of_list(option["items"], schema, path, current if isinstance(current, list) else [], every_kind, depth + 1)
    values = [value for option in options if option.get("type") not in ("object", "array") for value in scalars(option, current)]
    present = current.get("kind") if is_mapping else current  # a kind may be given by its name alone
    values = [value for i, value in enumerate(values) if value != present and value not in values[:i]]
    if values:
        yield path, None, values


def is_nested(node, schema):
    return any(option.get("type") in ("object", "array") for option in options_of(node, schema))


def variations_of_list(node, schema, path, current, every_kind, depth):
    """A list without elements, each element's own keys, and one more of each kind behind the first."""
    items = options_of(node, schema)
    if current:
        yield f"{path}[]", None, [[]]
    for i, element in enumerate(current):
        if isinstance(element, dict):
            for inner, before, after in variations(node, schema, f"{path}[{i}]", element, False, depth):
                lists = [[*current[:i], merged(element, value), *current[i + 1:]] for value in ([] if before is None else [before]) + after]
                yield inner, None if before is None else lists.pop(0), lists
    added = [[*current[:1], value, *current[1:]] for item in items for value in item.get("enum", [least(item, schema)])]
    if not (every_kind and any("properties" in item for item in items)):
        yield f"{path}[]", None, added
        return
    for inner, before, after in variations(node, schema, f"{path}[]", None, True, depth):
        yield inner, None if before is None else [*current[:1], before, *current[1:]], [[*current[:1], value, *current[1:]] for value in after]


def merged(there, change):
    """The document with a change: keys of the same kind are laid over each other."""
    if isinstance(there, dict) and isinstance(change, dict) and change.get("kind", there.get("kind")) == there.get("kind"):
        return {**there, **{key: merged(there.get(key), value) for key, value in change.items()}}
    return change


def left_by(directory):
    """What a run leaves: its records, files, weights, and what it says, without what a clock decides."""
    files = sorted(f"{path.relative_to(directory)} {path.resolve().name}" for path in directory.rglob("*") if path.is_file() or path.is_symlink())
    content = [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(directory.rglob("*.safetensors"))]
    for name in ("predictions.json", "README.md"):
        if (directory / name).exists():
            content.append((directory / name).read_text())
    notices = [json.loads(line) for line in (directory / "notices.jsonl").read_text().splitlines()]
    said = [re.sub(r"[\d.,]+", "#", notice["text"]) for notice in notices if notice["level"] != "info"]
    return [re.sub(r"\d{6,}\.\w+", "#", name) for name in files], content, metrics(directory), said


def is_unseen(experiment, path):
    return any(re.fullmatch(pattern, place) for pattern in UNSEEN for place in (path, f"{experiment}:{path}"))


def is_told(code, error):
    """Whether a run that failed says why, in words for its user."""
    return code in (1, 2) and "please report it" not in error


class EveryKey(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(cls.enterClassContext(temporary_directory()))
        write_data(cls.root)
        cls.schema = json.loads(run("config", "schema").stdout)
        cls.results = {}

    def train(self, experiment, ranks):
        """(exit code, what it leaves or the error). The same experiment isn't trained again."""
        text = yaml.safe_dump(experiment, sort_keys=False)
        if text not in self.results:
            directory = pathlib.Path(tempfile.mkdtemp(dir=self.root))
            config = write_experiment(self.root, text, f"{directory.name}.yaml")
            result = subprocess.run([TRAINCTL, "train", config, "--run-dir", directory / "run", "--no-progress", "--nproc", str(ranks)],
                                    capture_output=True, text=True, errors="replace", cwd=self.root, timeout=LONGEST_RUN_S)
            self.results[text] = result.returncode, left_by(directory / "run") if result.returncode == 0 else result.stderr
            shutil.rmtree(directory)
        return self.results[text]

    def outcome(self, base, ranks, section, path, before, after):
        """How a key's values show: 'effect', 'refused', 'none', 'exit code …', or 'base …' where the run without them is refused."""
        key = re.findall(r"\w+", path)[-1]
        start = base if before is None else {**base, section: merged(base.get(section), before)}
        code, plain = self.train(start, ranks)
        if code != 0:
            return f"base {code}" if is_told(code, plain) else f"exit code {code}", plain.strip()[-300:]
        codes = []
        for value in after[:2] if is_unseen(base["name"], path) else after:
            code, left = self.train({**start, section: merged(start.get(section), value)}, ranks)
            codes.append(code)
            if code == 0 and (left[:3] != plain[:3] or any(key in line for line in left[3] if line not in plain[3])):
                return "effect", None
            if code != 0 and not is_told(code, left):
                return f"exit code {code}", left[-300:]
        return ("none", [value for value, code in zip(after, codes) if code == 0]) if 0 in codes else ("refused", left.strip()[-200:])

    def check(self, name):
        tried = EXPERIMENTS[name]
        base = merged(yaml.safe_load(COMMON), {"name": name, **yaml.safe_load(tried.text)})
        config = write_experiment(self.root, yaml.safe_dump(base), f"{name}.yaml")
        shown = run("config", "show", config, cwd=self.root)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        code, left = self.train(base, tried.ranks)
        self.assertEqual(code, 0, left)
        current = yaml.safe_load(shown.stdout)
        cases = []
        for section, node in self.schema["$defs"]["whole"]["properties"].items():
            if section in ("name", "plugins") or tried.sections is not None and section not in tried.sections:
                continue
            every_kind = section in tried.every_kind
            if section in ("model", "dataset"):  # its own kind, whose parts may be of every kind
                node = next(option for option in options_of(node, self.schema) if key_of(option) == current[section]["kind"])
            cases += [(section, *case) for case in variations(node, self.schema, section, current.get(section), every_kind)]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(lambda case: self.outcome(base, tried.ranks, *case), cases))
        counts = collections.Counter(outcome for outcome, _ in outcomes)
        print(f"{name}: {len(cases)} keys: {dict(counts)}", file=sys.stderr)
        for (section, path, _, _), (outcome, detail) in zip(cases, outcomes):
            with self.subTest(experiment=name, key=path):
                self.assertNotIn("exit code", outcome, detail)
                if outcome == "none":
                    self.assertTrue(is_unseen(name, path), f"{detail} are taken, and change nothing")
        self.assertGreater(counts["effect"], 0)


for name in EXPERIMENTS:
    setattr(EveryKey, f"test_{name}", lambda self, name=name: self.check(name))

if __name__ == "__main__":
    unittest.main()
