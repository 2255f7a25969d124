/** Making elements. Text always goes in as text: nothing here reads markup. */

/**
 * @param {string} tag
 * @param {Record<string, unknown>} [options] attributes; `class`, `on…` handlers, `data` and properties that begin with a dot
 * @param {...(Node | string | null | undefined | false)} children
 * @returns {HTMLElement}
 */
export function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith(".")) element[name.slice(1)] = value;
    else if (name === "data") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child || child === ""));
  return element;
}

/** A name as it is, kept from turning the text around it. */
export function bdi(text, options = {}) {
  return make("bdi", options, text);
}

/**
 * A sentence in which one placeholder is an element: `sentence("Delete {name}?", {name: bdi(…)})`.
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

/** @param {Element} element @param {...(Node | string)} children */
export function fill(element, ...children) {
  element.replaceChildren(...children.filter((child) => child || child === ""));
  return element;
}

export const isTyping = (target) =>
  target instanceof HTMLElement && target.matches("input:not([type=checkbox]), textarea, select, [contenteditable]");
