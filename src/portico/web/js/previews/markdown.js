/**
 * Markdown as elements: headings, lists, tables, quotes, code, emphasis and links. Text is inserted as text, so markup in
 * it is shown and never parsed. Images are not loaded. Every step is linear in the length of the text.
 */

import { make, makeWith } from "../ui/dom.js";
import { inline } from "./markdown-inline.js";

/** @import { Child } from "../types.js" */

/** Quotes and lists that are nested deeper are shown as text. */
const MAX_DEPTH = 8;

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+|$)/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:[ \t]+|$)/;
const TASK = /^\[([ xX])\][ \t]+/;
const TABLE_RULE = /^\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?$/;
const INDENTED = /^(?: {4}|\t)/;

/** @param {string} text */
export function markdownView(text) {
  const article = makeWith("article", { class: "markdown" }, blocks(text.split(/\r\n?|\n/), 0));
  // Not before: the browser would look for the first letter again with every block.
  article.dir = "auto";
  return article;
}

/** @param {string[]} lines @param {number} depth @returns {Child[]} */
function blocks(lines, depth) {
  /** @type {Child[]} */
  const found = [];
  let at = 0;
  while (at < lines.length) {
    const [block, next] = blockAt(lines, at, depth);
    if (block) found.push(block);
    at = next;
  }
  return found;
}

/** The block that begins at a line, and the line after it. @param {string[]} lines @param {number} at @param {number} depth @returns {[Child, number]} */
function blockAt(lines, at, depth) {
  const line = lines[at];
  if (!line.trim()) return [null, at + 1];
  const fence = FENCE.exec(line);
  if (fence) return fenced(lines, at, fence[1]);
  const heading = HEADING.exec(line);
  // The dialog has the levels above.
  if (heading) return [makeWith(headingTag(heading[1].length), {}, inline(line.slice(heading[0].length).replace(/[ \t]#+[ \t]*$/, "").trim())), at + 1];
  if (RULE.test(line)) return [make("hr"), at + 1];
  if (depth < MAX_DEPTH && QUOTE.test(line)) return quote(lines, at, depth);
  if (depth < MAX_DEPTH && ITEM.test(line)) return list(lines, at, depth);
  if (INDENTED.test(line)) return indented(lines, at);
  if (line.includes("|") && TABLE_RULE.test((lines[at + 1] ?? "").trim())) return table(lines, at);
  return paragraph(lines, at, depth);
}

/** @param {number} level */
const headingTag = (level) => /** @type {"h3" | "h4" | "h5" | "h6"} */ (`h${Math.min(level + 2, 6)}`);

/** @param {string[]} lines @param {number} at @param {string} mark @returns {[Child, number]} */
function fenced(lines, at, mark) {
  const end = new RegExp(`^ {0,3}${mark[0]}{${mark.length},}[ \\t]*$`);
  let stop = at + 1;
  while (stop < lines.length && !end.test(lines[stop])) stop += 1;
  return [code(lines.slice(at + 1, stop)), stop + 1];
}

/** @param {string[]} lines @param {number} at @returns {[Child, number]} */
function indented(lines, at) {
  let stop = at;
  while (stop < lines.length && (INDENTED.test(lines[stop]) || !lines[stop].trim())) stop += 1;
  return [code(lines.slice(at, stop).map((line) => line.replace(INDENTED, ""))), stop];
}

/** @param {string[]} lines */
const code = (lines) => make("pre", { tabindex: "0" }, make("code", {}, lines.join("\n").trimEnd()));

/** @param {string[]} lines @param {number} at @param {number} depth @returns {[Child, number]} */
function quote(lines, at, depth) {
  let stop = at;
  while (stop < lines.length && QUOTE.test(lines[stop])) stop += 1;
  return [makeWith("blockquote", {}, blocks(lines.slice(at, stop).map((line) => line.replace(QUOTE, "")), depth + 1)), stop];
}

/** @param {string[]} lines @param {number} at @param {number} depth @returns {[Child, number]} */
function list(lines, at, depth) {
  const [, , first] = /** @type {RegExpExecArray} */ (ITEM.exec(lines[at]));
  const ordered = /\d/.test(first);
  const kind = first.slice(-1);
  const items = [];
  let stop = at;
  while (stop < lines.length) {
    const found = ITEM.exec(lines[stop]);
    if (!found || found[2].slice(-1) !== kind || RULE.test(lines[stop])) break;
    const indent = found[0].length;
    const content = [lines[stop].slice(indent)];
    stop += 1;
    while (stop < lines.length && belongs(lines, stop, found[1].length)) {
      content.push(lines[stop].replace(new RegExp(`^[ \\t]{0,${indent}}`), ""));
      stop += 1;
    }
    items.push(item(content, depth));
  }
  const start = ordered ? parseInt(first, 10) : 1;
  return [ordered ? makeWith("ol", { start: start === 1 ? null : String(start) }, items) : makeWith("ul", {}, items), stop];
}

/** Whether a line continues the item above it. @param {string[]} lines @param {number} at @param {number} indent of the item */
function belongs(lines, at, indent) {
  const line = lines[at];
  if (!line.trim()) return /^[ \t]{2,}\S/.test(lines[at + 1] ?? "");
  if (/^(?: {2,}|\t)/.test(line) && line.length - line.trimStart().length > indent) return true;
  return !ITEM.test(line) && !QUOTE.test(line) && !FENCE.test(line) && !HEADING.test(line) && !RULE.test(line) && Boolean(lines[at - 1].trim());
}

/** @param {string[]} content @param {number} depth */
function item(content, depth) {
  const task = TASK.exec(content[0]);
  if (task) content[0] = content[0].slice(task[0].length);
  const box = task ? make("span", { class: "task", "aria-hidden": "true" }, task[1] === " " ? "☐" : "☑") : null;
  const inner = blocks(content, depth + 1);
  // A list without empty lines has text in its items, not paragraphs.
  const tight = !content.some((line) => !line.trim());
  const flat = tight ? inner.flatMap((child) => (child instanceof HTMLParagraphElement ? [...child.childNodes] : [child])) : inner;
  return makeWith("li", { class: task ? "task-item" : null }, [box, ...flat]);
}

/** @param {string[]} lines @param {number} at @returns {[Child, number]} */
function table(lines, at) {
  const head = cells(lines[at]);
  let stop = at + 2;
  while (stop < lines.length && lines[stop].includes("|") && lines[stop].trim()) stop += 1;
  const body = lines.slice(at + 2, stop).map((line) => cells(line).slice(0, head.length));
  return [make("div", { class: "scroll", tabindex: "0" }, make("table", {},
    make("thead", {}, makeWith("tr", {}, head.map((cell) => makeWith("th", { scope: "col" }, inline(cell))))),
    makeWith("tbody", {}, body.map((row) => makeWith("tr", {}, row.map((cell) => makeWith("td", {}, inline(cell)))))))), stop];
}

/** @param {string} line */
const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.replaceAll("\\|", "|").trim());

/** @param {string[]} lines @param {number} at @param {number} depth @returns {[Child, number]} */
function paragraph(lines, at, depth) {
  let stop = at + 1;
  let underline = 0;
  while (stop < lines.length && lines[stop].trim()) {
    const line = lines[stop];
    if (/^ {0,3}(?:=+|-+)[ \t]*$/.test(line)) {
      underline = line.includes("=") ? 1 : 2;
      break;
    }
    if (FENCE.test(line) || HEADING.test(line) || RULE.test(line)) break;
    if (depth < MAX_DEPTH && (QUOTE.test(line) || /^ {0,3}(?:[-*+]|1[.)])[ \t]+\S/.test(line))) break;
    stop += 1;
  }
  const text = lines.slice(at, stop).map((line, index) => (index ? line.trimStart() : line)).join("\n").trim();
  if (underline) return [makeWith(headingTag(underline), {}, inline(text)), stop + 1];
  return [makeWith("p", {}, inline(text)), stop];
}
