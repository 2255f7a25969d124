/** How much of a large file is sent in one request. */

const LARGEST = 8 * 2 ** 20;
/** Proxies may accept no more than this in one request. */
const SMALLEST = 2 ** 20;
/** A part that fails for the second time in a row may be too large: proxies do not always say so. */
const FAILURES = 2;

/** Smaller after failures, and larger again after successes. */
export class PartSize {
  constructor() {
    this.bytes = LARGEST;
    /** What is not known to be too large. */
    this.most = LARGEST;
    this.failures = 0;
    /** Whether it was just made larger, and nothing of that size has arrived yet. */
    this.untried = false;
  }

  get isSmallest() {
    return this.bytes <= SMALLEST;
  }

  succeeded() {
    this.failures = 0;
    this.untried = this.bytes < this.most;
    this.bytes = Math.min(this.most, this.bytes * 2);
  }

  /** @param {{tooLarge: boolean}} reason */
  failed({ tooLarge }) {
    this.failures += 1;
    if (!tooLarge && this.failures < FAILURES) return;
    this.bytes = Math.max(SMALLEST, this.bytes / 2);
    if (tooLarge || this.untried) this.most = this.bytes;
    this.untried = false;
  }
}
