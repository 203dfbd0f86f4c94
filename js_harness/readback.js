// @ts-check
/**
 * From the GPU's buffers to bytes and digests. Regions of several buffers are copied side by side into mappable
 * buffers in the run's own submit, so that a run waits once.
 */

/** @import {Lease} from "./buffers.js" */

/** @typedef {{name: string, buffer: GPUBuffer, from: number, bytes: number}} Region */
/** @typedef {{region: Region, offset: number}} Placed */
/** @typedef {{buffer: GPUBuffer, bytes: number, placed: Placed[]}} Stage */

export class Readback {
  /** @type {Stage[]} */
  #stages = [];

  /**
   * Takes buffers and encodes the copies; belongs inside an error scope.
   * @param {GPUDevice} gpu
   * @param {GPUCommandEncoder} encoder
   * @param {Lease} lease
   * @param {Region[]} regions  bytes: a multiple of 4
   */
  constructor(gpu, encoder, lease, regions) {
    /** @type {{placed: Placed[], bytes: number}[]} */
    const groups = [];
    for (const region of regions) {
      let group = groups.at(-1);
      if (!group || group.bytes + region.bytes > gpu.limits.maxBufferSize) {
        groups.push((group = { placed: [], bytes: 0 }));
      }
      group.placed.push({ region, offset: group.bytes });
      group.bytes += Math.ceil(region.bytes / 8) * 8; // time stamps and mapped ranges want multiples of 8
    }
    for (const { placed, bytes } of groups) {
      const buffer = lease.take(bytes, GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST, "readback");
      for (const { region, offset } of placed) {
        encoder.copyBufferToBuffer(region.buffer, region.from, buffer, offset, region.bytes);
      }
      this.#stages.push({ buffer, bytes, placed });
    }
  }

  /** @returns {Promise<unknown>}  ends when everything is mapped */
  map() {
    return Promise.all(this.#stages.map(({ buffer, bytes }) => buffer.mapAsync(GPUMapMode.READ, 0, bytes)));
  }

  /** Views by name, in plan order; they die with `unmap`. @returns {Map<string, Uint8Array<ArrayBuffer>>} */
  views() {
    const views = new Map();
    for (const { buffer, bytes, placed } of this.#stages) {
      const range = buffer.getMappedRange(0, bytes);
      for (const { region, offset } of placed) views.set(region.name, new Uint8Array(range, offset, region.bytes));
    }
    return views;
  }

  unmap() {
    for (const { buffer } of this.#stages) buffer.unmap();
  }
}

/** SHA-256 as the server writes it. @param {Uint8Array<ArrayBuffer>} bytes @returns {Promise<string>} */
export async function digestOf(bytes) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** @param {Uint8Array} guard @param {Uint32Array} expected */
export function isDamaged(guard, expected) {
  const words = new DataView(guard.buffer, guard.byteOffset, guard.byteLength);
  return expected.some((word, index) => words.getUint32(4 * index, true) !== word);
}
