/** Which entries are chosen, by name, and where the keyboard stands. Emits `change`. */

export class Selection extends EventTarget {
  constructor() {
    super();
    /** @type {import("./listing.js").Entry[]} what can be chosen, in its order */
    this.entries = [];
    /** @type {Set<string>} */
    this.names = new Set();
    /** Index of the row that the keyboard is on. */
    this.active = 0;
    this.anchor = 0;
  }

  /** The list has changed: keep what is still there. @param {import("./listing.js").Entry[]} entries */
  follow(entries, isThere = (_name) => true) {
    const standing = this.entries[this.active]?.name;
    this.entries = entries;
    for (const name of this.names) if (!isThere(name)) this.names.delete(name);
    if (entries[this.active]?.name !== standing) {
      const found = entries.findIndex((entry) => entry.name === standing);
      this.active = found >= 0 ? found : Math.max(0, Math.min(this.active, entries.length - 1));
      this.anchor = this.active;
    }
    this.#changed();
  }

  has(name) {
    return this.names.has(name);
  }

  get size() {
    return this.names.size;
  }

  /** The chosen entries in their order; those that a filter hides are left out. */
  get chosen() {
    return this.names.size ? this.entries.filter((entry) => this.names.has(entry.name)) : [];
  }

  /** The chosen entries, or the one that the keyboard is on. */
  get meant() {
    const { chosen } = this;
    if (chosen.length) return chosen;
    const entry = this.entries[this.active];
    return entry ? [entry] : [];
  }

  /** Go to a row; with `extend` everything from the anchor to it is chosen. */
  moveTo(index, { extend = false } = {}) {
    if (!this.entries.length) return;
    this.active = Math.max(0, Math.min(index, this.entries.length - 1));
    if (extend) this.#chooseRange();
    else this.anchor = this.active;
    this.#changed();
  }

  only(index) {
    this.names = new Set([this.entries[index].name]);
    this.active = this.anchor = index;
    this.#changed();
  }

  toggle(index) {
    const { name } = this.entries[index];
    if (!this.names.delete(name)) this.names.add(name);
    this.active = this.anchor = index;
    this.#changed();
  }

  extendTo(index) {
    this.active = index;
    this.#chooseRange();
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

  #chooseRange() {
    const [first, last] = [this.anchor, this.active].sort((a, b) => a - b);
    this.names = new Set(this.entries.slice(first, last + 1).map((entry) => entry.name));
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}
