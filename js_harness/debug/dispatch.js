// @ts-check
/** One pass as it is given to the GPU and what the GPU makes of it, for stepping through one of its invocations. */

import { guardWords } from "../uploads.js";

/** @import {Session} from "./session.js" */
/** @import {Shader} from "../stepping/stepper.js" */

/** @typedef {{shader: Shader, gpu: (buffer: string) => Uint32Array|null}} Dispatch  gpu: the words after the pass */

/** Runs the passes before it, and those with it, once more: what they leave is what it finds, and what it makes.
 * @param {Session} session @param {number} index  of the pass @returns {Promise<Dispatch>} */
export async function dispatchOf(session, index) {
  const { plan } = session.specimen;
  const pass = plan.passes[index];
  const [before, after] = [await session.after(index), await session.after(index + 1)];
  const known = new Map(session.buffers().map(({ layout, actual }) => [layout.name, actual]));
  const bindings = pass.bindings.map(({ binding, buffer, type }) => {
    const at = plan.buffers.findIndex(({ name }) => name === buffer);
    const { bytes, guard_bytes } = plan.buffers[at];
    const words = new Uint32Array((bytes + guard_bytes) / 4); // the binding includes the guards
    const held = before.get(buffer) ?? known.get(buffer);
    if (held) new Uint8Array(words.buffer).set(held.subarray(0, bytes));
    words.set(guardWords(at, guard_bytes), bytes / 4);
    return { binding, buffer, words, stores: type === "storage" };
  });
  const shader = { text: session.textOf(index), entry: pass.entry_point ?? "main", workgroups: pass.workgroups, bindings };
  const gpu = (/** @type {string} */ buffer) => {
    const bytes = after.get(buffer);
    return bytes ? new Uint32Array(bytes.slice().buffer) : null;
  };
  return { shader, gpu };
}
