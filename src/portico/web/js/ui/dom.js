/** Building elements. Text is always inserted as text, never parsed as markup. */

import { visible } from "../visible-text.js";

/** @import { Child, ElementOptions } from "../types.js" */

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {ElementOptions} [options]
 * @param {...Child} children
 */
export function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else if (name.startsWith(".")) Object.assign(element, { [name.slice(1)]: value });
    else if (name === "data") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...present(children));
  return element;
}

/** An element with any number of children: a call has room for a hundred thousand arguments or so. @template {keyof HTMLElementTagNameMap} Tag @param {Tag} tag @param {ElementOptions} options @param {Child[]} children */
export function makeWith(tag, options, children) {
  const element = make(tag, options);
  for (const child of present(children)) element.append(child);
  return element;
}

/** A name for what it is: nothing in it is hidden, and its direction does not affect the text around it. @param {string} text @param {ElementOptions} [options] */
export function bdi(text, options = {}) {
  return make("bdi", options, visible(text));
}

/**
 * A message with elements as placeholders: `sentence("Delete {name}?", {name: bdi(…)})`.
 * @param {string} text
 * @param {Record<string, Node>} parts
 * @returns {Node[]}
 */
export function sentence(text, parts) {
  return text
    .split(/(\{\w+\})/)
    .filter(Boolean)
    .map((piece) => parts[piece.slice(1, -1)] ?? document.createTextNode(piece));
}

/** @template {Element} E @param {E} element @param {...Child} children */
export function fill(element, ...children) {
  element.replaceChildren(...present(children));
  return element;
}

/** @param {Child[]} children @returns {(Node | string)[]} */
const present = (children) => children.filter((child) => child !== null && child !== undefined && child !== false);

/** The closest ancestor of an event's target that matches. @param {Event} event @param {string} selector @returns {HTMLElement | null} */
export function closest(event, selector) {
  return event.target instanceof Element ? event.target.closest(selector) : null;
}

/** Whether keys go into a text field. @param {EventTarget | null} target */
export const isTyping = (target) =>
  target instanceof HTMLElement && target.matches("input:not([type=checkbox]), textarea, select, [contenteditable]");

/** -1 for the left arrow key, 1 for the right one, otherwise 0. @param {KeyboardEvent} event */
export const arrowStep = (event) => (event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0);
