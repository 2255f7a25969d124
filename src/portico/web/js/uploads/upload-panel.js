/** The panel that shows the upload queue. */

import { showFailures } from "../dialogs/dialogs.js";
import { showTrash } from "../dialogs/trash.js";
import { bdi, fill, make, sentence } from "../ui/dom.js";
import { bytes, duration, percent } from "../i18n/formats.js";
import { icon, setIcon } from "../ui/icons.js";
import { VirtualList } from "../ui/virtual-list.js";
import { announce } from "../ui/notices.js";
import { codeOf, errorText } from "../api/errors.js";
import { session } from "../api/session.js";
import { keepsDeleted } from "../config.js";
import { t } from "../i18n/i18n.js";
import { visible } from "../visible-text.js";

/** @import { IconName, UploadItem, UploadState } from "../types.js" */

const REDRAW_INTERVAL = 150;
/** The speed is an average over this long, in milliseconds. */
const SPEED_WINDOW = 5000;
/** What needs attention comes first. @type {Record<UploadState, number>} */
const ORDER = { failed: 0, asking: 1, running: 2, waiting: 3, cancelled: 4, skipped: 5, done: 6 };

/** The states in which an upload can be retried. @type {UploadState[]} */
const FAILED_STATES = ["failed", "skipped", "cancelled"];

/** @type {Partial<Record<UploadState, IconName>>} */
const STATE_ICONS = { done: "check", failed: "warning" };

/** @typedef {{element: HTMLElement, icon: SVGElement, name: HTMLElement, state: HTMLElement, bar: HTMLProgressElement, button: HTMLElement, buttonIcon: SVGElement, item?: UploadItem}} Row */

export class UploadPanel {
  /** @param {import("./upload-queue.js").UploadQueue} queue */
  constructor(queue) {
    this.queue = queue;
    this.title = make("h2", { id: "upload-panel-title" });
    this.detail = make("p", { class: "hint" });
    this.bar = make("progress", { max: "1", "aria-labelledby": "upload-panel-title" });
    this.collapse = this.#button("quiet round", "down", t("collapse"), () => this.#toggle());
    this.close = this.#button("quiet round", "close", t("closeQueue"), () => this.#dismiss());
    this.cancelAll = make("button", { type: "button", class: "small", onclick: () => queue.cancelAll() }, t("cancelAll"));
    this.retryAll = make("button", { type: "button", class: "small", onclick: () => queue.retryAll() }, t("retryAll"));
    this.details = make("button", { type: "button", class: "small", onclick: () => this.#showFailures() }, t("details"));
    this.trash = make("button", { type: "button", class: "small", onclick: () => showTrash(() => undefined) }, t("openTrash"));
    this.rows = make("div", { class: "canvas", role: "list", "aria-label": t("uploads") });
    this.viewport = make("div", { class: "uploads", tabindex: "0", role: "group", "aria-label": t("uploads") }, this.rows);
    this.element = make("section", { class: "upload-panel", hidden: true, "aria-labelledby": "upload-panel-title" },
      make("header", {}, make("div", {}, this.title, this.detail), this.collapse, this.close),
      this.bar, this.viewport, make("footer", {}, this.trash, this.details, this.retryAll, this.cancelAll));
    /** @type {VirtualList<Row>} */
    this.list = new VirtualList(this.viewport, this.rows, { make: () => this.#row(), show: (row, index) => this.#show(row, index) });
    /** @type {UploadItem[]} */
    this.shown = [];
    /** @type {{now: number, sent: number}[]} */
    this.samples = [];
    this.timer = 0;
    /** Whether it was announced that the connection is lost. */
    this.disconnected = false;
    new ResizeObserver(() => document.body.style.setProperty("--upload-panel-height", `${this.element.offsetHeight}px`)).observe(this.element);
    queue.addEventListener("change", () => this.#schedule());
    // What was there already was not sent now, and says nothing about the speed.
    queue.addEventListener("resumed", () => {
      this.samples = [];
    });
    queue.addEventListener("idle", () => announce(this.#summary()));
  }

  /** @param {string} className @param {IconName} iconName @param {string} label @param {() => void} run */
  #button(className, iconName, label, run) {
    return make("button", { type: "button", class: className, "aria-label": label, title: label, onclick: run }, icon(iconName));
  }

  #toggle() {
    const collapsed = this.element.classList.toggle("collapsed");
    this.collapse.setAttribute("aria-label", t(collapsed ? "expand" : "collapse"));
    this.collapse.setAttribute("aria-expanded", String(!collapsed));
    fill(this.collapse, icon(collapsed ? "up" : "down"));
    this.list.draw(true);
  }

  #dismiss() {
    if (!this.queue.isBusy) this.queue.clear();
    else if (!this.element.classList.contains("collapsed")) this.#toggle();
  }

  #schedule() {
    if (this.timer) return;
    this.timer = setTimeout(() => {
      this.timer = 0;
      this.draw();
    }, REDRAW_INTERVAL);
  }

  draw() {
    const { queue } = this;
    const busy = queue.isBusy;
    this.element.hidden = !queue.items.length;
    document.body.classList.toggle("has-upload-panel", !this.element.hidden);
    if (this.element.hidden) {
      this.samples = [];
      return;
    }
    const { size, sent, files } = queue.totals;
    const done = queue.count("done");
    const share = size ? sent / size : files ? done / files : 1;
    this.title.textContent = busy ? t("uploadingOf", { done, count: files }) : this.#summary();
    this.detail.textContent = busy ? this.#detail(sent, size, share) : "";
    this.bar.value = share;
    this.bar.hidden = !busy;
    this.close.hidden = busy;
    this.cancelAll.hidden = !busy;
    const failed = queue.count("failed");
    this.retryAll.hidden = this.details.hidden = !failed;
    // Deleting alone makes no room.
    this.trash.hidden = !(keepsDeleted && session.may("list", "delete") && queue.items.some(({ error }) => codeOf(error) === "storage-full"));
    this.element.classList.toggle("has-failed", failed > 0);
    this.shown = [...queue.items].sort((a, b) => ORDER[a.state] - ORDER[b.state]);
    this.list.setCount(this.shown.length);
  }

  #showFailures() {
    const failures = this.queue.items.filter((item) => item.state === "failed");
    showFailures(this.#summary(), failures);
  }

  #summary() {
    const { queue } = this;
    const parts = [t("uploaded", { count: queue.count("done") })];
    for (const state of FAILED_STATES) {
      const count = queue.count(state);
      if (count) parts.push(t(`${state}Count`, { count }));
    }
    return parts.join(", ");
  }

  /** @param {number} sent @param {number} size @param {number} share */
  #detail(sent, size, share) {
    const { pause } = this.queue;
    this.#announce(pause === "disconnected");
    if (!pause) return this.#progress(sent, size, share);
    this.samples = [];
    return [percent(share), t(`state_${pause}`)].join(" · ");
  }

  /** @param {boolean} disconnected */
  #announce(disconnected) {
    if (disconnected !== this.disconnected) announce(t(disconnected ? "state_disconnected" : "uploadsGoOn"));
    this.disconnected = disconnected;
  }

  /** Percentage, speed and time left. @param {number} sent @param {number} size @param {number} share */
  #progress(sent, size, share) {
    const now = performance.now();
    this.samples.push({ now, sent });
    while (this.samples.length > 2 && now - this.samples[0].now > SPEED_WINDOW) this.samples.shift();
    const first = this.samples[0];
    const speed = ((sent - first.sent) / (now - first.now)) * 1000;
    const parts = [percent(share)];
    if (speed > 0 && now - first.now > 500) {
      parts.push(t("perSecond", { amount: bytes(speed) }), t("timeLeft", { time: duration((size - sent) / speed) }));
    }
    return parts.join(" · ");
  }

  /** @returns {Row} */
  #row() {
    const parts = {
      icon: icon("file"),
      name: bdi("", { class: "name" }),
      state: make("span", { class: "state" }),
      bar: make("progress", { max: "1" }),
      buttonIcon: icon("close"),
    };
    const button = make("button", { type: "button", class: "quiet round", onclick: () => {
      if (!row.item) return;
      if (FAILED_STATES.includes(row.item.state)) this.queue.retry(row.item);
      else this.queue.cancel(row.item);
    } }, parts.buttonIcon);
    const element = make("div", { class: "upload", role: "listitem" },
      parts.icon, make("div", { class: "details" }, parts.name, parts.state, parts.bar), button);
    /** @type {Row} */
    const row = { ...parts, element, button };
    return row;
  }

  /** @param {Row} row @param {number} index */
  #show(row, index) {
    const item = this.shown[index];
    row.item = item;
    row.element.dataset.state = item.state;
    row.element.dataset.pause = item.pause ?? "";
    row.element.setAttribute("aria-setsize", String(this.shown.length));
    row.element.setAttribute("aria-posinset", String(index + 1));
    setIcon(row.icon, STATE_ICONS[item.state] ?? (item.file ? "file" : "folderSolid"));
    row.name.textContent = visible(item.name);
    row.name.title = visible(`${item.folder === "/" ? "" : item.folder}/${item.name}`);
    const text = this.#stateText(item);
    const renamed = item.state === "done" && item.stored !== item.name;
    if (renamed) fill(row.state, ...sentence(t("storedAs"), { name: bdi(item.stored) }), ` · ${text}`);
    else if (row.state.textContent !== text) fill(row.state, text);
    row.state.title = item.error || item.resumedAt || renamed ? row.state.textContent : "";
    row.bar.hidden = item.state !== "running";
    row.bar.value = item.size ? item.sent / item.size : 0;
    row.bar.setAttribute("aria-label", t("progressOf", { name: item.name }));
    const mayRetry = FAILED_STATES.includes(item.state);
    row.button.hidden = item.state === "done";
    row.button.setAttribute("aria-label", t(mayRetry ? "retryName" : "cancelName", { name: item.name }));
    setIcon(row.buttonIcon, mayRetry ? "retry" : "close");
  }

  /** @param {UploadItem} item */
  #stateText(item) {
    if (item.state === "failed") return errorText(item.error);
    if (item.pause) return t(`state_${item.pause}`);
    if (item.state === "running" && item.file) {
      const sent = t("sentOf", { sent: bytes(item.sent), size: bytes(item.size) });
      return item.resumedAt ? `${sent} · ${t("resumedAt", { share: percent(item.resumedAt / item.size) })}` : sent;
    }
    if (item.state === "done") return bytes(item.size);
    return t(`state_${item.state}`);
  }
}
