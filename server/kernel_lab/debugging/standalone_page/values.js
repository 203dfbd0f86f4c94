"use strict";

// --- Values: from packed 32-bit words (low bits first) to elements, and from their bits to what they mean.

const BITS = {
  int2: 2, uint2: 2, int4: 4, uint4: 4, float4e2m1: 4, int8: 8, uint8: 8, float8e4m3fn: 8, float8e4m3fnuz: 8,
  float8e5m2: 8, float8e5m2fnuz: 8, float8e8m0: 8, int16: 16, uint16: 16, float16: 16, bfloat16: 16, int32: 32,
  uint32: 32, float32: 32,
};

/** Bits of exponent and mantissa, the exponent's bias, and the codes that are no finite number:
 * "ieee": the greatest exponent is infinity and NaN; "fn": all ones is NaN; "fnuz": minus 0 is NaN; "none": neither. */
const FLOATS = {
  float4e2m1: [2, 1, 1, "none"], float8e4m3fn: [4, 3, 7, "fn"], float8e4m3fnuz: [4, 3, 8, "fnuz"],
  float8e5m2: [5, 2, 15, "ieee"], float8e5m2fnuz: [5, 2, 16, "fnuz"], float16: [5, 10, 15, "ieee"],
  bfloat16: [8, 7, 127, "ieee"], float32: [8, 23, 127, "ieee"],
};

const elementsOf = (shape) => shape.reduce((product, size) => product * size, 1);

/** The bits of element `index`. `packing`: "packed", 32 / bits elements to a word, or "word", one. */
function codeAt(words, index, dtype, packing) {
  const bits = BITS[dtype];
  const mask = bits === 32 ? 0xffffffff : 2 ** bits - 1;
  if (packing === "word") return (words[index] & mask) >>> 0;
  const at = index * bits;
  return ((words[Math.floor(at / 32)] >>> at % 32) & mask) >>> 0;
}

function valueOf(code, dtype) {
  if (dtype === "float8e8m0") return code === 0xff ? NaN : 2 ** (code - 127);
  const bits = BITS[dtype];
  if (!(dtype in FLOATS)) return dtype.startsWith("int") && code >= 2 ** (bits - 1) ? code - 2 ** bits : code;
  const [exponentBits, mantissaBits, bias, special] = FLOATS[dtype];
  const sign = code >= 2 ** (bits - 1) ? -1 : 1;
  const magnitude = code % 2 ** (bits - 1);
  const exponent = Math.floor(magnitude / 2 ** mantissaBits);
  const mantissa = magnitude % 2 ** mantissaBits;
  if (special === "fnuz" && sign < 0 && magnitude === 0) return NaN;
  if (special === "fn" && magnitude === 2 ** (bits - 1) - 1) return NaN;
  if (special === "ieee" && exponent === 2 ** exponentBits - 1) return mantissa ? NaN : sign * Infinity;
  if (exponent === 0) return sign * mantissa * 2 ** (1 - bias - mantissaBits);
  return sign * (1 + mantissa / 2 ** mantissaBits) * 2 ** (exponent - bias);
}

/** As a person reads it: floats in the fewest digits that tell them from their neighbours, the sign of 0 shown. */
function shown(code, dtype) {
  const value = valueOf(code, dtype);
  if (Object.is(value, -0)) return "-0";
  if (!(dtype in FLOATS) || !Number.isFinite(value)) return String(value);
  for (let digits = 1; digits < 10; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return String(short);
  }
  return String(value);
}

const hexOf = (code, dtype) => `0x${code.toString(16).padStart(Math.ceil(BITS[dtype] / 4), "0")}`;

/** A flat index as one in every axis. */
function indexOf(flat, shape) {
  const index = [];
  for (const size of [...shape].reverse()) {
    index.unshift(flat % size);
    flat = Math.floor(flat / size);
  }
  return index;
}

/** All that is wrong with an output. Words decide; elements say where. NaN equals NaN, whatever its payload. */
function compare(actual, expected, { dtype, shape, packing }, most = 24) {
  const found = { size: elementsOf(shape), count: 0, first: [], untidy: false };
  let sameWords = true;
  for (let word = 0; word < expected.length && sameWords; word++) sameWords = actual[word] === expected[word];
  if (sameWords) return found;
  for (let flat = 0; flat < found.size; flat++) {
    const is = codeAt(actual, flat, dtype, packing);
    const right = codeAt(expected, flat, dtype, packing);
    if (is === right) continue;
    if (Number.isNaN(valueOf(is, dtype)) && Number.isNaN(valueOf(right, dtype))) continue;
    if (found.count++ < most) found.first.push({ flat, is, right });
  }
  const used = (found.size * BITS[dtype]) % 32;
  found.untidy = packing === "packed" && used > 0 && actual[actual.length - 1] >>> used !== 0;
  return found;
}
