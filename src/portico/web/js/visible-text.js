/** Text with what could deceive its reader escaped, as `visible_text.py` does it for the command and the logs. */

/**
 * What only looks suspicious: the flags of England, Scotland and Wales; joiners between letters or emoji, or after an Indic
 * virama; variants of emoji and ideographs; keycaps.
 */
const HONEST = [
  /\u{1f3f4}[\u{e0030}-\u{e0039}\u{e0061}-\u{e007a}]{1,6}\u{e007f}/u,
  /(?<=[\p{L}\p{M}]|(?![\0-\x7f])\p{S})[\u200c\u200d](?=[\p{L}\p{M}]|(?![\0-\x7f])\p{S})/u,
  /(?<=[\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca])[\u200c\u200d]/u,
  /(?<=\p{Lo}|(?![\0-\x7f])[\p{S}\p{P}])[\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/u,
  /[\ufe00-\ufe0f](?=\u20e3)/u,
];
/** Control characters, and characters without a shape. */
const DECEPTIVE = /[\0-\x1f\x7f-\x9f\u2028\u2029\ufff9-\ufffb\u{13430}-\u{1343f}]|\p{Default_Ignorable_Code_Point}/u;
const SUSPECT = new RegExp(`(${HONEST.map(({ source }) => source).join("|")})|${DECEPTIVE.source}`, "gu");

/** @param {string} text */
export const visible = (text) => text.replace(SUSPECT, (found, honest) => (honest ? found : escaped(found)));

/** @param {string} character */
const escaped = (character) => character.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
