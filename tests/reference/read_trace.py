#!/usr/bin/env python3
"""A trace as others read it: one JSON line.

  read_trace.py TRACE

"hta": for each whole step that Holistic Trace Analysis sees, the time of the spans and operators in it, microseconds. Its own
breakdowns (temporal, kernels, overlap) are of GPU kernels, so of a CPU's trace its table of events is what there is.
"tensorboard": what torch-tb-profiler's page shows: each step's time, the operators' self time and calls, microseconds.
"""
import json
import logging
import pathlib
import shutil
import sys
import tempfile

logging.disable(logging.WARNING)


def by_hta(path):
    from hta.trace_analysis import TraceAnalysis
    analysis = TraceAnalysis(trace_files={0: str(path)}, trace_dir="")
    table, symbols = analysis.t.get_trace(0), analysis.t.symbol_table.sym_table
    names = table["name"].map(lambda index: symbols[index])
    categories = table["cat"].map(lambda index: symbols[index])
    steps = {}
    for step in analysis.get_profiler_steps():
        inside = table["iteration"] == step
        steps[int(step)] = {category: table[inside & (categories == category)].groupby(names)["dur"].agg(["sum", "count"]).T.to_dict()
                            for category in ("user_annotation", "cpu_op")}
    return steps


def by_tensorboard(path):
    from torch_tb_profiler.io import Cache
    from torch_tb_profiler.profiler.loader import RunLoader
    with tempfile.TemporaryDirectory() as directory:
        shutil.copy(path, directory)
        run = RunLoader("run", directory, Cache(directory)).load()
    profile = next(iter(run.profiles.values()))
    operators = {}
    for row in profile.operation_table_by_name["data"]:
        operators[row["name"]] = {"calls": row["calls"], "self_us": row["host_self_duration"]}
    rows = profile.overview["steps"]["rows"]  # number, then pairs of a value and its tooltip
    return {"steps": {row[0]: sum(row[1::2]) for row in rows}, "operators": operators, "views": [str(view) for view in profile.views]}


if __name__ == "__main__":
    trace = pathlib.Path(sys.argv[1])
    print(json.dumps({"hta": by_hta(trace), "tensorboard": by_tensorboard(trace)}))
