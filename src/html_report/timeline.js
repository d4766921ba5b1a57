// Intervals over time on tracks (threads, streams), nested by depth; on a canvas, since there are many.
"use strict";

const timeline = (() => {
  const kRow = 15, kTitle = 18;

  /** Where each track lies, from above. */
  function layOut(tracks) {
    let top = 0;
    return tracks.map(track => {
      const depth = 1 + (d3.max(track.intervals, interval => interval[2]) ?? 0);
      const laid = {...track, top: top + kTitle, rows: d3.range(depth).map(() => [])};
      for (const interval of track.intervals) laid.rows[interval[2]].push(interval);
      top = laid.top + depth * kRow + 4;
      return laid;
    });
  }

  const endOf = interval => interval[0] + interval[1];

  /** Those of a row that overlap [low, high]; rows are in order of start and don't overlap themselves. */
  function overlapping(row, low, high) {
    let index = Math.max(0, d3.bisector(interval => interval[0]).left(row, low) - 1);
    const found = [];
    for (; index < row.length && row[index][0] <= high; ++index) if (endOf(row[index]) >= low) found.push(row[index]);
    return found;
  }

  function drawRow(context, plot, row, top, look) {
    const [low, high] = plot.domain;
    let drawn = -1;
    for (const interval of overlapping(row, low, high)) {
      const left = Math.max(0, plot.x(interval[0])), right = Math.min(plot.width, plot.x(endOf(interval)));
      if (right <= drawn) continue;
      context.globalAlpha = .62 + .38 * ((interval[3] * 7) % 5) / 4;
      context.fillStyle = look.colors[interval[4]];
      context.fillRect(left, top, Math.max(.8, right - left - (right - left > 3 ? .6 : 0)), kRow - 1.5);
      drawn = left + .5;
      if (right - left < 34) continue;
      context.globalAlpha = 1;
      context.fillStyle = look.text;
      context.fillText(look.names[interval[3]].slice(0, Math.floor((right - left - 6) / 6)), left + 3, top + kRow - 4.5);
    }
    context.globalAlpha = 1;
  }

  function canvasFor(plot, canvas) {
    const ratio = window.devicePixelRatio || 1;
    if (!canvas.isConnected) plot.holder.append(canvas);
    const below = plot.holder.querySelector("svg").getBoundingClientRect().top - plot.holder.getBoundingClientRect().top;
    Object.assign(canvas, {width: plot.width * ratio, height: plot.height * ratio});
    Object.assign(canvas.style, {left: `${plot.margin.left}px`, top: `${below + plot.margin.top}px`, width: `${plot.width}px`, height: `${plot.height}px`});
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.font = "10px system-ui, sans-serif";
    return context;
  }

  function drawAll(plot, canvas, laid, {names, kinds, marks}) {
    const style = getComputedStyle(document.documentElement);
    const resolve = index => style.getPropertyValue(`--c${index}`).trim();
    const look = {names, colors: kinds.map(kind => resolve(kind.color)), text: style.getPropertyValue("--back").trim()};
    const context = canvasFor(plot, canvas);
    for (const mark of marks) {
      context.fillStyle = style.getPropertyValue("--soft").trim();
      context.fillRect(plot.x(mark.start), 0, 1, plot.height);
      plot.svg.append("text").attr("class", "label").attr("x", Math.max(2, plot.x(mark.start) + 3)).attr("y", 10).text(plot.x(mark.start + mark.duration) > 30 ? mark.name : "");
    }
    for (const track of laid) {
      context.fillStyle = style.getPropertyValue("--fore").trim();
      context.fillText(track.name, 2, track.top - 4);
      track.rows.forEach((row, depth) => drawRow(context, plot, row, track.top + depth * kRow, look));
    }
  }

  /**
   * Tracks: [{name, intervals: [[start_us, duration_us, depth, name index, kind], …]}]; `kinds`: [{name, color: index}];
   * `marks`: [{name, start, duration}], the first of which is shown at first.
   */
  function draw(parent, {tracks, names, kinds, marks, title = "Operators over time"}) {
    const filled = tracks.filter(track => track.intervals.length > 0);
    if (filled.length === 0) return parent.append(page.element("p", {class: "empty"}, "Nothing was recorded."));
    const kTop = marks.length > 0 ? 14 : 0;
    const laid = layOut(filled).map(track => ({...track, top: track.top + kTop}));
    const last = laid[laid.length - 1];
    const all = filled.flatMap(track => track.intervals);
    const whole = [Math.min(0, d3.min(all, interval => interval[0])), d3.max(all, endOf)];
    const first = marks.length > 0 ? [marks[0].start, marks[0].start + marks[0].duration] : whole;
    const canvas = page.element("canvas");
    chart.create(parent, {
      title, height: last.top + last.rows.length * kRow + 6, margin: {left: 8, right: 8}, zoom: first,
      x: {label: "time (ms)", domain: whole, format: us => page.format.tick(us / 1e3)},
    }, plot => drawAll(plot, canvas, laid, {names, kinds, marks}), (plot, px, py) => {
      const track = laid.find(one => py >= one.top && py < one.top + one.rows.length * kRow);
      if (!track) return null;
      const slack = Math.abs(plot.x.invert(2) - plot.x.invert(0)), at = plot.x.invert(px);
      const found = overlapping(track.rows[Math.floor((py - track.top) / kRow)], at - slack, at + slack)
        .sort((a, b) => Math.abs(a[0] + a[1] / 2 - at) - Math.abs(b[0] + b[1] / 2 - at))[0];
      return found ? {text: `${names[found[3]]} (${kinds[found[4]].name})\n${page.format.ms(found[1] / 1e3)}, from ${page.format.ms(found[0] / 1e3)}\n${track.name}`} : null;
    });
    const used = new Set(all.map(interval => interval[4]));
    page.legend(parent, kinds.filter((_, index) => used.has(index)).map(kind => ({name: kind.name, color: page.color(kind.color)})));
  }

  return {draw};
})();
