/** Paths are plain text from the user's root: `/`, `/reports/2026`. */

/** What no name can hold; as the gateway has it in `paths.py`. */
const FORBIDDEN = /[\x00-\x1f\x7f-\x9f/\\\p{Cs}]/u;
const RESERVED_PREFIX = ".portico~";

/** Whether an entry can be called so. */
export const isName = (text) => text !== "" && text !== "." && text !== ".." && !FORBIDDEN.test(text) && !text.startsWith(RESERVED_PREFIX);

export const split = (path) => path.split("/").filter(Boolean);

export const join = (folder, name) => (folder === "/" ? `/${name}` : `${folder}/${name}`);

export const parent = (path) => `/${split(path).slice(0, -1).join("/")}`;

export const nameOf = (path) => split(path).at(-1) ?? "/";

export const encoded = (path) => `/${split(path).map(encodeURIComponent).join("/")}`;

/** The address of a folder on this page. */
export const link = (path) => `#${encoded(path)}`;

/**
 * The folder that the address bar names, read as the gateway reads paths: decoded once, then cut at the slashes.
 * @returns {string | null} nothing if it is no path: what comes from a link may be made to lead elsewhere
 */
export function fromHash(hash) {
  let text;
  try {
    text = decodeURIComponent(hash.replace(/^#\/?/, ""));
  } catch {
    return null;
  }
  const inner = text.replace(/\/$/, "");
  if (!inner) return text ? null : "/";
  const names = inner.split("/");
  return names.every(isName) ? `/${names.join("/")}` : null;
}

/** `report.tar.gz` → `.gz`; nothing for `.profile`. */
export function extension(name) {
  const dot = name.lastIndexOf(".");
  return dot > 0 ? name.slice(dot) : "";
}
