// The user's source, beside the panes: a click on any FILE:LINE shows it there. Lines that cost most of the peak or of
// the time are marked.

function splitPlace(place) {
  const match = /^(.*?):(\d+)(?::\d+)?$/.exec(place || "");
  return match ? { file: match[1], line: Number(match[2]) } : null;
}

/// "train.cpp:41" as a link to the line.
function sourceLink(place) {
  const at = splitPlace(place);
  if (!at) return place || null;
  const short = at.file.split("/").pop() + ":" + at.line;
  return make("a", { href: "#", title: place, onclick: event => {
    event.preventDefault();
    event.stopPropagation();
    showSource(at.file, at.line);
  } }, short);
}

function costlyLines(file) {
  const lines = new Map();
  for (const row of (report().memory || { by_line: [] }).by_line) {
    const at = splitPlace(row.key);
    if (at && at.file === file) lines.set(at.line, bytesText(row.bytes) + " of the peak");
  }
  return lines;
}

function showSource(file, line) {
  const aside = document.getElementById("source");
  const text = (report().sources || {})[file];
  const close = make("button", { type: "button", title: "close (Esc)", onclick: () => (aside.hidden = true) }, "✕");
  const files = Object.keys(report().sources || {});
  const choice = make("select", { "aria-label": "file", onchange: event => showSource(event.target.value, 1) },
    files.map(name => make("option", { value: name, selected: name === file }, name.split("/").pop())));
  const bar = make("div", { class: "bar" }, files.length > 1 ? choice : make("b", { title: file }, file.split("/").pop()),
    make("span", { class: "soft grow" }, line ? "line " + line : ""), close);
  aside.hidden = false;
  if (text === undefined) {
    aside.replaceChildren(bar, make("p", { style: "padding:10px" }, `${file} could not be read when the page was written.`));
    return;
  }
  const costly = costlyLines(file);
  const box = make("div", { class: "text", tabindex: "0" });
  const lines = text.split("\n");
  const shown = lines.length > 6000 ? [Math.max(0, line - 3000), line + 3000] : [0, lines.length];
  let hit = null;
  const fragment = document.createDocumentFragment();
  for (let i = shown[0]; i < Math.min(shown[1], lines.length); ++i) {
    const long = lines[i].length > 400 ? lines[i].slice(0, 400) + " …" : lines[i];
    const row = make("div", { class: (i + 1 === line ? "hit " : "") + (costly.has(i + 1) ? "costly" : ""),
      title: costly.get(i + 1) }, make("b", {}, i + 1), make("span", {}, long));
    if (i + 1 === line) hit = row;
    fragment.append(row);
  }
  box.append(fragment);
  aside.replaceChildren(bar, box);
  if (hit) hit.scrollIntoView({ block: "center" });
}
