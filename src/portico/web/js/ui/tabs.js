/** Tabs over one panel. Arrow keys choose. */

import { arrowStep, make } from "./dom.js";

/**
 * @param {string} label of all of them
 * @param {Record<string, string>} kinds the label of each tab
 * @param {HTMLElement} panel
 * @param {(kind: string) => void} show fills the panel
 */
export function tabBar(label, kinds, panel, show) {
  panel.setAttribute("role", "tabpanel");
  const tabs = Object.entries(kinds).map(([kind, text]) => make("button", { type: "button", role: "tab", "aria-controls": panel.id, onclick: () => choose(kind), data: { kind } }, text));
  /** @param {string} kind */
  const choose = (kind) => {
    for (const tab of tabs) {
      const selected = tab.dataset.kind === kind;
      tab.setAttribute("aria-selected", String(selected));
      tab.tabIndex = selected ? 0 : -1;
    }
    panel.setAttribute("aria-label", kinds[kind]);
    show(kind);
  };
  const bar = make("div", { class: "tabs", role: "tablist", "aria-label": label }, ...tabs);
  bar.addEventListener("keydown", (event) => {
    const step = arrowStep(event);
    if (!step) return;
    const current = tabs.findIndex((tab) => tab === document.activeElement);
    const tab = tabs[(current + step + tabs.length) % tabs.length];
    tab.focus();
    tab.click();
  });
  choose(Object.keys(kinds)[0]);
  return { bar, focus: () => tabs[0].focus(), choose };
}
