// The page of `trainctl data preview`: page.data has samples, tokens by fate, the longest rows.
"use strict";

(() => {
  const {format, element} = page;
  const data = page.data;
  const kFates = ["learned", "context", "cut", "padding"];
  const kMeanings = ["the model is asked for the token", "the model reads the token and isn't asked for it", "behind the longest row, or left out", "fills a row"];

  function shares() {
    const total = d3.sum(data.num_tokens);
    if (total === 0) return;
    const section = page.section("Tokens", `${format.number(total)} tokens of ${format.number(data.num_looked_at)} samples.`);
    const bar = element("div", {class: "shares", role: "img", "aria-label": kFates.map((fate, i) => `${fate} ${format.share(data.num_tokens[i] / total)}`).join(", ")});
    data.num_tokens.forEach((count, i) => {
      if (count > 0) bar.append(element("span", {class: `fate ${kFates[i]}`, style: `flex: ${count} 1 0`}));
    });
    section.append(bar);
    const known = kFates.map((fate, i) => [fate, data.num_tokens[i], `${format.share(data.num_tokens[i] / total)} (${format.number(data.num_tokens[i])})`]);
    page.facts(section, known.filter(([fate]) => fate !== "cut" || data.knows_cut));
    if (data.longest.length > 0)
      page.table(page.part(section, "Longest"), [
        {title: "row", value: row => row.place, kind: "text"}, {title: "tokens", value: row => row.num_tokens, show: format.number},
      ], data.longest, {name: "longest"});
  }

  /** Runs of one fate are one element, so that a long text stays light; a token with a note is alone. */
  function text(pieces) {
    const holder = element("div", {class: "preview-text", tabindex: "0", role: "region", "aria-label": "text of the sample"});
    let last = null;
    for (const [content, fate, note] of pieces) {
      const shown = content.replaceAll("\n", "↵\n");
      if (last && last.fate === fate && !note && !last.note) {
        last.node.append(shown);
        continue;
      }
      const node = element("span", {class: `fate ${kFates[fate]}`, title: note ? `target: ${note}` : kMeanings[fate]}, shown);
      if (note) node.append(element("sub", {}, note));
      last = {node, fate, note};
      holder.append(node);
    }
    return holder;
  }

  function samples() {
    const section = page.section("Samples", "As the model gets them in the first epoch, after all transforms.");
    if (data.samples.some(sample => sample.pieces))
      section.append(element("p", {class: "note"}, ...kFates.flatMap((fate, i) => [element("span", {class: `fate ${fate}`}, fate), `: ${kMeanings[i]}${i < 3 ? "; " : "."}`])));
    const pictures = data.samples.filter(sample => sample.picture);
    if (pictures.length > 0)
      section.append(element("div", {class: "samples"}, ...pictures.map(sample =>
        element("figure", {}, element("img", {src: sample.picture, alt: sample.title, class: sample.picture.startsWith("data:image/png") ? "small" : null}), element("figcaption", {}, sample.title)))));
    for (const sample of data.samples.filter(one => !one.picture)) {
      const part = page.part(section, sample.title);
      if (sample.columns) page.facts(part, sample.columns.map(([name, value]) => [name, value, value]));
      if (sample.pieces) part.append(text(sample.pieces));
    }
  }

  for (const remark of data.remarks) page.main().append(element("p", {class: "note"}, remark));
  shares();
  samples();
})();
