// @ts-check
/** Which parts of a plan's buffers are read back, and under which names. Reads nothing. */

import { isDamaged } from "./readback.js";
import { guardWords } from "./uploads.js";

/** @import {Plan} from "./wire.js" */
/** @import {Lease} from "./buffers.js" */
/** @import {Job} from "./execute.js" */
/** @import {Region} from "./readback.js" */
/** @import {Timestamps} from "./timing.js" */

/** @typedef {Map<string, Uint8Array<ArrayBuffer>>} Views  mapped bytes by region name */

export const STAMPS = "time stamps";
/** @param {string} buffer */
export const dataOf = (buffer) => `data of ${buffer}`;
/** @param {string} buffer */
const guardOf = (buffer) => `guard of ${buffer}`;

/** @param {Plan} plan */
export const dispatched = (plan) => plan.passes.filter((pass) => !pass.workgroups.includes(0));

/**
 * Outputs, whatever else was asked for, and the guards of all that a pass may write.
 * @param {Job} job
 * @param {Lease} lease
 * @param {Timestamps} stamps
 * @returns {Region[]}
 */
export function regionsOf({ plan, read, keep }, lease, stamps) {
  const wanted = new Set([...read, ...(keep ? [] : plan.outputs.map((output) => output.buffer))]);
  const bindings = dispatched(plan).flatMap((pass) => pass.bindings);
  const written = new Set(bindings.filter(({ type }) => type === "storage").map(({ buffer }) => buffer));
  /** @type {Region[]} */
  const regions = [];
  for (const { name, bytes, guard_bytes } of plan.buffers) {
    const buffer = lease.get(name);
    if (wanted.has(name)) regions.push({ name: dataOf(name), buffer, from: 0, bytes });
    if (written.has(name)) regions.push({ name: guardOf(name), buffer, from: bytes, bytes: guard_bytes });
  }
  if (stamps.resolved) regions.push({ name: STAMPS, buffer: stamps.resolved, from: 0, bytes: stamps.bytes });
  return regions.filter((region) => region.bytes > 0);
}

/** Names of the buffers written beyond their end. @param {Plan} plan @param {Views} views @returns {string[]} */
export function damagedIn(plan, views) {
  const damaged = plan.buffers.filter((spec, index) => {
    const guard = views.get(guardOf(spec.name));
    return guard !== undefined && isDamaged(guard, guardWords(index, spec.guard_bytes));
  });
  return damaged.map((spec) => spec.name);
}
