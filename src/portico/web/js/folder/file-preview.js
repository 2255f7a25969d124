/** The preview of a file of the folder. The file has an address of its own while it is open. */

import { preview } from "../dialogs/preview.js";
import { download } from "./downloads.js";
import { kindOf } from "../previews/kinds.js";
import { fromHash, join, link } from "../paths.js";
import { session } from "../api/session.js";
import { t } from "../i18n/i18n.js";

/** @import { Entry } from "../types.js" */
/** @import { FolderView } from "./folder-view.js" */

export class FilePreview {
  /** @param {FolderView} view */
  constructor(view) {
    this.view = view;
    /** @type {ReturnType<typeof preview> | null} */
    this.open = null;
    this.folderTitle = "";
  }

  /** Show a file that was chosen on the page: Back closes it. @param {Entry} entry */
  choose(entry) {
    history.pushState({ preview: true }, "", link(join(this.view.path, entry.name)));
    return this.show(entry);
  }

  /** Show the file that the address names. @param {Entry} entry */
  async show(entry) {
    if (!session.mayIn(this.view.path, "download")) return;
    this.close();
    const { view } = this;
    const folder = view.path;
    const files = view.listing.shown.filter((other) => other === entry || (!other.folder && kindOf(other) !== "other"));
    this.folderTitle = document.title;
    let path = "";
    const open = preview(folder, files.includes(entry) ? files : [entry], entry, {
      onDownload: (file) => download(folder, [file]),
      onShow: (file) => {
        path = join(folder, file.name);
        history.replaceState(history.state, "", link(path));
        document.title = t("pageTitle", { name: file.name });
        view.activate(file);
      },
    });
    this.open = open;
    await open.closed;
    // Otherwise the address has changed first, or the session has ended: signing in again shows the file again.
    if (this.open !== open || fromHash(location.hash) !== path || !session.isOpen) return;
    this.close();
    if (history.state?.preview) history.back();
    else history.replaceState(null, "", link(folder));
  }

  close() {
    if (!this.open) return;
    const { open } = this;
    this.open = null;
    document.title = this.folderTitle;
    open.close();
  }
}
