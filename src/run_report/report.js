// The page of `trainctl report`: page.data has the run's figures, curves, evaluation, samples, config and machine.
"use strict";

(() => {
  const {format, element} = page;
  const run = page.data;
  const {environment} = run;
  const isThere = value => value !== null && value !== undefined;
  const curveOf = name => run.curves.find(curve => curve.name === name);
  const metricTitle = name => name.replaceAll("_", " ");

  const kStates = {finished: "finished", stopped: "stopped by a signal", failed: "failed", unfinished: "unfinished: killed, or the machine went down", training: "training now", "no record": "ended before its first record"};

  function state() {
    const total = environment.total_steps;
    const at = run.state === "no record" ? "" : ` at step ${format.number(run.steps)}${isThere(total) && total !== run.steps ? ` of ${format.number(total)}` : ""}`;
    const kind = run.state === "finished" || run.state === "failed" ? run.state : "other";
    page.main().append(element("p", {}, element("span", {class: `state ${kind}`, "data-name": "state"}, run.state), ` ${kStates[run.state] === run.state ? "" : (kStates[run.state] ?? "")}${at}`));
    if (isThere(run.error)) page.main().append(element("div", {class: "failure", role: "note", "data-name": "error"}, run.error));
    page.main().append(element("p", {class: "note"}, "Run directory ", element("code", {}, run.path)));
  }

  function headline() {
    const {final_metrics: last, best_metrics: best, watched} = run;
    const entries = [];
    if (isThere(best[watched])) entries.push([`best ${metricTitle(watched)}`, best[watched], `${format.metric(best[watched])} at step ${format.number(run.best_step)}`]);
    for (const [name, value] of Object.entries(last)) entries.push([`final ${metricTitle(name)}`, value, format.metric(value)]);
    const trained = curveOf("loss");
    if (Object.keys(last).length === 0 && trained) entries.push(["training loss", trained.value[trained.value.length - 1], format.metric(trained.value[trained.value.length - 1])]);
    const epochs = isThere(environment.steps_per_epoch) ? run.steps / environment.steps_per_epoch : null;
    const figures = [
      ["steps", run.steps, format.number], ["epochs", epochs, format.number], ["time", run.wall_s, format.seconds],
      ["samples/s", run.samples_per_s, format.number], ["tokens/s", run.tokens_per_s || null, format.number],
      ["median step", run.median_step_ms, format.ms], ["to the first step", run.time_to_first_step_s, format.seconds],
      ["data wait", run.data_wait_share, value => format.share(value) + (run.data_wait_cause && run.data_wait_cause !== "none" ? ` (${run.data_wait_cause})` : "")],
      ["peak memory", run.peak_memory_mib, format.mib], ["parameters", run.num_parameters, format.number],
      ["skipped updates", run.skipped_steps || null, format.number], ["device", environment.device, value => value],
    ];
    for (const [name, value, show] of figures) if (isThere(value)) entries.push([name, value, show(value)]);
    page.facts(page.section("Result"), entries);
  }

  function warnings() {
    const lines = [...run.remarks, ...run.warnings.map(one => isThere(one.step) && one.step > 0 ? `step ${format.number(one.step)}: ${one.text}` : one.text)];
    if (lines.length === 0) return;
    page.section("Warnings").append(element("ul", {class: "warnings", "data-name": "warnings"}, ...lines.map(line => element("li", {}, line))));
  }

  /** Charts in the order of the page: [title, curves with their names in the legend, options of the y axis]. */
  function charts() {
    // A metric that was taken once is a figure above, and no curve. Those between -1 and 1 share a chart.
    const evaluations = run.curves.filter(curve => curve.name.startsWith("eval ") && curve.name !== "eval loss" && curve.value.length > 1);
    const isShare = curve => curve.value.every(value => !page.known(value) || Math.abs(value) <= 1);
    const shares = evaluations.filter(isShare), others = evaluations.filter(curve => !isShare(curve));
    const known = [
      ["loss", [["loss", "training"], ["eval loss", "evaluation"]], {}],
      ...(shares.length > 0 ? [[shares.length > 1 ? "metrics of evaluations" : `evaluation: ${metricTitle(shares[0].name.slice(5))}`, shares.map(curve => [curve.name, metricTitle(curve.name.slice(5))]), {}]] : []),
      ...others.map(curve => [`evaluation: ${metricTitle(curve.name.slice(5))}`, [[curve.name, curve.name]], {}]),
      ["learning rate", [["lr", "lr"]], {}], ["norm of the gradients", [["grad_norm", "norm"]], {}],
      ["samples/s", [["samples_per_s", "samples/s"]], {zero: true}], ["tokens/s", [["tokens_per_s", "tokens/s"]], {zero: true}],
      ["step (ms) and wait for data", [["step_ms", "step"], ["data_wait_ms", "data wait"]], {zero: true}],
      ["peak memory (MiB)", [["memory_mib", "memory"]], {zero: true}], ["share of the peak FLOP/s", [["mfu", "mfu"]], {zero: true}],
      ["communication (ms a step)", [["communication_ms", "in all"], ["exposed_communication_ms", "nothing else done"]], {zero: true}],
      ["loss scale", [["loss_scale", "scale"]], {}], ["skipped updates", [["skipped_steps", "skipped"]], {zero: true}],
    ];
    const named = new Set(known.flatMap(([, curves]) => curves.map(([name]) => name)));
    const rest = run.curves.filter(curve => !named.has(curve.name) && !curve.name.startsWith("eval ")).map(curve => [metricTitle(curve.name), [[curve.name, curve.name]], {}]);
    const isDull = name => name === "skipped_steps" && curveOf(name).value.every(value => !value);
    return [...known, ...rest].map(([title, curves, y]) => [title, curves.filter(([name]) => curveOf(name) && !isDull(name)), y])
      .filter(([title, shown]) => shown.length > 0 && (title === "loss" || shown.some(([name]) => curveOf(name).value.length > 1)));
  }

  function draw(holder, axis) {
    const last = d3.max(run.curves, curve => axis.of(curve, curve.step.length - 1)) ?? 0;
    for (const [title, names, y] of charts()) {
      const box = element("div");
      holder.append(box);
      const series = names.map(([name, shown], index) => {
        const curve = curveOf(name);
        return {name: shown, color: page.color(index), points: curve.value.map((value, at) => [axis.of(curve, at), value])};
      });
      curves.lines(box, series, {title, height: 190, zoom: true, x: {label: axis.label, first: 0, last}, y: {label: title, ...y}, legend: names.length > 1, show: format.metric});
    }
  }

  function overlay() {
    const part = page.section("Curves", "Drag across a chart to zoom in, double-click to see all.");
    if (run.curves.length === 0) return part.append(element("p", {class: "empty"}, "The run has no records."));
    const axes = [
      {label: "step", of: (curve, at) => curve.step[at]},
      ...(environment.steps_per_epoch ? [{label: "epoch", of: (curve, at) => curve.step[at] / environment.steps_per_epoch}] : []),
      {label: "seconds", of: (curve, at) => curve.seconds[at]},
    ];
    const holder = page.element("div", {class: "columns"});
    const choice = element("p", {}, "against ");
    for (const axis of axes) {
      const label = element("label", {}, element("input", {type: "radio", name: "axis"}), ` ${axis.label} `);
      label.firstChild.checked = axis === axes[0];
      label.firstChild.onchange = () => { holder.replaceChildren(); draw(holder, axis); };
      choice.append(label);
    }
    part.append(choice, holder);
    draw(holder, axes[0]);
    if (run.num_curves_left_out > 0) part.append(element("p", {class: "note"}, `${run.num_curves_left_out} more curves are in metrics.jsonl.`));
  }

  function classes(part, found) {
    const share = value => isThere(value) ? format.metric(value) : "–";
    const columns = [
      {title: "class", kind: "text", value: row => row.name},
      {title: "samples", value: row => row.count, show: value => isThere(value) ? format.number(value) : "–"},
      {title: "precision", value: row => row.precision, show: share},
      {title: "recall", value: row => row.recall, show: share},
      {title: "F1", value: row => row.f1, show: share},
    ].filter(column => column.title !== "samples" || found.some(row => isThere(row.count)));
    const box = page.part(part, "By class", "Precision: the share right among what was taken for the class. Recall: the share found of its samples. F1: their harmonic mean.");
    page.table(box, columns, found, {name: "classes", shown: 20});
  }

  function confused(part, pairs) {
    page.table(page.part(part, "Most confused"), [
      {title: "label", kind: "text", value: row => row.label}, {title: "taken for", kind: "text", value: row => row.prediction},
      {title: "samples", value: row => row.count, show: format.number}, {title: "of the label's", value: row => row.share, show: format.share},
    ], pairs, {name: "confused", shown: 10});
  }

  function evaluation() {
    const found = run.evaluation;
    if (!found) return;
    const of = isThere(found.num_samples) ? ` over ${format.number(found.num_samples)} samples` : "";
    const part = page.section("Evaluation", `The newest one, at step ${format.number(found.step)}${of}; it took ${format.seconds(found.seconds)}.`);
    page.facts(part, Object.entries(found.metrics).map(([name, value]) => [metricTitle(name), value, format.metric(value)]));
    if (found.classes.length === 0) return;
    const sides = page.columns(part);
    if (found.confusion.length > 0)
      matrix.confusion(page.part(sides, "Confusion matrix", "Rows are labels, columns are predictions. The shade is the share of the label's samples."), found.classes.map(one => one.name), found.confusion);
    classes(sides, found.classes);
    if (found.confused.length > 0) confused(sides, found.confused);
  }

  const isClass = record => isThere(record.score);

  /** What the model answered: nodes for a caption. */
  function answer(record) {
    if (!("prediction" in record)) return [`loss ${format.metric(record.loss)}`];
    if (!isClass(record)) return [`${format.metric(record.prediction)} for ${format.metric(record.label)}, loss ${format.metric(record.loss)}`];
    const isRight = record.label === record.prediction;
    return [element("span", {class: isRight ? "right" : "wrong"}, isRight ? `✓ ${record.prediction}` : `✗ ${record.prediction}`),
            ` ${format.share(record.score)}`, element("br"), isRight ? "" : `is ${record.label}, `, `loss ${format.metric(record.loss)}`];
  }

  function pictures(part, records) {
    part.append(element("div", {class: "samples"}, ...records.map(record => {
      const alt = isClass(record) ? `Sample ${record.sample}: ${record.label}, taken for ${record.prediction}` : `Sample ${record.sample}`;
      const image = element("img", {src: record.picture, alt, title: `sample ${record.sample} of the evaluation set`});
      image.onload = () => image.classList.toggle("small", image.naturalWidth < 100);
      return element("figure", {}, image, element("figcaption", {}, ...answer(record)));
    })));
  }

  function tokens(record) {
    const shade = loss => `background: color-mix(in srgb, var(--c1) ${Math.min(45, 9 * loss).toFixed(0)}%, transparent)`;
    return element("div", {class: "text tokens", tabindex: "0", role: "group", "aria-label": `sample ${record.sample}`},
      ...record.tokens.map(([text, loss]) => element("span", isThere(loss) ? {style: shade(loss), title: `loss ${format.metric(loss)}`} : {}, text)));
  }

  function texts(part, records) {
    part.append(element("div", {class: "texts"}, ...records.map(record => {
      const body = record.tokens ? tokens(record) : element("div", {class: "text", tabindex: "0", role: "group", "aria-label": `sample ${record.sample}`}, record.text);
      return element("div", {}, element("p", {}, ...answer(record)), body);
    })));
  }

  function rows(part, records, name) {
    const names = [...new Set(records.flatMap(record => Object.keys(record.row ?? {})))];
    page.table(part, [
      {title: "sample", value: record => record.sample, show: format.number},
      ...("label" in records[0] ? [{title: "label", kind: "text", value: record => record.label, show: value => typeof value === "number" ? format.metric(value) : value},
        {title: "prediction", kind: "text", value: record => record.prediction, show: (value, record) => isClass(record)
          ? element("span", {class: value === record.label ? "right" : "wrong"}, `${value === record.label ? "✓" : "✗"} ${value}`) : typeof value === "number" ? format.metric(value) : value}] : []),
      ...(isClass(records[0]) ? [{title: "score", value: record => record.score, show: format.share}] : []),
      {title: "loss", value: record => record.loss, show: format.metric},
      ...names.map(column => ({title: column, kind: "text", value: record => record.row?.[column] ?? null, show: value => value ?? "–"})),
    ], records, {name, shown: 20});
  }

  function samples() {
    const found = run.predictions;
    if (!found || !Array.isArray(found.first) || found.first.length === 0) return;
    const hasTokens = found.first.some(record => record.tokens);
    const part = page.section("Samples of the evaluation set", `As the model answered at step ${format.number(found.step)}.` +
      (hasTokens ? " The darker a token, the larger its loss: the less the model expected it. One sequence of each batch is considered." : ""));
    for (const [title, key] of [["Largest loss", "worst"], ["First samples", "first"]]) {
      const records = found[key] ?? [];
      if (records.length === 0) continue;
      const box = page.part(part, title);
      if (records[0].picture) pictures(box, records);
      else if (records[0].text !== undefined || records[0].tokens) texts(box, records);
      else rows(box, records, `samples_${key}`);
    }
  }

  function config() {
    if (run.config.length === 0) return;
    const hasOrigins = run.config.some(one => isThere(one.origin));
    const written = run.config.filter(one => one.origin !== "default");
    const part = page.section("Config", hasOrigins ? "Each value with the line of the file, or the option, that it is from." : "config.yaml of the run.");
    const columns = [
      {title: "key", kind: "text", value: one => one.key}, {title: "value", kind: "long", value: one => one.value, show: value => element("code", {}, value)},
      ...(hasOrigins ? [{title: "from", kind: "text", value: one => one.origin}] : []),
    ];
    page.table(hasOrigins ? page.part(part, "What the file and the command line say") : part, columns, written, {name: "config", shown: 60});
    if (!hasOrigins || written.length === run.config.length) return;
    const box = element("details", {}, element("summary", {}, `${run.config.length - written.length} values by default`));
    part.append(box);
    page.table(box, columns, run.config.filter(one => one.origin === "default"), {name: "defaults", shown: 400});
  }

  function machine() {
    const git = environment.git;
    const entries = [
      ["started", environment.started, value => new Date(1000 * value).toISOString().replace("T", " ").slice(0, 19) + " UTC"],
      ["host", environment.host], ["CPU", environment.cpu], ["cores", environment.cores, format.number],
      ["memory", environment.memory_bytes, value => format.bytes(value)], ["device", environment.device], ["GPUs", environment.num_gpus || null, format.number],
      ["ranks", environment.ranks, format.number], ["seed", environment.seed, value => String(value)], ["trainctl", environment.trainctl], ["LibTorch", environment.libtorch],
      ["git commit", git?.commit, value => value.slice(0, 12) + (git.branch ? ` (${git.branch})` : "")], ["data fingerprint", environment.data_fingerprint], ["config hash", environment.config_hash],
      ["training samples", environment.num_samples, format.number], ["evaluation samples", environment.num_eval_samples, format.number], ["samples per step", environment.samples_per_step, format.number],
    ].filter(([, value]) => isThere(value)).map(([name, value, show]) => [name, typeof value === "object" ? null : value, show ? show(value) : String(value)]);
    if (entries.length === 0) return;
    const part = page.section("Machine and versions");
    page.facts(part, entries);
    if (Array.isArray(environment.command)) {
      const word = text => /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
      part.append(element("pre", {class: "wrapped"}, `cd ${word(environment.directory ?? ".")}\n${environment.command.map(word).join(" ")}`));
    }
    const ranks = run.memory_by_rank;
    if (Array.isArray(ranks) && ranks.length > 1)
      page.table(page.part(part, "Memory by rank"), [
        {title: "rank", value: row => row.rank, show: format.number}, {title: "peak", value: row => row.peak_mib, show: format.mib}, {title: "between steps", value: row => row.allocated_mib, show: format.mib},
      ], ranks.map((row, rank) => ({rank, ...row})), {name: "ranks"});
  }

  state();
  headline();
  warnings();
  overlay();
  evaluation();
  samples();
  config();
  machine();
})();
