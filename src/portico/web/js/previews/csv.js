/** Tables from text with separators (RFC 4180). */

import { make, makeWith } from "../ui/dom.js";
import { t } from "../i18n/i18n.js";

const MAX_ROWS = 1000;
const MAX_COLUMNS = 100;
const SEPARATORS = [",", ";", "\t", "|"];

/**
 * The records of a text. Quoted fields may contain separators, line breaks and doubled quotes.
 * @param {string} text
 * @param {{separator?: string, maxRows?: number}} [options] `separator`: if it is known
 * @returns {{rows: string[][], rest: boolean}} `rest`: whether there are more than `maxRows`
 */
export function parseTable(text, { separator = separatorOf(text), maxRows = MAX_ROWS } = {}) {
  /** @type {string[][]} */
  const rows = [];
  const special = new RegExp(`[${separator === "|" ? "\\|" : separator}\\r\\n]`, "g");
  let row = [];
  let at = 0;
  while (at < text.length || row.length) {
    if (rows.length === maxRows) return { rows, rest: true };
    const [field, end] = text[at] === '"' ? quoted(text, at) : ["", at];
    special.lastIndex = end;
    const found = special.exec(text);
    const stop = found ? found.index : text.length;
    row.push(field + text.slice(end, stop));
    if (found && found[0] === separator) {
      at = stop + 1;
      if (at < text.length) continue;
      row.push("");
    }
    if (row.length > 1 || row[0]) rows.push(row);
    row = [];
    at = stop + (text.startsWith("\r\n", stop) ? 2 : 1);
  }
  return { rows, rest: false };
}

/** The field that begins at a quote, and where it ends. One without an end is the rest of the text. @param {string} text @param {number} at @returns {[string, number]} */
function quoted(text, at) {
  let field = "";
  let from = at + 1;
  for (;;) {
    const quote = text.indexOf('"', from);
    if (quote < 0) return [field + text.slice(from), text.length];
    field += text.slice(from, quote);
    if (text[quote + 1] !== '"') return [field, quote + 1];
    field += '"';
    from = quote + 2;
  }
}

/** The separator that is most frequent in the first line, outside of quotes. @param {string} text */
export function separatorOf(text) {
  const line = text.slice(0, 10_000).replace(/"[^"]*"/g, "").split(/[\r\n]/, 1)[0];
  const counts = SEPARATORS.map((separator) => line.split(separator).length);
  return SEPARATORS[counts.indexOf(Math.max(...counts))];
}

/** A text as a table, and a note if it is not all of it. @param {string} text @param {{cut: boolean, name: string}} options `cut`: the text ends within a record */
export function tableView(text, { cut, name }) {
  const { rows, rest } = parseTable(text, /\.tsv$/i.test(name) ? { separator: "\t" } : {});
  if (cut && !rest && rows.length > 1) rows.pop();
  const columns = Math.max(0, ...rows.map((row) => row.length));
  const shown = Math.min(columns, MAX_COLUMNS);
  const notes = [
    rest || cut ? t("firstRows", { count: rows.length }) : "",
    shown < columns ? t("firstColumns", { count: shown }) : "",
  ];
  /** @param {string[]} row @param {"th" | "td"} tag */
  const cells = (row, tag) => Array.from({ length: shown }, (_, index) => make(tag, tag === "th" ? { scope: "col" } : {}, row[index] ?? ""));
  const [head = [], ...body] = rows;
  const table = make("table", { class: "data-table", dir: "auto" },
    make("thead", {}, make("tr", {}, make("td", {}), ...cells(head, "th"))),
    makeWith("tbody", {}, body.map((row, index) => make("tr", {}, make("th", { scope: "row" }, String(index + 1)), ...cells(row, "td")))));
  return { note: notes.filter(Boolean).join(" "), table };
}
