// The page of `trainctl compare RUN RUN…`: page.data is the document that --json prints, with the runs' curves beside it.
"use strict";

(() => {
  const {format} = page;
  const {runs, config_differences: differences, curves: recorded, evaluations} = page.data;
  const color = index => page.color(index);
  const dash = index => index < 8 ? null : index < 16 ? "6 3" : "2 3";

  function remarks() {
    const found = runs.flatMap(run => run.remarks.map(remark => [run.name, remark]));
    if (found.length === 0) return;
    const list = page.element("ul", {class: "note"}, ...found.map(([name, remark]) => page.element("li", {}, `${name}: ${remark}`)));
    page.main().append(list);
  }

  /** What there is of the figures, each with how it is shown. */
  function figures() {
    const metric_names = key => [...new Set(runs.flatMap(run => Object.keys(run[key])))];
    const metrics = (key, prefix) => metric_names(key).map(name => [`${prefix} ${name}`, run => run[key][name], format.metric]);
    const all = [
      ["state", run => run.state, value => value],
      ["steps", run => run.steps, format.number],
      ...metrics("final_metrics", "final"), ...metrics("best_metrics", "best"),
      ["best at step", run => run.best_step, format.number],
      ["median step", run => run.median_step_ms, format.ms],
      ["samples/s", run => run.samples_per_s, format.number],
      ["tokens/s", run => run.tokens_per_s || null, format.number],
      ["data wait", run => run.data_wait_share, format.share],
      ["peak memory", run => run.peak_memory_mib, format.mib],
      ["time", run => run.wall_s, format.seconds],
      ["parameters", run => run.num_parameters, format.number],
      ["device", run => run.device, value => value ?? "–"],
    ].filter(([, get]) => runs.some(run => get(run) !== null && get(run) !== undefined));
    const columns = [{title: "", kind: "text", value: row => row[0]}, ...runs.map((run, index) => ({
      title: run.name, value: row => row[1](run) ?? null, show: (value, row) => row[2](value),
    }))];
    page.table(page.section("Figures"), columns, all, {name: "figures", shown: 100});
  }

  function configs() {
    if (runs.length < 2) return;
    const part = page.section("Config", differences.length > 0 ? "The keys that differ; “–” where a run has no such key." : "The configs that can be read are the same.");
    if (differences.length === 0) return;
    const columns = [{title: "key", kind: "text", value: row => row.key}, ...runs.map((run, index) => ({title: run.name, kind: "text", value: row => row.values[index]}))];
    page.table(part, columns, differences, {name: "config", shown: 60});
  }

  /** Curves and what they show, in the order of the page; others that the runs recorded come after these. */
  const kKnown = [
    ["loss", "training loss", {log: false}], ["lr", "learning rate"], ["grad_norm", "norm of the gradients"], ["samples_per_s", "samples/s", {zero: true}],
    ["tokens_per_s", "tokens/s", {zero: true}], ["step_ms", "step (ms)", {zero: true}], ["data_wait_ms", "data wait (ms a step)", {zero: true}],
    ["memory_mib", "peak memory (MiB)", {zero: true}], ["mfu", "share of the peak FLOP/s", {zero: true}],
    ["communication_ms", "communication (ms a step)", {zero: true}], ["exposed_communication_ms", "exposed communication (ms a step)", {zero: true}],
    ["loss_scale", "loss scale"], ["skipped_steps", "skipped updates"],
  ];

  function ordered(names) {
    const rank = name => {
      const known = kKnown.findIndex(([one]) => one === name);
      return name === "loss" ? -2 : name.startsWith("eval ") ? -1 : known >= 0 ? known : kKnown.length;
    };
    return [...names].sort((a, b) => rank(a) - rank(b));
  }

  const isDull = name => name === "skipped_steps" && recorded.filter(curve => curve.name === name).every(curve => curve.value.every(value => !value));

  function draw(holder, hidden, axis) {
    const names = ordered(new Set(recorded.map(curve => curve.name))).filter(name => !isDull(name));
    return names.map(name => {
      const [, title, y] = kKnown.find(([known]) => known === name) ?? [name, name.replace(/^eval /, "evaluation: ")];
      const box = page.element("div");
      holder.append(box);
      const own = recorded.filter(curve => curve.name === name);
      const series = own.map(curve => ({
        name: runs[curve.run].name, color: color(curve.run), dash: dash(curve.run), points: curve.value.map((value, index) => [curve[axis.key][index], value]),
      }));
      const drawn = curves.lines(box, series, {title, height: 190, zoom: true, legend: false, hidden, x: {label: axis.label}, y: {label: title, ...y}});
      const without = runs.filter((_, index) => !own.some(curve => curve.run === index));
      if (without.length > 0) box.append(page.element("p", {class: "note"}, `not recorded by ${without.map(run => run.name).join(", ")}`));
      return drawn;
    });
  }

  function overlay() {
    const part = page.section("Curves", "Drag across a chart to zoom in, double-click to see all; click on a run to hide it.");
    if (recorded.length === 0) return part.append(page.element("p", {class: "empty"}, "No run has records."));
    const axes = [{key: "step", label: "step"}, {key: "seconds", label: "seconds of steps and evaluations"}];
    const holder = page.element("div", {class: "columns"});
    let hidden = new Set(), drawn = [];
    const show = axis => { holder.replaceChildren(); drawn = draw(holder, hidden, axis); };
    const choice = page.element("p", {}, "against ");
    for (const axis of axes) {
      const label = page.element("label", {}, page.element("input", {type: "radio", name: "axis"}), ` ${axis.label} `);
      label.firstChild.checked = axis === axes[0];
      label.firstChild.onchange = () => show(axis);
      choice.append(label);
    }
    part.append(choice);
    page.legend(part, runs.map((run, index) => ({name: run.name, color: color(index)})), now => { hidden = now; drawn.forEach(one => one.hide && one.hide(now)); });
    part.append(holder);
    show(axes[0]);
  }

  function classes() {
    const found = runs.map((run, index) => ({name: run.name, evaluation: evaluations[index]})).filter(one => one.evaluation);
    if (found.length === 0) return;
    const part = page.section("Classes", "F1 of each class in the newest evaluation; the matrices have labels as rows and predictions as columns.");
    const names = [...new Set(found.flatMap(one => one.evaluation.classes.map(entry => entry.name)))];
    const f1_of = (one, name) => one.evaluation.classes.find(entry => entry.name === name)?.f1 ?? null;
    page.table(part, [{title: "class", kind: "text", value: name => name},
      ...found.map(one => ({title: one.name, value: name => f1_of(one, name), show: value => value === null ? "–" : format.metric(value)}))],
      names, {name: "classes", shown: 20});
    const sides = page.columns(part);
    for (const one of found.slice(0, 4))
      if (one.evaluation.confusion.length > 0) matrix.confusion(page.part(sides, one.name), one.evaluation.classes.map(entry => entry.name), one.evaluation.confusion);
  }

  remarks();
  figures();
  overlay();
  classes();
  configs();
})();
