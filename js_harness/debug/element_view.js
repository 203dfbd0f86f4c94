// @ts-check
/** One element of an output or an intermediate: where it lies, what fed it, the reference's way to its value, who wrote it. */

import { element } from "./dom.js";
import { tableOf } from "./tensor_view.js";

/** @import {ElementTold} from "./desk.js" */

const MOST_ROWS = 600;
const MOST_CHANNELS = 12;

/**
 * @param {HTMLElement} place
 * @param {ElementTold & {where?: string}} told  `where`: what of the reference's lies there, of an intermediate
 * @param {{actual: string, bits: string, expectedBits: string|null, wrong: boolean}} got  null: nobody says what is right
 */
export function drawElement(place, told, got) {
  const { output, index, expected, steps } = told;
  const right = got.expectedBits === null ? `${got.actual} (${got.bits})` : `${got.actual}, as expected`;
  const title = element("h2", {}, `${output}[${index.join(", ")}]`);
  const axes = index.map((at, axis) => `axis ${axis}: ${at}`).join(", ") || "a single element";
  const parts = [
    title,
    element("p", {}, axes),
    element(
      "p",
      { className: got.wrong ? "failed" : got.expectedBits === null ? "" : "passed" },
      got.wrong ? `actual ${got.actual} (${got.bits}), expected ${expected} (${got.expectedBits})` : right,
    ),
    ...(told.where ? [element("p", {}, told.where)] : []),
  ];
  if (steps) {
    const windows = windowsOf(steps.columns, steps.rows);
    if (windows) parts.push(element("h3", {}, "Its window"), windows);
    parts.push(element("h3", {}, `Spelled out (by ${told.expected_from})`));
    const rows = steps.rows.slice(0, MOST_ROWS);
    parts.push(element("div", { className: "wide", tabIndex: 0, role: "region", "aria-label": "terms" }, tableOf(steps.columns, rows)));
    if (steps.rows.length > rows.length) parts.push(element("p", {}, `… and ${steps.rows.length - rows.length} terms more`));
    parts.push(element("ol", { className: "then" }, ...steps.then.map((text) => element("li", {}, text))));
  }
  const fed = Object.entries(told.fed);
  if (fed.length > 0) {
    const list = element("dl");
    for (const [role, places] of fed) {
      const shown = places.slice(0, 24).map((one) => `[${one.index.join(", ")}] = ${one.value}`);
      if (places.length > shown.length) shown.push(`… and ${places.length - shown.length} more`);
      list.append(element("dt", {}, role), element("dd", {}, shown.join("  ") || "none: all of them padding"));
    }
    parts.push(element("details", {}, element("summary", {}, "the input elements that feed it"), list));
  }
  place.replaceChildren(...parts);
  place.hidden = false;
}

/**
 * Who wrote the element, and for each writer buttons: to step through it, and for its probes.
 * @param {HTMLElement} place @param {any} told  writers, as debugging/writers.py tells them
 * @param {(writer: any) => Promise<any>} probe
 * @param {(writer: any) => void} step
 */
export function drawWriters(place, told, probe, step) {
  const parts = [element("h3", {}, "Who wrote it")];
  if (told.writers.length === 0) parts.push(element("p", { className: "failed" }, "No invocation stored to it."));
  for (const writer of told.writers) {
    const { workgroup_id, local_invocation_index, global_invocation_id } = writer.invocation;
    const from = writer.file ? `${writer.file}:${writer.line}` : "";
    const box = element("div", { className: "writer" });
    box.append(
      element("p", {}, `pass ${writer.pass}: workgroup [${workgroup_id.join(", ")}], invocation ${local_invocation_index} of it, global id [${global_invocation_id.join(", ")}]${writer.times > 1 ? `, ${writer.times} times` : ""}`),
      element("p", {}, element("code", {}, `${from}  ${writer.text}`)),
    );
    if (writer.has_probes) {
      const button = element("button", { type: "button" }, "What its probes saw");
      button.addEventListener("click", async () => {
        button.disabled = true;
        box.append(probesOf(await probe(writer)));
      });
      box.append(button, " ");
    }
    const through = element("button", { type: "button" }, "Step through it");
    through.addEventListener("click", () => step(writer));
    box.append(through);
    parts.push(box);
  }
  if (told.elements_watched > 1) parts.push(element("p", { className: "note" }, `${told.elements_watched} elements share the word that was watched: a writer need not have changed this one.`));
  if (told.lost > 0) parts.push(element("p", { className: "failed" }, `${told.lost} stores more were not recorded.`));
  place.replaceChildren(...parts);
}

/** @param {any} told  probes, as debugging/probing.py tells them */
function probesOf(told) {
  const rows = told.probes.map((/** @type {any} */ one) => [one.order, one.name, one.type, Array.isArray(one.value) ? `(${one.value.join(", ")})` : String(one.value), one.file ? `${one.file}:${one.line}` : ""]);
  const silent = told.silent.map((/** @type {any} */ one) => `${one.name} (${one.file}:${one.line})`).join(", ");
  return element(
    "div",
    { className: "probes wide", tabIndex: 0, role: "region", "aria-label": "probes" },
    tableOf(["order", "probe", "type", "value", "template"], rows),
    told.lost > 0 ? element("p", {}, `${told.lost} values more did not fit.`) : null,
    silent ? element("p", { className: "note" }, `silent: ${silent}`) : null,
  );
}

/** The taps of a window as they lie in w, a table a channel: x above w, padding marked.
 * @param {string[]} columns @param {(string|number)[][]} rows */
function windowsOf(columns, rows) {
  const [xAt, x, wAt, w, product] = ["x at", "x", "w at", "w", "product"].map((name) => columns.indexOf(name));
  if ([xAt, x, wAt, w, product].includes(-1)) return null;
  /** @type {Map<number, {place: number[], row: (string|number)[]}[]>} */
  const channels = new Map();
  for (const row of rows) {
    const place = JSON.parse(String(row[wAt]).slice(1));
    const taps = channels.get(place[1]) ?? [];
    taps.push({ place: place.slice(2), row });
    channels.set(place[1], taps);
  }
  const box = element("div", { className: "windows" });
  for (const [channel, taps] of [...channels].slice(0, MOST_CHANNELS)) {
    /** @type {Map<string, HTMLElement[]>} */
    const lines = new Map();
    for (const { place, row } of taps) {
      const padding = row[xAt] === "padding";
      const cell = element("td", { className: padding ? "padding" : "", title: `${row[xAt]} times ${row[wAt]}: ${row[product]}` }, element("b", {}, padding ? "pad" : String(row[x])), element("span", {}, `× ${row[w]}`));
      const key = place.slice(0, -1).join(",");
      lines.set(key, [...(lines.get(key) ?? []), cell]);
    }
    const body = [...lines.values()].map((cells) => element("tr", {}, ...cells));
    box.append(element("table", { className: "window" }, element("caption", {}, `channel ${channel}`), element("tbody", {}, ...body)));
  }
  if (channels.size > MOST_CHANNELS) box.append(element("p", {}, `… and ${channels.size - MOST_CHANNELS} channels more`));
  return box;
}
