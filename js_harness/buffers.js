// @ts-check
/**
 * One device's buffers, used again from run to run. A buffer may be larger than what it is bound with; its contents
 * are whatever the last run left. Nothing here writes to a buffer, but for the poison that others are filled from.
 */

const KEPT_BYTES = 256 * 2 ** 20; // beyond this the least recently used are destroyed
const ROUNDED_BYTES = 2 ** 20; // up to this, sizes are rounded up so that they fit more runs
const SMALLEST_BYTES = 256;
export const POISON_BYTES = 4 * 2 ** 20;

/** @param {number} bytes */
function roomFor(bytes) {
  if (bytes > ROUNDED_BYTES) return bytes;
  let room = SMALLEST_BYTES;
  while (room < bytes) room *= 2;
  return room;
}

export class Buffers {
  /** @type {GPUBuffer[]}  free, least recently used first */
  #free = [];
  #freeBytes = 0;
  /** @type {Map<number, GPUBuffer>} */
  #poison = new Map();

  /** @param {GPUDevice} gpu */
  constructor(gpu) {
    this.gpu = gpu;
  }

  /** A buffer with room for `bytes`. @param {number} bytes @param {number} usage @param {string} label */
  take(bytes, usage, label) {
    const size = roomFor(bytes);
    const index = this.#free.findLastIndex((buffer) => buffer.size === size && buffer.usage === usage);
    if (index < 0) return this.gpu.createBuffer({ label, size, usage });
    const [buffer] = this.#free.splice(index, 1);
    this.#freeBytes -= buffer.size;
    buffer.label = label;
    return buffer;
  }

  /** A new buffer that is already mapped. @param {number} bytes @param {number} usage @param {string} label */
  takeMapped(bytes, usage, label) {
    return this.gpu.createBuffer({ label, size: roomFor(bytes), usage, mappedAtCreation: true });
  }

  /** @param {GPUBuffer} buffer  unmapped, in no unsubmitted work */
  give(buffer) {
    this.#free.push(buffer);
    this.#freeBytes += buffer.size;
    while (this.#freeBytes > KEPT_BYTES) {
      const oldest = /** @type {GPUBuffer} */ (this.#free.shift());
      this.#freeBytes -= oldest.size;
      oldest.destroy();
    }
  }

  /** POISON_BYTES of one word, to copy from: faster than sending the words for each run. @param {number} word */
  poison(word) {
    let buffer = this.#poison.get(word);
    if (!buffer) {
      const label = `poison ${word.toString(16)}`;
      const usage = GPUBufferUsage.COPY_SRC;
      buffer = this.gpu.createBuffer({ label, size: POISON_BYTES, usage, mappedAtCreation: true });
      new Uint32Array(buffer.getMappedRange()).fill(word);
      buffer.unmap();
      this.#poison.set(word, buffer);
    }
    return buffer;
  }
}

/** The buffers of one run: found by name, given back together. */
export class Lease {
  /** @type {Map<string, GPUBuffer>} */
  #byName = new Map();
  /** @type {GPUBuffer[]} */
  #taken = [];
  /** @type {GPUBuffer[]}  made mapped, which no pooled buffer can be again: used once */
  #once = [];

  /** @param {Buffers} buffers */
  constructor(buffers) {
    this.buffers = buffers;
  }

  /** @param {number} bytes @param {number} usage @param {string} label */
  take(bytes, usage, label) {
    const buffer = this.buffers.take(bytes, usage, label);
    this.#taken.push(buffer);
    return buffer;
  }

  /** @param {number} bytes @param {number} usage @param {string} label */
  takeMapped(bytes, usage, label) {
    const buffer = this.buffers.takeMapped(bytes, usage, label);
    this.#once.push(buffer);
    return buffer;
  }

  /** Names a buffer for the run. @param {string} name @param {GPUBuffer} buffer */
  lend(name, buffer) {
    this.#byName.set(name, buffer);
  }

  /** @param {string} name */
  get(name) {
    const buffer = this.#byName.get(name);
    if (!buffer) throw new Error(`the plan has no buffer "${name}" (it has: ${[...this.#byName.keys()].join(", ")})`);
    return buffer;
  }

  /** Gives back what was taken, except what outlives the run. @param {Set<GPUBuffer>} kept */
  end(kept) {
    for (const buffer of this.#taken) if (!kept.has(buffer)) this.buffers.give(buffer);
    for (const buffer of this.#once) buffer.destroy();
    this.#taken = [];
    this.#once = [];
  }
}
