// The page of `trainctl compare CONFIG --ablate …`: page.data is the document that --json prints, with texts beside it.
"use strict";

(() => {
  const {format} = page;
  const {variants, recommended, yaml, conditions, advice} = page.data;
  const times = value => page.known(value) ? `${value.toFixed(2)}×` : "–";
  const interval = variant => !variant.speedup_95 ? "one round" : variant.speedup_95[1] > 100 * variant.speedup_95[0] ? "too noisy" : `${variant.speedup_95[0].toFixed(2)}–${variant.speedup_95[1].toFixed(2)}`;
  const isBest = variant => variant.name === recommended;
  const baseline = variants[0];
  const color = variant => isBest(variant) ? "var(--good)" : variant === baseline ? "var(--soft)" : page.color(0);

  const head = page.section("Recommended", `${conditions}.`);
  head.append(page.element("p", {class: "healthy"}, advice));
  if (yaml.length > 0) head.append(page.element("pre", {}, yaml.join("\n")));

  const charts = page.columns(page.section("What each strategy is worth", "Right of the line is faster, or more memory, than the baseline. Speed is the baseline's step over the variant's, round by round, with its 95 % interval."));
  marks.estimates(page.part(charts, "Speed"), variants.map(variant => ({
    name: variant.name, mean: variant.speedup, low: variant.speedup_95?.[0], high: variant.speedup_95?.[1], color: color(variant),
    text: `${variant.name}\nspeed ${times(variant.speedup)} (${interval(variant)})\n${format.ms(variant.step_ms)} a step`,
  })), {reference: 1, label: "the baseline's step / the variant's", title: "Speed of each variant with its 95 % interval"});
  marks.estimates(page.part(charts, "Memory"), variants.map(variant => ({
    name: variant.name, mean: variant.memory, color: color(variant), text: `${variant.name}\nmemory ${times(variant.memory)}\npeak ${format.mib(variant.peak_memory_mib)}`,
  })), {reference: 1, label: "the variant's peak / the baseline's", title: "Peak memory of each variant"});

  const loss = variant => variant === baseline ? "" : `${variant.loss_gap >= 0 ? "+" : ""}${(100 * variant.loss_gap).toFixed(2)} %`;
  page.table(page.section("Figures", "Step, samples and peak are medians over the rounds; loss is the mean over equal steps against the baseline's."), [
    {title: "variant", kind: "text", value: variant => variant.name},
    {title: "step", value: variant => variant.step_ms, show: format.ms},
    {title: "samples/s", value: variant => variant.samples_per_s, show: format.number},
    {title: "peak", value: variant => variant.peak_memory_mib, show: format.mib},
    {title: "speed", value: variant => variant.speedup, show: times},
    {title: "95 %", value: variant => variant.speedup_95 ? variant.speedup_95[0] : null, show: (_, variant) => variant === baseline ? "" : interval(variant)},
    {title: "memory", value: variant => variant.memory, show: times},
    {title: "loss", value: variant => variant.loss_gap, show: (_, variant) => loss(variant)},
    {title: "what is set", kind: "long", value: variant => variant.set.join(", "), show: value => page.element("code", {}, value)},
  ], variants, {name: "variants", shown: 100, rowClass: variant => isBest(variant) ? "best" : null});
})();
