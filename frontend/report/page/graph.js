// The graph by layers: a tree that folds, and a picture of one level at a time. A click on a group opens its own level;
// a click on a box says what it is. Layouts were computed when the page was written.

const graphColours = kind => `var(--${["input", "kernel", "matmul", "attention", "view", "custom", "control"].includes(kind) ? kind : "op"})`;

function pathTo(picture, group) {
  const path = [group];
  while (path[0] !== 0) path.unshift(picture.groups[path[0]].parent);
  return path;
}

function costOfItem(picture, [isGroup, number]) {
  if (!isGroup) return picture.nodes[number].cost * picture.nodes[number].names.length;
  return picture.groups[number].items.reduce((sum, item) => sum + costOfItem(picture, item), 0);
}

/// The row of the costs that a box's instructions are in.
function rowOfNode(of, node) {
  const rows = (of.costs || { rows: [] }).rows, pattern = patternOf(node.names[0]);
  return rows.findIndex(row => row.pattern === pattern || row.pattern.startsWith(pattern + ":"));
}

function matches(node, words) {
  const text = [node.text, node.kind, node.type, node.source, ...node.names, ...node.ops].join(" ").toLowerCase();
  return words.toLowerCase().split(/\s+/).every(word => text.includes(word));
}

function levelPicture(picture, group, chosen, found, open, choose) {
  const level = picture.groups[group], items = level.items;
  const edges = level.lines.map(([from, to, ...points]) => {
    let path = `M${points[0]} ${points[1]}`;
    for (let i = 2; i < points.length; i += 2) {
      const middle = (points[i - 1] + points[i + 1]) / 2;
      path += `C${points[i - 2]} ${middle} ${points[i]} ${middle} ${points[i]} ${points[i + 1]}`;
    }
    const ends = [items[from], items[to]];
    const on = chosen !== null && ends.some(([isGroup, number]) => !isGroup && number === chosen);
    return make("path", { class: "edge" + (on ? " on" : ""), d: path });
  });
  const boxes = items.map(([isGroup, number, x, y, width, height]) => {
    const title = isGroup ? picture.groups[number].title : picture.nodes[number].text;
    const hit = isGroup ? found.groups.has(number) : found.nodes.has(number);
    const box = make("rect", { x, y, width, height, rx: isGroup ? 8 : 5, class: (isGroup ? "group" : "box") +
      (!isGroup && number === chosen ? " on" : "") + (hit ? " found" : ""), style: isGroup ? "" : `fill:${graphColours(picture.nodes[number].kind)}` });
    const most = Math.max(4, Math.floor((width - 8) / 6.6));
    const text = make("text", { x: x + width / 2, y: y + height / 2 + (isGroup ? -2 : 4), "text-anchor": "middle", "pointer-events": "none" },
      title.length > most ? title.slice(0, most - 1) + "…" : title);
    const parts = [box, text];
    if (isGroup) parts.push(make("text", { x: x + width / 2, y: y + height / 2 + 13, "text-anchor": "middle", class: "soft",
      "pointer-events": "none" }, counted(picture.groups[number].items.length, "box").replace("boxs", "boxes") + " ▸"));
    const whole = make("g", { role: "button", "aria-label": title }, parts);
    tipped(whole, () => isGroup ? `${title}\nopen with a click` : nodeTip(picture.nodes[number]));
    return pressable(whole, () => (isGroup ? open(number) : choose(number)));
  });
  const canvas = make("svg", { viewBox: `0 0 ${level.width} ${level.height}`, width: level.width, height: level.height, role: "group",
    "aria-label": level.title }, edges, boxes);
  return make("div", { class: "canvas" }, canvas);
}

function nodeTip(node) {
  return [node.names[0] + (node.names.length > 1 ? ` and ${node.names.length - 1} like it` : ""), `${node.kind} ${node.type}`, node.source,
    node.kind === "kernel" ? counted(node.ops.length, "op") + ": " + node.ops.join(" ") : "",
    node.flops ? rateText(node.flops, "FLOP") : "", node.bytes ? bytesText(node.bytes) : ""].filter(Boolean).join("\n");
}

function nodeDetail(of, picture, number, choose) {
  const node = picture.nodes[number], row = rowOfNode(of, node);
  const neighbour = other => pressable(make("a", {}, picture.nodes[other].text), () => choose(other));
  const list = numbers => numbers.length ? make("span", {}, numbers.slice(0, 12).map((other, i) => [i ? ", " : "", neighbour(other)]),
    numbers.length > 12 ? ` and ${numbers.length - 12} more` : "") : null;
  const reads = picture.edges.filter(([, to]) => to === number).map(([from]) => from);
  const readers = picture.edges.filter(([from]) => from === number).map(([, to]) => to);
  return make("div", { class: "detail", id: "node" }, make("h2", {}, node.text), facts({
    kind: node.kind, type: node.type, line: sourceLink(node.source), "arithmetic": node.flops ? rateText(node.flops, "FLOP") : null,
    traffic: node.bytes ? bytesText(node.bytes) : null, kernel: row >= 0 ? linkTo("kernels", { row }, of.costs.rows[row].label) : null,
    reads: list(reads), "read by": list(readers), states: node.states.length ? node.states.join(", ") : null,
    ops: node.ops.length ? make("code", {}, node.ops.join(" ")) : null,
    "stands for": node.names.length > 1 ? node.names.join(", ") : node.names[0] }));
}

function showGraph(of, place, params) {
  const pictures = of.pictures || {}, names = Object.keys(pictures);
  if (!names.length) return place.append(make("p", {}, "There is no graph."));
  const phase = pictures[params.phase] ? params.phase : names[names.length - 1], picture = pictures[phase];
  let group = picture.groups[params.group] ? Number(params.group) : 0;
  let chosen = picture.nodes[params.node] ? Number(params.node) : null, words = params.find || "";
  if (chosen !== null && params.group === undefined) group = picture.nodes[chosen].group;
  const opened = new Set([...pathTo(picture, group), ...picture.groups[0].items.filter(([isGroup]) => isGroup).map(([, number]) => number)]);
  const tree = make("div", { class: "left tree", id: "tree" }), drawing = make("div", { class: "right" });
  const change = next => go("graph", { phase, group, node: chosen, find: words || null, ...next });
  const open = number => change({ group: number, node: null });
  const choose = number => change({ node: number, group: picture.nodes[number].group });
  const found = { nodes: new Set(), groups: new Set() };

  function search() {
    found.nodes.clear();
    found.groups.clear();
    if (!words) return;
    for (const [number, node] of Object.entries(picture.nodes))
      if (matches(node, words)) {
        found.nodes.add(Number(number));
        for (const each of pathTo(picture, node.group)) found.groups.add(each);
      }
  }
  const sum = costOfItem(picture, [1, 0]) || 1;
  function branch(of) {
    return make("ul", { role: "group" }, picture.groups[of].items.map(item => {
      const [isGroup, number] = item;
      if (words && !(isGroup ? found.groups : found.nodes).has(number)) return null;
      const title = isGroup ? picture.groups[number].title : picture.nodes[number].text;
      const unfolded = isGroup && (words ? true : opened.has(number));
      const line = make("div", { class: "line" + ((isGroup ? number === group : number === chosen) ? " chosen" : ""), role: "treeitem",
        "aria-expanded": isGroup ? String(unfolded) : null },
        make("span", { class: "twist" }, isGroup ? (unfolded ? "▾" : "▸") : ""),
        isGroup ? null : make("span", { class: "dot", style: `background:${graphColours(picture.nodes[number].kind)}` }),
        make("span", {}, title), make("span", { class: "soft" }, percent(costOfItem(picture, item) / sum)));
      pressable(line, event => {
        if (!isGroup) return choose(number);
        if (event.target.className === "twist" || number === group) {
          if (opened.has(number)) opened.delete(number);
          else opened.add(number);
          return draw();
        }
        open(number);
      });
      return make("li", {}, line, unfolded ? branch(number) : null);
    }));
  }
  function draw() {
    search();
    tree.replaceChildren(make("ul", { role: "tree", "aria-label": "layers" }, branch(0).childNodes.length ? [...branch(0).childNodes]
      : make("li", { class: "soft" }, "nothing is called so")));
    const crumbs = make("div", { class: "bar crumbs" }, pathTo(picture, group).map((each, i, path) => i + 1 < path.length
      ? pressable(make("a", {}, picture.groups[each].title), () => open(each)) : make("b", {}, picture.groups[each].title)));
    drawing.replaceChildren(crumbs, ...(chosen !== null ? [nodeDetail(of, picture, chosen, choose), make("p")] : []),
      levelPicture(picture, group, chosen, found, open, choose),
      make("div", { class: "legend" }, ["input", "kernel", "matmul", "attention", "op", "view", "custom", "control"]
        .filter(kind => Object.values(picture.nodes).some(node => node.kind === kind))
        .map(kind => make("span", {}, make("i", { style: `background:${graphColours(kind)};border:1px solid var(--line)` }), kind)),
        make("span", {}, "height: what it costs, by the target's model")));
  }
  const box = make("input", { type: "search", id: "search", placeholder: "search names, ops, lines", value: words, "aria-label": "search the graph",
    oninput: event => {
      words = event.target.value.trim();
      draw();
    } });
  place.append(make("div", { class: "bar" }, names.map(name => make("button", { type: "button", "aria-pressed": String(name === phase),
    onclick: () => go("graph", { phase: name }) }, name)), box, make("span", { class: "soft" },
    `${Object.values(picture.nodes).reduce((all, node) => all + node.names.length, 0)} boxes, equal layers once`)));
  draw();
  place.append(make("div", { class: "split" }, tree, drawing));
}
panes.push({ name: "graph", title: "Graph", show: showGraph });
