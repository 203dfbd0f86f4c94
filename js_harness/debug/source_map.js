// @ts-check
/**
 * Messages about a line of WGSL that DevTools links to the template's line. For each pass a script is generated with
 * one line a line of WGSL, and a version-3 source map whose sources are the templates; a message is logged from the line
 * it is about. https://tc39.es/ecma426/
 */

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** Base-64 VLQ of one signed number. @param {number} value */
export function vlq(value) {
  let rest = value < 0 ? (-value << 1) | 1 : value << 1;
  let text = "";
  do {
    const digit = rest & 31;
    rest >>>= 5;
    text += DIGITS[rest > 0 ? digit | 32 : digit];
  } while (rest > 0);
  return text;
}

/**
 * @param {string} file  the generated script's name
 * @param {([string, number]|null)[]} origins  template and line (from 1) of each line
 * @param {Record<string, string>} templates  their texts
 */
export function sourceMap(file, origins, templates) {
  const sources = [...new Set(origins.filter((one) => one !== null).map(([name]) => name))];
  let [source, line] = [0, 0];
  const mappings = origins.map((origin) => {
    if (!origin) return "";
    const [nextSource, nextLine] = [sources.indexOf(origin[0]), origin[1] - 1];
    const segment = [0, nextSource - source, nextLine - line, 0].map(vlq).join("");
    [source, line] = [nextSource, nextLine];
    return segment;
  });
  return {
    version: 3,
    file,
    sourceRoot: "kernel-lab-templates:///",
    sources,
    sourcesContent: sources.map((name) => templates[name] ?? ""),
    names: [],
    mappings: mappings.join(";"),
  };
}

/** @typedef {(say: (text: string) => void, text: string) => void} Sayer */

/**
 * One function a line of WGSL, each of which calls `say` from that line of the generated script.
 * @param {string} label  operator:variant:pass
 * @param {([string, number]|null)[]} origins
 * @param {Record<string, string>} templates
 * @returns {Sayer[]}
 */
export function sayers(label, origins, templates) {
  const file = `kernel-lab-wgsl:///${label.replaceAll(":", "/")}.js`;
  const map = new TextEncoder().encode(JSON.stringify(sourceMap(file, origins, templates)));
  let bytes = "";
  for (const byte of map) bytes += String.fromCharCode(byte);
  const lines = origins.map((_, index) => `${index === 0 ? "[" : ""}(say, text) => say(text),`);
  const code = `${lines.join("\n")}]\n//# sourceURL=${file}\n//# sourceMappingURL=data:application/json;base64,${btoa(bytes)}\n`;
  return origins.length === 0 ? [] : (0, eval)(code);
}
