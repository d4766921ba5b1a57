// What every page uses: its data, elements, numbers as text, sections, tables, the tooltip.
"use strict";

window.addEventListener("error", event => {
  const text = `This page's script failed: ${event.message}. Its numbers are in the file, as JSON.`;
  document.querySelector("main").prepend(page.element("p", {id: "failure"}, text));
});

const page = (() => {
  /** element("td", {class: "text"}, "a", child): attributes that are undefined or null are left out. */
  function element(name, attributes = {}, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes))
      if (value !== undefined && value !== null) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  const known = value => value !== null && value !== undefined && Number.isFinite(value);

  function measured(value) {
    if (!known(value)) return "–";
    const size = Math.abs(value);
    if (value === 0) return "0";
    if (size >= 1e15 || size < 1e-3) return d3.format(".3~e")(value);
    return d3.format(size >= 1000 ? ",.0f" : size >= 100 ? ".1f" : size >= .095 ? ".2f" : ".4f")(value);
  }

  /** Numbers for people; "–" for what isn't known. */
  const format = {
    measured,
    number: value => Number.isInteger(value) && Math.abs(value) < 1e15 ? d3.format(",")(value) : measured(value),
    /** Of a loss or a metric. */
    metric: value => known(value) && value !== 0 && Math.abs(value) >= 1e-3 && Math.abs(value) < 1e4 ? d3.format(".4f")(value) : format.number(value),
    share: value => known(value) ? `${(100 * value).toFixed(1)} %` : "–",
    /** "12.3 G", for rates and counts. */
    si: value => known(value) ? d3.format(value !== 0 && Math.abs(value) < 1 ? ".3~g" : ".3~s")(value).replace(/([a-zA-Zµ])$/, " $1") : "–",
    ms: value => known(value) ? `${measured(value)} ms` : "–",
    mib: value => known(value) ? `${measured(value)} MiB` : "–",
    bytes: value => known(value) ? (value < 1024 ? `${value} B` : value < 1048576 ? `${measured(value / 1024)} KiB` : format.mib(value / 1048576)) : "–",
    seconds(value) {
      if (!known(value)) return "–";
      return value < 120 ? `${format.number(value)} s` : value < 7200 ? `${format.number(value / 60)} min` : `${format.number(value / 3600)} h`;
    },
    /** Short, for axes. */
    tick(value) {
      const size = Math.abs(value);
      if (value !== 0 && size < 1e-3) return d3.format(".2~e")(value).replace("−", "-");
      return size >= 1e5 ? d3.format(".4~s")(value) : d3.format(",.6~g")(value);
    },
  };

  const main = () => document.querySelector("main");

  /** A headline with a note under it, at the end of the page; the element to fill. */
  function section(title, note, parent = main()) {
    const node = element("section", {}, element("h2", {}, title));
    if (note) node.append(element("p", {class: "note"}, note));
    parent.append(node);
    return node;
  }

  function part(parent, title, note) {
    const node = element("div", {}, element("h3", {}, title));
    if (note) node.append(element("p", {class: "note"}, note));
    parent.append(node);
    return node;
  }

  function columns(parent) {
    const node = element("div", {class: "columns"});
    parent.append(node);
    return node;
  }

  const cellValue = value => value === null || value === undefined ? "" : typeof value === "object" ? null : value;

  /** Names and figures: [[name, value, text], …]. */
  function facts(parent, entries) {
    const list = element("dl", {class: "facts"});
    for (const [name, value, text] of entries)
      list.append(element("div", {}, element("dt", {}, name), element("dd", {"data-name": name, "data-value": cellValue(value)}, text ?? String(value))));
    parent.append(list);
  }

  const kShown = 15;

  function sortedBy(rows, column, descending) {
    const rank = row => column.value(row);
    const filled = rows.filter(row => rank(row) !== null && rank(row) !== undefined);
    filled.sort((a, b) => (descending ? d3.descending : d3.ascending)(rank(a), rank(b)));
    return filled.concat(rows.filter(row => !filled.includes(row)));
  }

  /** A region that scrolls sideways where it is too narrow; a shadow and a line say so, and the keyboard reaches it. */
  function scroller(node, label) {
    const holder = element("div", {class: "scroll", role: "region", tabindex: "0", "aria-label": label}, node);
    const look = () => {
      const isWide = holder.scrollWidth > holder.clientWidth + 1;
      holder.toggleAttribute("data-wide", isWide);
      holder.toggleAttribute("data-more", isWide && holder.scrollLeft + holder.clientWidth < holder.scrollWidth - 1);
    };
    holder.addEventListener("scroll", look, {passive: true});
    new ResizeObserver(look).observe(holder);
    new ResizeObserver(look).observe(node);
    return [holder, element("p", {class: "hint"}, "The table is wider than the page: scroll it sideways.")];
  }

  /**
   * Columns: {title, value: row => anything, show: (value, row) => text or node, kind: "text" | "long" | undefined}. A click on a headline sorts.
   * Rows beyond the first are shown on demand.
   */
  function table(parent, columns, rows, {name, shown = kShown, rowClass = () => null} = {}) {
    const body = element("tbody");
    const node = element("table", {"data-name": name});
    const class_of = column => column.kind === "long" ? "text long" : column.kind;
    const fill = ordered => body.replaceChildren(...ordered.map((row, index) => element(
      "tr", {class: [index >= shown ? "rest" : "", rowClass(row) ?? ""].join(" ").trim() || null},
      ...columns.map(column => {
        const value = column.value(row);
        return element("td", {class: class_of(column), "data-value": cellValue(value)}, column.show ? column.show(value, row) : value ?? "–");
      }))));
    const heads = columns.map(column => {
      const head = element("th", {class: class_of(column), scope: "col"});
      if (column.title === "") return head;
      head.append(element("button", {type: "button"}, column.title));
      head.firstChild.onclick = () => {
        const descending = head.getAttribute("aria-sort") !== "descending";
        heads.forEach(other => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", descending ? "descending" : "ascending");
        fill(sortedBy(rows, column, descending));
      };
      return head;
    });
    fill(rows);
    node.append(element("thead", {}, element("tr", {}, ...heads)), body);
    parent.append(...scroller(node, name ?? "table"));
    if (rows.length > shown) {
      const more = element("button", {type: "button"}, `all ${rows.length} rows`);
      more.onclick = () => { more.textContent = node.classList.toggle("all") ? "fewer rows" : `all ${rows.length} rows`; };
      parent.append(more);
    }
    return node;
  }

  /** Beside the pointer, within the window. */
  const tooltip = {
    node: null,
    show(event, text) {
      if (!this.node) document.body.append(this.node = element("div", {id: "tooltip", role: "tooltip"}));
      this.node.textContent = text;
      this.node.hidden = false;
      const box = this.node.getBoundingClientRect();
      const left = event.clientX + 14 + box.width > innerWidth ? event.clientX - 14 - box.width : event.clientX + 14;
      this.node.style.left = `${Math.max(4, Math.min(left, innerWidth - box.width - 4))}px`;
      this.node.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - box.height - 4))}px`;
    },
    hide() { if (this.node) this.node.hidden = true; },
  };
  addEventListener("scroll", () => tooltip.hide(), {passive: true});

  const color = index => `var(--c${index % 8})`;

  /** What colours mean: [{name, color}]. With `onToggle(hidden names)`, a click hides a series. */
  function legend(parent, entries, onToggle) {
    const hidden = new Set();
    const node = element("div", {class: "legend"});
    for (const entry of entries) {
      const item = element(onToggle ? "button" : "span", onToggle ? {type: "button"} : {}, element("i", {style: `background: ${entry.color}`}), entry.name);
      if (onToggle) item.onclick = () => {
        item.classList.toggle("off", !hidden.delete(entry.name) && !!hidden.add(entry.name));
        onToggle(hidden);
      };
      node.append(item);
    }
    parent.append(node);
  }

  return {data: JSON.parse(document.getElementById("data").textContent), element, format, known, main, section, part, columns, facts, table, scroller, tooltip, color, legend};
})();
