// @ts-check
/** Elements of HTML and SVG, made in one call. Text stays text: nothing is parsed. */

/** @typedef {Node|string|null|undefined} Child */

/**
 * @param {string} tag
 * @param {Record<string, any>} [properties]  properties where the element has one of that name, attributes otherwise
 * @param {Child[]} children
 * @returns {any}
 */
export function element(tag, properties = {}, ...children) {
  const made = /** @type {any} */ (document.createElement(tag));
  for (const [name, value] of Object.entries(properties)) {
    if (name in made && name !== "list") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** @param {string} tag @param {Record<string, any>} attributes @param {Child[]} children @returns {SVGElement} */
export function svg(tag, attributes, ...children) {
  const made = /** @type {SVGElement} */ (document.createElementNS("http://www.w3.org/2000/svg", tag));
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** @param {string} id @returns {any} */
export const byId = (id) => document.getElementById(id);

/** Buttons of which one is pressed.
 * @param {HTMLElement} place @param {{name: string, note?: string}[]} items @param {string} chosen
 * @param {(name: string) => void} choose */
export function buttons(place, items, chosen, choose) {
  place.replaceChildren(
    ...items.map(({ name, note }) => {
      const button = element("button", { type: "button" }, name, note ? element("small", {}, ` ${note}`) : null);
      button.setAttribute("aria-pressed", String(name === chosen));
      button.addEventListener("click", () => choose(name));
      return button;
    }),
  );
}
