// @ts-check
/**
 * What is hidden of the adapter: the masks of a profile, features, WGSL language features, limits, subgroup sizes.
 * The words are those of `kernel-lab run`'s options, in what is sent and in the page's address.
 */

import { byId, element } from "./dom.js";

/** @import {Facts} from "../facts.js" */
/** @import {Catalogue, Mask} from "./desk.js" */

export class MasksView {
  /** @param {Catalogue} catalogue @param {Facts} facts @param {URLSearchParams} asked @param {() => void} changed */
  constructor({ profiles, limits, features }, facts, asked, changed) {
    const profile = asked.get("profile") ?? "";
    const names = [...new Set(["", ...profiles.map(({ name }) => name), profile])];
    const masksOf = (/** @type {string} */ name) => profiles.find((one) => one.name === name)?.masks || "hides nothing";
    this.profile = element("select", { id: "profile" }, ...names.map((name) => element("option", { value: name }, name ? `${name}: ${masksOf(name)}` : "none")));
    this.profile.value = profile;
    const hidden = asked.getAll("mask");
    const [decisive, others] = [true, false].map((wanted) => facts.features.concat(facts.languageFeatures).filter((name) => features.includes(name) === wanted));
    const absent = hidden.filter((name) => !decisive.includes(name) && !others.includes(name));
    const box = (/** @type {string} */ name) => checkbox(name, { value: name, checked: hidden.includes(name), className: "hides" });
    const given = new Map(asked.getAll("limit").map((text) => [text.split("=")[0], text.split("=").slice(1).join("=")]));
    const fields = [...new Set([...limits, ...given.keys()])].map((name) => {
      const known = /** @type {Record<string, number>} */ (facts.limits)[name];
      const field = element("input", { type: "text", inputMode: "numeric", size: 11, name, value: given.get(name) ?? "", placeholder: String(known ?? "") });
      return element("label", {}, `${name} `, field);
    });
    const { subgroupMinSize: low, subgroupMaxSize: high } = /** @type {any} */ (facts.adapter ?? {});
    this.subgroups = element("input", { type: "text", id: "subgroups", size: 8, value: asked.get("subgroups") ?? "", placeholder: low ? `${low}-${high}` : "4-128" });
    this.emulate = element("input", { type: "checkbox", id: "emulate", checked: asked.has("emulate_matrices") });
    byId("masks").replaceChildren(
      element("label", {}, "as profile ", this.profile),
      group("features", "features and WGSL language features that kernels ask for", decisive.map(box)),
      element("details", { open: others.some((name) => hidden.includes(name)) }, element("summary", {}, "other features of this adapter"), group("others", "other features", others.map(box))),
      ...(absent.length > 0 ? [group("absent", "features that this adapter lacks anyway", absent.map(box))] : []),
      group("limits", "limits, at most", fields),
      group("sizes", "subgroups", [
        element("label", {}, "sizes claimed ", this.subgroups),
        element("label", { className: "check" }, this.emulate, " matrices emulated in plain WGSL"),
      ]),
    );
    byId("masks").addEventListener("change", changed);
  }

  /** @returns {Mask} */
  get mask() {
    const all = (/** @type {string} */ selector) => /** @type {HTMLInputElement[]} */ ([...document.querySelectorAll(`#masks ${selector}`)]);
    return {
      profile: this.profile.value,
      mask: all("input.hides:checked").map(({ value }) => value),
      limit: all("#limits input").filter(({ value }) => value.trim()).map(({ name, value }) => `${name}=${value.trim()}`),
      subgroups: this.subgroups.value.trim(),
      emulate_matrices: this.emulate.checked,
    };
  }

  /** The mask as parameters of the page's address. @returns {[string, string][]} */
  get parameters() {
    const { profile, mask, limit, subgroups, emulate_matrices } = this.mask;
    /** @type {[string, string][]} */
    const found = [["profile", profile], ...mask.map(named("mask")), ...limit.map(named("limit")), ["subgroups", subgroups], ["emulate_matrices", emulate_matrices ? "1" : ""]];
    return found.filter(([, value]) => value);
  }

  /** What the server says is masked now, in words. @param {string[]} words */
  tell(words) {
    byId("mask").firstElementChild.textContent = `masks: ${words.join("; ") || "none"}`;
    byId("masked").textContent = words.length > 0 ? `masked: ${words.join("; ")}` : "";
  }
}

/** @param {string} name @returns {(value: string) => [string, string]} */
const named = (name) => (value) => [name, value];

/** @param {string} text @param {Record<string, any>} properties */
const checkbox = (text, properties) => element("label", { className: "check" }, element("input", { type: "checkbox", ...properties }), ` ${text}`);

/** @param {string} id @param {string} title @param {HTMLElement[]} fields */
const group = (id, title, fields) => element("fieldset", { id }, element("legend", {}, title), ...(fields.length > 0 ? fields : ["none"]));
