// @ts-check
/** What a run of a case came to: the verdict, the compile messages on the console, what selection said of each variant. */

import { byId, element } from "./dom.js";
import { firstWrong } from "./held.js";
import { sayers } from "./source_map.js";
import { countOf, differing } from "./values.js";

/** @import {Outcome} from "../execute.js" */
/** @import {Specimen} from "./desk.js" */
/** @import {Session} from "./session.js" */

/** @param {Session} session @param {Outcome} outcome */
export function drawVerdict(session, outcome) {
  const every = session.buffers();
  const told = [];
  if (outcome.status !== "ok") told.push(outcome.status.replaceAll("_", " "));
  else {
    for (const shown of every.filter(({ expected, held }) => expected && !held)) {
      const count = shown.actual ? differing(shown).length : countOf(shown.layout);
      if (count > 0) told.push(`${shown.layout.name}: ${count.toLocaleString("en")} of ${countOf(shown.layout).toLocaleString("en")} elements differ`);
    }
  }
  for (const name of outcome.damaged) told.push(`${name} was written beyond its end`);
  const { variant, selected } = /** @type {any} */ (session.specimen);
  const times = outcome.timings.pass_ns?.map((ns) => (ns === null ? "skipped" : ns > 0 ? `${(ns / 1e6).toFixed(3)} ms` : "below the clock's step"));
  const who = `${variant}${variant === selected ? ", as selected" : ", forced"}${session.specimen.emulated ? ", matrices emulated" : ""}`;
  const took = `${outcome.timings.total_ms.toFixed(1)} ms in all, ${outcome.timings.gpu_ms.toFixed(1)} ms until the GPU was done${times ? `; passes ${times.join(", ")}` : ""}`;
  byId("verdict").textContent = `${told.length ? `✕ ${told.join("; ")}` : "● equal to the bit"} (${who}; ${took})`;
  byId("verdict").className = told.length ? "failed" : "passed";
  byId("blame").textContent = outcome.status === "ok" ? firstWrong(session.specimen, every) : "";
}

/** Messages on the console, each linked to its template's line. @param {Session} session @param {Outcome} outcome */
export function log(session, outcome) {
  const { plan, passes, templates } = session.specimen;
  const made = new Map(); // a script a pass, however much is said of it
  for (const message of outcome.messages) {
    const index = plan.passes.findIndex(({ label }) => label === message.pass);
    const text = `${message.pass}${message.line ? `, line ${message.line}:${message.column} of its WGSL` : ""}: ${message.text}`;
    const say = message.kind === "error" ? console.error : console.warn; // itself: its caller is where the link leads
    const linked = index >= 0 && message.line > 0 && !session.edits.has(index);
    if (linked && !made.has(index)) made.set(index, sayers(message.pass, passes[index].origins, templates));
    const from = linked ? made.get(index)[message.line - 1] : null;
    if (from) from(say, text);
    else say(text);
  }
}

/** What selection said of every variant. @param {Specimen} specimen */
export function drawTrace({ decisions = [], variant }) {
  const words = /** @type {Record<string, string>} */ ({ accepted: "accepted", demoted: "accepted, but demoted", emulated: "only when forced" });
  const items = decisions.map((one) => element("li", {}, element(one.variant === variant ? "strong" : "span", {}, one.variant), ` ${words[one.stage] ?? "no"}${one.reason ? `: ${one.reason}` : ""}`));
  const can = decisions.filter(({ stage }) => stage in words).length;
  byId("trace").replaceChildren(element("summary", {}, `selection: ${can} of ${decisions.length} variants can run this case here`), element("ol", {}, ...items));
}
