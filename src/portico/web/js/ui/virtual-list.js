/** A list of rows of equal height that renders only the visible ones. With a `--tile` width in the style, a row is a tile. */

/** Rows that are rendered above and below the viewport. */
const OVERSCAN = 8;
const DEFAULT_HEIGHT = 44;
/** Lines of tiles, which are higher. */
const TILE_OVERSCAN = 1;

/** @template {{element: HTMLElement}} Row */
export class VirtualList {
  /**
   * @param {HTMLElement} viewport scrolls, and is positioned
   * @param {HTMLElement} canvas contains the rows and is as high as all of them
   * @param {{make: () => Row, show: (row: Row, index: number) => void, onScroll?: () => void}} rows
   */
  constructor(viewport, canvas, rows) {
    this.viewport = viewport;
    this.canvas = canvas;
    this.rows = rows;
    this.count = 0;
    this.height = DEFAULT_HEIGHT;
    /** Tiles beside each other. */
    this.columns = 1;
    this.width = 0;
    /** @type {Map<number, Row>} */
    this.rendered = new Map();
    /** @type {Row[]} */
    this.idle = [];
    this.frame = 0;
    this.stale = false;
    viewport.addEventListener("scroll", () => this.#schedule(), { passive: true });
    new ResizeObserver(() => this.#schedule(true)).observe(viewport);
  }

  /** @param {number} count */
  setCount(count) {
    this.count = count;
    this.draw(true);
  }

  /** Render the visible rows. `stale`: rows have changed rather than moved. */
  draw(stale = false) {
    if (stale) this.#measure();
    const { first, last } = this.range();
    for (const [index, row] of this.rendered) {
      if (index >= first && index <= last) continue;
      this.rendered.delete(index);
      this.idle.push(row);
      row.element.hidden = true;
    }
    for (let index = first; index <= last; index += 1) {
      const existing = this.rendered.get(index);
      if (existing && !stale) continue;
      const row = existing ?? this.idle.pop() ?? this.#add();
      this.rendered.set(index, row);
      row.element.hidden = false;
      row.element.style.transform = `translate(${(index % this.columns) * this.width}px, ${this.top(index)}px)`;
      this.rows.show(row, index);
    }
  }

  /** The rows to render at this scroll position. */
  range() {
    const top = Math.max(0, this.viewport.scrollTop - this.offset);
    const overscan = this.width ? TILE_OVERSCAN : OVERSCAN;
    const first = Math.max(0, Math.floor(top / this.height) - overscan);
    const last = Math.ceil((top + this.viewport.clientHeight) / this.height) + overscan;
    return { first: first * this.columns, last: Math.min(this.count - 1, (last + 1) * this.columns - 1) };
  }

  /** The height of what is above the rows inside the viewport, such as a sticky header. */
  get offset() {
    return this.canvas.offsetTop;
  }

  get pageLength() {
    return Math.max(1, Math.floor((this.viewport.clientHeight - this.height) / this.height) - 1) * this.columns;
  }

  /** @param {number} index */
  top(index) {
    return Math.floor(index / this.columns) * this.height;
  }

  /** @param {number} index */
  rowAt(index) {
    return this.rendered.get(index);
  }

  /** Scroll just enough to show a row. @param {number} index */
  reveal(index) {
    const header = this.offset;
    const top = this.top(index);
    const room = this.viewport.clientHeight - header;
    const { scrollTop } = this.viewport;
    if (top < scrollTop) this.viewport.scrollTop = top;
    else if (top + this.height > scrollTop + room) this.viewport.scrollTop = top + this.height - room;
    this.draw();
  }

  #add() {
    const row = this.rows.make();
    this.canvas.append(row.element);
    return row;
  }

  #measure() {
    const style = getComputedStyle(this.canvas);
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    this.height = Math.round(parseFloat(style.getPropertyValue("--row")) * rem) || DEFAULT_HEIGHT;
    const tile = parseFloat(style.getPropertyValue("--tile")) * rem || 0;
    const room = this.canvas.clientWidth;
    this.columns = tile ? Math.max(1, Math.floor(room / tile)) : 1;
    this.width = tile ? room / this.columns : 0;
    this.canvas.style.setProperty("--tile-width", `${this.width}px`);
    this.canvas.style.height = `${Math.ceil(this.count / this.columns) * this.height}px`;
  }

  #schedule(stale = false) {
    this.stale ||= stale;
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw(this.stale);
      this.stale = false;
      this.rows.onScroll?.();
    });
  }
}
