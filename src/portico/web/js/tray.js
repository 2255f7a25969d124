/** The panel that shows the queue. */

import { showFailures } from "./dialogs.js";
import { bdi, fill, make, sentence } from "./dom.js";
import { bytes, percent, span } from "./formats.js";
import { icon, redraw } from "./icons.js";
import { VirtualList } from "./list.js";
import { announce } from "./notices.js";
import { words } from "./problems.js";
import { t } from "./texts.js";

const REDRAW = 150;
const RANK = { failed: 0, asking: 1, running: 2, waiting: 3, cancelled: 4, skipped: 5, done: 6 };

export class Tray {
  /** @param {import("./queue.js").Queue} queue */
  constructor(queue) {
    this.queue = queue;
    this.title = make("h2", { id: "tray-title" });
    this.detail = make("p", { class: "hint" });
    this.bar = make("progress", { max: "1", "aria-labelledby": "tray-title" });
    this.fold = this.#button("quiet round", "down", t("collapse"), () => this.#toggle());
    this.close = this.#button("quiet round", "close", t("closeQueue"), () => this.#dismiss());
    this.cancelAll = make("button", { type: "button", class: "small", onclick: () => queue.cancelAll() }, t("cancelAll"));
    this.retryAll = make("button", { type: "button", class: "small", onclick: () => queue.retryAll() }, t("retryAll"));
    this.details = make("button", { type: "button", class: "small", onclick: () => this.#showFailures() }, t("details"));
    this.rows = make("div", { class: "canvas", role: "list", "aria-label": t("uploads") });
    this.viewport = make("div", { class: "uploads", tabindex: "0", role: "group", "aria-label": t("uploads") }, this.rows);
    this.element = make("section", { class: "tray", hidden: true, "aria-labelledby": "tray-title" },
      make("header", {}, make("div", {}, this.title, this.detail), this.fold, this.close),
      this.bar, this.viewport, make("footer", {}, this.details, this.retryAll, this.cancelAll));
    this.list = new VirtualList(this.viewport, this.rows, { make: () => this.#row(), show: (row, index) => this.#show(row, index) });
    this.shown = [];
    this.samples = [];
    this.due = 0;
    new ResizeObserver(() => document.body.style.setProperty("--tray", `${this.element.offsetHeight}px`)).observe(this.element);
    queue.addEventListener("change", () => this.#later());
    queue.addEventListener("idle", () => announce(this.#summary()));
  }

  #button(kind, drawing, label, run) {
    return make("button", { type: "button", class: kind, "aria-label": label, title: label, onclick: run }, icon(drawing));
  }

  #toggle() {
    const folded = this.element.classList.toggle("folded");
    this.fold.setAttribute("aria-label", t(folded ? "expand" : "collapse"));
    this.fold.setAttribute("aria-expanded", String(!folded));
    redraw(this.fold.firstChild, folded ? "up" : "down");
    this.list.draw(true);
  }

  #dismiss() {
    if (!this.queue.isBusy) this.queue.clear();
    else if (!this.element.classList.contains("folded")) this.#toggle();
  }

  #later() {
    if (this.due) return;
    this.due = setTimeout(() => {
      this.due = 0;
      this.draw();
    }, REDRAW);
  }

  draw() {
    const { queue } = this;
    const busy = queue.isBusy;
    this.element.hidden = !queue.items.length;
    document.body.classList.toggle("has-tray", !this.element.hidden);
    if (this.element.hidden) {
      this.samples = [];
      return;
    }
    const { size, sent, files } = queue.totals;
    const done = queue.count("done");
    const share = size ? sent / size : files ? done / files : 1;
    this.title.textContent = busy ? t("uploadingOf", { done, count: files }) : this.#summary();
    this.detail.textContent = busy ? this.#pace(sent, size, share) : "";
    this.bar.value = share;
    this.bar.hidden = !busy;
    this.close.hidden = busy;
    this.cancelAll.hidden = !busy;
    const failed = queue.count("failed");
    this.retryAll.hidden = this.details.hidden = !failed;
    this.element.classList.toggle("has-failed", failed > 0);
    this.shown = [...queue.items].sort((a, b) => RANK[a.state] - RANK[b.state]);
    this.list.setCount(this.shown.length);
  }

  #showFailures() {
    const failures = this.queue.items.filter((item) => item.state === "failed");
    showFailures(this.#summary(), failures);
  }

  #summary() {
    const { queue } = this;
    const parts = [t("uploaded", { count: queue.count("done") })];
    for (const state of ["failed", "skipped", "cancelled"]) {
      const count = queue.count(state);
      if (count) parts.push(t(`${state}Count`, { count }));
    }
    return parts.join(", ");
  }

  /** Share, speed over the last seconds, and how long it will take at that speed. */
  #pace(sent, size, share) {
    const now = performance.now();
    this.samples.push({ now, sent });
    while (this.samples.length > 2 && now - this.samples[0].now > 5000) this.samples.shift();
    const first = this.samples[0];
    const speed = ((sent - first.sent) / (now - first.now)) * 1000;
    const parts = [percent(share)];
    if (speed > 0 && now - first.now > 500) {
      parts.push(t("perSecond", { amount: bytes(speed) }), t("timeLeft", { time: span((size - sent) / speed) }));
    }
    return parts.join(" · ");
  }

  #row() {
    const row = make("div", { class: "upload", role: "listitem" },
      icon("file"),
      make("div", { class: "what" }, bdi("", { class: "name" }), make("span", { class: "state" }), make("progress", { max: "1" })),
      make("button", { type: "button", class: "quiet round" }, icon("close")));
    row.lastChild.addEventListener("click", () => {
      const item = row.item;
      if (item.state === "failed" || item.state === "cancelled" || item.state === "skipped") this.queue.retry(item);
      else this.queue.cancel(item);
    });
    return row;
  }

  #show(row, index) {
    const item = this.shown[index];
    row.item = item;
    row.dataset.state = item.state;
    row.setAttribute("aria-setsize", String(this.shown.length));
    row.setAttribute("aria-posinset", String(index + 1));
    const [drawing, what, button] = row.children;
    const [name, state, bar] = what.children;
    redraw(drawing, { done: "check", failed: "warning" }[item.state] ?? (item.file ? "file" : "folderSolid"));
    name.textContent = item.name;
    name.title = `${item.folder === "/" ? "" : item.folder}/${item.name}`;
    const text = this.#stateText(item);
    const renamed = item.state === "done" && item.stored !== item.name;
    if (renamed) fill(state, ...sentence(t("storedAs"), { name: bdi(item.stored) }), ` · ${text}`);
    else if (state.textContent !== text) fill(state, text);
    state.title = item.error || renamed ? state.textContent : "";
    bar.hidden = item.state !== "running";
    bar.value = item.size ? item.sent / item.size : 0;
    bar.setAttribute("aria-label", t("progressOf", { name: item.name }));
    const again = ["failed", "cancelled", "skipped"].includes(item.state);
    button.hidden = item.state === "done";
    button.setAttribute("aria-label", t(again ? "retryName" : "cancelName", { name: item.name }));
    redraw(button.firstChild, again ? "retry" : "close");
  }

  #stateText(item) {
    if (item.state === "failed") return words(item.error);
    if (item.state === "running" && item.file) return t("sentOf", { sent: bytes(item.sent), size: bytes(item.size) });
    if (item.state === "done") return bytes(item.size);
    return t(`state_${item.state}`);
  }
}
