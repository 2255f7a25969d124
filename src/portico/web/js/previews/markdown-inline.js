/** Markdown within a line: emphasis, code, links. */

import { make, makeWith } from "../ui/dom.js";

/** @import { Child } from "../types.js" */

const MAX_DEPTH = 6;
const SCHEMES = new Set(["http:", "https:", "mailto:"]);

const PLAIN = /[^\\`*_~[!<h\n]+/y;
const ESCAPED = /\\([!-/:-@[-`{-~])/y;
const TICKS = /`+/y;
const LINK = /(!?)\[((?:[^[\]\\\n]|\\.){0,500})\]\([ \t]*<?([^\s<>()]{0,2000})>?(?:[ \t]+(?:"[^"\n]{0,500}"|'[^'\n]{0,500}'))?[ \t]*\)/y;
const AUTOLINK = /<([a-z]{2,10}:[^\s<>]{1,2000}|[\w.+-]{1,64}@[\w.-]{1,255})>/iy;
const BARE = /https?:\/\/[^\s<>"'`)\]]{1,2000}/y;
const BREAK = /(?:\\| {2,})?\n/y;
const MARKS = ["**", "__", "~~", "*", "_"];
/** @type {Record<string, "strong" | "em" | "s">} */
const TAGS = { "**": "strong", __: "strong", "~~": "s", "*": "em", _: "em" };

/** @param {string} text @returns {Child[]} */
export const inline = (text, depth = 0) => new Inline(text, depth).parse();

class Inline {
  /** @param {string} text @param {number} depth */
  constructor(text, depth) {
    this.text = text;
    this.depth = depth;
    this.at = 0;
    /** @type {Child[]} */
    this.found = [];
    this.plain = "";
    /** Marks that no longer occur: nobody looks for them again. @type {Set<string>} */
    this.missing = new Set();
  }

  parse() {
    while (this.at < this.text.length) if (!this.#special()) this.plain += this.text[this.at++];
    this.#flush();
    return this.found;
  }

  /** @param {RegExp} pattern */
  #match(pattern) {
    pattern.lastIndex = this.at;
    const match = pattern.exec(this.text);
    if (match) this.at = pattern.lastIndex;
    return match;
  }

  #flush() {
    if (this.plain) this.found.push(this.plain);
    this.plain = "";
  }

  /** @param {Child} element */
  #add(element) {
    this.#flush();
    this.found.push(element);
    return true;
  }

  /** Whether something special begins here, and was added. */
  #special() {
    const plain = this.#match(PLAIN);
    if (plain) {
      this.plain += plain[0];
      return true;
    }
    const escaped = this.#match(ESCAPED);
    if (escaped) {
      this.plain += escaped[1];
      return true;
    }
    const broken = this.#match(BREAK);
    if (broken) return this.#lineBreak(broken[0]);
    return this.#code() || this.#link() || this.#emphasis();
  }

  /** @param {string} text */
  #lineBreak(text) {
    const hard = text.length > 1 || this.plain.endsWith("  ");
    this.plain = this.plain.trimEnd();
    if (hard) return this.#add(make("br"));
    this.plain += "\n";
    return true;
  }

  #code() {
    const { at } = this;
    const ticks = this.#match(TICKS);
    if (!ticks) return false;
    const mark = ticks[0];
    for (let from = this.at; !this.missing.has(mark);) {
      const end = this.text.indexOf(mark, from);
      if (end < 0) break;
      let stop = end + mark.length;
      while (this.text[stop] === "`") stop += 1;
      if (stop === end + mark.length) {
        const content = this.text.slice(this.at, end).replaceAll("\n", " ");
        this.at = stop;
        const padded = content.startsWith(" ") && content.endsWith(" ") && content.trim();
        return this.#add(make("code", {}, padded ? content.slice(1, -1) : content));
      }
      from = stop;
    }
    this.missing.add(mark);
    this.at = at + mark.length;
    this.plain += mark;
    return true;
  }

  #link() {
    const link = this.#match(LINK);
    if (link) {
      const [, image, label, target] = link;
      if (image) return this.#add(make("span", { class: "no-image" }, label || target));
      return this.#add(anchor(target, inline(label, this.depth + 1)));
    }
    const auto = this.#match(AUTOLINK);
    if (auto) return this.#add(anchor(auto[1].includes(":") ? auto[1] : `mailto:${auto[1]}`, [auto[1]]));
    const bare = this.#match(BARE);
    if (!bare) return false;
    let [url] = bare;
    while (".,:;!?*_~".includes(url.charAt(url.length - 1))) url = url.slice(0, -1);
    this.at -= bare[0].length - url.length;
    return this.#add(anchor(url, [url]));
  }

  #emphasis() {
    if (this.depth >= MAX_DEPTH) return false;
    const { text, at } = this;
    for (const mark of MARKS) {
      if (this.missing.has(mark) || !text.startsWith(mark, at) || /\s|^$/.test(text.charAt(at + mark.length))) continue;
      if (mark[0] === "_" && /[\p{L}\p{N}]/u.test(text.charAt(at - 1))) continue;
      const end = this.#closing(mark, at + mark.length);
      if (end < 0) continue;
      this.at = end + mark.length;
      return this.#add(makeWith(TAGS[mark], {}, inline(text.slice(at + mark.length, end), this.depth + 1)));
    }
    return false;
  }

  /** @param {string} mark @param {number} from */
  #closing(mark, from) {
    const { text } = this;
    for (let end = text.indexOf(mark, from + 1); end >= 0; end = text.indexOf(mark, end + 1)) {
      const inWord = mark[0] === "_" && /[\p{L}\p{N}]/u.test(text.charAt(end + mark.length));
      const longer = mark.length === 1 && (text[end + 1] === mark || text[end - 1] === mark);
      if (inWord || longer || /[\s\\]/.test(text[end - 1])) continue;
      // Of three or more, the last ones: the others belong to what is inside.
      while (mark.length === 2 && text[end + 2] === mark[0]) end += 1;
      return end;
    }
    this.missing.add(mark);
    return -1;
  }
}

/** A link, if it leads to the web or to a mailbox; otherwise only its text. @param {string} target @param {Child[]} children */
function anchor(target, children) {
  const url = URL.canParse(target) ? new URL(target) : null;
  if (!url || !SCHEMES.has(url.protocol)) return makeWith("span", {}, children);
  return makeWith("a", { href: url.href, target: "_blank", rel: "noopener noreferrer" }, children);
}
