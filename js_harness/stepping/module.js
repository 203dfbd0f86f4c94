// @ts-check
/**
 * A WGSL text as wgsl_reflect's parser reads it, made fit to be run: the one place that loads the library. Where its
 * parser or its scopes differ from WGSL the text or the tree is changed here, or the construct is named.
 */

import { Unsupported } from "./types.js";

/** @import {Node} from "../vendor/wgsl_reflect.module.js" */

/** @typedef {typeof import("../vendor/wgsl_reflect.module.js")} Library */

/** Loaded when somebody steps, not before. @returns {Promise<Library>} */
export const library = () => import("../vendor/wgsl_reflect.module.js");

const TOKENS = /(\/\/[^\n]*|\/\*[\s\S]*?\*\/)|(0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?\d+[fh]?)|(0[xX][0-9a-fA-F]+[iu]?|\d*\.\d+(?:[eE][+-]?\d+)?[fh]?|\d+\.?\d*(?:[eE][+-]?\d+)?[iufh]?)|([A-Za-z_]\w*)|(\s+|.)/gs;
/** Words that the library's scanner takes for its own and WGSL leaves to programs. */
const TAKEN = new Set(["block", "function", "immediate", "private", "read", "read_write", "static_assert", "storage", "type", "uniform", "workgroup", "write"]);
const MARK = "__";

/** The text for the library's scanner: no comments, no names that it keeps, minus signs apart from numbers. Lines stay
 * where they are. @param {string} text */
export function prepared(text) {
  let [made, line, before] = ["", 1, ""];
  for (const [token, comment, hexFloat, number, name] of text.matchAll(TOKENS)) {
    if (hexFloat) throw new Unsupported(`the hexadecimal float ${token}`, line);
    if (comment) made += token.replace(/[^\n]/g, " ");
    else if (number) made += before.endsWith("-") ? ` ${token}` : token;
    else if (name && TAKEN.has(name) && !/\b(var|ptr)<(\w+,)?$/.test(before)) made += name + MARK;
    else made += token;
    line += token.split("\n").length - 1;
    if (!comment && token.trim()) before = before.slice(-40) + token;
    else if (!comment && /\w$/.test(before)) before += " ";
  }
  return made;
}

/** The tree of a text, names made unique, lines those on which statements begin.
 * @param {Library} lib @param {string} text @returns {{nodes: Node[], sizes: {arrayType: Node, countNode: Node}[]}}
 *   sizes: of arrays, still to be computed */
export function parsed(lib, text) {
  const source = prepared(text);
  const parser = new lib.WgslParser();
  // Constants and sizes are left as expressions: the library's own arithmetic is not WGSL's.
  parser._exec.evalExpression = () => {
    throw new Error("not here");
  };
  /** @type {{arrayType: Node, countNode: Node}[]} */
  const sizes = [];
  parser._deferArrayCountEval = { length: 0, push: (/** @type {any} */ size) => sizes.push(size) };
  parser._case_body = caseBody;
  parser._singular_expression = singularExpression;
  let nodes;
  try {
    nodes = parser.parse(source);
  } catch (error) {
    const said = error instanceof Error ? error.message : String(error);
    const line = Number(/Line: (\d+)/.exec(said)?.[1] ?? 0);
    throw new Unsupported(`what wgsl_reflect's parser cannot read (${said.replace(/\.* Line: \d+/, "")})`, line);
  }
  const lines = [...source.matchAll(/\n/g)].map(({ index }) => index);
  const lineAt = (/** @type {number} */ place) => lines.filter((at) => at < place).length + 1;
  const scopes = new Scopes(lineAt); // one for all functions: a callee sees its caller's names
  for (const node of nodes) if (node.astNodeType === "function") scopes.enter(node);
  return { nodes, sizes };
}

/** The library's keeps two statements of a case. @this {any} */
function caseBody() {
  const body = [];
  for (let statement = this._statement(); statement !== null; statement = this._statement()) body.push(statement);
  return body;
}

/** The library's forgets `.yz` of `(v.yz).x`. @this {any} */
function singularExpression() {
  const expression = this._primary_expression();
  const postfix = this._postfix_expression();
  let last = expression;
  while (last.postfix) last = last.postfix;
  if (postfix) last.postfix = postfix;
  return expression;
}

/** A name as the text has it. @param {string} name */
export const plainName = (name) => name.split("\u0000")[0].replace(new RegExp(`${MARK}$`), "");

/** Gives every name that a function declares a number of its own: the library's callees see their callers' names, and
 * what a `for` declares outlives it. */
class Scopes {
  /** @type {Map<string, string>[]} */
  #open = [];
  #count = 0;

  /** @param {(place: number) => number} lineAt */
  constructor(lineAt) {
    this.lineAt = lineAt;
  }

  /** @param {Node} node */
  enter(node) {
    this.#inside(() => {
      for (const argument of node.args) argument.name = this.#declare(argument.name);
      this.#statements(node.body);
    });
  }

  /** @param {string} name */
  #declare(name) {
    this.#count += 1;
    const made = `${name}\u0000${this.#count}`;
    this.#open[this.#open.length - 1].set(name, made);
    return made;
  }

  /** @param {() => void} act */
  #inside(act) {
    this.#open.push(new Map());
    act();
    this.#open.pop();
  }

  /** @param {any[]} nodes */
  #statements(nodes) {
    for (const node of nodes) {
      if (Array.isArray(node)) this.#inside(() => this.#statements(node));
      else this.#statement(node);
    }
  }

  /** @param {any[]|null} nodes */
  #block(nodes) {
    if (nodes) this.#inside(() => this.#statements(nodes));
  }

  /** @param {any} node */
  #statement(node) {
    if (!node) return;
    if (node.start >= 0) node.line = this.lineAt(node.start);
    const { line } = node;
    const condition = (/** @type {any} */ one) => {
      this.#expression(one);
      if (one) one.line = line;
    };
    switch (node.astNodeType) {
      case "let": case "var": case "const":
        this.#expression(node.value);
        node.name = this.#declare(node.name);
        return;
      case "assign":
        this.#expression(node.variable);
        this.#expression(node.value);
        return;
      case "increment":
        this.#expression(node.variable);
        return;
      case "call":
        node.args.forEach((/** @type {any} */ one) => this.#expression(one));
        return;
      case "return":
        this.#expression(node.value);
        return;
      case "if":
        condition(node.condition);
        this.#block(node.body);
        for (const one of node.elseif ?? []) {
          this.#expression(one.condition);
          this.#block(one.body);
        }
        this.#block(node.else);
        return;
      case "for":
        if (!node.condition) throw new Unsupported("for without a condition", line);
        this.#inside(() => {
          this.#statement(node.init);
          condition(node.condition);
          this.#statement(node.increment);
          this.#block(node.body);
        });
        return;
      case "switch":
        condition(node.condition);
        for (const one of node.cases) {
          (one.selectors ?? []).forEach((/** @type {any} */ selector) => this.#expression(selector));
          this.#block(one.body);
        }
        return;
      case "break": case "continue": case "staticAssert":
        if (node.condition) throw new Unsupported("break if", line);
        return;
      default:
        throw new Unsupported(`the statement ${node.astNodeType}`, line);
    }
  }

  /** @param {any} node */
  #expression(node) {
    if (!node || node.astNodeType === "literalExpr") return;
    if (node.astNodeType === "varExpr" || node.astNodeType === "constExpr") {
      const scope = this.#open.findLast((names) => names.has(node.name));
      if (scope) node.name = scope.get(node.name);
    }
    for (const part of [node.left, node.right, node.index, node.postfix]) this.#expression(part);
    if (node.astNodeType === "bitcastExpr") this.#expression(node.value);
    (node.args ?? []).forEach((/** @type {any} */ one) => this.#expression(one));
  }
}
