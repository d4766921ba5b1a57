// The page of `trainctl plan --nodes-of N --html FILE`: page.data is the document that --json prints, with charts' points beside it.
"use strict";

(() => {
  const {format} = page;
  const {layouts, own, yaml, goodput, scaling, memory, timeline: drawn, conditions} = page.data;
  const first = layouts[0];
  const axes = layout => ["data", "context", "tensor", "pipeline"].filter(axis => layout[axis] > 1).map(axis => `${axis} ${layout[axis]}`).join(", ") || "one device";

  const head = page.section("Recommended", conditions);
  page.facts(head, [
    ["tokens a second", first.tokens_per_second, format.number(Math.round(first.tokens_per_second))],
    ["step", first.step_s, format.seconds(first.step_s)],
    ["of peak", first.peak_share, format.share(first.peak_share)],
    ["scaling", first.scaling_efficiency, format.share(first.scaling_efficiency)],
    ["goodput", goodput.training, format.share(goodput.training)],
    ["checkpoint each", goodput.interval_s, format.seconds(goodput.interval_s)],
    ["spare nodes", goodput.num_spare_nodes],
    ...(page.known(first.cost_per_million_tokens) ? [["price of a million tokens", first.cost_per_million_tokens, format.number(first.cost_per_million_tokens)]] : []),
  ]);
  head.append(page.element("pre", {}, yaml));

  const rows = own ? [...layouts, {...own, is_own: true}] : layouts;
  page.table(page.section("Layouts", "The fastest layouts that fit, by tokens a second. The same work makes a step of each."), [
    {title: "layout", kind: "text", value: layout => (layout.is_own ? "own: " : "") + axes(layout)},
    {title: "schedule", kind: "text", value: layout => layout.schedule},
    {title: "micro-batch", value: layout => layout.micro_batch},
    {title: "of a step", value: layout => layout.num_micro_batches},
    {title: "ZeRO", value: layout => layout.zero},
    {title: "recomputed", kind: "text", value: layout => layout.recomputation},
    {title: "tokens/s", value: layout => layout.tokens_per_second, show: format.number},
    {title: "step", value: layout => layout.step_s, show: format.seconds},
    {title: "of peak", value: layout => layout.peak_share, show: format.share},
    {title: "bubble", value: layout => layout.bubble_s / layout.step_s, show: format.share},
    {title: "memory", value: layout => layout.memory_bytes.total / 1048576, show: format.mib},
  ], rows, {name: "layouts", shown: 100, rowClass: layout => layout === first ? "best" : null});

  const charts = page.columns(page.section("The first layout on more devices", "Copies of the first layout: each has the same work. The dashed line is the rate of one copy times their number. Interruptions are not counted here."));
  const points = of => scaling.map(point => [point.world, of(point)]);
  const one = scaling[0];
  curves.lines(page.part(charts, "Tokens a second"), [
    {name: "predicted", color: page.color(0), points: points(point => point.tokens_per_second)},
    {name: "linear", color: "var(--soft)", dash: "4 4", points: points(point => one.tokens_per_second * point.world / one.world)},
  ], {title: "Tokens a second by number of devices", x: {label: "devices"}, y: {label: "tokens/s", zero: true}});
  if (scaling.some(point => page.known(point.cost_per_million_tokens)))
    curves.lines(page.part(charts, "Price of a million tokens"), [{name: "price", color: page.color(1), points: points(point => point.cost_per_million_tokens)}],
                 {title: "Price of a million tokens by number of devices", x: {label: "devices"}, y: {label: "price", zero: true}});

  const parts = ["states", "activations", "workspace", "overhead"];
  const held = page.section("Memory by rank of the pipeline", "At the peak of a step.");
  if (memory.length > 1)
    curves.areas(held, memory.map((_, rank) => rank), parts.map((name, index) => ({name, color: page.color(index), values: memory.map(use => use[name] / 1048576)})),
                 {title: "Memory by rank of the pipeline", show: format.mib, curve: d3.curveStepAfter, x: {label: "rank"}, y: {label: "MiB"}});
  else
    page.facts(held, parts.map(name => [name, memory[0][name], format.bytes(memory[0][name])]));

  if (drawn.tracks.length > 1)
    timeline.draw(page.section("Timeline of the pipeline", "The first micro-batches of a step; a letter is a pass forward (F), backward (B), or its parts (I, W)."),
                  {...drawn, kinds: [{name: "forward", color: 0}, {name: "backward", color: 1}, {name: "gradients of weights", color: 2}], marks: [], title: "Timeline of the pipeline"});
})();
