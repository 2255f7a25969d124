/** A list of rows of equal height that renders only the visible ones. */

/** Rows that are rendered above and below the viewport. */
const OVERSCAN = 8;
const DEFAULT_HEIGHT = 44;

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
      row.element.style.transform = `translateY(${index * this.height}px)`;
      this.rows.show(row, index);
    }
  }

  /** The rows to render at this scroll position. */
  range() {
    const top = Math.max(0, this.viewport.scrollTop - this.offset);
    const first = Math.max(0, Math.floor(top / this.height) - OVERSCAN);
    const last = Math.min(this.count - 1, Math.ceil((top + this.viewport.clientHeight) / this.height) + OVERSCAN);
    return { first, last };
  }

  /** The height of what is above the rows inside the viewport, such as a sticky header. */
  get offset() {
    return this.canvas.offsetTop;
  }

  get pageLength() {
    return Math.max(1, Math.floor((this.viewport.clientHeight - this.height) / this.height) - 1);
  }

  /** @param {number} index */
  rowAt(index) {
    return this.rendered.get(index);
  }

  /** Scroll just enough to show a row. @param {number} index */
  reveal(index) {
    const header = this.offset;
    const top = index * this.height;
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
    const rowHeight = getComputedStyle(this.canvas).getPropertyValue("--row");
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    this.height = Math.round(parseFloat(rowHeight) * rem) || DEFAULT_HEIGHT;
    this.canvas.style.height = `${this.count * this.height}px`;
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
