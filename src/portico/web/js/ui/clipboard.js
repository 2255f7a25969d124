/** Copying text to the clipboard. */

import { make } from "./dom.js";

/** @param {string} text */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // The clipboard API needs TLS; copying a selection does not. Outside an open dialog nothing can be selected.
    const field = make("textarea", { class: "visually-hidden", ".value": text });
    const focused = document.activeElement;
    ([...document.querySelectorAll("dialog[open]")].at(-1) ?? document.body).append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
    if (focused instanceof HTMLElement) focused.focus({ preventScroll: true });
  }
}
