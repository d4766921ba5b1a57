// report.html of `trainctl profile`: page.data is summary.json (docs/profile.md says what is in it).
"use strict";

(() => {
  const {format} = page;
  const summary = page.data;
  const {run, device, machine, steps, operators, timeline: recorded, distributed} = summary;
  const peaks = summary.peaks ?? {}, memory = summary.memory ?? {}, overhead = summary.overhead ?? {};
  const isCuda = device.kind === "cuda";
  const words = name => name.replace(/_/g, " ");
  const rate = unit => value => value ? `${format.si(value)}${unit}` : "–";
  const flops = rate("FLOP/s"), bytes = rate("B/s");
  const small = value => value > 0 && value < 1e-3 ? "< 0.001" : format.measured(value);

  const kParts = {data_wait: "var(--c1)", host_to_device: "var(--c4)", forward: "var(--c0)", backward: "var(--c2)", optimizer: "var(--c3)",
                  communication: "var(--c5)", other: "var(--soft)"};
  const kCategories = {parameters: "var(--c0)", gradients: "var(--c2)", optimizer: "var(--c3)", activations: "var(--c1)", workspace: "var(--c4)", other: "var(--soft)"};
  const kFlags = {
    tiny: "calls so short that their overhead weighs more than their work", launch_bound: "the device is idle meanwhile", low_occupancy: "under a quarter of the threads that fit",
    layout_conversion: "copies between memory formats", fp32_matrix: "a matrix product in fp32 where bf16 is faster here",
    synchronises: "the host waits for the device", inefficient: "below a fifth of what this device can do at its intensity",
  };
  const flag = name => page.element("span", {class: "flag", title: kFlags[name]}, words(name));
  const flagged = flags => page.element("span", {}, ...flags.map(flag));

  function head() {
    const {main} = page;
    main().append(page.element("p", {class: "note"}, [run.model, `${format.number(run.num_parameters)} parameters`, run.precision,
      `${run.micro_batches > 1 ? `${run.micro_batches} micro-batches of ` : ""}${run.batch_size} samples`, run.world_size > 1 ? `${run.world_size} ranks` : null,
      device.name, isCuda ? machine.cpu : null, `LibTorch ${machine.libtorch}`, run.directory].filter(Boolean).join(" · ")));
    page.facts(main(), [
      ["step", steps.mean_ms, format.ms(steps.mean_ms)], ["samples/s", steps.samples_per_s, format.number(steps.samples_per_s)],
      ...(steps.tokens_per_s > 0 ? [["tokens/s", steps.tokens_per_s, format.number(steps.tokens_per_s)]] : []),
      ["of the peak FLOP/s", steps.mfu, format.share(steps.mfu)], ["device busy", steps.device_utilization, format.share(steps.device_utilization)],
      ...(memory.peak ? [["peak memory", memory.peak.mib, format.mib(memory.peak.mib)]] : []),
      ["profiling costs", overhead.share, overhead.share < 0 ? "none seen" : format.share(overhead.share)],
    ]);
  }

  function findings() {
    const part = page.section("Findings");
    if (summary.findings.length === 0) part.append(page.element("p", {class: "healthy"}, "No change that trainctl knows of would save a noticeable share of the step. Flags in the tables below describe single operators."));
    summary.findings.forEach((finding, index) => {
      const box = page.element("div", {class: "finding", "data-rule": finding.rule}, page.element("h3", {}, `${index + 1}. ${finding.what}`), page.element("p", {}, finding.evidence));
      if (finding.change.length > 0) box.append(page.element("pre", {}, finding.change.map(change => change.yaml).join("\n")));
      box.append(page.element("p", {class: "gain"}, `Expected: ${finding.gain}`));
      part.append(box);
    });
  }

  function split() {
    const part = page.section("Where a step's time goes", `Means over ${steps.num} recorded steps; from ${format.ms(steps.min_ms)} to ${format.ms(steps.max_ms)}, median ${format.ms(steps.median_ms)}, standard deviation ${format.ms(steps.std_ms)}.`);
    const columns = page.columns(part);
    const chartPart = page.part(columns, "Each step");
    const each = steps.each, count = each.length;
    const at = index => Math.min(index, count - 1);
    const layers = steps.split.filter(one => one.max_ms > 0).map(one => ({name: words(one.name), color: kParts[one.name] ?? "var(--soft)", values: d3.range(count + 1).map(index => each[at(index)]?.split_ms[one.name])}));
    if (count > 0)
      curves.areas(chartPart, d3.range(count + 1), layers, {
        title: "The split of each recorded step", height: 210, curve: d3.curveStepAfter, show: format.ms, title_of: index => `step ${each[at(index)].number}: ${format.ms(each[at(index)].ms)}`,
        x: {label: "recorded step", format: index => Number.isInteger(index) && index < count ? each[index].number : ""}, y: {label: "ms"},
      });
    page.table(page.part(columns, "On average"), [
      {title: "part", kind: "text", value: one => one.name, show: words}, {title: "ms", value: one => one.mean_ms, show: small}, {title: "share", value: one => one.share, show: format.share},
      {title: "±", value: one => one.std_ms, show: small}, {title: "least", value: one => one.min_ms, show: small}, {title: "most", value: one => one.max_ms, show: small},
    ], steps.split, {name: "split"});
    if (steps.spans.length > 0)
      page.table(page.part(columns, "The step's own spans"), [
        {title: "span", kind: "text", value: one => one.name}, {title: "ms", value: one => one.ms, show: small}, {title: "share", value: one => one.share, show: format.share},
        {title: "peak MiB", value: one => one.peak_mib, show: small},
      ], steps.spans, {name: "spans"});
    causes(part);
  }

  /** What of a step's time has a cause that no span shows. */
  function causes(part) {
    const host = summary.host ?? {}, data = summary.data ?? {};
    const texts = [
      data.wait_cause && data.wait_cause !== "none" && `Data is late because of ${data.wait_cause}, with ${format.number(data.workers)} ${data.workers === 1 ? "thread" : "threads"} in the loader.`,
      host.reads > 0 && `${format.number(host.reads)} device ${host.reads === 1 ? "sync" : "syncs"} per step${host.sync_ms > 0 ? `, which wait ${format.ms(host.sync_ms)}` : ""}.`,
      host.record_ms > 0 && `A log record takes ${format.ms(host.record_ms)}.`, host.recompute_ms > 0 && `Recomputed blocks take ${format.ms(host.recompute_ms)} per step.`,
    ].filter(Boolean);
    if (texts.length > 0) part.append(page.element("p", {class: "note"}, texts.join(" ")));
  }

  const kPhases = {forward: "var(--c0)", backward: "var(--c2)", optimizer: "var(--c3)", other: "var(--soft)"};

  function roofline(part) {
    const points = operators.filter(one => one.intensity > 0 && one.flops_per_s > 0);
    const roofs = Object.entries(peaks.flops_per_s ?? {}).map(([dtype, peak]) => ({name: `${dtype} ${flops(peak)}`, peak}));
    if (points.length === 0 || roofs.length === 0 || !peaks.bytes_per_s) return;
    const box = page.part(part, "Roofline", `Operators by what they compute for each byte and how fast; the sloping line is memory's speed, ${bytes(peaks.bytes_per_s)}, the level ones the peaks of products, all measured here. Size is time; ringed ones are flagged.`);
    marks.roofline(box, points.map(one => ({
      x: one.intensity, y: one.flops_per_s, size: one.self_ms, color: kPhases[one.phase] ?? kPhases.other, flagged: one.flags.length > 0,
      text: `${one.name}\n${one.shapes}\n${format.ms(one.self_ms)} a step, ${format.share(one.share)}\n${flops(one.flops_per_s)}, ${bytes(one.bytes_per_s)}${page.known(one.roofline_efficiency) ? `\n${format.share(one.roofline_efficiency)} of the roof` : ""}`,
    })), roofs, peaks.bytes_per_s, {title: "Roofline of the operators", height: 280, x: {label: "FLOP / byte"}, y: {label: "FLOP/s", format: value => d3.format("~s")(value)}});
    const phases = new Set(points.map(one => one.phase));
    page.legend(box, Object.entries(kPhases).filter(([name]) => phases.has(name)).map(([name, color]) => ({name, color})));
  }

  function operatorTables() {
    const {count, self_ms: rest} = summary.operators_dropped;
    const part = page.section("Operators", "By their own time in a step; a row for each name and shapes. A click on a headline sorts.");
    roofline(part);
    const timed = isCuda ? [{title: "kernels ms", value: one => one.device_ms, show: small}] : [];
    page.table(part, [
      {title: "operator", kind: "name", value: one => one.name}, {title: "self ms", value: one => one.self_ms, show: small}, ...timed, {title: "share", value: one => one.share, show: format.share},
      {title: "calls", value: one => one.calls, show: format.number}, {title: "achieved", value: one => one.flops_per_s, show: flops}, {title: "memory", value: one => one.bytes_per_s, show: bytes},
      {title: "of roof", value: one => one.roofline_efficiency, show: format.share}, {title: "dtype", kind: "text", value: one => one.dtype, show: value => value || "–"}, {title: "phase", kind: "text", value: one => one.phase},
      {title: "flags", kind: "text", value: one => one.flags.length, show: (_, one) => flagged(one.flags)}, {title: "shapes", kind: "long", value: one => one.shapes},
    ], operators, {name: "operators"});
    if (count > 0) part.append(page.element("p", {class: "note"}, `${format.number(count)} more rows take ${format.ms(rest)} a step together.`));
    kernels();
  }

  function kernels() {
    if (summary.kernels.length === 0) return;
    const part = page.section("CUDA kernels", "By their time in a step.");
    const box = size => size ? size.join("×") : "–";
    page.table(part, [
      {title: "kernel", kind: "name", value: one => one.name}, {title: "ms", value: one => one.ms, show: small}, {title: "share", value: one => one.share, show: format.share},
      {title: "calls", value: one => one.calls, show: format.number}, {title: "µs a call", value: one => one.mean_us, show: format.number}, {title: "occupancy", value: one => one.occupancy, show: format.share},
      {title: "grid", value: one => one.grid?.join("×"), show: (_, one) => box(one.grid)}, {title: "block", value: one => one.block?.join("×"), show: (_, one) => box(one.block)},
      {title: "registers", value: one => one.registers, show: format.number}, {title: "shared", value: one => one.shared_bytes, show: format.bytes}, {title: "stream", value: one => one.stream},
      {title: "flags", kind: "text", value: one => one.flags.length, show: (_, one) => flagged(one.flags)}, {title: "launched by", kind: "text", value: one => one.operator},
    ], summary.kernels, {name: "kernels"});
    const {count, ms} = summary.kernels_dropped;
    if (count > 0) part.append(page.element("p", {class: "note"}, `${format.number(count)} more kernels take ${format.ms(ms)} a step together.`));
  }

  function modules() {
    const part = page.section("Modules", "A step's spans, and below them the model's blocks and layers with their operators; backward operators stand below the module whose forward made them.");
    if (summary.call_tree) flame.draw(part, summary.call_tree);
    if (summary.modules.length === 0) return;
    page.table(part, [
      {title: "module", kind: "name", value: one => one.name}, {title: "kind", kind: "text", value: one => one.kind}, {title: "forward ms", value: one => one.forward_ms, show: small},
      {title: "backward ms", value: one => one.backward_ms, show: small}, {title: "calls", value: one => one.calls, show: format.number}, {title: "work", value: one => one.flops, show: value => value ? `${format.si(value)}FLOP` : "–"},
      {title: "parameters MiB", value: one => one.parameters_mib, show: small}, {title: "kept MiB", value: one => one.activations_mib, show: small}, {title: "peak MiB", value: one => one.peak_mib, show: small},
    ], summary.modules, {name: "modules"});
  }

  const kKinds = [["operator", 0], ["span", 5], ["module", 2], ["kernel", 1], ["copy", 4], ["collective", 3]].map(([name, color]) => ({name, color}));

  function timelines() {
    if (!recorded) return;
    const {intervals, shorter_than_us: shorter} = recorded.dropped;
    const left = intervals > 0 ? ` ${format.number(intervals)} intervals shorter than ${format.number(shorter)} µs are left out here; the trace has them.` : "";
    const part = page.section("Timeline", `What threads${isCuda ? " and streams" : ""} did; the first recorded step at first. Drag across to zoom in, double-click to see all.${left}`);
    timeline.draw(part, {tracks: recorded.tracks, names: recorded.names, kinds: kKinds, marks: recorded.steps.map(step => ({name: `step ${step.number}`, start: step.start_us, duration: step.duration_us}))});
  }

  const seriesOf = (xs, values, name, color, dash) => ({name, color, dash, points: xs.map((x, index) => [x, values[index]])});
  const isKnown = values => Array.isArray(values) && values.some(page.known);

  function memoryOverTime(part) {
    const {series} = memory;
    if (!series || series.t_ms.length === 0) return;
    const layers = Object.entries(kCategories).filter(([name]) => isKnown(series[name]) && series[name].some(value => value > 0)).map(([name, color]) => ({name, color, values: series[name]}));
    const used = d3.max(series.t_ms, (_, index) => d3.sum(layers, layer => layer.values[index])) || 0;
    const reserved = isKnown(series.reserved) ? d3.max(series.reserved) : 0;
    // A reserve of many times the content would flatten the chart.
    const drawsReserve = reserved > 0 && reserved <= 3 * used;
    const above = drawsReserve ? [seriesOf(series.t_ms, series.reserved, "reserved", "var(--fore)", "5 3")] : [];
    const note = reserved > 0 && !drawsReserve ? `The allocator reserves up to ${format.mib(reserved)}, above this chart.` : undefined;
    curves.areas(page.part(part, "Over time, by what it is for", note), series.t_ms, layers, {
      title: "Memory over time by category", height: 240, zoom: true, above, show: format.mib, x: {label: "time (ms)"}, y: {label: "MiB"},
    });
  }

  function peak(part) {
    const {peak: most} = memory;
    if (!most) return;
    const total = most.mib || 1;
    const columns = page.columns(part);
    const where = `${format.mib(most.mib)}${most.phase ? ` in ${words(most.phase)}` : ""}, ${format.ms(most.t_ms)} after the first recorded step began`;
    const categories = [...new Set([...Object.keys(kCategories), ...Object.keys(most.by_category)])].filter(name => name in most.by_category).map(name => ({name, mib: most.by_category[name]}));
    page.table(page.part(columns, "At the peak, by category", where), [
      {title: "category", kind: "text", value: one => one.name}, {title: "MiB", value: one => one.mib, show: small}, {title: "share", value: one => one.mib / total, show: format.share}], categories, {name: "peak_by_category"});
    if (most.by_module.length > 0)
      page.table(page.part(columns, "At the peak, by module", "Activations and gradients by the module that made them."), [
        {title: "module", kind: "name", value: one => one.name, show: name => name || "(outside of modules)"}, {title: "MiB", value: one => one.mib, show: small},
        {title: "share", value: one => one.mib / total, show: format.share}], most.by_module, {name: "peak_by_module"});
  }

  /** "1–4 MiB", "64–256 KiB", "≥ 64 MiB". */
  function classText(classes, index) {
    const low = classes[index], high = classes[index + 1];
        const size = mib => mib < 1 ? `${format.number(1024 * mib)} KiB` : mib < 1024 ? `${format.number(mib)} MiB` : `${format.number(mib / 1024)} GiB`;
    return high === undefined ? `≥ ${size(low)}` : `${size(low).replace(size(high).slice(-4), "")}–${size(high)}`;
  }

  function fragmentation(part) {
    const {fragmentation: pieces} = memory;
    if (!pieces || pieces.t_ms.length === 0) return;
    const columns = page.columns(part);
    const share = page.known(pieces.share) ? `At the end ${format.share(pieces.share)} of the free memory isn't in the largest block.` : null;
    const {t_ms: xs} = pieces;
    // Classes larger than any block are left out.
    const used = 1 + (d3.max(pieces.free_mib, column => d3.max(column.map((mib, index) => mib > 0 ? index : -1))) ?? -1);
    const lines = [["reserved", pieces.reserved_mib, "var(--c5)"], ["allocated", pieces.allocated_mib, "var(--c0)"], ["largest free block", pieces.largest_free_mib, "var(--c1)"]];
    curves.lines(page.part(columns, "Reserved, allocated and free", share), lines.filter(([, values]) => isKnown(values)).map(([name, values, color]) => seriesOf(xs, values, name, color)),
      {title: "Reserved and allocated memory and the largest free block", height: 180, zoom: true, show: format.mib, x: {label: "time (ms)"}, y: {label: "MiB", zero: true}});
    if (used > 0)
      marks.heat(page.part(columns, "Free memory by the size of its blocks", "Much in small blocks is memory that large tensors can't use."), xs, pieces.classes_mib.slice(0, used).map((_, index) => classText(pieces.classes_mib, index)),
        pieces.free_mib.map(column => column.slice(0, used)), {title: "Free memory by size of blocks over time", show: format.mib, meaning: "free", x: {label: "time (ms)"}});
  }

  function memoryPart() {
    const limit = page.known(memory.limit_mib) ? ` The device has ${format.mib(memory.limit_mib)}.` : "";
    const part = page.section("Memory", `Of tensors on ${isCuda ? "the GPU" : "the CPU"}.${limit}`);
    memoryOverTime(part);
    peak(part);
    fragmentation(part);
    if (summary.memory_snapshot) part.append(page.element("p", {class: "note"}, `pytorch.org/memory_viz reads ${summary.memory_snapshot}.`));
  }

  function ranks() {
    if (!distributed) return;
    const part = page.section("Ranks", `${distributed.world_size} over ${distributed.backend}: collectives are under way ${format.ms(distributed.communication_ms)} of a step, for ${format.ms(distributed.exposed_ms)} of which the training thread waits.`);
    page.facts(part, [["communication", distributed.communication_ms, format.ms(distributed.communication_ms)], ["exposed", distributed.exposed_ms, format.ms(distributed.exposed_ms)]]);
    if (distributed.straggler) part.append(page.element("div", {class: "finding"}, distributed.straggler.text));
    const isSlow = one => distributed.straggler && distributed.straggler.rank === one.rank;
    const own = d3.median(distributed.ranks, one => one.own_ms);
    marks.estimates(page.part(part, "Each rank's own time, without waiting for others"), distributed.ranks.map(one => ({
      name: `rank ${one.rank}`, mean: one.own_ms, color: isSlow(one) ? "var(--c7)" : "var(--c0)", text: `rank ${one.rank}\n${format.ms(one.own_ms)} its own of ${format.ms(one.step_ms)}\n${format.ms(one.exposed_ms)} waiting for others`,
    })), {reference: own, label: "ms a step; the line is the median", title: "Own time of each rank"});
    page.table(part, [
      {title: "rank", kind: "text", value: one => one.rank, show: String}, {title: "step ms", value: one => one.step_ms, show: small}, {title: "own ms", value: one => one.own_ms, show: small},
      {title: "data wait ms", value: one => one.data_wait_ms, show: small}, {title: "communication ms", value: one => one.communication_ms, show: small},
      {title: "exposed ms", value: one => one.exposed_ms, show: small}, {title: "peak MiB", value: one => one.peak_mib, show: small},
    ], distributed.ranks, {name: "ranks", shown: 64});
  }

  const kActions = [["forward", 0], ["backward", 2], ["backward: gradient of the input", 3], ["backward: gradients of the weights", 4]].map(([name, color]) => ({name, color}));

  function stages() {
    const pipeline = distributed && distributed.pipeline;
    if (!pipeline) return;
    const part = page.section("Pipeline", `Schedule ${pipeline.schedule}. The bubble is the wait for what no rank has made yet; transfer is the wait for what another rank has made.`);
    page.facts(part, [["a pass", pipeline.pass_ms, format.ms(pipeline.pass_ms)], ["of it bubble", pipeline.bubble, format.share(pipeline.bubble)], ["simulated", pipeline.simulated_ms, format.ms(pipeline.simulated_ms)]]);
    const names = [...new Set(pipeline.ranks.flatMap(rank => rank.actions.map(action => action[0])))];
    const index = new Map(names.map((name, place) => [name, place]));
    const tracks = pipeline.ranks.map((rank, place) => ({
      name: `place ${place} of the pipeline, ${rank.stages.length > 1 ? "stages" : "stage"} ${rank.stages.join(" and ")}`,
      intervals: rank.actions.map(([name, begin, end]) => [1e3 * begin, 1e3 * (end - begin), 0, index.get(name), "FBIW".indexOf(name.replace(/\d+/g, ""))]),
    }));
    timeline.draw(page.part(part, "The schedule in the last recorded step", "Stage, kind, micro-batch: 1F0 is the forward pass of micro-batch 0 through stage 1."), {tracks, names, kinds: kActions, marks: [], title: "Actions of the pipeline over time"});
    page.table(part, [
      {title: "place", kind: "text", value: one => one.place, show: String}, {title: "stages", kind: "text", value: one => one.stages.join(", ")}, {title: "computes ms", value: one => one.compute_ms, show: small},
      {title: "bubble ms", value: one => one.bubble_ms, show: small}, {title: "transfer ms", value: one => one.transfer_ms, show: small}, {title: "bubble", value: one => one.bubble_ms / pipeline.pass_ms, show: format.share},
    ], pipeline.ranks.map((rank, place) => ({...rank, place})), {name: "stages", shown: 64});
    if (pipeline.alternatives.length > 0)
      page.table(page.part(part, "Other ways, simulated with the measured times"), [
        {title: "change", kind: "long", value: one => one.change.join("  ")}, {title: "pass ms", value: one => one.pass_ms, show: small}, {title: "of this pass", value: one => one.pass_ms / pipeline.simulated_ms, show: format.share},
      ], pipeline.alternatives, {name: "alternatives"});
  }

  function files() {
    const part = page.section("Traces", "ui.perfetto.dev and TensorBoard's profiler open these.");
    page.table(part, [
      {title: "file", kind: "name", value: one => one.path}, {title: "size", value: one => one.bytes, show: format.bytes}, {title: "events", value: one => one.events, show: format.number},
      {title: "left out", value: one => one.dropped_events, show: format.number}, {title: "", kind: "long", value: one => one.dropped},
    ], summary.traces, {name: "traces"});
    const {step_ms_unrecorded: unrecorded, share} = overhead;
    if (page.known(unrecorded)) part.append(page.element("p", {class: "note"}, `A step takes ${format.ms(unrecorded)} without the profiler. Profiler overhead: ${share > 0.01 ? format.share(share) : "not measurable"}.`));
  }

  const kGlossary = {
    "self ms": "time of an operator without the operators that it calls", "of roof": "speed of an operator as a share of what the device can do at its FLOP per byte",
    "kept MiB": "activations that a module keeps for the backward pass", "workspace": "memory that a kernel takes while it runs",
    "exposed": "communication that no computation hides", "unscale": "dividing gradients by fp16's loss scale", "data wait": "time in which the step waits for a batch",
    "reserved": "memory that the allocator holds, used or not",
  };

  function glossary() {
    const part = page.section("Words on this page");
    const list = page.element("dl", {});
    for (const [word, meaning] of Object.entries(kGlossary)) list.append(page.element("dt", {}, word), page.element("dd", {}, meaning));
    part.append(list);
  }

  [head, findings, split, operatorTables, modules, timelines, memoryPart, ranks, stages, files, glossary].forEach(fill => fill());
})();
