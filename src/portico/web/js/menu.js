/** A menu that opens at a button or at the pointer. */

import { make } from "./dom.js";
import { icon } from "./icons.js";

/** @typedef {{label: string, icon?: string, key?: string, run?: () => void, href?: string, danger?: boolean, checked?: boolean, apart?: boolean,
 *   submenu?: boolean, class?: string}} Item `apart` draws a line above it */

let open = null;

/**
 * @param {Item[]} items
 * @param {HTMLElement | {x: number, y: number}} at
 * @param {HTMLElement} [back] where the focus returns to
 */
export function showMenu(items, at, back) {
  open?.close();
  const opener = at instanceof HTMLElement ? at : null;
  const menu = make("div", { class: "menu", role: "menu", popover: "manual" }, ...items.map(itemElement));
  const returnTo = back ?? opener ?? document.activeElement;
  (opener?.closest("dialog[open]") ?? document.body).append(menu);

  const close = (refocus = true) => {
    if (open?.menu !== menu) return;
    open = null;
    document.removeEventListener("pointerdown", outside, true);
    window.removeEventListener("blur", close);
    opener?.setAttribute("aria-expanded", "false");
    menu.remove();
    if (refocus) returnTo?.focus();
  };
  const outside = (event) => {
    if (!menu.contains(event.target) && !opener?.contains(event.target)) close(false);
  };

  open = { menu, close, opener };
  document.addEventListener("pointerdown", outside, true);
  window.addEventListener("blur", close);
  menu.addEventListener("keydown", (event) => steer(event, menu, close));
  menu.addEventListener("click", (event) => {
    const element = event.target.closest("[role^=menuitem]");
    if (!element) return;
    const item = items[[...menu.children].indexOf(element)];
    close();
    item.run?.();
  });
  opener?.setAttribute("aria-expanded", "true");
  menu.showPopover();
  place(menu, at);
  (menu.querySelector("[aria-checked=true]") ?? menu.firstElementChild).focus();
}

/** Open the menu of a button, or close it if it is open. */
export function toggleMenu(items, button) {
  if (open?.opener === button) open.close();
  else showMenu(items, button);
}

function itemElement({ label, icon: drawing, key, href, danger, checked, apart, submenu, class: kind = "" }) {
  const role = checked === undefined ? "menuitem" : "menuitemradio";
  const options = { role, tabindex: "-1", class: [kind, danger ? "danger" : "", apart ? "apart" : ""].filter(Boolean).join(" ") || null, "aria-checked": checked === undefined ? null : String(checked), "aria-haspopup": submenu ? "menu" : null };
  const children = [drawing ? icon(drawing) : make("span", { class: "icon" }, checked ? icon("check") : null), make("span", {}, label), key ? make("kbd", { "aria-hidden": "true" }, key) : null, submenu ? icon("next") : null];
  return href ? make("a", { ...options, href, target: "_blank", rel: "noopener" }, ...children) : make("button", { ...options, type: "button" }, ...children);
}

function steer(event, menu, close) {
  const items = [...menu.children];
  const here = items.indexOf(document.activeElement);
  const steps = { ArrowDown: here + 1, ArrowUp: here - 1 + items.length, Home: 0, End: items.length - 1 };
  if (event.key in steps) items[steps[event.key] % items.length].focus();
  else if (event.key === "Escape" || event.key === "Tab") close();
  else if (event.key.length === 1 && event.key !== " " && !event.ctrlKey && !event.metaKey) {
    const letter = event.key.toLocaleLowerCase();
    const rest = [...items.slice(here + 1), ...items.slice(0, here + 1)];
    rest.find((item) => item.textContent.toLocaleLowerCase().startsWith(letter))?.focus();
  } else return;
  event.preventDefault();
  event.stopPropagation();
}

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
