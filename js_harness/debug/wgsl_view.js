// @ts-check
/** A pass's WGSL: each line with its number, its template's line, and what the compiler said of it; and an editor. */

import { element } from "./dom.js";

/** @import {Message} from "../wire.js" */

const TOKENS = /(\/\/[^\n]*|\/\*[\s\S]*?\*\/)|(@\w+)|\b(fn|let|var|const|override|struct|if|else|for|while|loop|switch|case|default|return|break|continue|continuing|discard|enable|requires|alias|true|false|diagnostic)\b|\b(array|atomic|vec[234][uifh]?|mat[234]x[234][fh]?|u32|i32|f32|f16|bool|ptr)\b|\b(0[xX][0-9a-fA-F]+[ui]?|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?[uifh]?)\b/g;
const KINDS = ["comment", "attribute", "keyword", "type", "number"];

/** @param {string} text @returns {Node[]} */
export function highlighted(text) {
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(TOKENS)) {
    const kind = KINDS[match.slice(1).findIndex((group) => group !== undefined)];
    if (match.index > at) parts.push(document.createTextNode(text.slice(at, match.index)));
    parts.push(element("span", { className: `t-${kind}` }, match[0]));
    at = match.index + match[0].length;
  }
  parts.push(document.createTextNode(text.slice(at)));
  return parts;
}

/**
 * @param {HTMLElement} place
 * @param {{text: string, original: string, origins: ([string, number]|null)[], messages: Message[], template: string}} pass
 * @param {(text: string|null) => void} edited  null: back to the template's
 */
export function drawWgsl(place, { text, original, origins, messages, template }, edited) {
  const lines = text.split("\n");
  const changed = text !== original;
  const where = changed ? originsOf(original.split("\n"), lines, origins) : origins;
  /** @type {HTMLElement[]} */
  const body = [];
  lines.forEach((line, index) => {
    const origin = where[index];
    const told = messages.filter((one) => one.line === index + 1);
    const from = origin ? [element("span", { className: "file", title: origin[0] }, origin[0]), `:${origin[1]}`] : [changed ? "edited" : ""];
    body.push(
      element(
        "tr",
        { className: told.some((one) => one.kind === "error") ? "failed" : told.length ? "warned" : "", id: `line-${index + 1}` },
        element("td", { className: "origin" }, ...from),
        element("td", { className: "line" }, String(index + 1)),
        element("td", {}, element("code", {}, ...highlighted(line))),
      ),
    );
    for (const one of told) {
      const mark = " ".repeat(Math.max(0, one.column - 1)) + "^".repeat(Math.max(1, Math.min(one.length, line.length - one.column + 1)));
      const cell = element("td", { colSpan: 3, className: "message" }, element("code", {}, mark), element("p", {}, `${one.kind}: ${one.text}`));
      body.push(element("tr", { className: one.kind === "error" ? "failed" : "warned" }, cell));
    }
  });
  const area = element("textarea", { value: text, rows: Math.min(40, lines.length + 2), spellcheck: false, "aria-label": "WGSL of this pass" });
  const editor = element("div", { className: "editor", hidden: true }, area);
  const edit = element("button", { type: "button" }, "Edit");
  const run = element("button", { type: "button", hidden: true }, "Run this text");
  const back = element("button", { type: "button", hidden: !changed }, "Back to the template's");
  edit.addEventListener("click", () => {
    editor.hidden = !editor.hidden;
    run.hidden = editor.hidden;
    if (!editor.hidden) area.focus();
  });
  run.addEventListener("click", () => edited(area.value));
  back.addEventListener("click", () => edited(null));
  const table = element("table", { className: "wgsl" }, element("tbody", {}, ...body));
  place.replaceChildren(
    element("p", {}, `from ${template}${changed ? ", edited here" : ""}; ${lines.length} lines`),
    element("div", { className: "controls" }, edit, run, back),
    editor,
    changed ? difference(original, text, origins) : "",
    element("div", { className: "wide", tabIndex: 0, role: "region", "aria-label": `lines of ${template}` }, table),
  );
}

/** Where the lines of an edited text come from: those that were kept at the beginning and at the end.
 * @param {string[]} old @param {string[]} lines @param {([string, number]|null)[]} origins */
export function originsOf(old, lines, origins) {
  const { head, tail } = common(old, lines);
  return lines.map((_, index) => {
    if (index < head) return origins[index];
    const fromEnd = lines.length - index;
    return fromEnd <= tail ? origins[old.length - fromEnd] : null;
  });
}

/** @param {string[]} old @param {string[]} lines */
function common(old, lines) {
  const most = Math.min(old.length, lines.length);
  let head = 0;
  while (head < most && old[head] === lines[head]) head += 1;
  let tail = 0;
  while (tail < most - head && old.at(-1 - tail) === lines.at(-1 - tail)) tail += 1;
  return { head, tail };
}

/** What an edit changed, with the template's lines that it replaces.
 * @param {string} original @param {string} text @param {([string, number]|null)[]} origins */
function difference(original, text, origins) {
  const [old, lines] = [original.split("\n"), text.split("\n")];
  const { head, tail } = common(old, lines);
  const box = element("pre", { className: "difference", tabIndex: 0, "aria-label": "what the edit changed" });
  old.slice(head, old.length - tail).forEach((line, index) => {
    const origin = origins[head + index];
    box.append(element("del", {}, `- ${origin ? `${origin[0]}:${origin[1]}` : "-"}  ${line}\n`));
  });
  for (const line of lines.slice(head, lines.length - tail)) box.append(element("ins", {}, `+ ${line}\n`));
  return box;
}
