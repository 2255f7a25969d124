/** The status bar below the list: how much of the folder is loaded, and a button to load the rest. */

import { make } from "../ui/dom.js";
import { number } from "../i18n/formats.js";
import { announce, notifyError } from "../ui/notices.js";
import { t } from "../i18n/i18n.js";
import { thumbnailTypes } from "../config.js";
import { Listing } from "./listing.js";
import { viewMode } from "./view-mode.js";

/** @import { SortOrder } from "../types.js" */

export class StatusBar {
  /** @param {{onLoaded: () => void}} handlers `onLoaded`: everything that the user asked for here is loaded */
  constructor({ onLoaded }) {
    this.onLoaded = onLoaded;
    this.listing = new Listing("/");
    /** Whether loading was stopped or failed. Then typing into the filter does not start it again. */
    this.declined = false;
    /** Whether the filter started the loading. */
    this.forFilter = false;
    this.status = make("p", { class: "status" });
    this.spinner = make("span", { class: "spinner", "aria-hidden": "true" });
    this.button = make("button", { type: "button", class: "link", onclick: () => this.#loadOrStop() });
    this.missing = make("p", { class: "hint" }, t("noThumbnails"));
    this.element = make("div", { class: "status-bar" }, this.spinner, this.status, this.button, this.missing);
    this.clear();
    viewMode.addEventListener("change", () => this.#showMissing());
  }

  /** @param {Listing} listing */
  follow(listing) {
    this.listing = listing;
    this.declined = false;
    this.forFilter = false;
  }

  clear() {
    this.status.textContent = "";
    this.spinner.hidden = this.button.hidden = this.missing.hidden = true;
  }

  update() {
    const { listing } = this;
    this.status.textContent = this.#count();
    this.spinner.hidden = !listing.isLoadingAll;
    this.button.hidden = listing.isFull;
    this.button.textContent = t(listing.isLoadingAll ? "stopLoading" : "loadAll");
    this.#showMissing();
  }

  /** Say why there are only icons where pictures are expected. */
  #showMissing() {
    this.missing.hidden = thumbnailTypes.length > 0 || !viewMode.isGrid || !this.listing.shown.some(({ type }) => type.startsWith("image/") || type === "application/pdf");
  }

  /** Load the rest first: a sorted part of a folder would be misleading. @param {SortOrder} order */
  async sort(order) {
    const { listing } = this;
    this.forFilter = false;
    if (listing.isFull || (await this.#loadAll())) listing.sortBy(order);
  }

  /** Filter, and load the rest, which might match too. @param {string} text */
  filter(text) {
    const { listing } = this;
    listing.filterBy(text);
    if (!listing.filter) {
      if (this.forFilter) listing.stop();
      return;
    }
    announce(this.status.textContent);
    if (!listing.opened || listing.isFull || listing.isLoadingAll || this.declined) return;
    this.forFilter = true;
    this.#loadAll();
  }

  async #loadOrStop() {
    this.declined = this.listing.isLoadingAll;
    this.forFilter = false;
    if (this.declined) this.listing.stop();
    else if (await this.#loadAll()) this.onLoaded();
  }

  /** @returns {Promise<boolean>} whether everything that can be loaded is loaded */
  async #loadAll() {
    const { listing } = this;
    try {
      await listing.all();
      if (listing === this.listing) announce(this.status.textContent);
    } catch (error) {
      if (listing.closed) return false;
      this.declined = true;
      notifyError(error);
    }
    return listing === this.listing && listing.isFull;
  }

  #count() {
    const { count, complete, isLoadingAll, filter, shown } = this.listing;
    if (filter) return t(complete ? "matches" : isLoadingAll ? "matchesSoFar" : "matchesLoaded", { count: shown.length, loaded: number(count) });
    return t(complete ? "items" : isLoadingAll ? "loadedSoFar" : "firstShown", { count });
  }
}
