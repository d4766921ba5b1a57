#!/usr/bin/env python3
"""Compares the graph of libraries in src/CMakeLists.txt with what the sources include. Prints each violation; exit 1 if any.

- A folder includes itself and the folders in its DEPENDS; the graph has no cycle.
- From another folder one includes its config.h, its front door (folder/folder.h), and the headers listed in PUBLIC.
- experiment and the front also include every section's config.h, which in turn never sees LibTorch.
- Libraries without TORCH, config.h files and the front (apps/trainctl/*.cpp) include no LibTorch header.
- Tests see what their folder sees, and all of their own folder.
"""
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Headers, besides front doors and config.h, that other folders may include; "*" is all of them.
PUBLIC = {
    "core": ["*"],
    "comparison": ["report.h", "runs.h"],
    "config": ["*"],
    "machine": ["*"],
    "runtime": ["*"],
    "experiment": ["*"],
    "cluster": ["failure.h", "gradient_reducer.h", "group.h", "launch.h", "world.h"],
    "kernels": ["*"],
    "model": ["layer.h", "layers/batch_norm.h", "layers/convolution.h", "layers/embedding.h", "layers/fan_out.h", "layers/low_rank.h", "layers/lstm_operator.h", "layers/transposed_linear.h", "lora.h", "sequence.h"],
    "task": ["model_input.h"],
    "tokenizer": ["train_bpe.h"],
    "dataset": ["bad_samples.h", "calibration.h", "inputs.h", "missing_inputs.h", "outline.h", "prepare.h", "sharding.h", "wait_cause.h"],
    "distributed": ["kinds.h"],
    "optimizer": ["schedule.h"],
    "checkpoint": ["gather_texts.h", "node_snapshots.h", "safetensors.h"],
    "plan": ["choose.h", "device_rates.h", "fit.h", "kernel_workspaces.h", "out_of_memory.h", "prediction.h", "report.h", "time_report.h", "trial.h"],
    "quantization": ["measure.h", "training.h"],
    "tracking": ["event.h"],
    "profiler": ["page.h", "summary.h", "verdicts/verdicts.h"],
    "train": ["device_feed.h", "evaluate.h", "initial_weights.h", "profile.h", "provenance.h", "replicas.h", "restore.h", "run.h", "run_directory.h", "step.h", "stop_signal.h", "trainer.h"],
}
TORCH_HEADER = re.compile(r"^(ATen|c10|torch|caffe2)/")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.M)


def read_graph():
    """folder -> (direct dependencies, may include LibTorch), in the order of the file."""
    text = re.sub(r"#.*", "", (ROOT / "src/CMakeLists.txt").read_text())
    graph = {}
    for arguments in re.findall(r"trainctl_library\(([^)]*)\)", text):
        name, *rest = arguments.split()
        lists, current = {"DEPENDS": [], "LINKS": []}, None
        for word in rest:
            if word in lists:
                current = word
            elif word not in ("TORCH", "EACH_ALONE"):
                lists[current].append(word)
        graph[name] = (lists["DEPENDS"], "TORCH" in rest)
    return graph


def closure(graph, folder, seen=None):
    seen = set() if seen is None else seen
    for dependency in graph[folder][0]:
        if dependency not in seen and dependency in graph:
            seen.add(dependency)
            closure(graph, dependency, seen)
    return seen


def check_graph(graph):
    for folder, (dependencies, torch) in graph.items():
        if not (ROOT / "src" / folder).is_dir():
            yield f"src/CMakeLists.txt: {folder} has no folder"
        for dependency in dependencies:
            if dependency not in graph:
                yield f"src/CMakeLists.txt: {folder} depends on {dependency}, which is no library"
            elif graph[dependency][1] and not torch:
                yield f"src/CMakeLists.txt: {folder} has no TORCH, but its dependency {dependency} has"
        if folder in closure(graph, folder):
            yield f"src/CMakeLists.txt: {folder} depends on itself through its dependencies"
    for folder in sorted(p.name for p in (ROOT / "src").iterdir() if p.is_dir() and any(p.iterdir())):
        if folder not in graph:
            yield f"src/{folder}: not in src/CMakeLists.txt"


def is_public(folder, header):
    allowed = PUBLIC.get(folder, [])
    return "*" in allowed or header in ("config.h", f"{folder}.h") or header in allowed


def includes(path):
    text = path.read_text()
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield f"{os.path.relpath(path, ROOT)}:{line}", match[1]


def sources(directory, pattern="**/*"):
    return sorted(p for p in (ROOT / directory).glob(pattern) if p.suffix in (".h", ".cpp", ".cu", ".cuh"))


def check_file(graph, path, own, visible, torch):
    """`own`: the folder whose inner headers the file may see, or ""; `visible`: the others that it may include."""
    for where, header in includes(path):
        if TORCH_HEADER.match(header) and not torch:
            yield f"{where}: includes {header}, but no LibTorch may be seen here"
        folder, slash, rest = header.partition("/")
        if not slash or folder not in graph or folder == own:
            continue
        if rest == "config.h" and own in ("experiment", ""):
            continue
        if folder not in visible:
            yield f"{where}: includes {header}, but {folder} is not among the dependencies"
        elif not is_public(folder, rest):
            yield f"{where}: includes {header}, which is internal to {folder} (its front door is {folder}/{folder}.h)"


def check_includes(graph):
    for folder, (dependencies, torch) in graph.items():
        for path in sources(f"src/{folder}"):
            yield from check_file(graph, path, folder, dependencies, torch and path.name != "config.h")
        for path in sources(f"tests/{folder}"):
            yield from check_file(graph, path, folder, closure(graph, folder), torch)
    torch_free = [folder for folder, (_, torch) in graph.items() if not torch]
    for path in sources("apps/trainctl", "*"):
        yield from check_file(graph, path, "", torch_free, False)
    for path in sources("apps/trainctl/engine"):
        yield from check_file(graph, path, "", list(graph), True)


def main():
    graph = read_graph()
    problems = [*check_graph(graph), *check_includes(graph)]
    print("\n".join(problems) or f"{len(graph)} libraries: the graph and the includes agree")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
