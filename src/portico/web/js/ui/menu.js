/** A popup menu, at a button or at the pointer. */

import { closest, make } from "./dom.js";
import { icon } from "./icons.js";

/** @import { MenuItem, Point } from "../types.js" */

/** @type {{menu: HTMLElement, close: (refocus?: boolean) => void, opener: HTMLElement | null} | null} */
let open = null;

/**
 * @param {MenuItem[]} items
 * @param {HTMLElement | Point} at
 * @param {HTMLElement} [returnFocus] gets the focus when the menu closes; the opener by default
 */
export function showMenu(items, at, returnFocus) {
  open?.close();
  const opener = at instanceof HTMLElement ? at : null;
  const menu = make("div", { class: "menu", role: "menu", popover: "manual" }, ...items.map(itemElement));
  const focused = document.activeElement instanceof HTMLElement ? document.activeElement : null;
  const returnTo = returnFocus ?? opener ?? focused;
  (opener?.closest("dialog[open]") ?? document.body).append(menu);

  const close = (refocus = true) => {
    if (open?.menu !== menu) return;
    open = null;
    document.removeEventListener("pointerdown", onPointerDown, true);
    window.removeEventListener("blur", onBlur);
    opener?.setAttribute("aria-expanded", "false");
    menu.remove();
    if (refocus) returnTo?.focus();
  };
  const onBlur = () => close();
  /** @param {PointerEvent} event */
  const onPointerDown = (event) => {
    const target = /** @type {Node} */ (event.target);
    if (!menu.contains(target) && !opener?.contains(target)) close(false);
  };

  open = { menu, close, opener };
  document.addEventListener("pointerdown", onPointerDown, true);
  window.addEventListener("blur", onBlur);
  menu.addEventListener("keydown", (event) => onKey(event, menu, close));
  menu.addEventListener("click", (event) => {
    const element = closest(event, "[role^=menuitem]");
    if (!element) return;
    const item = items[[...menu.children].indexOf(element)];
    close();
    item.run?.();
  });
  opener?.setAttribute("aria-expanded", "true");
  menu.showPopover();
  place(menu, at);
  (children(menu).find((item) => item.ariaChecked === "true") ?? children(menu)[0]).focus();
}

/** Open the menu of a button, or close it if it is open. @param {MenuItem[]} items @param {HTMLElement} button */
export function toggleMenu(items, button) {
  if (open?.opener === button) open.close();
  else showMenu(items, button);
}

/** @param {HTMLElement} menu */
const children = (menu) => /** @type {HTMLElement[]} */ ([...menu.children]);

/** @param {MenuItem} item */
function itemElement({ label, icon: iconName, key, href, danger, checked, separated, submenu, class: extraClass = "" }) {
  const role = checked === undefined ? "menuitem" : "menuitemradio";
  const options = { role, tabindex: "-1", class: [extraClass, danger ? "danger" : "", separated ? "separated" : ""].filter(Boolean).join(" ") || null, "aria-checked": checked === undefined ? null : String(checked), "aria-haspopup": submenu ? "menu" : null };
  const content = [iconName ? icon(iconName) : make("span", { class: "icon" }, checked ? icon("check") : null), make("span", {}, label), key ? make("kbd", { "aria-hidden": "true" }, key) : null, submenu ? icon("next") : null];
  return href ? make("a", { ...options, href, target: "_blank", rel: "noopener" }, ...content) : make("button", { ...options, type: "button" }, ...content);
}

/** @param {KeyboardEvent} event @param {HTMLElement} menu @param {() => void} close */
function onKey(event, menu, close) {
  const items = children(menu);
  const current = items.findIndex((item) => item === document.activeElement);
  /** @type {Record<string, number>} */
  const targets = { ArrowDown: current + 1, ArrowUp: current - 1 + items.length, Home: 0, End: items.length - 1 };
  if (event.key in targets) items[targets[event.key] % items.length].focus();
  else if (event.key === "Escape" || event.key === "Tab") close();
  else if (event.key.length === 1 && event.key !== " " && !event.ctrlKey && !event.metaKey) {
    const letter = event.key.toLocaleLowerCase();
    const rest = [...items.slice(current + 1), ...items.slice(0, current + 1)];
    rest.find((item) => item.textContent.toLocaleLowerCase().startsWith(letter))?.focus();
  } else return;
  event.preventDefault();
  event.stopPropagation();
}

/** @param {HTMLElement} menu @param {HTMLElement | Point} at */
function place(menu, at) {
  const box = at instanceof HTMLElement ? at.getBoundingClientRect() : { left: at.x, right: at.x, top: at.y, bottom: at.y };
  const { width, height } = menu.getBoundingClientRect();
  const edge = 8;
  const toEnd = document.dir === "rtl" ? box.right - width : box.left;
  const fits = toEnd >= edge && toEnd + width <= innerWidth - edge;
  const left = fits ? toEnd : Math.min(Math.max(edge, box.right - width), innerWidth - width - edge);
  const below = box.bottom + 4;
  const top = below + height <= innerHeight - edge ? below : Math.max(edge, box.top - height - 4);
  menu.style.left = `${left}px`;
  menu.style.top = `${top}px`;
}
