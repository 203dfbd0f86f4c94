// @ts-check
/** What the reference says of intermediates: of one element, and which pass is the first with a wrong result. */

import * as desk from "./desk.js";
import { codeOf, differing, flatOf, indexOf, isUnread, textOf } from "./values.js";

/** @import {ElementTold, Specimen} from "./desk.js" */
/** @import {Shown} from "./tensor_view.js" */

/** "●" equal, "✕" differs, "" where nobody says what is right. @param {Shown} shown */
export const markOf = (shown) => (!shown.expected ? "" : !shown.actual || differing(shown).length > 0 ? "✕" : "●");

/** All that is known of an element; `where` says what of the reference's lies there.
 * @param {Specimen} specimen @param {Shown} shown @param {number[]} index @returns {Promise<ElementTold & {where?: string}>} */
export async function tellOf({ query, plan }, shown, index) {
  const { layout, expected, held } = shown;
  const output = plan.outputs.find(({ buffer }) => buffer === layout.name);
  if (output) return desk.tellOf(query, output.name, index);
  const told = { output: layout.name, index, expected: "", expected_from: "", fed: {}, steps: null };
  if (!held || !expected) return { ...told, where: "The reference has no value for it." };
  const flat = flatOf(layout.shape, index);
  const place = held.places[flat];
  if (isUnread(shown, flat)) return { ...told, where: "Padding of which no pass makes use: it is not compared." };
  const right = textOf(codeOf(expected, layout, flat), layout.dtype);
  if (place < 0) return { ...told, expected: right, where: `Padding: no element of the reference's ${held.value} lies here.` };
  const at = indexOf(held.sizes, place);
  const names = at.map((one, axis) => (held.axes.length > 0 ? `${held.axes[axis]} ${one}` : one));
  const found = await desk.tellOf(query, held.value, at, "value");
  return { ...found, output: layout.name, index, expected: right, where: `The reference's ${held.value}[${names.join(", ")}].` };
}

/** A sentence about the first pass that left something wrong; "" if none did. What a buffer holds is taken to be of the
 * last dispatched pass that may write it.
 * @param {Specimen} specimen @param {Shown[]} every */
export function firstWrong({ plan, passes }, every) {
  const marks = new Map(every.map((shown) => [shown.layout.name, markOf(shown)]));
  const kinds = new Map(every.map(({ layout }) => [layout.name, layout.kind]));
  const title = (/** @type {number} */ index) => `${index + 1}. ${passes[index].name}`;
  /** @type {Map<string, number[]>}  by buffer, the passes that may write it */
  const writers = new Map();
  for (const [index, { bindings, workgroups }] of plan.passes.entries()) {
    if (workgroups.includes(0)) continue;
    for (const { buffer, type } of bindings) if (type === "storage") writers.set(buffer, [...(writers.get(buffer) ?? []), index]);
  }
  const wrong = [...writers].filter(([buffer]) => marks.get(buffer) === "✕");
  if (wrong.length === 0) return "";
  const first = Math.min(...wrong.map(([, by]) => Number(by.at(-1))));
  const left = wrong.filter(([, by]) => by.at(-1) === first);
  const read = plan.passes[first].bindings.filter(({ buffer, type }) => type !== "storage" && kinds.get(buffer) === "intermediate");
  const [right, unknown] = ["●", ""].map((mark) => read.map(({ buffer }) => buffer).filter((name) => marks.get(name) === mark));
  const others = left.filter(([, by]) => by.length > 1).map(([buffer, by]) => `${buffer} may be written by ${by.slice(0, -1).map(title).join(", ")}, too`);
  const about = [
    right.length > 0 ? `it reads ${right.join(", ")}, as the reference has it` : "",
    unknown.length > 0 ? `it reads ${unknown.join(", ")}, which nothing is compared with` : "",
    ...others,
  ].filter(Boolean);
  return [`The first pass with a wrong result is ${title(first)} (${left.map(([buffer]) => buffer).join(", ")})`, ...about].join("; ");
}
