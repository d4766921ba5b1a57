// A confusion matrix as a table of shaded cells, and what a class's row and column say.
"use strict";

const matrix = (() => {
  const kMostNumbers = 16;  // classes whose cells have room for counts

  /** The shade of a share of a row; pale enough for text on it. */
  const shade = share => `--shade: color-mix(in srgb, var(--c0) ${(50 * Math.sqrt(share)).toFixed(1)}%, var(--panel))`;

  /** `counts[label][prediction]`. Rows are labels. */
  function confusion(parent, names, counts) {
    const isFine = names.length > kMostNumbers;
    const heads = names.map((name, index) => page.element("th", {scope: "col", title: isFine ? name : null}, page.element("span", {}, isFine ? String(index + 1) : name)));
    const rows = counts.map((row, label) => {
      const sum = d3.sum(row);
      const cells = row.map((count, prediction) => {
        const share = sum > 0 ? count / sum : 0;
        const text = `label ${names[label]}, prediction ${names[prediction]}: ${page.format.number(count)} (${page.format.share(share)} of the class)`;
        const cell = page.element("td", {"data-value": count, style: shade(share)}, isFine ? "" : count === 0 ? "" : page.format.number(count));
        cell.onpointermove = event => page.tooltip.show(event, text);
        cell.onpointerleave = () => page.tooltip.hide();
        return cell;
      });
      return page.element("tr", {}, page.element("th", {scope: "row", title: names[label]}, isFine ? `${label + 1} ${names[label]}` : names[label]), ...cells);
    });
    const table = page.element("table", {class: isFine ? "matrix fine" : "matrix", "data-name": "confusion"},
      page.element("thead", {}, page.element("tr", {}, page.element("th", {}, "label"), ...heads)), page.element("tbody", {}, ...rows));
    parent.append(...page.scroller(table, "confusion matrix"));
  }

  return {confusion};
})();
