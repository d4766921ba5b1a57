// The frame of a chart: an SVG as wide as its container, axes with labels, zooming along x, a cursor with a tooltip.
"use strict";

const chart = (() => {
  const kMargin = {top: 28, right: 18, bottom: 38, left: 58};

  const scaleOf = (spec, domain, range) => (spec.log ? d3.scaleLog() : d3.scaleLinear()).domain(domain).range(range);

  /** So many that labels don't touch; of a logarithmic scale powers of ten. */
  function axisOf(make, scale, spec, count) {
    const axis = make(scale).tickFormat(spec.format ?? page.format.tick).tickSizeOuter(0);
    if (!spec.log) return axis.ticks(count);
    const powers = d3.range(Math.ceil(Math.log10(scale.domain()[0]) - 1e-9), Math.floor(Math.log10(scale.domain()[1]) + 1e-9) + 1).map(power => 10 ** power);
    const every = Math.ceil(powers.length / count);
    return axis.tickValues(powers.length < 2 ? scale.ticks(count).slice(0, count) : powers.filter((_, index) => index % every === 0));
  }

  function drawAxes(svg, plot, options) {
    const {x, y, width, height, margin} = plot;
    svg.append("g").attr("transform", `translate(0,${height})`).call(axisOf(d3.axisBottom, x, options.x, Math.max(2, Math.floor(width / 90))));
    svg.append("text").attr("class", "label").attr("x", width).attr("y", height + 34).attr("text-anchor", "end").text(options.x.label);
    if (!y) return;
    svg.append("g").call(axisOf(d3.axisLeft, y, options.y, Math.max(2, Math.floor(height / 40))))
      .call(axis => axis.selectAll(".tick line").clone().attr("x2", width).attr("stroke-opacity", .5));
    svg.append("text").attr("class", "label").attr("x", 6 - margin.left).attr("y", -10).text(options.y.label);
  }

  /** Buttons that change what of [low, high] is shown. */
  function zoomButtons(holder, whole, get, set) {
    const move = (scale, shift) => {
      const [low, high] = get(), span = Math.min((high - low) * scale, whole[1] - whole[0]);
      const from = Math.max(whole[0], Math.min((low + high - span) / 2 + shift * span, whole[1] - span));
      set([from, from + span]);
    };
    const actions = [["−", "zoom out", () => move(2, 0)], ["+", "zoom in", () => move(.5, 0)], ["‹", "earlier", () => move(1, -.5)],
                     ["›", "later", () => move(1, .5)], ["all", "show all", () => set(whole)]];
    const bar = page.element("div", {class: "zoom"});
    for (const [text, title, action] of actions) {
      const button = page.element("button", {type: "button", title, "aria-label": title}, text);
      button.onclick = action;
      bar.append(button);
    }
    holder.append(bar);
  }

  /** A drag over the plot zooms, a double click shows all. Touch scrolls the page: buttons are for it. */
  function addBrush(svg, plot, whole, set) {
    const brush = d3.brushX().extent([[0, 0], [plot.width, plot.height]]).touchable(false).on("end", () => {
      const selected = d3.event.selection;
      if (selected && selected[1] - selected[0] > 3) set(selected.map(plot.x.invert));
      else if (selected) svg.select(".brush").call(brush.move, null);
    });
    svg.append("g").attr("class", "brush").call(brush).on("dblclick", () => set(whole)).selectAll(".handle").remove();
  }

  /**
   * Options: {title, height, zoom: true or the part of x shown at first, margin, x: {label, domain, log, format}, y: the same or nothing, where
   * `domain` may be a function of what of x is shown}. `draw(plot)` fills plot.svg (clipped to the plot) by plot.x and plot.y;
   * `hover(plot, x, y)` gives {text, at} for the pointer's place, or nothing.
   */
  function create(parent, options, draw, hover) {
    const margin = {...kMargin, ...options.margin};
    const holder = page.element("div", {class: `chart ${options.class ?? ""}`});
    const whole = options.x.domain;
    let shown = Array.isArray(options.zoom) ? options.zoom : whole;
    let redraw = () => {};
    const show = domain => { shown = domain; redraw(); };
    if (options.zoom) zoomButtons(holder, whole, () => shown, show);
    const svg = d3.select(holder).append("svg").attr("role", "img").attr("aria-label", options.title);
    parent.append(holder);

    redraw = () => {
      const outer = holder.clientWidth;
      if (outer === 0) return;
      const inner = typeof options.height === "function" ? options.height() : options.height ?? 200;
      const plot = {width: Math.max(40, outer - margin.left - margin.right), height: inner, margin, holder, redraw, show, domain: shown};
      svg.attr("height", inner + margin.top + margin.bottom).selectAll("*").remove();
      const group = svg.append("g").attr("transform", `translate(${margin.left},${margin.top})`);
      plot.x = scaleOf(options.x, shown, [0, plot.width]);
      if (options.y) {
        const domain = typeof options.y.domain === "function" ? options.y.domain(shown) : options.y.domain;
        plot.y = scaleOf(options.y, domain, [inner, 0]);
      }
      drawAxes(group, plot, options);
      if (options.zoom) addBrush(group, plot, whole, show);
      const clip = `clip${create.count = (create.count ?? 0) + 1}`;
      group.append("clipPath").attr("id", clip).append("rect").attr("x", -3).attr("y", -3).attr("width", plot.width + 6).attr("height", inner + 6);
      plot.outside = group;
      plot.svg = group.append("g").attr("clip-path", `url(#${clip})`).style("pointer-events", options.zoom ? "none" : null);
      draw(plot);
      if (hover) follow(svg, group, plot, hover);
    };
    new ResizeObserver(() => { if (svg.attr("data-width") !== String(holder.clientWidth)) { svg.attr("data-width", holder.clientWidth); redraw(); } }).observe(holder);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw());
    redraw();
    svg.attr("data-width", holder.clientWidth);
    return {redraw: () => redraw(), show};
  }

  function follow(svg, group, plot, hover) {
    const cursor = group.append("line").attr("class", "cursor").attr("y2", plot.height).style("display", "none");
    const leave = () => { cursor.style("display", "none"); page.tooltip.hide(); };
    svg.on("pointermove pointerdown", () => {
      const [x, y] = d3.clientPoint(group.node(), d3.event);
      const found = x >= 0 && x <= plot.width && y >= 0 && y <= plot.height ? hover(plot, x, y) : null;
      if (!found) return leave();
      if (found.at !== undefined) cursor.style("display", null).attr("x1", found.at).attr("x2", found.at);
      page.tooltip.show(d3.event, found.text);
    }).on("pointerleave", leave);
  }

  /** [low, high] with room, from 0 where that is near; of nothing, [0, 1]. */
  function extent(values, {zero = false, log = false} = {}) {
    const finite = values.filter(value => page.known(value) && (!log || value > 0));
    if (finite.length === 0) return log ? [1, 10] : [0, 1];
    const [low, high] = d3.extent(finite);
    if (log) return low === high ? [low / 2, high * 2] : [low / 1.15, high * 1.15];
    if (low === high) return low === 0 ? [0, 1] : low > 0 ? [0, high * 1.1] : [low * 1.1, 0];
    const room = .05 * (high - low);
    return [zero || (low >= 0 && low < .3 * high) ? Math.min(0, low) : low - room, high + room];
  }

  return {create, extent};
})();
