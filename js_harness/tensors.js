// @ts-check
/**
 * ONNX tensors as typed arrays on one side and as packed bytes (flat, low bits first) on the other. Types that
 * JavaScript has no numbers for travel raw: one code an element in Uint8Array (float8) or Uint16Array (bfloat16,
 * float16), types below 8 bits packed in Uint8Array, low bits first.
 */

/** @typedef {Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Uint32Array | Float32Array} Numbers
 *   or Float16Array, where the browser has it */
/** @typedef {{bits: number, array: new (buffer: ArrayBuffer) => Numbers, magnitude?: number, greatest?: number}} Dtype
 *   of floating types stored raw: the bits that are not the sign, and the greatest code that is no NaN */

/** @type {Record<string, Dtype>} */
export const DTYPES = {
  int2: { bits: 2, array: Uint8Array },
  uint2: { bits: 2, array: Uint8Array },
  int4: { bits: 4, array: Uint8Array },
  uint4: { bits: 4, array: Uint8Array },
  float4e2m1: { bits: 4, array: Uint8Array },
  int8: { bits: 8, array: Int8Array },
  uint8: { bits: 8, array: Uint8Array },
  int16: { bits: 16, array: Int16Array },
  uint16: { bits: 16, array: Uint16Array },
  int32: { bits: 32, array: Int32Array },
  uint32: { bits: 32, array: Uint32Array },
  float8e4m3fn: { bits: 8, array: Uint8Array, magnitude: 0x7f, greatest: 0x7e },
  float8e4m3fnuz: { bits: 8, array: Uint8Array },
  float8e5m2: { bits: 8, array: Uint8Array, magnitude: 0x7f, greatest: 0x7c },
  float8e5m2fnuz: { bits: 8, array: Uint8Array },
  float8e8m0: { bits: 8, array: Uint8Array },
  bfloat16: { bits: 16, array: Uint16Array, magnitude: 0x7fff, greatest: 0x7f80 },
  float16: { bits: 16, array: Uint16Array, magnitude: 0x7fff, greatest: 0x7c00 },
  float32: { bits: 32, array: Float32Array },
};

/** By the array's own name, for Float16Array is newer than some browsers. @type {Record<string, string>} */
const DTYPE_OF_ARRAY = {
  Int8Array: "int8",
  Uint8Array: "uint8",
  Uint8ClampedArray: "uint8",
  Int16Array: "int16",
  Uint16Array: "uint16",
  Int32Array: "int32",
  Uint32Array: "uint32",
  Float16Array: "float16",
  Float32Array: "float32",
};

/** @param {number[]} shape */
export const elementsOf = (shape) => shape.reduce((product, size) => product * size, 1);

/** @param {string} dtype @param {number[]} shape */
export const byteLengthOf = (dtype, shape) => Math.ceil((elementsOf(shape) * DTYPES[dtype].bits) / 8);

/**
 * @param {string} name  the operand's, for errors
 * @param {{data: ArrayBufferView, shape: number[], dtype?: string}} tensor
 * @returns {string}  the dtype given, or the one the array stands for
 */
export function dtypeOf(name, { data, shape, dtype }) {
  if (!ArrayBuffer.isView(data) || !Array.isArray(shape)) {
    throw new Error(`${name}: expected {data: typed array, shape}`);
  }
  const arrayName = data.constructor.name;
  const found = dtype ?? DTYPE_OF_ARRAY[arrayName];
  const allowed = Object.keys(dtype === undefined ? DTYPE_OF_ARRAY : DTYPES).join(", ");
  if (found === undefined) throw new Error(`${name}: no dtype is known for ${arrayName} (known: ${allowed})`);
  if (!Object.hasOwn(DTYPES, found)) throw new Error(`${name}: unknown dtype ${found} (known: ${allowed})`);
  const fits = DTYPE_OF_ARRAY[arrayName] === found || arrayName === DTYPES[found].array.name;
  if (!fits) throw new Error(`${name}: ${found} travels in ${DTYPES[found].array.name}, not ${arrayName}`);
  if (!shape.every((size) => Number.isInteger(size) && size >= 0)) {
    throw new Error(`${name}: shape [${shape}] has a size that is no whole number`);
  }
  const bytes = byteLengthOf(found, shape);
  if (data.byteLength !== bytes) {
    throw new Error(`${name}: ${found}[${shape}] takes ${bytes} bytes, but its data has ${data.byteLength}`);
  }
  return found;
}

/** Packed bytes, unused bits 0. @param {ArrayBufferView} data @param {string} dtype @param {number[]} shape */
export function pack(data, dtype, shape) {
  const bytes = new Uint8Array(data.byteLength);
  bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  const usedBits = (elementsOf(shape) * DTYPES[dtype].bits) % 8;
  if (usedBits > 0) bytes[bytes.length - 1] &= (1 << usedBits) - 1;
  return bytes;
}

/** @param {Uint8Array} bytes  packed, maybe longer than the tensor @param {string} dtype @param {number[]} shape */
export function unpack(bytes, dtype, shape) {
  const buffer = bytes.slice(0, byteLengthOf(dtype, shape)).buffer;
  const half = /** @type {any} */ (globalThis).Float16Array;
  const array = dtype === "float16" && half ? half : DTYPES[dtype].array;
  return /** @type {Numbers} */ (new array(/** @type {ArrayBuffer} */ (buffer)));
}

/**
 * Whether every element keeps the rule: "zero" (also -0), or "not_zero_or_nan". Types below 8 bits: "zero" only.
 * @param {"zero"|"not_zero_or_nan"} rule
 * @param {ArrayBufferView} data
 * @param {string} dtype
 * @param {number[]} shape
 */
export function keepsRule(rule, data, dtype, shape) {
  const { bits, array, magnitude, greatest = Infinity } = DTYPES[dtype];
  const packed = pack(data, dtype, shape);
  if (bits < 8) return rule !== "zero" || packed.every((byte) => byte === 0);
  const codes = new array(packed.buffer);
  if (dtype === "float8e8m0") return codes.every((code) => (rule === "zero" ? false : code !== 0xff));
  const nan = dtype.endsWith("fnuz") ? 0x80 : -1;
  const values = Array.from(codes, (code) => (magnitude === undefined ? code : code & magnitude));
  if (rule === "zero") return values.every((value) => value === 0);
  return values.every((value) => value !== 0 && !Number.isNaN(value) && value !== nan && !(value > greatest));
}
