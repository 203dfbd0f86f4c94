// @ts-check
/** What a person sees of the page: adapter, connection, the last run, counts. Drawn four times a second at most: each time costs a small case's fifth. */

/** @import {Facts} from "./facts.js" */
/** @import {Outcome} from "./execute.js" */

const DRAWN_MS = 250;

/** @param {Facts} facts */
function adapterLine({ adapter, reason }) {
  if (!adapter) return `none: ${reason}`;
  const name = adapter.description || [adapter.vendor, adapter.architecture].filter(Boolean).join(" ") || "unnamed";
  const notes = [adapter.backend, adapter.driver, adapter.isFallbackAdapter ? "software fallback" : ""].filter(Boolean);
  return notes.length > 0 ? `${name} (${notes.join(", ")})` : name;
}

/** @param {Outcome} outcome @param {Record<string, string>} expected  digests */
function verdict(outcome, expected) {
  if (outcome.status !== "ok") return { failed: true, text: outcome.status.replaceAll("_", " ") };
  const differing = outcome.outputs.filter(({ name, equal }) => name in expected && !equal).map(({ name }) => name);
  const complaints = [];
  if (differing.length > 0) complaints.push(`unlike the expected bytes: ${differing.join(", ")}`);
  if (outcome.damaged.length > 0) complaints.push(`written beyond its end: ${outcome.damaged.join(", ")}`);
  if (complaints.length > 0) return { failed: true, text: complaints.join("; ") };
  return { failed: false, text: `ran in ${outcome.timings.total_ms.toFixed(1)} ms` };
}

export class Display {
  /** @type {Map<string, string>}  text by element id */
  #texts = new Map();
  #scheduled = false;
  #runs = 0;
  #failures = 0;

  /** @param {Document} document */
  constructor(document) {
    this.document = document;
  }

  /** @param {Facts} facts */
  adapter(facts) {
    this.#show("adapter", adapterLine(facts));
  }

  /** @param {string} state */
  connection(state) {
    this.#show("connection", state);
  }

  /** @param {string} label */
  running(label) {
    this.#show("last", `… ${label}`);
  }

  /** @param {string} label @param {Outcome} outcome @param {Record<string, string>} expected */
  ran(label, outcome, expected) {
    const { failed, text } = verdict(outcome, expected);
    this.#runs += 1;
    if (failed) {
      this.#failures += 1;
      this.#show("failure", `✗ ${label}: ${text}`);
    }
    this.#show("last", `${failed ? "✗" : "✓"} ${label}: ${text}`);
    this.#show("runs", String(this.#runs));
    this.#show("failures", String(this.#failures));
  }

  /** @param {string} id @param {string} text */
  #show(id, text) {
    this.#texts.set(id, text);
    if (this.#scheduled) return;
    this.#scheduled = true;
    setTimeout(() => {
      this.#scheduled = false;
      for (const [name, value] of this.#texts) {
        const element = this.document.getElementById(name);
        if (element && element.textContent !== value) element.textContent = value;
      }
      this.#texts.clear();
    }, DRAWN_MS); // no animation frame comes while the GPU process is busy
  }
}
