// @ts-check
/** What the server's desk answers; errors are its sentences. */

import { decode } from "../wire.js";

/** @import {Facts} from "../facts.js" */
/** @import {Plan} from "../wire.js" */

/** A profile that kernel-lab.toml declares, and what it masks, in words of the command line. */
/** @typedef {{name: string, masks: string}} NamedMasks */
/** @typedef {{operators: CatalogueEntry[], profiles: NamedMasks[], limits: string[], features: string[]}} Catalogue
 *  `limits`, `features`: those that decide what runs */
/** What is hidden of the adapter: see MaskAsked in server/kernel_lab/debugging/questions.py.
 * @typedef {{profile: string, mask: string[], limit: string[], subgroups: string, emulate_matrices: boolean}} Mask */
/** What the reference says of an intermediate: see Held in server/kernel_lab/debugging/intermediates.py.
 * @typedef {{buffer: string, value: string, axes: string[], sizes: number[], blob: number, places: number}} Held */
/** @typedef {{id: string, variants: {id: string, description: string}[], cases: {name: string, why: string}[]}} CatalogueEntry */
/** @typedef {{variant: string, stage: string, reason: string}} Decision */
/** @typedef {import("../wire.js").BufferSpec & {dtype: string, shape: number[], packing: "packed"|"word"}} Buffer */
/** @typedef {{name: string, template: string, origins: ([string, number]|null)[]}} PassOrigins */
/**
 * A case on a variant laid open: see server/kernel_lab/debugging/specimen.py. `refused` or `unplanned`: a sentence, and
 * then nothing from `plan` on.
 * @typedef {object} Specimen
 * @property {string} query
 * @property {string} operator
 * @property {string} case
 * @property {string} why
 * @property {string} stamp
 * @property {string[]} masked
 * @property {string} [refused]
 * @property {string} [unplanned]
 * @property {Decision[]} [decisions]
 * @property {string} variant
 * @property {string} description
 * @property {boolean} emulated
 * @property {Omit<Plan, "buffers"> & {buffers: Buffer[]}} plan
 * @property {Record<string, string[]>} fields
 * @property {PassOrigins[]} passes
 * @property {Record<string, string>} wgsl
 * @property {Record<string, string>} templates
 * @property {{buffer: string, blob: number}[]} inputs
 * @property {{name: string, digest: string, blob: number}[]} expected
 * @property {string} expected_from
 * @property {Held[]} held
 */
/** @typedef {{header: Specimen, blobs: Uint8Array<ArrayBuffer>[]}} Opened */
/**
 * @typedef {object} ElementTold
 * @property {string} output
 * @property {number[]} index
 * @property {string} expected
 * @property {string} expected_from
 * @property {Record<string, {index: number[], value: string}[]>} fed
 * @property {{columns: string[], rows: (string|number)[][], then: string[]}|null} steps
 */

const DEADLINE_MS = 60_000;

/** @param {string} path @param {object} [body] */
async function ask(path, body) {
  const sent = body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(`/debug/${path}`, { ...sent, signal: AbortSignal.timeout(DEADLINE_MS) });
  if (response.ok) return response;
  const text = await response.text();
  let said = text;
  try {
    said = JSON.parse(text).error ?? text;
  } catch {
    // plain text is a sentence, too
  }
  throw new Error(said);
}

/** @returns {Promise<Catalogue>} */
export const catalogue = async () => (await ask("catalogue")).json();

/** @param {string} query @param {Facts} facts @param {Mask} mask @returns {Promise<Opened>} */
export const specimen = async (query, facts, mask) =>
  decode(await (await ask("specimen", { query, facts: pageFacts(facts), mask })).arrayBuffer());

/** The case as one HTML file. @param {{query: string, facts: Facts, mask: Mask, summary: string}} asked */
export const saved = async (asked) =>
  (await ask("save", { ...asked, facts: pageFacts(asked.facts), user_agent: asked.facts.userAgent })).text();

/** An element of an output, or of a value that the reference has on its way there.
 * @param {string} query @param {string} output @param {number[]} index @param {"output"|"value"} [of] @returns {Promise<ElementTold>} */
export const tellOf = async (query, output, index, of = "output") => (await ask("element", { query, output, index, of })).json();

/**
 * @typedef {{query: string, facts: Facts, mask: Mask, buffer?: string, index?: number[], run_pass?: string,
 *   workgroup?: number[], local_index?: number, words?: string}} Look  see InspectAsked in debugging/questions.py
 */
/** The plan of a debug run, or what its words mean. @param {Look} look @returns {Promise<any>} */
export const inspect = async (look) =>
  decode(await (await ask("inspect", { ...look, facts: pageFacts(look.facts) })).arrayBuffer()).header;

/** The digest of the operator's files as they are now. @param {string} operator @returns {Promise<string>} */
export const stampOf = async (operator) => (await (await ask(`stamp/${encodeURIComponent(operator)}`)).json()).stamp;

/** @param {Facts} facts */
function pageFacts({ adapter, features, languageFeatures, limits, reason }) {
  return { adapter, features, languageFeatures, limits, reason };
}
