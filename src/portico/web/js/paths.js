/** Paths are plain text, relative to the user's root: `/`, `/reports/2026`. */

/** Characters that names cannot contain, as in the gateway's `paths.py`. */
const FORBIDDEN = /[\x00-\x1f\x7f-\x9f/\\\p{Cs}]/u;
const RESERVED_PREFIX = ".portico~";

/** @param {string} text */
export const isName = (text) => text !== "" && text !== "." && text !== ".." && !FORBIDDEN.test(text) && !text.startsWith(RESERVED_PREFIX);

/** @param {string} path */
export const split = (path) => path.split("/").filter(Boolean);

/** @param {string} folder @param {string} name */
export const join = (folder, name) => (folder === "/" ? `/${name}` : `${folder}/${name}`);

/** @param {string} path */
export const parent = (path) => `/${split(path).slice(0, -1).join("/")}`;

/** @param {string} path */
export const nameOf = (path) => split(path).at(-1) ?? "/";

/** @param {string} path */
export const encoded = (path) => `/${split(path).map(encodeURIComponent).join("/")}`;

/** The URL of a file or folder on this page. @param {string} path */
export const link = (path) => `#${encoded(path)}`;

/** The full URL of a file or folder on this page. It contains no secret: to open it, one has to sign in. @param {string} path */
export const pageUrl = (path) => location.origin + location.pathname + link(path);

/**
 * The path in the URL's hash, parsed as the gateway parses paths: decoded once, then split at the slashes. A question mark
 * begins what is searched for; one in a name is encoded.
 * @param {string} hash
 * @returns {string | null} null for an invalid path: a crafted link must not lead elsewhere
 */
export function fromHash(hash) {
  let text;
  try {
    text = decodeURIComponent(hash.replace(/^#\/?/, "").replace(/\?.*$/s, ""));
  } catch {
    return null;
  }
  const inner = text.replace(/\/$/, "");
  if (!inner) return text ? null : "/";
  const names = inner.split("/");
  return names.every(isName) ? `/${names.join("/")}` : null;
}

/** `report.tar.gz` → `.gz`; empty for `.profile`. @param {string} name */
export function extension(name) {
  const dot = name.lastIndexOf(".");
  return dot > 0 ? name.slice(dot) : "";
}
