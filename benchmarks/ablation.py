#!/usr/bin/env python3
"""What each strategy is worth to BERT's pretraining and to ResNet-50, in small: `trainctl compare --ablate` on configs/ablation/,
its pages into build/ablation/ and its figures into the table of docs/compare.md. About fifteen minutes on two quiet cores."""
import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
RUNS = {
    "bert": ("BERT-mini, masked words", "amp,accumulation,workers,fused,activation_checkpointing"),
    "resnet50": ("ResNet-50, 64 pixels", "amp,accumulation,workers,fused,activation_checkpointing,channels_last"),
}
BEGIN, END = "<!-- ablation.py writes this -->\n", "<!-- to here -->\n"


def prepare():
    """Text, vocabulary and photos."""
    subprocess.run([sys.executable, ROOT / "scripts/fetch_data.py", "shakespeare", "minilm", "photos"], check=True)
    if not (ROOT / ".deps/data/photo_tree").exists():
        photos = sorted((ROOT / ".deps/data/photos/sklearn/datasets/images").glob("*.jpg"))
        subprocess.run([ROOT / ".deps/python/bin/python3", ROOT / "benchmarks/photo_tree.py", ROOT / ".deps/data/photo_tree", "--count", "400",
                        "--classes", "2", "--photos", *photos], check=True)


def measure(name, options):
    options.pages.mkdir(parents=True, exist_ok=True)
    page = options.pages / f"{name}.html"
    command = [options.trainctl, "compare", f"configs/ablation/{name}.yaml", "--ablate", RUNS[name][1], "--steps", str(options.steps),
               "--warmup", "3", "--rounds", str(options.rounds), "--html", page, "--json"]
    return json.loads(subprocess.run(list(map(str, command)), cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout)


def interval(variant):
    return "" if variant["name"] == "baseline" or "speedup_95" not in variant else f" ({variant['speedup_95'][0]:.2f}–{variant['speedup_95'][1]:.2f})"


def table(name, report):
    rows = [f"{RUNS[name][0]}, {report['machine']}, {report['rounds']} interleaved rounds of {report['steps']} steps:\n",
            "| variant | step | speed (95 %) | memory | loss against the baseline |", "|---|---|---|---|---|"]
    for variant in report["variants"]:
        rows.append(f"| {variant['name']} | {variant['step_ms']:.0f} ms | {variant['speedup']:.2f}×{interval(variant)} | {variant['memory']:.2f}× | "
                    f"{100 * variant['loss_gap']:+.2f} % |")
    return "\n".join(rows) + f"\n\nRecommended: {report['recommended']}.\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="*", default=list(RUNS), help=f"of {', '.join(RUNS)}")
    parser.add_argument("--trainctl", type=pathlib.Path, default=ROOT / "build/release/bin/trainctl")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--pages", type=pathlib.Path, default=ROOT / "build/ablation", help="where pages go")
    options = parser.parse_args()
    prepare()
    text = "\n".join(table(name, measure(name, options)) for name in options.runs)
    print(text)
    if set(options.runs) != set(RUNS):
        return
    guide = ROOT / "docs/compare.md"
    guide.write_text(re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: f"{BEGIN}\n{text}\n{END}", guide.read_text(), flags=re.S))


if __name__ == "__main__":
    main()
