// @ts-check
/** Where a run's time goes: wall clock by stage, and the GPU's own time stamps by pass. */

/** @import {Timings} from "./wire.js" */
/** @import {Lease} from "./buffers.js" */

/** @returns {Timings} */
export function noTime() {
  return { compile_ms: 0, upload_ms: 0, gpu_ms: 0, readback_ms: 0, digest_ms: 0, total_ms: 0, pass_ns: null };
}

/** Splits the time since its creation: each `lap` names what has just ended. */
export class Clock {
  #start = performance.now();
  #lap = this.#start;

  /** @param {Timings} timings */
  constructor(timings) {
    this.timings = timings;
  }

  /** @param {"compile_ms"|"upload_ms"|"gpu_ms"|"readback_ms"|"digest_ms"} stage */
  lap(stage) {
    const now = performance.now();
    this.timings[stage] += now - this.#lap;
    this.#lap = now;
  }

  stop() {
    this.timings.total_ms = performance.now() - this.#start;
  }
}

/** Two time stamps for each pass of one run; does nothing on a device without the feature. */
export class Timestamps {
  /** @type {GPUQuerySet|null} */
  #queries = null;
  /** @type {GPUBuffer|null} */
  resolved = null;

  /** @param {GPUDevice} gpu @param {number} passes @param {boolean} wanted */
  constructor(gpu, passes, wanted) {
    this.passes = passes;
    if (!wanted || passes === 0 || !gpu.features.has("timestamp-query")) return;
    this.#queries = gpu.createQuerySet({ type: "timestamp", count: 2 * passes });
  }

  get bytes() {
    return 16 * this.passes;
  }

  /** @param {number} pass @returns {GPUComputePassTimestampWrites|undefined} */
  writes(pass) {
    if (!this.#queries) return undefined;
    return { querySet: this.#queries, beginningOfPassWriteIndex: 2 * pass, endOfPassWriteIndex: 2 * pass + 1 };
  }

  /** @param {GPUCommandEncoder} encoder @param {Lease} lease */
  resolve(encoder, lease) {
    if (!this.#queries) return;
    const usage = GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC;
    this.resolved = lease.take(this.bytes, usage, "time stamps");
    encoder.resolveQuerySet(this.#queries, 0, 2 * this.passes, this.resolved, 0);
  }

  /** Nanoseconds by pass. @param {Uint8Array} bytes  as resolved */
  read(bytes) {
    const stamps = new BigInt64Array(bytes.slice().buffer);
    return Array.from({ length: this.passes }, (_, pass) => Number(stamps[2 * pass + 1] - stamps[2 * pass]));
  }

  destroy() {
    this.#queries?.destroy();
  }
}
