/** The selected entries, by name, and the active row. Emits `change`. */

/** @import { Entry } from "../types.js" */

export class Selection extends EventTarget {
  constructor() {
    super();
    /** @type {Entry[]} what can be selected, in display order */
    this.entries = [];
    /** @type {Set<string>} */
    this.names = new Set();
    /** Index of the row that the keyboard is on. */
    this.active = 0;
    /** Index of the row from which a range extends. */
    this.anchor = 0;
  }

  /** Apply a changed list: keep what still exists. @param {Entry[]} entries @param {(name: string) => boolean} exists */
  follow(entries, exists) {
    const activeName = this.entries[this.active]?.name;
    this.entries = entries;
    for (const name of this.names) if (!exists(name)) this.names.delete(name);
    if (entries[this.active]?.name !== activeName) {
      const found = entries.findIndex((entry) => entry.name === activeName);
      this.active = found >= 0 ? found : Math.max(0, Math.min(this.active, entries.length - 1));
      this.anchor = this.active;
    }
    this.#changed();
  }

  /** @param {string} name */
  has(name) {
    return this.names.has(name);
  }

  get size() {
    return this.names.size;
  }

  /** The selected entries in display order, without those that the filter hides. */
  get selected() {
    return this.names.size ? this.entries.filter((entry) => this.names.has(entry.name)) : [];
  }

  /** The selected entries, or else the active one. */
  get selectedOrActive() {
    const { selected } = this;
    if (selected.length) return selected;
    const entry = this.entries[this.active];
    return entry ? [entry] : [];
  }

  /** Make a row active; with `extend`, select everything from the anchor to it. @param {number} index */
  moveTo(index, { extend = false } = {}) {
    if (!this.entries.length) return;
    this.active = Math.max(0, Math.min(index, this.entries.length - 1));
    if (extend) this.#selectRange();
    else this.anchor = this.active;
    this.#changed();
  }

  /** @param {number} index */
  only(index) {
    this.names = new Set([this.entries[index].name]);
    this.active = this.anchor = index;
    this.#changed();
  }

  /** @param {number} index */
  toggle(index) {
    const { name } = this.entries[index];
    if (!this.names.delete(name)) this.names.add(name);
    this.active = this.anchor = index;
    this.#changed();
  }

  /** @param {number} index */
  extendTo(index) {
    this.active = index;
    this.#selectRange();
    this.#changed();
  }

  all() {
    this.names = new Set(this.entries.map((entry) => entry.name));
    this.#changed();
  }

  clear() {
    this.names.clear();
    this.#changed();
  }

  #selectRange() {
    const [first, last] = [this.anchor, this.active].sort((a, b) => a - b);
    this.names = new Set(this.entries.slice(first, last + 1).map((entry) => entry.name));
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}
