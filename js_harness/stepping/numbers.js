// @ts-check
/**
 * WGSL's arithmetic to the bit: operators, conversions and built-in functions on scalars and vectors. What WGSL leaves
 * open (an order of rounding, a NaN's fate, 2.5 ULP) is not computed but named.
 */

import { BOOL, F32, I32, LITERAL, U32, Unsupported, Value, decode, encode, scalarOf, typed, vectorOf } from "./types.js";

/** @import {Scalar, Type} from "./types.js" */

/** @typedef {(a: number, b: number) => number} Binary */

const LEAST = -(2 ** 31);

/** Modulo 2^32 where they leave the range: `encode` does that.
 * @type {Record<string, Binary>} */
const INTEGER = {
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": Math.imul,
  "/": (a, b) => (b === 0 ? a : Math.trunc(a / b)), // by zero: the dividend, says WGSL
  "%": (a, b) => (b === 0 || (a === LEAST && b === -1) ? 0 : a % b),
  "&": (a, b) => a & b,
  "|": (a, b) => a | b,
  "^": (a, b) => a ^ b,
};
/** @type {Record<string, Binary>}  in binary64, then rounded once more: for these the same as rounding once */
const FLOAT = { "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b };
/** @type {Record<string, Binary>} */
const LOGIC = { "&": (a, b) => a & b, "|": (a, b) => a | b };
/** @type {Record<string, Binary>} */
const LITERALS = { ...FLOAT, "/": INTEGER["/"], "%": INTEGER["%"], "<<": (a, b) => a * 2 ** b };
/** @type {Record<string, (a: number, b: number) => boolean>} */
const COMPARISONS = { "==": (a, b) => a === b, "!=": (a, b) => a !== b, "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b };
/** @type {Record<string, Record<string, Binary>>} */
const OPERATORS = { u32: INTEGER, i32: INTEGER, f32: FLOAT, bool: LOGIC, literal: LITERALS };

/** @param {Scalar} of @param {number[]} numbers @param {boolean} vector */
function made(of, numbers, vector) {
  if (!vector) return Value.of(of, numbers[0]);
  return new Value(vectorOf(of, numbers.length), Uint32Array.from(numbers, (number) => encode(number, of.name)));
}

/** Literals made what the others are, scalars as wide as the vectors beside them. @param {Value[]} values */
function aligned(values) {
  const typedOne = values.find(({ type }) => type !== LITERAL && scalarOf(type) !== BOOL) ?? values.find(({ type }) => type !== LITERAL);
  const of = typedOne ? scalarOf(typedOne.type) : LITERAL;
  const width = Math.max(...values.map(({ type }) => (type.kind === "vector" ? type.count : 1)));
  const vector = values.some(({ type }) => type.kind === "vector");
  const columns = values.map((value) => {
    const { numbers } = typed(value, of);
    return numbers.length === width ? numbers : Array(width).fill(numbers[0]);
  });
  return { of, width, vector, columns };
}

/** @param {string} operator @param {Value} left @param {Value} right @returns {Value} */
export function binary(operator, left, right) {
  if (operator === "<<" || operator === ">>") return shifted(operator, left, right);
  if (left.type === right.type && left.type.kind === "scalar" && left.type !== LITERAL) return ofScalars(operator, left, right, left.type);
  const { of, width, vector, columns } = aligned([left, right]);
  const each = (/** @type {(a: number, b: number) => any} */ act) => Array.from({ length: width }, (_, index) => act(columns[0][index], columns[1][index]));
  const compare = COMPARISONS[operator];
  if (compare) return made(BOOL, each(compare).map(Number), vector);
  const numbers = each(operatorOf(operator, of));
  if (of === LITERAL && !Number.isSafeInteger(numbers[0])) throw new Unsupported("a literal expression beyond 2^53");
  return made(of, numbers, vector);
}

/** The same of two scalars of one type, as most are, in a tenth of the time.
 * @param {string} operator @param {Value} left @param {Value} right @param {Scalar} of */
function ofScalars(operator, left, right, of) {
  const [a, b] = [decode(left.words[0], of.name), decode(right.words[0], of.name)];
  const compare = COMPARISONS[operator];
  if (compare) return Value.of(BOOL, Number(compare(a, b)));
  return Value.of(of, operatorOf(operator, of)(a, b));
}

/** @param {string} operator @param {Scalar} of */
function operatorOf(operator, of) {
  const act = OPERATORS[of.name][operator];
  if (!act) throw new Unsupported(`${of.name} ${operator}${of === F32 ? ", whose last bits WGSL leaves open" : ""}`);
  return act;
}

/** By the count modulo 32. @param {string} operator @param {Value} left @param {Value} right */
function shifted(operator, left, right) {
  const counts = typed(right, U32).numbers;
  if (left.type === LITERAL && right.type !== LITERAL) left = Value.of(I32, left.number);
  const of = scalarOf(left.type);
  if (of === LITERAL) return binary("*", left, Value.of(LITERAL, operator === "<<" ? 2 ** counts[0] : NaN));
  const numbers = left.numbers.map((number, index) => {
    const count = counts[counts.length === 1 ? 0 : index] & 31;
    if (operator === "<<") return number << count;
    return of === U32 ? number >>> count : number >> count;
  });
  return made(of, numbers, left.type.kind === "vector");
}

/** @param {string} operator @param {Value} value @returns {Value} */
export function unary(operator, value) {
  const of = scalarOf(value.type);
  if (operator === "-" && of === LITERAL) return Value.of(LITERAL, -value.number);
  if (operator === "-" && of === F32) return new Value(value.type, value.words.map((word) => (word ^ 0x80000000) >>> 0));
  if (operator === "-" && of === I32) return new Value(value.type, value.words.map((word) => -word >>> 0));
  if (operator === "~" && (of === I32 || of === U32)) return new Value(value.type, value.words.map((word) => ~word >>> 0));
  if (operator === "!" && of === BOOL) return new Value(value.type, value.words.map((word) => Number(!word)));
  throw new Unsupported(`${operator} of ${value.type.name}`);
}

/** A value constructor of one scalar: i32(x), f32(x) … @param {Value} value @param {Scalar} to @returns {Value} */
export function converted(value, to) {
  const from = scalarOf(value.type);
  if (from === to || from === LITERAL) return typed(value, to);
  const [number] = value.numbers;
  if (to === BOOL) return Value.of(BOOL, Number(number !== 0));
  if (from === F32) return Value.of(to, saturated(number, to));
  if (to === F32 && Math.fround(number) !== number) throw new Unsupported(`f32 of an integer that it cannot hold (${number}): WGSL leaves the direction of rounding open`);
  return Value.of(to, number);
}

/** Towards zero, and to the nearest end of the range. @param {number} number @param {Scalar} to */
function saturated(number, to) {
  if (Number.isNaN(number)) throw new Unsupported(`${to.name} of NaN`);
  const [least, most] = to === U32 ? [0, 2 ** 32 - 1] : [LEAST, 2 ** 31 - 1];
  if (number < least || number > most) throw new Unsupported(`${to.name} of ${number}, beyond its range`);
  return Math.trunc(number);
}

/** @param {boolean} least @param {Scalar} of @returns {Binary} */
const extreme = (least, of) => (a, b) => {
  const open = of === F32 && (Number.isNaN(a) || Number.isNaN(b) || (a === 0 && b === 0 && !Object.is(a, b)));
  if (open) throw new Unsupported(`${least ? "min" : "max"} of ${Number.isNaN(a) || Number.isNaN(b) ? "NaN" : "0 and -0"}, which WGSL leaves open`);
  return a < b === least ? a : b;
};

/** @param {number} number */
function halfToEven(number) {
  const low = Math.floor(number);
  const rest = number - low;
  const rounded = rest > 0.5 || (rest === 0.5 && low % 2 !== 0) ? low + 1 : low;
  return rounded === 0 && (number < 0 || Object.is(number, -0)) ? -0 : rounded;
}

/** One result a component. @type {Record<string, (of: Scalar, ...given: number[]) => number>} */
const COMPONENTS = {
  min: (of, a, b) => extreme(true, of)(a, b),
  max: (of, a, b) => extreme(false, of)(a, b),
  clamp: (of, a, low, high) => extreme(true, of)(extreme(false, of)(a, low), high),
  countOneBits: (_, a) => (a >>> 0).toString(2).replaceAll("0", "").length,
  countLeadingZeros: (_, a) => Math.clz32(a),
  countTrailingZeros: (_, a) => (a === 0 ? 32 : 31 - Math.clz32(a & -a)),
  firstTrailingBit: (_, a) => (a === 0 ? -1 : 31 - Math.clz32(a & -a)),
  firstLeadingBit: (of, a) => 31 - Math.clz32(of === I32 && a < 0 ? ~a : a),
  reverseBits: (_, a) => Number.parseInt((a >>> 0).toString(2).padStart(32, "0").split("").reverse().join(""), 2),
};
const INTEGERS_ONLY = new Set(Object.keys(COMPONENTS).slice(3));
/** @type {Record<string, (a: number) => number>} */
const ROUNDINGS = { round: halfToEven, floor: Math.floor, ceil: Math.ceil, trunc: Math.trunc };

/** @param {number} word @param {number} index @param {boolean} signed */
const byteOf = (word, index, signed) => (signed ? (word << (24 - 8 * index)) >> 24 : (word >>> (8 * index)) & 255);
const FOUR = [0, 1, 2, 3];

/** @param {boolean} signed @returns {(values: Value[]) => Value} */
const dot4 = (signed) => ([a, b]) =>
  Value.of(signed ? I32 : U32, FOUR.reduce((sum, index) => sum + byteOf(a.words[0], index, signed) * byteOf(b.words[0], index, signed), 0));

/** @param {boolean} insert @returns {(values: Value[]) => Value} */
const bitField = (insert) => (values) => {
  const [first, second] = values;
  const [offset, count] = values.slice(insert ? 2 : 1).map((value) => typed(value, U32).numbers[0]);
  const [from, width] = [Math.min(offset, 32), Math.min(count, 32 - Math.min(offset, 32))];
  const of = scalarOf(first.type);
  const mask = width === 32 ? 0xffffffff : (2 ** width - 1) >>> 0;
  const words = first.words.map((word, index) => {
    if (width === 0) return insert ? word : 0;
    if (insert) return ((word & ~(mask << from)) | ((second.words[index] & mask) << from)) >>> 0;
    const top = word << (32 - from - width);
    return (of === I32 ? top >> (32 - width) : top >>> (32 - width)) >>> 0;
  });
  return new Value(first.type, words);
};

/** @param {number} half  the bits of a f16 */
function halfOf(half) {
  const [power, fraction] = [(half >> 10) & 31, half & 1023];
  if (power === 31) throw new Unsupported("unpack2x16float of an infinity or NaN");
  const size = power === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (power - 25);
  return half >> 15 ? -size : size;
}

/** @type {Record<string, (values: Value[]) => Value>} */
const WHOLE = {
  any: ([a]) => Value.of(BOOL, Number(a.words.some((word) => word !== 0))),
  all: ([a]) => Value.of(BOOL, Number(a.words.every((word) => word !== 0))),
  dot4U8Packed: dot4(false),
  dot4I8Packed: dot4(true),
  extractBits: bitField(false),
  insertBits: bitField(true),
  pack4xU8: ([a]) => Value.of(U32, FOUR.reduce((word, index) => word | ((a.words[index] & 255) << (8 * index)), 0)),
  pack4xI8: (given) => WHOLE.pack4xU8(given),
  unpack4xU8: ([a]) => made(U32, FOUR.map((index) => byteOf(a.words[0], index, false)), true),
  unpack4xI8: ([a]) => made(I32, FOUR.map((index) => byteOf(a.words[0], index, true)), true),
  unpack2x16float: ([a]) => made(F32, [halfOf(a.words[0] & 0xffff), halfOf(a.words[0] >>> 16)], true),
  abs: ([a]) => {
    const of = scalarOf(a.type);
    if (of === F32) return new Value(a.type, a.words.map((word) => word & 0x7fffffff));
    return new Value(a.type, a.words.map((word) => (of === I32 && word >> 31 ? -word >>> 0 : word)));
  },
  select: ([no, yes, condition]) => {
    const type = no.type === LITERAL ? yes.type : no.type;
    const [first, second] = [typed(no, type), typed(yes, type)];
    const chosen = (/** @type {number} */ index) => condition.words[condition.words.length === 1 ? 0 : index] !== 0;
    if (type === LITERAL) return chosen(0) ? second : first;
    return new Value(type, first.words.map((word, index) => (chosen(index) ? second.words[index] : word)));
  },
};

/** Whether `called` knows it, for some types at least. @param {string} name */
export const isKnown = (name) => [WHOLE, COMPONENTS, ROUNDINGS].some((table) => Object.hasOwn(table, name));

/** A built-in function of values. @param {string} name @param {Value[]} values @returns {Value} */
export function called(name, values) {
  if (Object.hasOwn(WHOLE, name)) return WHOLE[name](values.map((value) => (value.type === LITERAL && name !== "select" ? Value.of(I32, value.number) : value)));
  const { of, width, vector, columns } = aligned(values);
  const component = Object.hasOwn(COMPONENTS, name) ? COMPONENTS[name] : null;
  const rounding = Object.hasOwn(ROUNDINGS, name) ? ROUNDINGS[name] : null;
  if (rounding && of === F32) return made(of, columns[0].map(rounding), vector);
  if (!component || of === BOOL || (of === F32 && INTEGERS_ONLY.has(name))) throw new Unsupported(`${name}()${of === F32 ? " of f32" : ""}`);
  return made(of, Array.from({ length: width }, (_, index) => component(of, ...columns.map((column) => column[index]))), vector);
}

/** What an atomic function leaves in memory. @type {Record<string, Binary>} */
export const ATOMIC = {
  atomicStore: (_, b) => b,
  atomicExchange: (_, b) => b,
  atomicAdd: INTEGER["+"],
  atomicSub: INTEGER["-"],
  atomicMax: Math.max,
  atomicMin: Math.min,
  atomicAnd: INTEGER["&"],
  atomicOr: INTEGER["|"],
  atomicXor: INTEGER["^"],
};

/** @param {Value} value @param {Type} to */
export function bitcast(value, to) {
  if (value.words.length !== to.words || to.kind === "struct") throw new Unsupported(`bitcast from ${value.type.name} to ${to.name}`);
  const source = typed(value, I32);
  return new Value(to, source.words.slice());
}
