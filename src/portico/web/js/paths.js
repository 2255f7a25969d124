/** Paths are plain text from the user's root: `/`, `/reports/2026`. */

export const split = (path) => path.split("/").filter(Boolean);

export const join = (folder, name) => (folder === "/" ? `/${name}` : `${folder}/${name}`);

export const parent = (path) => `/${split(path).slice(0, -1).join("/")}`;

export const nameOf = (path) => split(path).at(-1) ?? "/";

export const encoded = (path) => `/${split(path).map(encodeURIComponent).join("/")}`;

/** The address of a folder on this page. */
export const link = (path) => `#${encoded(path)}`;

/** The folder that the address bar names. A hash that cannot be read names what is not there. */
export function fromHash(hash) {
  const raw = hash.replace(/^#/, "");
  try {
    return `/${split(raw).map(decodeURIComponent).join("/")}`;
  } catch {
    return `/${split(raw).join("/")}`;
  }
}

export const within = (path, folder) => path === folder || folder === "/" || path.startsWith(`${folder}/`);

/** `report.tar.gz` → `.gz`; nothing for `.profile`. */
export function extension(name) {
  const dot = name.lastIndexOf(".");
  return dot > 0 ? name.slice(dot) : "";
}
