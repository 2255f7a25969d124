/** Thumbnails of the visible tiles. They are requested a few at a time, those that came into view last first. */

import { thumbnail } from "../api/client.js";
import { codeOf } from "../api/errors.js";
import { thumbnailTypes } from "../config.js";
import { session } from "../api/session.js";
import { join } from "../paths.js";

/** @import { Entry } from "../types.js" */
/** @typedef {{element: HTMLElement, picture: HTMLImageElement}} Tile */

const AT_ONCE = 4;
const MAX_WAITING = 200;
const MAX_KEPT = 400;
/** The gateway makes none of larger files. */
const MAX_SIZE = 32 * 2 ** 20;

export class Thumbnails {
  constructor() {
    /** Addresses by file and version; empty if there is none. @type {Map<string, string>} */
    this.kept = new Map();
    /** @type {{key: string, path: string, tile: Tile}[]} */
    this.waiting = [];
    this.running = 0;
    session.addEventListener("end", () => this.#clear());
  }

  /** Show the thumbnail of an entry in a tile, now or when it has arrived. @param {Tile} tile @param {string} folder @param {Entry} entry */
  show(tile, folder, entry) {
    const path = join(folder, entry.name);
    const key = isOffered(entry) && session.mayIn(folder, "download") ? `${entry.size} ${entry.modified} ${path}` : "";
    const { picture } = tile;
    if (key && picture.dataset.key === key) return;
    picture.dataset.key = key;
    picture.removeAttribute("src");
    picture.hidden = true;
    if (!key) return;
    const url = this.kept.get(key);
    if (url === undefined) {
      this.waiting.push({ key, path, tile });
      if (this.waiting.length > MAX_WAITING) this.waiting.shift();
      this.#next();
    } else draw(picture, url);
  }

  async #next() {
    if (this.running >= AT_ONCE) return;
    const next = this.waiting.pop();
    if (!next) return;
    const { key, path, tile: { element, picture } } = next;
    // Another file may be shown in the tile by now.
    if (element.hidden || !element.isConnected || picture.dataset.key !== key || this.kept.has(key)) {
      if (picture.dataset.key === key) draw(picture, this.kept.get(key) ?? "");
      if (!this.kept.has(key)) delete picture.dataset.key;
      this.#next();
      return;
    }
    this.running += 1;
    try {
      const { blob } = await thumbnail(path, { size: 256 });
      this.#keep(key, URL.createObjectURL(blob));
    } catch (error) {
      if (codeOf(error) === "no-thumbnail") this.#keep(key, "");
      else if (picture.dataset.key === key) delete picture.dataset.key;
    } finally {
      this.running -= 1;
      this.#next();
    }
    if (picture.dataset.key === key) draw(picture, this.kept.get(key) ?? "");
  }

  /** @param {string} key @param {string} url */
  #keep(key, url) {
    this.kept.set(key, url);
    for (const [oldest, address] of this.kept) {
      if (this.kept.size <= MAX_KEPT) return;
      this.kept.delete(oldest);
      if (address) URL.revokeObjectURL(address);
    }
  }

  #clear() {
    this.waiting = [];
    for (const url of this.kept.values()) if (url) URL.revokeObjectURL(url);
    this.kept.clear();
  }
}

/** @param {HTMLImageElement} picture @param {string} url */
function draw(picture, url) {
  picture.hidden = !url;
  if (url) picture.src = url;
}

/** @param {Entry} entry */
const isOffered = ({ folder, type, size = 0 }) => !folder && size > 0 && size <= MAX_SIZE && thumbnailTypes.includes(type);
