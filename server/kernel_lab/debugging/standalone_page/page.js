// --- The page: shows the document and what the runner makes of it. Texts stay texts; nothing is made from HTML.

const saved = JSON.parse(document.getElementById("data").textContent);
const { plan, seen } = saved;
const decoded = (texts) => Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, wordsOf(text)]));
const job = { plan, inputs: decoded(saved.inputs), expected: decoded(saved.expected) };
const at = (id) => document.getElementById(id);
const count = (value) => value.toLocaleString("en");

/** An element with properties and children. */
function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

function list(where, entries) {
  const kept = entries.filter(([, text]) => text !== undefined && text !== "");
  where.replaceChildren(...kept.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, String(text))]));
}

function table(head, rows, label) {
  const cells = (tag, row) =>
    row.map((cell) => (cell instanceof Node ? cell : element(tag, tag === "th" ? { scope: "col" } : {}, String(cell))));
  const body = rows.map((row) => element("tr", {}, cells("td", row)));
  const made = element("table", {}, element("thead", {}, element("tr", {}, cells("th", head))), element("tbody", {}, body));
  const wide = element("div", { className: "wide", tabIndex: 0 }, made);
  wide.setAttribute("role", "region");
  wide.setAttribute("aria-label", label);
  return wide;
}

const numeric = (text, className = "") => element("td", { className: `number ${className}` }, text);
const numericHead = (text) => element("th", { scope: "col", className: "number" }, text);

// --- WGSL: one editor a pass

/** Its text, with line numbers beside it that scroll along, and what the compiler said below. */
function editor(pass) {
  const original = saved.wgsl[pass.wgsl];
  const lines = original.split("\n").length;
  const numbers = element("pre");
  numbers.setAttribute("aria-hidden", "true");
  const area = element("textarea", { value: original, rows: Math.min(lines + 1, 26), spellcheck: false, wrap: "off" });
  area.setAttribute("aria-label", `WGSL of ${pass.label}`);
  area.setAttribute("autocapitalize", "off");
  const said = element("ul", { className: "said" });
  const run = element("button", { type: "button" }, "Run this text");
  const restore = element("button", { type: "button", disabled: true }, "Restore");
  const edited = () => area.value !== original;
  const number = (wrong = new Set()) => {
    const all = area.value.split("\n").map((_, index) => index + 1);
    numbers.replaceChildren(...all.flatMap((line) => [wrong.has(line) ? element("b", {}, `✕ ${line}`) : `${line}`, "\n"]));
    numbers.scrollTop = area.scrollTop;
    restore.disabled = !edited();
  };
  area.addEventListener("input", () => number());
  area.addEventListener("scroll", () => (numbers.scrollTop = area.scrollTop));
  run.addEventListener("click", runAll);
  restore.addEventListener("click", () => {
    area.value = original;
    number();
    runAll();
  });
  number();
  const tell = (messages) => {
    number(new Set(messages.filter(({ kind }) => kind === "error").map(({ line }) => line)));
    said.replaceChildren(...messages.map((message) => {
      const go = element("button", { type: "button" }, `Line ${message.line}`);
      go.addEventListener("click", () => showLine(area, message));
      const text = element("div", {}, `${message.kind}: ${message.text}`);
      const className = message.kind === "error" ? "" : "note";
      return element("li", { className }, text, element("pre", {}, quoted(message, area.value).join("\n")), go);
    }));
  };
  const group = pass.workgroups.join(" × ");
  const note = `${saved.templates[pass.label]}, SHA-256 ${pass.wgsl.slice(0, 16)}, ${group} workgroups`;
  const shown = element("div", {}, element("h3", {}, pass.label), element("p", { className: "note" }, note),
    element("div", { className: "code" }, numbers, area), said, element("p", { className: "buttons" }, run, restore));
  return { pass, area, shown, tell, edited };
}

/** The line that a message is about, and a mark under the place. */
function quoted({ line, column, length }, text) {
  const shown = text.split("\n")[line - 1];
  if (shown === undefined) return [];
  const gutter = `${line} | `;
  const marks = "^".repeat(Math.max(1, Math.min(length, shown.length - column + 1)));
  return [gutter + shown, " ".repeat(gutter.length + column - 1) + marks];
}

function showLine(area, { line }) {
  const lines = area.value.split("\n");
  const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  area.focus();
  area.setSelectionRange(start, start + lines[line - 1].length);
  area.scrollTop = Math.max(0, (line - 6) * (area.scrollHeight / lines.length));
}

const editors = plan.passes.map(editor);
at("passes").append(...editors.map(({ shown }) => shown));
if (editors.length === 0) at("passes").append(element("p", {}, "None: every output is empty, so nothing is dispatched."));

// --- What happened

const plural = (number, one, many) => `${count(number)} ${number === 1 ? one : many}`;

/** The verdict in one sentence, and whether all is right. */
function verdictOf({ status, reason, outputs, damaged }) {
  if (status !== "ok") return { right: false, sentence: `${status.replaceAll("_", " ")}: ${reason}` };
  const wrong = outputs.filter(({ found }) => found.count > 0 || found.untidy);
  const parts = wrong.map(({ name, shape, found }) => {
    if (found.count === 0) return `${name}: the bits behind the last element are not 0`;
    const first = indexOf(found.first[0].flat, shape).join(",");
    return `${name}: ${count(found.count)} of ${plural(found.size, "element differs", "elements differ")}; first at [${first}]`;
  });
  if (damaged.length > 0) parts.push(`a store went past the end of ${damaged.join(", ")}`);
  if (parts.length > 0) return { right: false, sentence: `Wrong. ${parts.join("; ")}.` };
  return { right: true, sentence: `Right: ${outputs.map(({ name }) => name).join(", ")} equal to the bit.` };
}

function differences({ name, dtype, shape, found }) {
  const head = ["index", "actual", "expected", "bits", "bits expected"].map(numericHead);
  const rows = found.first.map(({ flat, is, right }) => [
    numeric(`[${indexOf(flat, shape).join(",")}]`), numeric(shown(is, dtype), "wrong"), numeric(shown(right, dtype)),
    numeric(hexOf(is, dtype), "wrong"), numeric(hexOf(right, dtype)),
  ]);
  const more = found.count - found.first.length;
  return element("div", {}, element("h2", {}, `${name}: ${dtype}[${shape.join(",")}]`),
    table(head, rows, `Elements of ${name} that differ`),
    more > 0 ? element("p", { className: "note" }, `… and ${count(more)} more`) : null);
}

/** The same as text, for a bug report that cannot take the file. */
function reportOf(outcome, { sentence }) {
  const { adapter, missing, notes } = outcome.here;
  const told = adapter ? Object.entries(adapter).map(([name, value]) => `${name} ${value}`).join(", ") : "none";
  const lines = [seen.query, sentence, "", `browser   ${navigator.userAgent}`, `adapter   ${told}`];
  for (const name of missing) lines.push(`missing   ${name}`);
  for (const note of notes) lines.push(`limit     ${note}`);
  const edited = editors.filter((one) => one.edited()).map(({ pass }) => pass.label);
  if (edited.length > 0) lines.push(`edited    ${edited.join(", ")}: not the WGSL that was saved`);
  for (const { kind, pass, line, column, text, length } of outcome.said) {
    lines.push("", `${kind} in ${pass}, line ${line}:${column}: ${text}`);
    const area = editors.find((one) => one.pass.label === pass).area;
    lines.push(...quoted({ line, column, length }, area.value).map((part) => `  ${part}`));
  }
  for (const { name, dtype, shape, found } of outcome.outputs.filter((output) => output.found.count > 0)) {
    lines.push("", `${name}: ${dtype}[${shape.join(",")}], ${found.count} of ${found.size} differ`);
    for (const { flat, is, right } of found.first) {
      const bits = `${hexOf(is, dtype)}, expected ${hexOf(right, dtype)}`;
      lines.push(`  [${indexOf(flat, shape).join(",")}] actual ${shown(is, dtype)}, expected ${shown(right, dtype)} (${bits})`);
    }
  }
  lines.push("", "saved where it gave", `  ${seen.summary}`, `  browser ${seen.browser}`, `  adapter ${seen.adapter}`);
  if (seen.flags.length > 0) lines.push(`  flags   ${seen.flags.join(" ")}`);
  lines.push("", ...plan.passes.map(({ label, wgsl }) => `wgsl      ${wgsl} ${label}`));
  return lines.join("\n");
}

function show(outcome) {
  const verdict = verdictOf(outcome);
  const edited = editors.some((one) => one.edited()) ? " (with edited WGSL)" : "";
  at("outcome").className = verdict.right ? "passed" : "failed";
  at("verdict").textContent = `${verdict.right ? "●" : "✕"} ${verdict.sentence}${edited}`;
  at("missing").replaceChildren(...outcome.here.missing.map((name) => element("li", {}, `missing: ${name}`)));
  at("outputs").replaceChildren(...outcome.outputs.filter(({ found }) => found.count > 0).map(differences));
  list(at("here"), [
    ["browser", navigator.userAgent],
    ...Object.entries(outcome.here.adapter ?? { adapter: "none" }),
    ["limits", outcome.here.notes.join("; ")],
    ["features", outcome.here.features.join(", ")],
  ]);
  for (const one of editors) one.tell(outcome.said.filter(({ pass }) => pass === one.pass.label));
  at("report").textContent = reportOf(outcome, verdict);
}

let running = false;
async function runAll() {
  if (running) return;
  running = true;
  at("again").disabled = true;
  at("outcome").className = "";
  at("verdict").textContent = "Running …";
  at("copied").textContent = "";
  show(await runPlan(job, Object.fromEntries(editors.map(({ pass, area }) => [pass.label, area.value]))));
  at("again").disabled = false;
  running = false;
}

// --- What does not change

/** The first values of an input or the words of a uniform. */
function contents({ name, kind, dtype, shape, packing, words, fill }) {
  if (kind === "uniform") {
    return words.map((word, index) => `${saved.fields[name]?.[index] ?? "padding"} = ${word}`).join(", ");
  }
  if (!job.inputs[name]) return fill === null ? "" : `filled with ${hexOf(fill, "uint32")}`;
  const size = elementsOf(shape);
  const values = Array.from({ length: Math.min(size, 16) }, (_, flat) => {
    return shown(codeAt(job.inputs[name], flat, dtype, packing), dtype);
  });
  return values.join(" ") + (size > values.length ? ` … (${count(size)})` : "");
}

at("why").textContent = seen.why;
list(at("there"), [
  ["verdict", seen.summary], ["browser", seen.browser], ["adapter", seen.adapter],
  ["flags", seen.flags.join(" ")], ["expected", seen.expected_from && `from ${seen.expected_from}`],
  ["again", seen.repeat], ["emulated", saved.emulated ? "plain WGSL stands in for subgroup matrices" : ""],
]);
const wordy = (text) => element("td", { className: "values" }, text);
at("plan").append(
  table(["buffer", "kind", "type", "bytes + guard", "holds"], plan.buffers.map((spec) => [
    spec.name, spec.kind, `${spec.dtype}[${spec.shape.join(",")}] ${spec.packing}`,
    numeric(`${count(spec.bytes)} + ${spec.guard_bytes}`), wordy(contents(spec)),
  ]), "Buffers"),
  element("h3", {}, "Dispatches"),
  table(["pass", "entry point", "workgroups", "bindings"], plan.passes.map((pass) => [
    pass.label, pass.entry_point, pass.workgroups.join(" × "),
    wordy(pass.bindings.map(({ binding, buffer, type }) => `${binding}: ${buffer} (${type})`).join(", ")),
  ]), "Dispatches"),
  element("h3", {}, "Device"),
  element("p", { className: "note" }, `features: ${plan.device.features.join(", ") || "none"}`),
  element("p", { className: "note" }, `limits, where the adapter has as much: ${
    Object.entries(plan.device.limits).map(([name, value]) => `${name} ${count(value)}`).join(", ")}`),
);

at("again").addEventListener("click", runAll);
at("copy").addEventListener("click", async () => {
  const text = at("report").textContent;
  const copied = await Promise.resolve(navigator.clipboard?.writeText(text).then(() => true)).catch(() => false);
  if (!copied) {
    at("report").closest("details").open = true;
    getSelection().selectAllChildren(at("report"));
  }
  at("copied").textContent = copied ? "Copied." : "The browser forbids it: the text is selected below.";
});
runAll();
