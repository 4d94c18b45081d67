// What all panes use: elements, numbers as text, colours, and the state of the page. A pane is {name, title, count?,
// show(report, place)}; it builds elements, never HTML text, so that no string of a report is taken for markup.

const panes = [];
const state = { reports: [], which: 0, pane: null, params: {} };

/// An element: make("td", {class: "n"}, "text", child, …); what is null is left out.
function make(tag, attributes, ...children) {
  const svg = ["svg", "g", "rect", "text", "path", "line", "circle", "title", "polyline"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {}))
    if (key.startsWith("on") && typeof value === "function") element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  for (const child of children.flat(3))
    if (child !== null && child !== undefined && child !== false)
      element.append(child instanceof Node ? child : String(child));
  return element;
}

/// A box of text: make() with a tooltip of several lines.
function tipped(element, text) {
  element.addEventListener("pointermove", event => showTip(event, typeof text === "function" ? text() : text));
  element.addEventListener("pointerleave", hideTip);
  return element;
}
let tip = null;
function showTip(event, text) {
  if (!tip) document.body.append(tip = make("div", { class: "tip", role: "tooltip" }));
  tip.textContent = text;
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)) + "px";
}
function hideTip() {
  if (tip) tip.remove();
  tip = null;
}

/// A button or a row that acts as one: Enter and the space bar do what a click does.
function pressable(element, act) {
  element.tabIndex = 0;
  element.addEventListener("click", act);
  element.addEventListener("keydown", event => {
    if ((event.key === "Enter" || event.key === " ") && event.target === element) {
      event.preventDefault();
      act(event);
    }
  });
  return element;
}

const known = value => value !== null && value !== undefined && !Number.isNaN(value);

/// 1234567 as "1.23 MB"; units of 1000, as the text outputs have them.
function bytesText(bytes) {
  if (!known(bytes)) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  for (; Math.abs(bytes) >= 1000 && unit < units.length - 1; ++unit) bytes /= 1000;
  return digits(bytes, unit ? 3 : 0) + " " + units[unit];
}
function rateText(rate, what) {
  if (!known(rate) || !rate) return "–";
  const units = ["", "k", "M", "G", "T", "P"];
  let unit = 0;
  for (; rate >= 1000 && unit < units.length - 1; ++unit) rate /= 1000;
  return digits(rate, 3) + " " + units[unit] + what;
}
function msText(ms) {
  if (!known(ms)) return "–";
  return ms >= 1000 ? digits(ms / 1000, 3) + " s" : ms >= 1 ? digits(ms, 3) + " ms" : digits(ms * 1000, 3) + " µs";
}
function digits(number, significant) {
  if (number === 0) return "0";
  if (!significant) return String(Math.round(number));
  const decimals = Math.max(0, significant - 1 - Math.floor(Math.log10(Math.abs(number))));
  return number.toFixed(Math.min(decimals, 9));
}
function percent(share) {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  return known(share) && Number.isFinite(share) ? digits(100 * share, share >= 0.1 ? 2 : 1) + " %" : "–";
}
/// A label that may be broken after a dot or a plus.
function breakable(label) {
  return label.split(/(?<=[+.:])/).flatMap((part, i) => (i ? [make("wbr"), part] : [part]));
}
function counted(number, noun) {
  return number + " " + noun + (number === 1 ? "" : "s");
}

/// A definition list of what is there: {name: text or element}.
function facts(list) {
  const items = Object.entries(list).filter(([, value]) => known(value) && value !== "");
  return make("dl", {}, items.map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

/// One bar in parts: [[name, number, colour]], with a legend.
function stack(parts, text) {
  parts = parts.filter(([, number]) => number > 0);
  const sum = parts.reduce((all, [, number]) => all + number, 0) || 1;
  const bar = make("div", { class: "stack" }, parts.map(([name, number, colour]) =>
    tipped(make("i", { style: `flex:${number / sum};background:var(--${colour})` }),
      `${name}: ${text(number)}, ${percent(number / sum)}`)));
  const legend = make("div", { class: "legend" }, parts.map(([name, number, colour]) =>
    make("span", {}, make("i", { style: `background:var(--${colour})` }), `${name} ${text(number)}`)));
  return [bar, legend];
}

/// How wide a picture is drawn, so that its text has the size of the page's: the pane's width, at most `most`.
function roomFor(most) {
  return Math.max(300, Math.min(most, document.getElementById("pane").clientWidth - 28));
}

function meter(share) {
  return make("div", { class: "meter" }, make("i", { style: `width:${Math.min(100, 100 * share).toFixed(1)}%` }));
}

/// A table that sorts by its heads. Columns: {title, number?, wide?, bar?, cell(row), key?(row)}, where narrow pages leave
/// out bars. Rows are chosen by `choose(row)`.
function table(columns, rows, choose, chosen) {
  let order = null, down = true;
  const body = make("tbody");
  const heads = columns.map((column, i) => {
    const head = make("th", { class: (column.number ? "n " : "") + (column.bar ? "bar " : "") + (column.key ? "sort" : ""), scope: "col" }, column.title);
    return column.key ? pressable(head, () => {
      down = order === i ? !down : true;
      order = i;
      fill();
    }) : head;
  });
  function fill() {
    const list = [...rows];
    if (order !== null) {
      const key = columns[order].key, sign = down ? -1 : 1;
      list.sort((a, b) => (key(a) > key(b) ? sign : key(a) < key(b) ? -sign : 0));
    }
    heads.forEach((head, i) => head.setAttribute("aria-sort", order === i ? (down ? "descending" : "ascending") : "none"));
    body.replaceChildren(...list.map(row => {
      const line = make("tr", { class: (choose ? "row" : "") + (chosen && chosen(row) ? " chosen" : "") },
        columns.map(column => make("td", { class: (column.number ? "n" : "") + (column.wide ? " wide" : "") + (column.bar ? " bar" : "") }, column.cell(row))));
      return choose ? pressable(line, event => {
        for (const other of body.children) other.classList.toggle("chosen", other === line);
        choose(row, event);
      }) : line;
    }));
  }
  fill();
  const shown = chosen && body.querySelector(".chosen");
  if (shown) requestAnimationFrame(() => shown.scrollIntoView({ block: "nearest" }));
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, heads)), body));
}

/// "h.3.mlp.gelu" as "h.*.mlp.gelu", as runtime/labels.cpp has it: for names that the report gives without.
function patternOf(label) {
  return label.replace(/(^|[.+: ])([^.+: ]*[^.+: 0-9][^.+: ]*)\.(\d+)(?=[.+: ]|$)/g, "$1$2.*");
}

/// The place in the address: #kernels&row=3. Panes are linked by it, and the browser's way back works.
function go(pane, params = {}) {
  const words = Object.entries(params).filter(([, value]) => known(value)).map(([key, value]) =>
    key + "=" + encodeURIComponent(value));
  const hash = "#" + [pane, ...words].join("&");
  if (location.hash === hash) showPane();
  else location.hash = hash;
}
function linkTo(pane, params, ...text) {
  return make("a", { href: "#" + [pane, ...Object.entries(params).map(([k, v]) => k + "=" + encodeURIComponent(v))].join("&") }, ...text);
}
function readPlace() {
  const [pane, ...words] = decodeURI(location.hash.slice(1)).split("&");
  const params = {};
  for (const word of words) {
    const at = word.indexOf("=");
    if (at > 0) params[word.slice(0, at)] = decodeURIComponent(word.slice(at + 1));
  }
  return [pane, params];
}

const report = () => state.reports[state.which];
