// Lines and stacked areas over a common x.
"use strict";

const curves = (() => {
  function nearest(points, x) {
    const right = Math.min(points.length - 1, d3.bisector(point => point[0]).left(points, x));
    return right > 0 && x - points[right - 1][0] < points[right][0] - x ? right - 1 : right;
  }

  /** Points within [low, high], and one on either side. */
  function within(points, [low, high]) {
    const by = d3.bisector(point => point[0]);
    return points.slice(Math.max(0, by.left(points, low) - 1), by.right(points, high) + 1);
  }

  const kFewPoints = 30;

  /** Dashes that let a curve below show through, for each series whose points are those of an earlier one. */
  function dashOverEqual(series) {
    const seen = [];
    return series.map(one => {
      const text = JSON.stringify(one.points);
      const below = one.points.length === 0 ? 0 : seen.filter(other => other === text).length;
      seen.push(text);
      return {...one, dash: below > 0 ? `6 ${6 * below}` : one.dash};
    });
  }

  function drawSeries(plot, series) {
    const known = point => page.known(point[1]);
    const line = d3.line().defined(known).x(point => plot.x(point[0])).y(point => plot.y(point[1]));
    const points = within(series.points, plot.domain);
    plot.svg.append("path").attr("d", line(points)).attr("fill", "none").style("stroke", series.color)
      .attr("stroke-width", 1.6).attr("stroke-dasharray", series.dash ?? null).attr("stroke-linejoin", "round");
    if (points.length <= kFewPoints)
      plot.svg.selectAll(null).data(points.filter(known)).enter().append("circle").attr("cx", point => plot.x(point[0]))
        .attr("cy", point => plot.y(point[1])).attr("r", (points.length === 1 ? 5 : 2.5) * (series.dash ? .6 : 1)).style("fill", series.color);
  }

  /**
   * Series: [{name, color, points: [[x, y or null], …] in order of x, dash}]. Options as of chart.create, less the domains; `y.log`, `y.zero`;
   * `show(value)` for the tooltip; `legend: false` where another chart has it; `hidden` is a set of names; `x.last`: where
   * the axis ends, if a series ends earlier. A lone point stands in the middle.
   */
  function lines(parent, given, options) {
    const series = dashOverEqual(given);
    const all = series.flatMap(one => one.points.map(point => point[0]));
    if (all.length === 0) return parent.append(page.element("p", {class: "empty"}, "No values."));
    const last = options.x.last ?? -Infinity;
    const [first, newest] = d3.extent(all);
    const isLone = newest === first && newest >= last;
    const low = isLone ? first - 1 : Math.min(first, page.known(options.x.first) ? options.x.first : first), high = isLone ? first + 1 : Math.max(newest, last);
    let hidden = options.hidden ?? new Set();
    const visible = () => series.filter(one => !hidden.has(one.name));
    const show = options.show ?? page.format.number;
    const yDomain = domain => {
      const values = visible().flatMap(one => within(one.points, domain).map(point => point[1]));
      return values.length === 1 && page.known(values[0]) && values[0] > 0 && !(options.y && options.y.log) ? [0, 2 * values[0]] : chart.extent(values, options.y);
    };
    const made = chart.create(parent, {...options, x: {...options.x, domain: [low, high]}, y: {...options.y, domain: yDomain}},
      plot => visible().forEach(one => drawSeries(plot, one)),
      (plot, px) => {
        const x = plot.x.invert(px);
        const rows = visible().filter(one => one.points.length > 0).map(one => ({name: one.name, point: one.points[nearest(one.points, x)]}));
        if (rows.length === 0) return null;
        const at = rows.reduce((best, row) => Math.abs(row.point[0] - x) < Math.abs(best - x) ? row.point[0] : best, Infinity);
        const text = rows.map(row => `${row.name}: ${show(row.point[1])}${row.point[0] === at ? "" : ` (at ${page.format.number(row.point[0])})`}`);
        return {at: plot.x(at), text: [`${options.x.label} ${page.format.number(at)}`, ...text].join("\n")};
      });
    if (options.legend !== false && series.length > 1) page.legend(parent, series, now => { hidden = now; made.redraw(); });
    return {redraw: made.redraw, hide: now => { hidden = now; made.redraw(); }};
  }

  /** Layers: [{name, color, values}], upward, over the common `xs`; `above`: series as of lines, drawn over them. */
  function areas(parent, xs, layers, {above = [], curve = d3.curveLinear, show = page.format.number, title_of, ...options}) {
    if (xs.length === 0) return parent.append(page.element("p", {class: "empty"}, "No values."));
    let hidden = new Set();
    const visible = () => layers.filter(layer => !hidden.has(layer.name));
    const stacked = () => d3.stack().keys(visible().map(layer => layer.name)).value((index, name) => layers.find(layer => layer.name === name).values[index] ?? 0)(d3.range(xs.length));
    const lineAbove = () => above.filter(one => !hidden.has(one.name));
    const top = () => Math.max(1e-9, d3.max(stacked().flatMap(layer => layer.map(span => span[1]))) ?? 0, ...lineAbove().flatMap(one => one.points.map(point => point[1] ?? 0)));
    const domain = options.x.domain ?? [xs[0], xs[xs.length - 1] > xs[0] ? xs[xs.length - 1] : xs[0] + 1];
    const made = chart.create(parent, {...options, x: {...options.x, domain}, y: {...options.y, domain: () => [0, 1.05 * top()]}}, plot => {
      const area = d3.area().curve(curve).x((_, index) => plot.x(xs[index])).y0(span => plot.y(span[0])).y1(span => plot.y(span[1]));
      stacked().forEach((layer, index) => plot.svg.append("path").attr("d", area(layer)).style("fill", visible()[index].color).attr("fill-opacity", .8));
      lineAbove().forEach(one => drawSeries(plot, one));
    }, (plot, px) => {
      const index = nearest(xs.map(x => [x]), plot.x.invert(px));
      const rows = [...layers].reverse().map(layer => `${layer.name}: ${show(layer.values[index])}`);
      const extra = above.map(one => `${one.name}: ${show((one.points.find(point => point[0] === xs[index]) ?? [])[1])}`);
      return {at: plot.x(xs[index]), text: [title_of ? title_of(index) : `${options.x.label} ${page.format.number(xs[index])}`, ...extra, ...rows].join("\n")};
    });
    page.legend(parent, [...layers, ...above], now => { hidden = now; made.redraw(); });
    return made;
  }

  return {lines, areas};
})();
