// A flame graph (icicle) of a tree: {name, ms, self_ms, calls, children}. A click makes a node the whole width.
"use strict";

const flame = (() => {
  const kRow = 19;

  /** Each branch below the root has a hue of its own; what is deeper differs a little in lightness. */
  function colorOf(node, hues) {
    const branch = node.ancestors().slice(-2)[0];
    let hash = 0;
    for (const c of node.data.name) hash = (31 * hash + c.charCodeAt(0)) % 997;
    const hue = node.depth === 0 ? 210 : hues.get(branch.data.name);
    return d3.hsl(hue, node.depth === 0 ? .12 : .5, .36 + .1 * (hash % 100) / 100).toString();
  }

  const kHues = [212, 24, 152, 312, 48, 258, 187, 0];

  /** The whole name, or its last part, or of that as much as there is room for. */
  const fitting = (name, room) => name.length <= room ? name : name.replace(/^.*(\.|::)(?=.)/, "").slice(0, Math.max(0, room));

  function draw(parent, tree) {
    const root = d3.hierarchy(tree).sum(data => Math.max(0, data.self_ms));
    d3.partition()(root);
    const hues = new Map((root.children ?? []).map((child, index) => [child.data.name, kHues[index % kHues.length]]));
    const trail = page.element("p", {class: "note"});
    const holder = page.element("div", {class: "chart flame"});
    const svg = d3.select(holder).append("svg").attr("role", "img").attr("aria-label", "Flame graph of the modules");
    parent.append(trail, holder);
    let focus = root;

    function redraw() {
      const width = holder.clientWidth;
      if (width === 0) return;
      const x = d3.scaleLinear().domain([focus.x0, focus.x1]).range([0, width]);
      const shown = root.descendants().filter(node => x(node.x1) - x(node.x0) >= .7 && node.x1 > focus.x0 && node.x0 < focus.x1);
      const left = node => Math.max(0, x(node.x0)), right = node => Math.min(width, x(node.x1));
      svg.attr("height", kRow * (1 + d3.max(shown, node => node.depth))).selectAll("*").remove();
      const cell = svg.selectAll("g").data(shown).enter().append("g").attr("transform", node => `translate(${left(node)},${kRow * node.depth})`);
      cell.append("rect").attr("width", node => right(node) - left(node)).attr("height", kRow - 1).attr("fill", node => colorOf(node, hues))
        .attr("fill-opacity", node => node.depth < focus.depth ? .55 : 1)
        .on("click", node => { focus = node === focus ? root : node; page.tooltip.hide(); redraw(); })
        .on("pointermove", node => page.tooltip.show(d3.event, describe(node))).on("pointerleave", () => page.tooltip.hide());
      cell.filter(node => right(node) - left(node) > 28).append("text").attr("x", 4).attr("y", 13)
        .text(node => fitting(node.data.name, Math.floor((right(node) - left(node) - 6) / 6.2)));
      trail.replaceChildren(focus === root ? "Click on a part to look into it." : `${focus.ancestors().reverse().map(node => node.data.name).join(" › ")} `);
      if (focus !== root) {
        const back = page.element("button", {type: "button"}, "whole step");
        back.onclick = () => { focus = root; redraw(); };
        trail.append(back);
      }
    }

    const describe = node => [
      node.ancestors().reverse().slice(1).map(one => one.data.name).join(" › ") || node.data.name,
      `${page.format.ms(node.data.ms)} a step, ${page.format.share(root.data.ms > 0 ? node.data.ms / root.data.ms : null)}`,
      `${page.format.ms(node.data.self_ms)} of that its own, ${page.format.number(node.data.calls)} calls`].join("\n");

    new ResizeObserver(() => { if (svg.attr("data-width") !== String(holder.clientWidth)) { svg.attr("data-width", holder.clientWidth); redraw(); } }).observe(holder);
    redraw();
    svg.attr("data-width", holder.clientWidth);
  }

  return {draw};
})();
