// The page of `trainctl quantize`: page.data is the document that --json prints.
"use strict";

(() => {
  const {format} = page;
  const {method, backend, weight_bits: weightBits, activation_bits: activationBits, before, after, blocks, layers, sweep} = page.data;
  const times = value => page.known(value) ? `${value.toFixed(2)}×` : "–";
  const percent = value => page.known(value) ? `${(100 * value).toFixed(2)} %` : "–";
  const signed = value => page.known(value) ? `${value >= 0 ? "+" : "−"}${format.metric(Math.abs(value))}` : "–";
  const roundsActivations = method !== "weight_only";

  function costs() {
    const part = page.section("What it gives and costs", "Times and size are of this machine: a sample alone, and a sample of the batch whose samples take the least time each.");
    page.facts(part, [
      ["method", method], ["engine", backend], ["bits of weights", weightBits],
      ...(roundsActivations ? [["bits of activations", activationBits]] : []),
      ["size", after.bytes / before.bytes, times(after.bytes / before.bytes)],
      ["one sample", before.latency.batch_1_ms / after.latency.batch_1_ms, `${times(before.latency.batch_1_ms / after.latency.batch_1_ms)} as fast`],
    ]);
    const faster = key => [before.latency[key], after.latency[key], format.ms, (b, a) => `${times(b / a)} as fast`];
    const rows = [
      ["size", before.bytes, after.bytes, format.bytes, (b, a) => times(a / b)],
      ["one sample", ...faster("batch_1_ms")],
      [`a sample of ${after.latency.best_batch} (before: of ${before.latency.best_batch})`, ...faster("best_ms_per_sample")],
      ...Object.keys(before.metrics).map(name => [name, before.metrics[name], after.metrics[name] ?? null, format.metric, (b, a) => signed(a - b)]),
    ];
    page.table(part, [
      {title: "", kind: "text", value: row => row[0]},
      {title: "before", value: row => row[1], show: (value, row) => row[3](value)},
      {title: "after", value: row => row[2], show: (value, row) => row[3](value)},
      {title: "change", value: row => row[2] === null ? null : row[2] / row[1], show: (_, row) => row[2] === null ? "–" : row[4](row[1], row[2])},
    ], rows, {name: "costs", shown: 40});
  }

  const rowsOf = (named, color) => named.map(one => ({
    name: one.name, mean: 100 * one.relative_error, color: color(one), text: `${one.name}\nerror ${percent(one.relative_error)}`,
  }));
  const kLabel = "‖quantized − float‖ / ‖float‖, %";

  function errors() {
    const charts = page.columns(page.section("Where it errs", "After each block, those before it being quantized too; and, of a sweep, at the output with each layer quantized alone: what errs most there is what to keep in float."));
    const left = page.part(charts, "After each block");
    if (blocks.length === 0) left.append(page.element("p", {class: "empty"}, "No blocks."));
    else marks.estimates(left, rowsOf(blocks, () => page.color(0)), {reference: 0, label: kLabel, title: "Relative error after each block"});
    const alone = page.part(charts, "Each layer alone");
    const swept = layers.filter(layer => page.known(layer.relative_error)).sort((a, b) => b.relative_error - a.relative_error).slice(0, 40);
    if (swept.length === 0) alone.append(page.element("p", {class: "empty"}, "Not measured: quantize with --sweep."));
    else marks.estimates(alone, rowsOf(swept, () => page.color(1)), {reference: 0, label: kLabel, title: "Relative error at the output of each layer quantized alone"});
  }

  function listed() {
    const metrics = [...new Set(layers.flatMap(layer => Object.keys(layer.metrics ?? {})))];
    const wasSwept = layers.some(layer => page.known(layer.relative_error));
    const inFloat = Object.entries(sweep?.float_metrics ?? {}).map(([name, value]) => `${name} ${format.metric(value)}`).join(", ");
    page.table(page.section("Layers", sweep ? `Metrics are of each layer quantized alone, on ${format.number(sweep.samples)} samples of the evaluation set; in floats these give ${inFloat}.` : undefined), [
      {title: "layer", kind: "text", value: layer => layer.name},
      {title: "weights", value: layer => layer.num_weights, show: format.number},
      ...(layers.some(layer => !layer.quantized) ? [{title: "stays in float", kind: "text", value: layer => layer.quantized ? "" : layer.kept_because}] : []),
      ...(wasSwept ? [{title: "error alone", value: layer => layer.relative_error ?? null, show: percent}] : []),
      ...metrics.map(name => ({title: name, value: layer => layer.metrics?.[name] ?? null, show: format.metric})),
    ], layers, {name: "layers"});
  }

  costs();
  errors();
  listed();
})();
