#!/usr/bin/env python3
"""Compares the graph of libraries in src/CMakeLists.txt with what the sources include. Prints each violation; exit 1 if any.

- A folder includes itself and the folders in its DEPENDS; the graph has no cycle.
- From another folder one includes its config.h, its front door (folder/folder.h), and the headers listed in PUBLIC.
- experiment, plugin and the front also include every section's config.h, which in turn never sees LibTorch.
- Libraries without TORCH, config.h files and the front (apps/trainctl/*.cpp) include no LibTorch header.
- Within a folder, sub-folders are layers too: at each level, the graph of its sub-folders and its own files has no cycle.
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
    "machine": ["*"],
    "html_report": ["page.h"],
    "config": ["*"],
    "runtime": ["*"],
    "chat_template": ["template_files.h"],
    "tokenizer": ["train_bpe.h"],
    "kernels": ["*"],
    "roofline": ["device_peaks.h", "op_cost.h", "operations.h"],
    "comm": ["device_mesh.h", "failure.h", "group.h", "launch/launch.h", "reduce/gradient_reducer.h", "world.h"],
    "cluster": ["*"],
    "replay": ["*"],
    "layer_graph": ["infer.h", "inspect.h", "shape.h"],
    "pipeline": ["operations.h", "schedule.h", "timeline.h"],
    "dataset": ["calibration.h", "chat_prompt.h", "description.h", "first_rows.h", "inputs.h", "loader/bad_samples.h", "loader/wait_cause.h", "missing_inputs.h", "batch_spec.h", "prepare.h", "seq2seq_prompt.h", "shown_sample.h", "shown_text.h", "sources.h", "standardization.h", "loader/loader.h"],
    "model": ["deferred_weight_gradients.h", "foreign_file.h", "layer.h", "adapter_json.h", "layers/batch_norm.h", "layers/convolution.h", "layers/embedding.h", "layers/linear.h", "layers/shared_input.h", "layers/low_rank.h", "layers/lstm_operator.h", "layers/transposed_linear.h", "transformers_keys.h", "llama_families.h", "llama_json.h", "lora.h", "placement.h", "sequence.h", "torch_archive.h", "traits.h", "layer_list/operators.h", "layers/layer_norm.h", "layers/rms_norm.h"],
    "task": ["examples.h", "metric.h", "micro_batch.h"],
    "optimizer": ["schedule.h"],
    "distributed": ["kinds.h"],
    "checkpoint": ["average.h", "gather_texts.h", "node_snapshots.h", "safetensors.h", "snapshot.h"],
    "tracking": ["event.h", "trackers/delivery.h", "trackers/follow.h", "trackers/tracker_kinds.h"],
    "profiler": ["page.h", "summary.h", "findings/findings.h"],
    "quantization": ["measure.h", "training.h", "workarounds/int8_gemm.h"],
    "data_tools": ["inspect.h", "preview.h", "sharding.h"],
    "pretrained": ["adapter_file.h", "class_order.h", "export_adapters.h", "export_weights.h", "hugging_face_config.h", "model_info.h", "tokenizer_files.h", "state_dict_adapter.h", "torch_file.h", "weights_source.h"],
    "inference": ["generate.h", "predict.h", "text_stream.h"],
    "exporters": ["export_graph.h", "gguf/export_gguf.h", "graph_model.h", "model_card.h", "package/serving.h", "side_files.h", "signature.h", "tensorrt.h"],
    "experiment": ["*"],
    "plugin": ["abi.h", "command.h", "load.h"],
    "compare": ["curve.h", "evaluation_file.h", "record_json.h", "report.h", "run_record.h", "runs.h", "text_table.h"],
    "runs": ["clean.h", "run_directories.h", "run_lock.h"],
    "train": ["loop/coordinate_check.h", "loop/device_feed.h", "loop/evaluate.h", "loop/logits_of_samples.h", "loop/prediction_log.h", "loop/profile_loop.h", "loop/step.h", "loop/stop_signal.h", "loop/trainer.h", "profile/profile.h", "run/initial_weights.h", "run/provenance.h", "run/replicas.h", "run/restore.h", "run/run.h", "run/stored_logits.h", "run/run_directory.h"],
    "plan": ["choose.h", "fit.h", "memory/kernel_workspaces.h", "out_of_memory.h", "prediction.h", "rehearsal/rehearse.h", "report.h", "time/device_rates.h", "trial.h"],
}
# What one folder alone may see of another beside that: tools that read and write the parts of data sets.
INNER = {
    ("data_tools", "dataset"): ["files/directory_walk.h", "files/file_list.h", "files/parquet_file.h", "files/parallel.h", "image/codec/decode.h", "image/codec/encoded_source.h", "image/in_memory.h", "image/transform/resample.h", "sampler/sampler.h", "shards/tar.h", "table/table_data.h", "text/reading/column_kind.h", "text/reading/table_layout.h", "text/reading/text_file.h"],
}
# What the tests of a folder see beside what the folder sees.
TESTS_ALSO = {"exporters": ["quantization"], "replay": ["pipeline"]}
# What describes kinds beside config.h, and sees no LibTorch either.
BESIDE_CONFIG = {"model": ["adapter_json.h", "llama_families.h", "llama_json.h", "transformers_keys.h"]}
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
            elif word != "TORCH":
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


def is_public(folder, header, own):
    allowed = [*PUBLIC.get(folder, []), *INNER.get((own, folder), [])]
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
        if own in ("experiment", "plugin", "") and (rest == "config.h" or rest in BESIDE_CONFIG.get(folder, [])):
            continue
        if folder not in visible:
            yield f"{where}: includes {header}, but {folder} is not among the dependencies"
        elif not is_public(folder, rest, own):
            yield f"{where}: includes {header}, which is internal to {folder} (its front door is {folder}/{folder}.h)"


def check_includes(graph):
    for folder, (dependencies, torch) in graph.items():
        for path in sources(f"src/{folder}"):
            yield from check_file(graph, path, folder, dependencies, torch and path.name != "config.h")
        for path in sources(f"tests/{folder}"):
            yield from check_file(graph, path, folder, closure(graph, folder).union(TESTS_ALSO.get(folder, [])), torch)
    torch_free = [folder for folder, (_, torch) in graph.items() if not torch]
    for path in sources("apps/trainctl", "*"):
        yield from check_file(graph, path, "", torch_free, False)
    for path in sources("apps/trainctl/engine"):
        yield from check_file(graph, path, "", list(graph), True)


def find_cycle(edges):
    """A list of nodes that each include the next, the last one the first; or None."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node):]
        if node in done:
            return None
        path.append(node)
        for successor in sorted(edges.get(node, {})):
            if cycle := visit(successor):
                return cycle
        path.pop()
        done.add(node)
        return None

    return next(filter(None, map(visit, sorted(edges))), None)


def check_sub_folders():
    """In each folder that has sub-folders: a node is a sub-folder with all that is in it, or a file."""
    files = {p.relative_to(ROOT / "src").as_posix(): p for p in sources("src")}
    included = {name: [header for _, header in includes(path) if header in files] for name, path in files.items()}
    for directory in sorted(p.relative_to(ROOT / "src").as_posix() for p in (ROOT / "src").glob("**/*") if p.is_dir()):
        edges = {}
        for name, headers in included.items():
            for header in headers:
                if name.startswith(directory + "/") and header.startswith(directory + "/"):
                    one, other = (file[len(directory) + 1:].partition("/") for file in (name, header))
                    if one[0] != other[0]:
                        edges.setdefault("".join(one[:2]), {}).setdefault("".join(other[:2]), f"{name} includes {header}")
        if cycle := find_cycle(edges):
            steps = [edges[one][other] for one, other in zip(cycle, [*cycle[1:], cycle[0]])]
            yield f"src/{directory}: a cycle of {', '.join(cycle)}: {'; '.join(steps)}"


def main():
    graph = read_graph()
    problems = [*check_graph(graph), *check_includes(graph), *check_sub_folders()]
    print("\n".join(problems) or f"{len(graph)} libraries: the graph and the includes agree")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
