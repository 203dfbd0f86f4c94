// @ts-check
/** Elements of packed buffers as numbers and as text, for every dtype that kernels know. */

import { DTYPES, elementsOf } from "../tensors.js";

/** @import {Shown} from "./tensor_view.js" */

/** @typedef {{name: string, dtype: string, shape: number[], packing: "packed"|"word"}} Layout */

/** Where no element of the reference's lies in an intermediate: padding, and padding that is not compared. */
const UNREAD = -2;

/** Exponent bits, mantissa bits and bias of the small floats; `fnuz`: its one NaN is -0. */
/** @type {Record<string, {exponent: number, mantissa: number, bias: number, kind: "ieee"|"fn"|"fnuz"|"finite"}>} */
const FLOATS = {
  float16: { exponent: 5, mantissa: 10, bias: 15, kind: "ieee" },
  bfloat16: { exponent: 8, mantissa: 7, bias: 127, kind: "ieee" },
  float8e4m3fn: { exponent: 4, mantissa: 3, bias: 7, kind: "fn" },
  float8e4m3fnuz: { exponent: 4, mantissa: 3, bias: 8, kind: "fnuz" },
  float8e5m2: { exponent: 5, mantissa: 2, bias: 15, kind: "ieee" },
  float8e5m2fnuz: { exponent: 5, mantissa: 2, bias: 16, kind: "fnuz" },
  float4e2m1: { exponent: 2, mantissa: 1, bias: 1, kind: "finite" },
};

/** How many elements the layout has. @param {Layout} layout */
export const countOf = ({ shape }) => elementsOf(shape);

/** The bit pattern of one element, as an unsigned number. @param {Uint8Array} bytes @param {Layout} layout @param {number} flat */
export function codeOf(bytes, { dtype, packing }, flat) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const { bits } = DTYPES[dtype];
  if (packing === "word") return bits === 32 ? view.getUint32(4 * flat, true) : view.getUint32(4 * flat, true) & ((1 << bits) - 1);
  if (bits === 32) return view.getUint32(4 * flat, true);
  if (bits === 16) return view.getUint16(2 * flat, true);
  if (bits === 8) return view.getUint8(flat);
  const bit = flat * bits;
  return (view.getUint8(bit >> 3) >> (bit & 7)) & ((1 << bits) - 1);
}

const word = new DataView(new ArrayBuffer(4));

/** @param {number} code @param {string} dtype */
export function valueOf(code, dtype) {
  if (dtype === "float32") {
    word.setUint32(0, code);
    return word.getFloat32(0);
  }
  if (dtype === "float8e8m0") return code === 0xff ? NaN : 2 ** (code - 127);
  const float = FLOATS[dtype];
  const { bits } = DTYPES[dtype];
  if (!float) return dtype.startsWith("int") && code >= 2 ** (bits - 1) ? code - 2 ** bits : code;
  const { exponent, mantissa, bias, kind } = float;
  const negative = code >> (bits - 1) !== 0;
  const power = (code >> mantissa) & ((1 << exponent) - 1);
  const fraction = code & ((1 << mantissa) - 1);
  const top = power === (1 << exponent) - 1;
  if (kind === "fnuz" && negative && power === 0 && fraction === 0) return NaN;
  if (kind === "ieee" && top) return fraction ? NaN : negative ? -Infinity : Infinity;
  if (kind === "fn" && top && fraction === (1 << mantissa) - 1) return NaN;
  const size = power === 0 ? fraction * 2 ** (1 - bias - mantissa) : (1 + fraction / 2 ** mantissa) * 2 ** (power - bias);
  return negative ? -size : size;
}

/** As people read it: shortest digits that lead back to it. @param {number} code @param {string} dtype */
export function textOf(code, dtype) {
  const value = valueOf(code, dtype);
  if (Object.is(value, -0)) return "-0";
  if (dtype === "float32" && Number.isFinite(value)) {
    for (let digits = 1; digits <= 9; digits += 1) {
      const text = value.toPrecision(digits);
      if (Math.fround(Number(text)) === value) return String(Number(text));
    }
  }
  return String(value);
}

/** @param {number} code @param {string} dtype */
export const hexOf = (code, dtype) => `0x${code.toString(16).padStart(Math.ceil(DTYPES[dtype].bits / 4), "0")}`;

/** @param {number[]} shape @param {number} flat @returns {number[]} */
export function indexOf(shape, flat) {
  const index = [];
  let rest = flat;
  for (let axis = shape.length - 1; axis >= 0; axis -= 1) {
    index.unshift(rest % shape[axis]);
    rest = Math.floor(rest / shape[axis]);
  }
  return index;
}

/** @param {number[]} shape @param {number[]} index */
export const flatOf = (shape, index) => index.reduce((flat, at, axis) => flat * shape[axis] + at, 0);

/** @param {Uint8Array} one @param {Uint8Array} other */
export const sameBytes = (one, other) => one.length === other.length && one.every((byte, at) => byte === other[at]);

/** Whether an element is padding that no pass makes use of. @param {Shown} shown @param {number} flat */
export const isUnread = ({ held }, flat) => held !== null && held.places[flat] === UNREAD;

/** Whether an element is not what it should be; NaN is NaN whatever its bits. @param {Shown} shown @param {number} flat */
export function differsAt(shown, flat) {
  const { layout, actual, expected } = shown;
  if (!actual || !expected || isUnread(shown, flat)) return false;
  const [one, other] = [codeOf(actual, layout, flat), codeOf(expected, layout, flat)];
  return one !== other && !(Number.isNaN(valueOf(one, layout.dtype)) && Number.isNaN(valueOf(other, layout.dtype)));
}

/** The elements that are not what they should be, in order. @param {Shown} shown @returns {number[]} */
export function differing(shown) {
  const { layout, actual, expected } = shown;
  if (!actual || !expected || sameBytes(actual, expected)) return [];
  const found = [];
  const count = countOf(layout);
  for (let flat = 0; flat < count; flat += 1) if (differsAt(shown, flat)) found.push(flat);
  return found;
}
