// Charts of single marks: points on logarithmic scales under roofs, estimates with their intervals, a map of heat.
"use strict";

const marks = (() => {
  /**
   * A roofline. Points: [{x, y, size, color, flagged, text}]; roofs: [{name, peak}] in y's unit; `slope`: y that x = 1 allows (memory's speed).
   */
  function roofline(parent, points, roofs, slope, options) {
    const placed = points.filter(point => point.x > 0 && point.y > 0);
    const highest = d3.max(roofs, roof => roof.peak);
    const ridges = roofs.map(roof => roof.peak / slope);
    const [low, high] = chart.extent([...placed.map(point => point.x), ...ridges, 1], {log: true});
    const domain = [low / 2, high * 4];
    const roofAt = (roof, x) => Math.min(roof.peak, slope * x);
    const ys = chart.extent([...placed.map(point => point.y), ...roofs.map(roof => roof.peak)], {log: true});
    const size = d3.scaleSqrt().domain([0, d3.max(placed, point => point.size) || 1]).range([3, 15]);
    chart.create(parent, {...options, x: {...options.x, log: true, domain}, y: {...options.y, log: true, domain: [ys[0] / 2, ys[1] * 2.5]}}, plot => {
      roofs.forEach(roof => {
        const path = [domain[0], roof.peak / slope, domain[1]].map(x => [plot.x(x), plot.y(roofAt(roof, x))]);
        plot.svg.append("path").attr("d", d3.line()(path)).attr("fill", "none").style("stroke", "var(--soft)").attr("stroke-width", 1.5);
      });
      plot.svg.selectAll("circle").data([...placed].sort((a, b) => b.size - a.size)).enter().append("circle")
        .attr("cx", point => plot.x(point.x)).attr("cy", point => plot.y(point.y)).attr("r", point => size(point.size))
        .style("fill", point => point.color).attr("fill-opacity", .6).style("stroke", point => point.flagged ? "var(--fore)" : "var(--back)")
        .attr("stroke-width", point => point.flagged ? 1.6 : 1)
        .on("pointermove", point => page.tooltip.show(d3.event, point.text)).on("pointerleave", () => page.tooltip.hide());
      for (const roof of roofs)
        plot.svg.append("text").attr("class", "roof").attr("x", plot.width - 4).attr("y", plot.y(roof.peak) + (roof.peak < highest ? 13 : -6)).attr("text-anchor", "end").text(roof.name);
    });
  }

  /** A row for each of [{name, mean, low, high, color, text}]; low and high may be unknown. `reference`: a line across all. */
  function estimates(parent, rows, {reference, label, title, show}) {
    const kRow = 24;
    const bounds = rows.flatMap(row => [row.mean, row.low, row.high]).filter(value => page.known(value) && value < 20 * d3.max(rows, one => one.mean));
    // Small differences look small: the axis has a quarter around the reference at least.
    const [low, high] = chart.extent([...bounds, reference, .75 * reference, 1.25 * reference], {});
    const longest = d3.max(rows, row => row.name.length);
    chart.create(parent, {title, height: kRow * rows.length, margin: {top: 6, left: Math.min(190, 14 + 7.2 * longest)}, x: {label, domain: [low, high]}}, plot => {
      const y = index => kRow * index + kRow / 2;
      plot.svg.append("line").attr("x1", plot.x(reference)).attr("x2", plot.x(reference)).attr("y2", plot.height).attr("class", "cursor");
      rows.forEach((row, index) => {
        const name = row.name.length > 25 ? `${row.name.slice(0, 24)}…` : row.name;
        plot.outside.append("text").attr("x", -8).attr("y", y(index) + 4).attr("text-anchor", "end").text(name);
        const group = plot.svg.append("g").style("stroke", row.color).style("fill", row.color)
          .on("pointermove", () => page.tooltip.show(d3.event, row.text)).on("pointerleave", () => page.tooltip.hide());
        if (page.known(row.low) && page.known(row.high))
          group.append("line").attr("x1", plot.x(Math.max(low, row.low))).attr("x2", plot.x(Math.min(high, row.high))).attr("y1", y(index)).attr("y2", y(index)).attr("stroke-width", 2);
        group.append("circle").attr("cx", plot.x(row.mean)).attr("cy", y(index)).attr("r", 4.5);
        group.append("rect").attr("y", y(index) - kRow / 2).attr("width", plot.width).attr("height", kRow).style("fill", "transparent").style("stroke", "none");
      });
    });
  }

  /** Cells of `values[x][y]` over `xs`; rows are named from below. */
  function heat(parent, xs, rows, values, {show = page.format.number, meaning, ...options}) {
    if (xs.length === 0) return parent.append(page.element("p", {class: "empty"}, "No values."));
    const kRow = 20;
    const most = d3.max(values, column => d3.max(column)) || 1;
    const step = xs.length > 1 ? (xs[xs.length - 1] - xs[0]) / (xs.length - 1) : 1;
    const opacity = d3.scaleSqrt().domain([0, most]).range([0, 1]);
    chart.create(parent, {...options, height: kRow * rows.length, margin: {top: 6, left: 96}, x: {...options.x, domain: [xs[0], xs[xs.length - 1] + step]}}, plot => {
      rows.forEach((name, index) => plot.outside.append("text").attr("x", -6).attr("y", plot.height - kRow * index - 6).attr("text-anchor", "end").text(name));
      plot.svg.append("rect").attr("width", plot.width).attr("height", plot.height).style("fill", "var(--panel)");
      values.forEach((column, at) => {
        const next = at + 1 < xs.length ? xs[at + 1] : xs[at] + step;
        column.forEach((value, index) => {
          if (!value) return;
          plot.svg.append("rect").attr("x", plot.x(xs[at])).attr("width", plot.x(next) - plot.x(xs[at]) + .4).attr("y", plot.height - kRow * (index + 1))
            .attr("height", kRow - 1).style("fill", "var(--c0)").attr("fill-opacity", opacity(value));
        });
      });
    }, (plot, px, py) => {
      const at = Math.min(xs.length - 1, Math.max(0, d3.bisectRight(xs, plot.x.invert(px)) - 1)), row = Math.min(rows.length - 1, Math.floor((plot.height - py) / kRow));
      return {at: plot.x(xs[at]), text: `${options.x.label} ${page.format.number(xs[at])}\n${rows[row]}: ${show(values[at][row])}`};
    });
    const scale = [0, .04, .2, 1].map(part => ({name: show(part * most), color: `color-mix(in srgb, var(--c0) ${Math.round(100 * Math.sqrt(part))}%, var(--panel))`}));
    page.legend(parent, [...scale.slice(0, -1), {...scale[3], name: `${show(most)} ${meaning}`}]);
  }

  return {roofline, estimates, heat};
})();
