/** What a folder view shows instead of entries: that it is loading or empty, or why it cannot be shown. */

import { bdi, fill, make, makeWith } from "../ui/dom.js";
import { icon } from "../ui/icons.js";
import { announce } from "../ui/notices.js";
import { link, parent } from "../paths.js";
import { codeOf, errorContent } from "../api/errors.js";
import { session } from "../api/session.js";
import { t } from "../i18n/i18n.js";
import { mayDrag } from "../uploads/drop-zone.js";

/** @import { Child, IconName } from "../types.js" */

export class Placeholder {
  /** @param {{onShow: () => void}} handlers */
  constructor({ onShow }) {
    this.onShow = onShow;
    this.element = make("div", { class: "placeholder", hidden: true });
  }

  hide() {
    this.element.hidden = true;
  }

  /** @param {IconName | ""} iconName without one: a spinner @param {string} title @param {Child[]} [text] @param {Child} [action] */
  show(iconName, title, text = [], action = null) {
    this.onShow();
    this.element.hidden = false;
    fill(this.element, iconName ? icon(iconName) : make("div", { class: "spinner", "aria-hidden": "true" }), make("h2", {}, title), text.length ? make("p", {}, ...text) : null, action);
  }

  /** @param {{mayUpload: boolean}} options */
  showEmpty({ mayUpload }) {
    this.show("folderSolid", t("emptyFolder"), mayUpload ? [t(mayDrag() ? "emptyHint" : "emptyHintTouch")] : []);
  }

  /** The folder cannot be listed, but some below it may be: they are named, as nothing else leads there. @param {string} path */
  showLocked(path) {
    const inner = session.mounts.below(path).map((mount) => make("li", {}, make("a", { href: link(mount.path) }, bdi(mount.path))));
    this.show("lock", t(session.mayIn(path, "upload") ? "dropBox" : "mayNotList"), [], inner.length ? makeWith("ul", { class: "inner-folders" }, inner) : null);
  }

  /** @param {unknown} error @param {string} path @param {() => void} retry */
  showError(error, path, retry) {
    const code = codeOf(error);
    const missing = ["not-found", "invalid-path", "not-a-folder"].includes(code);
    const action = missing && path !== "/"
      ? make("a", { class: "button", href: link(parent(path)) }, t("upwards"))
      : make("button", { type: "button", onclick: retry }, t("tryAgain"));
    const title = t(missing ? "missingFolder" : code === "forbidden" ? "mayNotList" : "cannotShow");
    this.show(missing ? "search" : code === "forbidden" ? "lock" : "warning", title, errorContent(error), action);
    action.focus();
    announce(title);
  }
}
