/** The jobs that this browser has begun and not reported yet. They outlive a reload. */

const STORAGE_KEY = "portico.jobs";
const MAX_KNOWN = 50;

/** @returns {string[]} */
function known() {
  try {
    return JSON.parse(localStorage.getItem(STORAGE_KEY) ?? "[]");
  } catch {
    return []; // the storage is not allowed
  }
}

/** @param {string[]} ids */
function store(ids) {
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify(ids.slice(-MAX_KNOWN)));
  } catch {
    // The storage is full or not allowed. A running job is found after a reload nevertheless.
  }
}

/** @param {string} id */
export const rememberJob = (id) => store([...known(), id]);

/** @param {string} id */
export const forgetJob = (id) => store(known().filter((other) => other !== id));

/** @param {string} id */
export const isRemembered = (id) => known().includes(id);
