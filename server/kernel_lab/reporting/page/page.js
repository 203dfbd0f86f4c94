"use strict";

const report = JSON.parse(document.getElementById("data").textContent);
const MARK = { passed: "●", known: "△", failed: "✕", skipped: "–" };
const names = report.browsers.map((browser) => browser.name);

/** An element with properties and children; text stays text. */
function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made && name !== "list") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const number = (value) => value.toLocaleString("en");
const label = (outcome, count) => element("span", { className: count ? outcome : "skipped" }, `${MARK[outcome]} ${number(count)} ${outcome}`);

// --- browsers

function browserCard(browser) {
  const adapter = browser.adapter;
  const nothing = !browser.passed && !browser.failed && !browser.known;
  const counts = element("p", { className: "counts" });
  for (const outcome of ["passed", "known", "failed", "skipped"]) {
    if (browser[outcome] || outcome !== "known") counts.append(label(outcome, browser[outcome] ?? 0), " ");
  }
  return element(
    "li",
    { className: browser.failed || nothing || browser.reason ? "bad" : "" },
    element("strong", {}, `${browser.name}${browser.version ? ` · Chromium ${browser.version}` : ""}`),
    counts,
    adapter ? element("p", {}, adapter.description) : element("p", {}, "no adapter"),
    adapter?.spoofed_ids ? element("p", {}, "The vendor and device that it reports are spoofed.") : null,
    browser.reason ? element("p", { className: "failed" }, browser.reason) : null,
    nothing ? element("p", { className: "failed" }, "Nothing ran here: that is a failure.") : null,
  );
}

document.getElementById("browsers").append(...report.browsers.map(browserCard));

// --- the grid: one row a variant, one column a browser

const rows = new Map();
for (const result of report.results) {
  const key = `${result.operator}:${result.variant}`;
  if (!rows.has(key)) rows.set(key, { operator: result.operator, variant: result.variant, results: [] });
  rows.get(key).results.push(result);
}
const grid = document.getElementById("grid");
const detail = document.getElementById("detail");
let pressed = null;

function tally(row, name, chosen) {
  const count = { passed: 0, known: 0, failed: 0, skipped: 0, emulated: 0, total: 0 };
  for (const result of chosen) {
    const cell = result.cells[name];
    if (!cell) continue;
    count[cell.outcome]++;
    count.total++;
    if (cell.emulated) count.emulated++;
  }
  return count;
}

function gridCell(row, name, chosen) {
  const count = tally(row, name, chosen);
  if (!count.total) return element("td", { className: "none", title: "This browser did not come to these pairs." }, "·");
  const parts = ["failed", "known", "passed", "skipped"].filter((outcome) => count[outcome]);
  const button = element("button", { type: "button" });
  button.setAttribute("aria-pressed", "false");
  for (const outcome of parts) {
    button.append(element("span", { className: outcome }, `${MARK[outcome]} ${number(count[outcome])}`), " ");
  }
  if (count.emulated) button.append(element("span", { className: "emulated", title: "subgroup matrices emulated" }, "emulated"));
  button.setAttribute(
    "aria-label",
    `${row.variant || "refusals"} on ${name}: ${parts.map((outcome) => `${count[outcome]} ${outcome}`).join(", ")}`,
  );
  button.addEventListener("click", () => open(row, name, chosen, button));
  return element("td", { className: count.failed ? "has-failed" : "" }, button);
}

/** Whether two browsers that came to a pair made different things of it. */
function disagree(result) {
  const cells = Object.values(result.cells).filter((cell) => cell.outcome !== "skipped");
  const seen = new Set(cells.map((cell) => `${cell.outcome} ${JSON.stringify(cell.outputs ?? {})}`));
  return seen.size > 1;
}

function fits(result, text, outcome) {
  if (text && !result.query.toLowerCase().includes(text)) return false;
  if (outcome === "different") return disagree(result);
  return !outcome || Object.values(result.cells).some((cell) => cell.outcome === outcome);
}

function drawGrid() {
  const text = document.getElementById("find").value.trim().toLowerCase();
  const outcome = document.querySelector("#filters input[name=outcome]:checked").value;
  const head = element("tr", {}, element("th", { scope: "col" }, "variant"));
  for (const name of names) head.append(element("th", { scope: "col" }, name));
  const body = element("tbody");
  let operator = "";
  let pairs = 0;
  let variants = 0;
  for (const row of [...rows.values()].sort((a, b) => a.operator.localeCompare(b.operator))) {
    const chosen = row.results.filter((result) => fits(result, text, outcome));
    if (!chosen.length) continue;
    pairs += chosen.length;
    variants++;
    if (row.operator !== operator) {
      operator = row.operator;
      body.append(element("tr", { className: "group" }, element("th", { colSpan: names.length + 1, scope: "rowgroup" }, operator)));
    }
    const line = element("tr", {}, element("th", { scope: "row" }, row.variant || "refused, as they must be"));
    for (const name of names) line.append(gridCell(row, name, chosen));
    body.append(line);
  }
  grid.replaceChildren(element("thead", {}, head), body);
  document.getElementById("shown").textContent = pairs
    ? `${number(pairs)} pairs of a case and a variant, ${number(variants)} variants`
    : "Nothing fits these filters.";
  detail.hidden = true;
  pressed = null;
}

// --- what a click shows

const COLOURS = ["#00000000", "#ffe08a", "#ffd166", "#ffb84d", "#ff9f40", "#f58536", "#e66a2c", "#d14f22", "#b83618", "#9c1f10"];

function picture(name, lines) {
  const scale = Math.max(1, Math.min(12, Math.floor(480 / lines[0].length)));
  const canvas = element("canvas", { className: "picture", width: lines[0].length, height: lines.length, role: "img" });
  canvas.setAttribute("aria-label", `where elements of ${name} differ`);
  canvas.style.width = `${scale * lines[0].length}px`;
  const context = canvas.getContext("2d");
  lines.forEach((line, y) =>
    [...line].forEach((digit, x) => {
      context.fillStyle = COLOURS[Number(digit)];
      context.fillRect(x, y, 1, 1);
    }),
  );
  const caption = `${name}: where elements differ. The last axis goes across, all others down; darker: more of the field.`;
  return element("figure", {}, canvas, element("figcaption", {}, caption));
}

function facts(cell) {
  const list = element("dl");
  const add = (term, text) => text && list.append(element("dt", {}, term), element("dd", {}, text));
  add("status", cell.status);
  add("expected from", cell.expected_from);
  for (const [pass, digest] of Object.entries(cell.wgsl ?? {})) add(`WGSL ${pass}`, digest);
  for (const [output, digest] of Object.entries(cell.outputs ?? {})) add(`output ${output}`, digest ?? "");
  for (const [stage, ms] of Object.entries(cell.timings ?? {})) add(stage.replace(/_ms$/, ""), `${ms.toFixed(2)} ms`);
  for (const message of cell.messages ?? []) add("message", message);
  return list;
}

const STAGES = { accepted: "accepted", demoted: "accepted, but demoted", emulated: "only when forced" };

/** What selection said of every variant for this case in this browser, best first. */
function traceOf(cell, variant) {
  const trace = report.traces?.[cell.trace];
  if (!trace) return null;
  const list = element("ol", { className: "trace" });
  for (const one of trace) {
    const can = one.stage in STAGES;
    const words = [can ? STAGES[one.stage] : "no", one.reason ? `: ${one.reason}` : ""].join("");
    const name = element(one.variant === variant ? "strong" : "span", { className: can ? "" : "skipped" }, one.variant);
    list.append(element("li", {}, name, ` ${words}`));
  }
  const accepted = trace.filter((one) => one.stage in STAGES).length;
  const title = `selection: ${number(accepted)} of ${number(trace.length)} variants can run it here`;
  return element("details", {}, element("summary", {}, title), list);
}

const COMMANDS = { look: "Look at it on the debug page", repeat: "Run it again" };

/** The commands that a failure's report ends with, each on a line of its own with a button that copies it. */
function commandsOf(text) {
  const found = [...text.matchAll(/^ {2}(look|repeat) +(.+)$/gm)].sort(([, a], [, b]) => a.localeCompare(b));
  return found.map(([, kind, command]) => {
    const shown = element("code", { tabIndex: 0 }, command);
    const told = element("span", { role: "status" });
    const button = element("button", { type: "button" }, "Copy");
    button.addEventListener("click", async () => {
      const copied = await Promise.resolve(navigator.clipboard?.writeText(command).then(() => true)).catch(() => false);
      if (!copied) getSelection().selectAllChildren(shown);
      told.textContent = copied ? "Copied." : "The browser forbids it: the command is selected.";
    });
    return element("p", { className: "command" }, `${COMMANDS[kind]}: `, shown, " ", button, " ", told);
  });
}

function caseOf(result, cell) {
  const words = [cell.selected ? "selected" : "", cell.emulated ? "emulated" : "", cell.attempts > 1 ? `tried ${cell.attempts} times` : ""];
  const head = element(
    "summary",
    {},
    element("span", { className: cell.outcome }, `${MARK[cell.outcome]} ${result.case} `),
    element("span", { className: "why" }, [cell.summary, ...words.filter(Boolean)].join("; ")),
  );
  const box = element("details", { open: cell.outcome === "failed" }, head);
  let filled = false;
  const fill = () => {
    if (filled || !box.open) return;
    filled = true;
    for (const [name, lines] of Object.entries(cell.pictures ?? {})) if (lines.length) box.append(picture(name, lines));
    if (cell.report) box.append(...commandsOf(cell.report), element("pre", {}, cell.report));
    box.append(facts(cell));
    const trace = traceOf(cell, result.variant);
    if (trace) box.append(trace);
  };
  box.addEventListener("toggle", fill);
  fill();
  return box;
}

function open(row, name, chosen, button) {
  pressed?.setAttribute("aria-pressed", "false");
  pressed = button;
  button.setAttribute("aria-pressed", "true");
  const cases = chosen.filter((result) => result.cells[name]).map((result) => [result, result.cells[name]]);
  const order = { failed: 0, known: 1, skipped: 2, passed: 3 };
  cases.sort((a, b) => order[a[1].outcome] - order[b[1].outcome]);
  const failed = cases.filter(([, cell]) => cell.outcome === "failed").length;
  detail.replaceChildren(
    element("h2", {}, `${row.operator}:*:${row.variant || "refusals"} on ${name}`),
    element("p", {}, `${number(cases.length)} cases${failed ? `, ${number(failed)} failed` : ""}`),
    ...cases.map(([result, cell]) => caseOf(result, cell)),
  );
  detail.hidden = false;
  detail.focus({ preventScroll: true });
  detail.scrollIntoView({ block: "nearest" });
}

for (const input of document.querySelectorAll("#filters input")) input.addEventListener("input", drawGrid);
document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());

// --- features

function featureTable(title, keys, shown) {
  const table = element("table");
  const head = element("tr", {}, element("th", { scope: "col" }, title));
  for (const name of names) head.append(element("th", { scope: "col" }, name));
  table.append(element("thead", {}, head));
  const body = element("tbody");
  for (const key of keys) {
    const values = report.browsers.map((browser) => (browser.adapter ? shown(browser.adapter, key) : "no adapter"));
    const line = element("tr", {}, element("th", { scope: "row" }, key));
    for (const value of values) line.append(element("td", { className: value === "no" ? "skipped" : "" }, value));
    body.append(line);
  }
  table.append(body);
  return element("div", { className: "wide", tabIndex: 0, role: "region", "aria-label": title }, table);
}

function drawFeatures() {
  const all = (part) => [...new Set(report.browsers.flatMap((browser) => browser.adapter?.[part] ?? []))].sort();
  const has = (part) => (adapter, key) => (adapter[part].includes(key) ? "✓ yes" : "no");
  const limits = [...new Set(report.browsers.flatMap((browser) => Object.keys(browser.adapter?.limits ?? {})))].sort();
  const compute = limits.filter((name) => /[Cc]ompute|[Ss]torage|Buffer(Size|Binding)|BindGroup/.test(name));
  document.getElementById("features").append(
    element("h2", {}, "Features"),
    featureTable("feature", all("features"), has("features")),
    element("h2", {}, "WGSL language features"),
    featureTable("language feature", all("language_features"), has("language_features")),
    element("h2", {}, "Limits that kernels meet"),
    featureTable("limit", compute, (adapter, key) => number(adapter.limits[key] ?? 0)),
  );
}

// --- times

const SHAPES = [
  (x, y) => svg("circle", { cx: x, cy: y, r: 4.5 }),
  (x, y) => svg("rect", { x: x - 4, y: y - 4, width: 8, height: 8 }),
  (x, y) => svg("path", { d: `M${x} ${y - 5} l5 9 h-10 z` }),
  (x, y) => svg("path", { d: `M${x} ${y - 5} l5 5 l-5 5 l-5 -5 z` }),
  (x, y) => svg("path", { d: `M${x - 4} ${y - 4} l8 8 m0 -8 l-8 8`, "stroke-width": 2.5, stroke: "currentColor" }),
];
const INKS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"];

function mark(index, x, y) {
  const shape = SHAPES[index % SHAPES.length](x, y);
  const ink = INKS[index % INKS.length];
  shape.setAttribute("fill", ink);
  shape.style.color = ink;
  return shape;
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Medians over the cases of each variant, a shape a browser, on a logarithmic axis. */
function chart(operator, stage) {
  const own = [...rows.values()].filter((row) => row.operator === operator && row.variant);
  const points = own
    .map((row) => ({
      variant: row.variant,
      values: names.map((name) => {
        const found = row.results.map((result) => result.cells[name]?.timings?.[stage]).filter((ms) => ms > 0);
        return found.length ? median(found) : null;
      }),
    }))
    .filter((point) => point.values.some((value) => value !== null));
  if (!points.length) return null;
  const every = points.flatMap((point) => point.values.filter((value) => value !== null));
  const low = Math.floor(Math.log10(Math.min(...every)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...every))));
  const left = 400;
  const width = 980;
  const step = 18;
  const height = points.length * step + 28;
  const across = (ms) => left + ((Math.log10(ms) - low) / (high - low)) * (width - left - 50);
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${operator}, ${stage}` });
  for (let power = low; power <= high; power++) {
    const x = across(10 ** power);
    drawing.append(svg("line", { x1: x, x2: x, y1: 18, y2: height - 4, class: "axis" }));
    drawing.append(svg("text", { x, y: 12, "text-anchor": "middle" }, `${Number((10 ** power).toPrecision(1))} ms`));
  }
  points.forEach((point, index) => {
    const y = 30 + index * step;
    drawing.append(svg("text", { x: left - 10, y: y + 4, "text-anchor": "end" }, point.variant));
    point.values.forEach((value, browser) => {
      if (value === null) return;
      const shape = mark(browser, across(value), y);
      shape.append(svg("title", {}, `${point.variant} on ${names[browser]}: ${value.toFixed(2)} ms`));
      drawing.append(shape);
    });
  });
  return drawing;
}

function drawTimes() {
  const legend = element("ul", { className: "legend" });
  names.forEach((name, index) =>
    legend.append(element("li", {}, svg("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" }, mark(index, 6, 6)), ` ${name}`)),
  );
  const panel = document.getElementById("times");
  panel.append(
    element("p", {}, "Medians over the cases of each variant, as the page's clock saw them (its step is 0.1 ms). They show what a run cost; `kernel-lab bench` compares kernels."),
    legend,
  );
  const stages = { gpu_ms: "from submission until the GPU was done", compile_ms: "compiling, where a pipeline was new" };
  for (const operator of [...new Set([...rows.values()].map((row) => row.operator))].sort()) {
    for (const [stage, words] of Object.entries(stages)) {
      const drawn = chart(operator, stage);
      if (drawn) panel.append(element("h2", {}, `${operator}: ${words}`), element("div", { className: "wide chart", tabIndex: 0, role: "region", "aria-label": `${operator}, ${words}` }, drawn));
    }
  }
}

// --- tabs

const tabs = [...document.querySelectorAll("[role=tab]")];
const drawn = new Set(["results"]);

function choose(tab) {
  for (const one of tabs) {
    const chosen = one === tab;
    one.setAttribute("aria-selected", String(chosen));
    one.tabIndex = chosen ? 0 : -1;
    document.getElementById(one.getAttribute("aria-controls")).hidden = !chosen;
  }
  const name = tab.getAttribute("aria-controls");
  if (!drawn.has(name)) {
    drawn.add(name);
    if (name === "features") drawFeatures();
    if (name === "times") drawTimes();
  }
}

tabs.forEach((tab, index) => {
  tab.addEventListener("click", () => choose(tab));
  tab.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const next = tabs[(index + by + tabs.length) % tabs.length];
    next.focus();
    choose(next);
  });
});

drawGrid();
