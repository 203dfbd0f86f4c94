// @ts-check
/** A kernel's output that stays on the GPU, to be another kernel's input. Made by kernels only. */

import { elementsOf } from "./tensors.js";

/** @import {OutputSpec} from "./wire.js" */
/** @import {Device} from "./devices.js" */

export class GpuTensor {
  destroyed = false;
  byteOffset = 0;
  #device;

  /** @param {OutputSpec} spec @param {GPUBuffer} buffer  packed data, then guard words @param {Device} device */
  constructor(spec, buffer, device) {
    this.buffer = buffer;
    this.shape = [...spec.shape];
    this.dtype = spec.dtype;
    this.size = elementsOf(spec.shape);
    this.byteLength = spec.bytes;
    this.#device = device;
  }

  destroy() {
    this.destroyed = true;
    this.buffer.destroy();
  }

  /** The buffer, to be bound as it is. @param {string} role @param {Device} device  that the plan will run on */
  bufferOn(role, device) {
    if (this.destroyed) throw new Error(`${role}: this GPU tensor was destroyed`);
    if (device !== this.#device) {
      const why = this.#device.lost ? `its device was lost: ${this.#device.lost.message}` : "it is on another device";
      throw new Error(`${role}: this GPU tensor cannot be used here, ${why}`);
    }
    return this.buffer;
  }
}
