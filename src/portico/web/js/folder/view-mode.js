/** Whether a folder is shown as a list or as a grid. It is remembered in this browser. */

const STORAGE_KEY = "portico.view";

/** Emits `change`. */
class ViewMode extends EventTarget {
  get isGrid() {
    return localStorage.getItem(STORAGE_KEY) === "grid";
  }

  toggle() {
    localStorage.setItem(STORAGE_KEY, this.isGrid ? "list" : "grid");
    this.dispatchEvent(new Event("change"));
  }
}

export const viewMode = new ViewMode();
