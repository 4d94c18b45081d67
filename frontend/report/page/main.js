// Unpacks the reports, draws the tabs and the pane that the address names.

async function unpack() {
  const packed = Uint8Array.from(atob(document.getElementById("data").textContent.trim()), character => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

const shownPanes = () => panes.filter(pane => !pane.only || pane.only());

function showPane() {
  const [name, params] = readPlace();
  const pane = shownPanes().find(each => each.name === name) || shownPanes()[0];
  hideTip();
  const place = document.getElementById("pane"), kept = state.pane === pane.name ? place.scrollTop : 0;
  const focused = document.activeElement && document.activeElement.id;
  state.pane = pane.name;
  place.replaceChildren();
  place.className = pane.name;
  pane.show(report(), place, params);
  place.scrollTop = kept;
  if (focused && document.getElementById(focused)) document.getElementById(focused).focus();
  for (const tab of document.getElementById("tabs").children) {
    const chosen = tab.dataset.pane === pane.name;
    tab.setAttribute("aria-selected", String(chosen));
    if (chosen) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}

function drawHead() {
  const of = report();
  document.getElementById("title").textContent = of.title;
  const compile = of.compile;
  document.getElementById("subtitle").textContent = compile ? `${compile.target}, -O${compile.level}` : "";
  const which = document.getElementById("which");
  which.hidden = state.reports.length < 2;
  which.replaceChildren(...state.reports.map((each, i) => make("option", { value: i, selected: i === state.which }, `${nameOf(i)} ${placeOf(each)}`)));
  document.getElementById("tabs").replaceChildren(...shownPanes().map((pane, i) => {
    const count = pane.count ? pane.count(of) : 0;
    return make("button", { type: "button", role: "tab", "data-pane": pane.name, title: `key ${i + 1}`, onclick: () => go(pane.name) }, pane.title,
      count ? make("span", { class: "count" }, count) : null);
  }));
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
  if (event.key === "Escape") {
    document.getElementById("source").hidden = true;
    if (typing) event.target.blur();
  } else if (!typing && /^[1-9]$/.test(event.key) && shownPanes()[event.key - 1]) go(shownPanes()[event.key - 1].name);
  else if (!typing && event.key === "t") document.getElementById("theme").click();
  else if (!typing && event.key === "/") {
    event.preventDefault();
    if (state.pane !== "graph") {
      go("graph");
      showPane();
    }
    const box = document.getElementById("search");
    if (box) box.focus();
  }
}

async function begin() {
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", event => setTheme(event.matches ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  document.getElementById("which").addEventListener("change", event => {
    state.which = Number(event.target.value);
    drawHead();
    showPane();
  });
  state.reports = await unpack();
  addEventListener("hashchange", showPane);
  addEventListener("keydown", onKey);
  drawHead();
  showPane();
  document.documentElement.dataset.ready = "1";
}

begin().catch(problem => {
  document.getElementById("pane").textContent = "The data of this page cannot be read: " + problem.message;
  console.error(problem);
});
