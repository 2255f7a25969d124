/** SVG icons. */

/** @import { Entry } from "../types.js" */

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

/** Paths on a 24 × 24 grid. Names that end in `Solid` are filled, the others are outlines. */
const SHAPES = {
  folderSolid: "M3 6.5A2.5 2.5 0 0 1 5.5 4h3.6c.7 0 1.3.3 1.8.7L12.6 6.5h5.9A2.5 2.5 0 0 1 21 9v8.5a2.5 2.5 0 0 1-2.5 2.5h-13A2.5 2.5 0 0 1 3 17.5z",
  logoSolid: "M12 2.5 2.5 8v2.2h19V8zM5 12h2.7v6.6H5zm5.65 0h2.7v6.6h-2.7zm5.65 0H19v6.6h-2.7zM2.5 20.3h19v2.2h-19z",
  moreSolid: "M6 10.3a1.7 1.7 0 1 1 0 3.4 1.7 1.7 0 0 1 0-3.4m6 0a1.7 1.7 0 1 1 0 3.4 1.7 1.7 0 0 1 0-3.4m6 0a1.7 1.7 0 1 1 0 3.4 1.7 1.7 0 0 1 0-3.4",
  file: "M6 3h8l4.5 4.5V21H6zM13.5 3v5h5",
  image: "M4 5h16v14H4zM4 16l4.5-4.5 4 4 3-3L20 17M15.5 9.2h.01",
  text: "M6 3h8l4.5 4.5V21H6zM13.5 3v5h5M9 12.5h6.5M9 16h6.5",
  sheet: "M4 5h16v14H4zM4 10h16M4 14.5h16M10 5v14",
  code: "M6 3h8l4.5 4.5V21H6zM13.5 3v5h5M10.5 12 8.8 14l1.7 2M14 12l1.7 2-1.7 2",
  archive: "M4 4h16v5H4zM5.5 9v11h13V9M10 13h4",
  audio: "M9 18V6l10-2v12M9 18a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0M19 16a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0",
  video: "M4 6h11v12H4zM15 10.5l5-3v9l-5-3",
  upload: "M12 16V4.5M7 9l5-5 5 5M4.5 15v4.5h15V15",
  download: "M12 4v11.5M7 11l5 5 5-5M4.5 15v4.5h15V15",
  newFolder: "M11 19H5.5A1.5 1.5 0 0 1 4 17.5v-11A1.5 1.5 0 0 1 5.5 5h4l2.2 2.5h6.8A1.5 1.5 0 0 1 20 9v3M17 14.5v6M14 17.5h6",
  rename: "M4.5 19.5h4L19 9l-4-4L4.5 15.5zM13 7l4 4",
  move: "M11 19H5.5A1.5 1.5 0 0 1 4 17.5v-11A1.5 1.5 0 0 1 5.5 5h4l2.2 2.5h6.8A1.5 1.5 0 0 1 20 9v2M13 16.5h7.5M17.5 13l3.5 3.5-3.5 3.5",
  copy: "M9 9h11v11H9zM15 9V4H4v11h5",
  link: "M10 14a4 4 0 0 0 5.7 0l3.1-3.1a4 4 0 0 0-5.7-5.7L11.7 6.6M14 10a4 4 0 0 0-5.7 0l-3.1 3.1a4 4 0 0 0 5.7 5.7l1.4-1.4",
  share: "M12 14.5V3.5M8 7l4-4 4 4M8 10.5H5.5v10h13v-10H16",
  info: "M12 3.5a8.5 8.5 0 1 1 0 17 8.5 8.5 0 0 1 0-17M12 11v5.5M12 7.6h.01",
  history: "M4.6 10a7.6 7.6 0 1 1 .6 5M4.4 5v5h5M12 8v4.3l3 1.8",
  trash: "M4.5 7h15M9.5 7V4.5h5V7M6.5 7l1 13h9l1-13M10.2 11v5.5M13.8 11v5.5",
  open: "M2.5 12S6 5.5 12 5.5 21.5 12 21.5 12 18 18.5 12 18.5 2.5 12 2.5 12M12 9.2a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.6",
  close: "M6 6l12 12M18 6 6 18",
  next: "M9.5 5.5 16 12l-6.5 6.5",
  previous: "M14.5 5.5 8 12l6.5 6.5",
  down: "M5.5 9.5 12 16l6.5-6.5",
  up: "M5.5 14.5 12 8l6.5 6.5",
  search: "M10.5 4.5a6 6 0 1 1 0 12 6 6 0 0 1 0-12M15 15l5 5",
  searchBelow: "M9 19H5.5A1.5 1.5 0 0 1 4 17.5v-11A1.5 1.5 0 0 1 5.5 5h4l2.2 2.5h6.8A1.5 1.5 0 0 1 20 9v1.5M14.8 12a3.3 3.3 0 1 1 0 6.6 3.3 3.3 0 0 1 0-6.6M17.3 17.8l3.2 3.2",
  tiles: "M4.5 4.5h6v6h-6zM13.5 4.5h6v6h-6zM4.5 13.5h6v6h-6zM13.5 13.5h6v6h-6z",
  zoom: "M10.5 4.5a6 6 0 1 1 0 12 6 6 0 0 1 0-12M15 15l5 5M10.5 8v5M8 10.5h5",
  keyboard: "M3 6.5h18v11H3zM7 14h10M6.8 10.3h.01M10.3 10.3h.01M13.8 10.3h.01M17.3 10.3h.01",
  terminal: "M3.5 5h17v14h-17zM7 9.5l3 2.5-3 2.5M12.5 15H17",
  user: "M12 4a4 4 0 1 1 0 8 4 4 0 0 1 0-8M4.5 20.5c.6-4 3.6-6 7.5-6s6.9 2 7.5 6",
  check: "M5 12.5 10 17.5 19.5 7",
  retry: "M19.5 12a7.5 7.5 0 1 1-2.3-5.4M19.5 4v4.5H15",
  warning: "M12 4 2.8 19.5h18.4zM12 10v4.5M12 17h.01",
  storage: "M4 13.5h16v5.5H4zM4 13.5 7 5h10l3 8.5M16.5 16.3h.01M13.5 16.3h.01",
  lock: "M6 11h12v9.5H6zM8.5 11V8a3.5 3.5 0 0 1 7 0v3",
  book: "M4.5 5.5c2.5-1 5-1 7.5.5 2.5-1.5 5-1.5 7.5-.5v13c-2.5-1-5-1-7.5.5-2.5-1.5-5-1.5-7.5-.5zM12 6v13",
  globe: "M12 3.5a8.5 8.5 0 1 1 0 17 8.5 8.5 0 0 1 0-17M3.5 12h17M12 3.5c2.4 2.5 3.6 5.3 3.6 8.5s-1.2 6-3.6 8.5c-2.4-2.5-3.6-5.3-3.6-8.5S9.6 6 12 3.5",
  leave: "M14 4.5H5v15h9M10.5 12H21M17.5 8.5 21 12l-3.5 3.5",
};

/** @typedef {keyof typeof SHAPES} IconName */

/** @param {IconName} name */
export function icon(name) {
  const svg = document.createElementNS(SVG_NAMESPACE, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", name.endsWith("Solid") ? "icon solid" : "icon");
  const path = document.createElementNS(SVG_NAMESPACE, "path");
  path.setAttribute("d", SHAPES[name]);
  svg.append(path);
  return svg;
}

/** Change an icon in place. @param {SVGElement} svg @param {IconName} name */
export function setIcon(svg, name) {
  svg.setAttribute("class", name.endsWith("Solid") ? "icon solid" : "icon");
  svg.firstElementChild?.setAttribute("d", SHAPES[name]);
}

const ARCHIVES = /zip|gzip|x-tar|7z|rar|bzip|x-xz|compress/;
const SHEETS = /csv|spreadsheet|excel|parquet|tab-separated/;
const CODES = /json|javascript|xml|yaml|html|css|x-sh|x-python|sql|toml/;
const TEXTS = /^text\/|pdf|word|document|rtf|epub/;

/** The icon for an entry, by its media type. @param {Entry} entry @returns {IconName} */
export function iconFor(entry) {
  if (entry.folder) return "folderSolid";
  const type = entry.type;
  if (type.startsWith("image/")) return "image";
  if (type.startsWith("audio/")) return "audio";
  if (type.startsWith("video/")) return "video";
  if (ARCHIVES.test(type)) return "archive";
  if (SHEETS.test(type)) return "sheet";
  if (CODES.test(type)) return "code";
  return TEXTS.test(type) ? "text" : "file";
}
