// @ts-check
/** The debug page: chooses a case and a variant, runs it, and shows the plan, the WGSL, the buffers, one element. */

import { describe } from "../errors.js";
import { probe } from "../facts.js";
import { offer } from "./console.js";
import * as desk from "./desk.js";
import { buttons, byId, element } from "./dom.js";
import { drawElement, drawWriters } from "./element_view.js";
import { markOf, tellOf } from "./held.js";
import { MasksView } from "./masks_view.js";
import { drawPlan } from "./plan_view.js";
import { Session } from "./session.js";
import { invocationForm, openSteps } from "./step_view.js";
import { TensorView } from "./tensor_view.js";
import { codeOf, differing, differsAt, flatOf, hexOf, indexOf, isUnread, textOf } from "./values.js";
import { drawTrace, drawVerdict, log } from "./verdict_view.js";
import { drawWgsl } from "./wgsl_view.js";

/** @import {Facts} from "../facts.js" */
/** @import {Catalogue} from "./desk.js" */
/** @import {Shown} from "./tensor_view.js" */

const WATCH_MS = 300;

globalThis.lab = { runs: 0, lastResult: null, devices: /** @type {any} */ (null) };

class DebugPage {
  /** @type {{output: string, index: number[]}|null} */
  chosen = null;
  buffer = "";
  pass = 0;
  busy = Promise.resolve();
  /** the state of the operator's files that a run was tried with last */
  seen = "";

  /** @param {Session} session @param {Catalogue} catalogue */
  constructor(session, catalogue) {
    this.session = session;
    this.operators = catalogue.operators;
    this.masks = new MasksView(catalogue, session.facts, new URLSearchParams(location.search), () => this.go());
    this.tensors = new TensorView(byId("tensor"), (name, index) => this.#choose(name, index));
  }

  start() {
    const wanted = (new URLSearchParams(location.search).get("query") ?? "").split(":");
    fill(byId("operator"), this.operators.map(({ id }) => id), wanted[0]);
    byId("operator").addEventListener("change", () => this.#cases("", ""));
    byId("case").addEventListener("change", () => this.go());
    byId("variant").addEventListener("change", () => this.go());
    byId("timing").addEventListener("change", () => this.go());
    byId("choice").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      this.go();
    });
    byId("save").addEventListener("click", () => this.#save().catch((error) => this.#fault(describe(error))));
    this.#cases(wanted[1] ?? "", wanted[2] ?? "");
    setInterval(() => this.#watch(), WATCH_MS);
  }

  get query() {
    const parts = [byId("operator").value, byId("case").value, byId("variant").value];
    return parts.filter(Boolean).join(":");
  }

  /** @param {string} name @param {string} variant */
  #cases(name, variant) {
    const operator = this.operators.find(({ id }) => id === byId("operator").value) ?? this.operators[0];
    fill(byId("case"), operator.cases.map((one) => one.name), name);
    fill(byId("variant"), ["", ...operator.variants.map(({ id }) => id)], variant);
    byId("variant").options[0].textContent = "as selected";
    this.go();
  }

  /** Opens what is chosen, runs it and draws all; calls follow one another. @param {boolean} [keep]  the chosen element */
  go(keep = false) {
    this.busy = this.busy.then(() => this.#go(keep)).catch((error) => this.#fault(describe(error)));
    return this.busy;
  }

  /** @param {boolean} keep */
  async #go(keep) {
    const query = this.query;
    document.body.classList.add("running");
    history.replaceState(null, "", `?${new URLSearchParams([["query", query], ...this.masks.parameters])}`);
    try {
      const specimen = await this.session.open(query, this.masks.mask);
      this.masks.tell(specimen.masked);
      document.title = `${query} - kernel-lab debug`;
      byId("why").textContent = specimen.why;
      drawTrace(specimen);
      if (!keep) Object.assign(this, { chosen: null, buffer: "", pass: 0 });
      if (this.session.runs) await this.#run();
      else this.#nothing(specimen.refused ? `refused: ${specimen.refused}` : `cannot run: ${specimen.unplanned}`);
    } catch (error) {
      this.#fault(error instanceof Error ? error.message : describe(error));
    } finally {
      document.body.classList.remove("running");
    }
  }

  async #run() {
    const outcome = await this.session.run(byId("timing").checked);
    lab.runs += 1;
    lab.lastResult = outcome;
    document.body.classList.remove("stale");
    byId("problem").hidden = true;
    byId("step").hidden = true; // it was of the run before
    drawVerdict(this.session, outcome);
    log(this.session, outcome);
    this.#draw();
  }

  /** @param {string} sentence */
  #nothing(sentence) {
    byId("verdict").textContent = sentence;
    byId("verdict").className = "";
    byId("blame").textContent = "";
    for (const id of ["plan", "tensor-names", "tensor", "pass-names", "wgsl", "element", "step"]) byId(id).replaceChildren();
    byId("element").hidden = true;
    byId("step").hidden = true;
    byId("problem").hidden = true;
  }

  /** What was drawn last stays, greyed. @param {string} sentence */
  #fault(sentence) {
    document.body.classList.add("stale");
    byId("blame").textContent = "";
    byId("problem").hidden = false;
    byId("problem").replaceChildren(element("h2", {}, "That could not be run"), element("pre", {}, sentence));
    byId("verdict").textContent = this.session.opened ? "✕ see below; under it is the last good state, greyed" : "✕ see below";
    byId("verdict").className = "failed";
  }

  #draw() {
    const { plan, passes } = this.session.specimen;
    const shown = this.session.buffers();
    const marks = new Map(shown.map((one) => [one.layout.name, markOf(one)]));
    drawPlan(byId("plan"), this.session.specimen, {
      buffer: (name) => this.#show(name, true),
      pass: (index) => this.#pass(index, true),
      mark: (name) => marks.get(name) ?? "",
    });
    const failed = this.session.outcome?.messages.findIndex(({ kind, line }) => kind === "error" && line > 0) ?? -1;
    if (failed >= 0) this.pass = Math.max(0, plan.passes.findIndex(({ label }) => label === this.session.outcome?.messages[failed].pass));
    if (this.pass >= passes.length) this.pass = 0;
    if (!shown.some(({ layout }) => layout.name === this.buffer)) this.buffer = plan.outputs[0]?.buffer ?? shown[0]?.layout.name ?? "";
    this.#show(this.buffer, false);
    if (passes.length > 0) this.#pass(this.pass, false);
    else for (const id of ["pass-names", "wgsl"]) byId(id).replaceChildren();
    const wrong = shown.find((one) => one.layout.kind === "output" && differing(one).length > 0);
    if (this.chosen) this.#choose(this.chosen.output, this.chosen.index);
    else if (wrong) this.#first(wrong);
    else byId("element").hidden = true;
  }

  /** The first element that differs. @param {Shown} shown */
  #first(shown) {
    this.#choose(shown.layout.name, indexOf(shown.layout.shape, differing(shown)[0]));
  }

  /** @param {string} name @param {boolean} scroll */
  #show(name, scroll) {
    this.buffer = name;
    const every = this.session.buffers();
    const items = every.map((one) => {
      const [mark, count] = [markOf(one), differing(one).length];
      return { name: one.layout.name, note: mark ? `${mark}${count ? ` ${count.toLocaleString("en")}` : ""}` : one.layout.kind };
    });
    buttons(byId("tensor-names"), items, name, (chosen) => this.#show(chosen, false));
    const shown = every.find(({ layout }) => layout.name === name);
    if (shown) this.tensors.show(shown, this.chosen?.output === name ? this.chosen.index : null);
    if (scroll) byId("tensor-names").scrollIntoView({ block: "start" });
  }

  /** @param {number} index @param {boolean} scroll */
  #pass(index, scroll) {
    this.pass = index;
    const { plan, passes, wgsl } = this.session.specimen;
    const items = passes.map(({ name }, at) => ({ name: `${at + 1}. ${name}` }));
    buttons(byId("pass-names"), items, items[index].name, (name) => this.#pass(items.findIndex((one) => one.name === name), false));
    const messages = (this.session.outcome?.messages ?? []).filter(({ pass }) => pass === plan.passes[index].label);
    const original = wgsl[plan.passes[index].wgsl];
    const pass = { text: this.session.textOf(index), original, origins: passes[index].origins, messages, template: passes[index].template };
    drawWgsl(byId("wgsl"), pass, (text) => {
      if (text === null || text === original) this.session.edits.delete(index);
      else this.session.edits.set(index, text);
      this.busy = this.busy.then(() => this.#run());
    });
    byId("wgsl").append(invocationForm(plan.passes[index].workgroups, ({ workgroup, localIndex }) => this.step(passes[index].name, workgroup, localIndex)));
    if (scroll) byId("pass-names").scrollIntoView({ block: "start" });
  }

  /** Opens the panel that steps through an invocation. @param {string} pass  its name
   * @param {[number, number, number]} workgroup @param {number} localIndex */
  step(pass, workgroup, localIndex) {
    const { passes } = this.session.specimen;
    const index = passes.findIndex(({ name }) => name === pass);
    if (index < 0) throw new Error(`no pass ${pass}; there are ${passes.map(({ name }) => name).join(", ")}`);
    const opened = this.busy.then(() => openSteps(byId("step"), this.session, index, { workgroup, localIndex }));
    this.busy = opened.then(() => {}, () => {});
    return opened;
  }

  /** @param {string} name @param {number[]} index */
  async #choose(name, index) {
    const shown = this.session.buffers().find(({ layout }) => layout.name === name);
    if (!shown || !["output", "intermediate"].includes(shown.layout.kind)) return;
    this.chosen = { output: name, index };
    const { layout, actual, expected } = shown;
    const flat = flatOf(layout.shape, index);
    const code = actual ? codeOf(actual, layout, flat) : null;
    const right = expected && !isUnread(shown, flat) ? hexOf(codeOf(expected, layout, flat), layout.dtype) : null;
    try {
      const told = await tellOf(this.session.specimen, shown, index);
      const read = code === null ? { actual: "nothing", bits: "none" } : { actual: textOf(code, layout.dtype), bits: hexOf(code, layout.dtype) };
      const got = { ...read, expectedBits: right, wrong: code === null ? right !== null : differsAt(shown, flat) };
      drawElement(byId("element"), told, got);
      await this.#writers(name, index);
    } catch (error) {
      byId("element").replaceChildren(element("p", { className: "failed" }, describe(error)));
      byId("element").hidden = false;
    }
  }

  /** One file that shows the case in any WebGPU browser, for a bug report. */
  async #save() {
    const { operator, case: name, variant } = this.session.specimen;
    const asked = { query: `${operator}:${name}:${variant}`, facts: this.session.facts, mask: this.masks.mask };
    const text = await desk.saved({ ...asked, summary: byId("verdict").textContent });
    const link = element("a", { href: URL.createObjectURL(new Blob([text], { type: "text/html" })) });
    link.download = `${name}-${variant}.html`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  /** A second run finds who stored there. @param {string} name @param {number[]} index */
  async #writers(name, index) {
    const place = element("div", { id: "writers" });
    byId("element").append(place);
    if (this.session.edits.size > 0) {
      place.append(element("p", { className: "note" }, "Who wrote it is told of the template's WGSL only, not of an edited one."));
      return;
    }
    const { passes } = this.session.specimen.plan;
    if (!passes.some(({ bindings }) => bindings.some(({ buffer, type }) => buffer === name && type === "storage"))) {
      place.append(element("p", { className: "note" }, "No pass writes it: it stands for an input that is absent."));
      return;
    }
    try {
      const told = await this.session.inspect({ buffer: name, index }, this.masks.mask);
      drawWriters(
        place,
        told,
        ({ pass, invocation }) => this.session.inspect({ run_pass: pass, workgroup: invocation.workgroup_id, local_index: invocation.local_invocation_index }, this.masks.mask),
        ({ pass, invocation }) => this.step(pass, invocation.workgroup_id, invocation.local_invocation_index),
      );
    } catch (error) {
      place.append(element("p", { className: "note" }, `Who wrote it is not known: ${error instanceof Error ? error.message : describe(error)}`));
    }
  }

  /** Runs anew when the operator's files have changed. */
  async #watch() {
    const opened = this.session.opened;
    if (!opened || document.hidden) return;
    try {
      const stamp = await desk.stampOf(opened.header.operator);
      if (this.session.opened === opened && stamp !== opened.header.stamp && stamp !== this.seen) {
        this.seen = stamp; // a state that does not work is shown once
        await this.go(true);
      }
    } catch (error) {
      byId("verdict").textContent = `the server does not answer: ${describe(error)}`;
    }
  }

  /** @param {string} query */
  async runQuery(query) {
    const [operator, name, variant = ""] = query.split(":");
    const known = this.operators.find(({ id }) => id === operator || id.endsWith(`.${operator}`));
    if (!known) throw new Error(`no operator ${operator}; there are ${this.operators.map(({ id }) => id).join(", ")}`);
    byId("operator").value = known.id;
    fill(byId("case"), known.cases.map((one) => one.name), name);
    fill(byId("variant"), ["", ...known.variants.map(({ id }) => id)], variant);
    await this.go();
    return byId("verdict").textContent;
  }

  /** @param {string} name @param {number[]} index */
  inspect(name, index) {
    const shown = this.session.buffers().find(({ layout }) => layout.name === name);
    if (!shown) throw new Error(`no buffer ${name}; there are ${this.session.buffers().map(({ layout }) => layout.name).join(", ")}`);
    const { layout, actual, expected } = shown;
    const flat = flatOf(layout.shape, index);
    const read = (/** @type {Uint8Array|null} */ bytes) => bytes && textOf(codeOf(bytes, layout, flat), layout.dtype);
    this.#choose(name, index);
    return { index, actual: read(actual), expected: read(expected) };
  }
}

/** @param {HTMLSelectElement} select @param {string[]} names @param {string} wanted */
function fill(select, names, wanted) {
  select.replaceChildren(...names.map((name) => element("option", { value: name }, name)));
  const found = names.find((name) => name === wanted || (wanted && name.endsWith(`.${wanted}`)));
  select.value = found ?? names[0];
}

/** @param {Facts} facts */
function adapterLine({ adapter, reason }) {
  if (!adapter) return `no adapter: ${reason}`;
  return `${adapter.description || adapter.vendor || "unnamed adapter"}${adapter.driver ? `, ${adapter.driver}` : ""}${adapter.isFallbackAdapter ? " (fallback: software)" : ""}`;
}

async function main() {
  const facts = await probe();
  byId("adapter").textContent = adapterLine(facts);
  const session = new Session(facts);
  globalThis.lab.devices = session.devices;
  const page = new DebugPage(session, await desk.catalogue());
  offer({
    "run(query)": { call: (query) => page.runQuery(query), says: 'runs a case, as "ConvInteger:groups:accumulate_spatial"' },
    plan: { call: () => session.specimen.plan, says: "the plan: buffers, passes, outputs" },
    buffers: { call: () => session.buffers(), says: "every buffer with its layout, actual and expected bytes" },
    "inspect(name, index)": { call: (name, index) => page.inspect(name, index), says: 'one element, as lab.inspect("y", [0, 1, 2, 3])' },
    "step(pass, workgroup, index)": { call: (pass, workgroup, index) => page.step(pass, workgroup, index), says: 'an invocation line by line, as lab.step("accumulate", [0, 0, 0], 5); gives what steps, once it is open' },
    specimen: { call: () => session.specimen, says: "all that the server said of the case" },
    lastOutcome: { call: () => session.outcome, says: "what the last run gave: status, messages, times" },
  });
  page.start();
}

main().catch((error) => {
  byId("verdict").textContent = describe(error);
  byId("verdict").className = "failed";
});
