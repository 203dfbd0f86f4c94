// @ts-check
/** `lab` on the console: what can be called there, each with a line that says what it does. */

/** @typedef {{call: (...given: any[]) => any, says: string}} Entry  named as it is called: "run(query)", or "plan" for a value */

/** Adds functions and values to `lab`, and `lab.help()` that lists them.
 * @param {Record<string, Entry>} entries */
export function offer(entries) {
  const lab = /** @type {any} */ (globalThis.lab);
  for (const [name, { call }] of Object.entries(entries)) {
    const [word, given] = name.split("(");
    if (given === undefined) Object.defineProperty(lab, word, { get: call, configurable: true });
    else lab[word] = call;
  }
  lab.help = () => {
    const lines = Object.entries(entries).map(([name, { says }]) => `lab.${name}  ${says}`);
    console.log([...lines, "lab.help()  this"].join("\n"));
  };
}
