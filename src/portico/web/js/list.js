/** A list of rows of one height, of which only those in sight exist. */

const SPARE = 8;

export class VirtualList {
  /**
   * @param {HTMLElement} viewport scrolls, and is positioned
   * @param {HTMLElement} canvas holds the rows and is as high as all of them
   * @param {{make: () => HTMLElement, show: (row: HTMLElement, index: number) => void, onScroll?: () => void}} rows
   */
  constructor(viewport, canvas, rows) {
    this.viewport = viewport;
    this.canvas = canvas;
    this.rows = rows;
    this.count = 0;
    this.height = 44;
    /** @type {Map<number, HTMLElement>} */
    this.placed = new Map();
    /** @type {HTMLElement[]} */
    this.idle = [];
    this.asked = 0;
    viewport.addEventListener("scroll", () => this.#later(), { passive: true });
    new ResizeObserver(() => this.#later(true)).observe(viewport);
  }

  setCount(count) {
    this.count = count;
    this.draw(true);
  }

  /** Show again what is in sight; `anew` if rows have changed rather than moved. */
  draw(anew = false) {
    if (anew) this.#measure();
    const { first, last } = this.range();
    for (const [index, row] of this.placed) {
      if (index >= first && index <= last) continue;
      this.placed.delete(index);
      this.idle.push(row);
      row.hidden = true;
    }
    for (let index = first; index <= last; index += 1) {
      const standing = this.placed.get(index);
      if (standing && !anew) continue;
      const row = standing ?? this.idle.pop() ?? this.#add();
      this.placed.set(index, row);
      row.hidden = false;
      row.style.transform = `translateY(${index * this.height}px)`;
      this.rows.show(row, index);
    }
  }

  /** The rows that exist at this scroll position. */
  range() {
    const top = Math.max(0, this.viewport.scrollTop - this.offset);
    const first = Math.max(0, Math.floor(top / this.height) - SPARE);
    const last = Math.min(this.count - 1, Math.ceil((top + this.viewport.clientHeight) / this.height) + SPARE);
    return { first, last };
  }

  /** What stands above the rows inside the viewport, such as a heading that sticks. */
  get offset() {
    return this.canvas.offsetTop;
  }

  get pageLength() {
    return Math.max(1, Math.floor((this.viewport.clientHeight - this.height) / this.height) - 1);
  }

  rowAt(index) {
    return this.placed.get(index);
  }

  /** Scroll as little as it takes to see that row. */
  reveal(index) {
    const heading = this.offset;
    const top = index * this.height;
    const room = this.viewport.clientHeight - heading;
    const { scrollTop } = this.viewport;
    if (top < scrollTop) this.viewport.scrollTop = top;
    else if (top + this.height > scrollTop + room) this.viewport.scrollTop = top + this.height - room;
    this.draw();
  }

  #add() {
    const row = this.rows.make();
    this.canvas.append(row);
    return row;
  }

  #measure() {
    const probe = getComputedStyle(this.canvas).getPropertyValue("--row");
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    this.height = Math.round(parseFloat(probe) * rem) || 44;
    this.canvas.style.height = `${this.count * this.height}px`;
  }

  #later(anew = false) {
    this.anew ||= anew;
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      this.draw(this.anew);
      this.anew = false;
      this.rows.onScroll?.();
    });
  }
}
