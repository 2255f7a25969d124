/** The line below the list: how much of the folder is shown; and loading the rest of it. */

import { make } from "./dom.js";
import { number } from "./formats.js";
import { announce, complain } from "./notices.js";
import { t } from "./texts.js";

export class Foot {
  /** @param {{onAll: () => void}} handlers `onAll`: everything is there that somebody has asked for here */
  constructor({ onAll }) {
    this.onAll = onAll;
    this.status = make("p", { class: "status" });
    this.working = make("span", { class: "spinner", "aria-hidden": "true" });
    this.rest = make("button", { type: "button", class: "link", onclick: () => this.#loadOrStop() });
    this.element = make("div", { class: "foot" }, this.working, this.status, this.rest);
    this.clear();
  }

  /** @param {import("./listing.js").Listing} listing */
  follow(listing) {
    this.listing = listing;
    /** Whether the loading was stopped or has failed: then no letter that is typed begins it again. */
    this.declined = false;
    this.forFilter = false;
  }

  clear() {
    this.status.textContent = "";
    this.working.hidden = this.rest.hidden = true;
  }

  update() {
    const { listing } = this;
    this.status.textContent = this.#count();
    this.working.hidden = !listing.isLoadingAll;
    this.rest.hidden = listing.isFull;
    this.rest.textContent = t(listing.isLoadingAll ? "stopLoading" : "loadAll");
  }

  /** A part of a folder in order would mislead, so the rest is loaded first. */
  async sort(order) {
    const { listing } = this;
    this.forFilter = false;
    if (listing.isFull || (await this.#loadAll())) listing.sortBy(order);
  }

  /** What is not loaded might match, too. */
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
    else if (await this.#loadAll()) this.onAll();
  }

  /** @returns {Promise<boolean>} whether all that can be loaded is there */
  async #loadAll() {
    const { listing } = this;
    try {
      await listing.all();
      if (listing === this.listing) announce(this.status.textContent);
    } catch (error) {
      if (listing.closed) return false;
      this.declined = true;
      complain(error);
    }
    return listing === this.listing && listing.isFull;
  }

  #count() {
    const { count, complete, isLoadingAll, filter, shown } = this.listing;
    if (filter) return t(complete ? "matches" : isLoadingAll ? "matchesSoFar" : "matchesLoaded", { count: shown.length, loaded: number(count) });
    return t(complete ? "items" : isLoadingAll ? "loadedSoFar" : "firstShown", { count });
  }
}
