/** Downloads. The browser itself saves the response while it arrives, by a ticket in the address. */

import * as api from "../api/client.js";
import { announce, notify, notifyError } from "../ui/notices.js";
import { make } from "../ui/dom.js";
import { join } from "../paths.js";
import { t } from "../i18n/i18n.js";

/** @import { Entry } from "../types.js" */

/** The gateway accepts no more of them in one request. */
const MAX_PATHS = 10_000;

/** A file is saved as it is, anything else as one ZIP. @param {string} folder @param {Entry[]} entries */
export async function download(folder, entries) {
  const [entry] = entries;
  try {
    if (entries.length > 1) await saveSelection(folder, entries);
    else if (entry.folder) save(await api.archiveLink(join(folder, entry.name)));
    else save(await api.downloadLink(join(folder, entry.name)));
    if (entries.length === 1 && !entry.folder) announce(t("downloadStarted"));
    else notify(t("zipStarted"));
  } catch (error) {
    notifyError(error);
  }
}

/** @param {string} folder */
export async function downloadFolder(folder) {
  try {
    save(await api.archiveLink(folder));
    notify(t("zipStarted"));
  } catch (error) {
    notifyError(error);
  }
}

/** @param {string} href */
function save(href) {
  make("a", { href, download: true }).click();
}

/** @param {string} folder @param {Entry[]} entries */
async function saveSelection(folder, entries) {
  if (entries.length > MAX_PATHS) throw new Error(t("tooManyForZip", { count: MAX_PATHS }));
  const action = await api.archiveLink(folder);
  // A refusal would replace the page, and uploads that run, so it gets a tab of its own. Browsers open one only soon after
  // a click or a key; a tab that becomes a download closes by itself.
  const target = navigator.userActivation?.isActive ? "_blank" : "_self";
  const fields = entries.map(({ name }) => make("input", { type: "hidden", name: "paths", ".value": name }));
  const form = make("form", { method: "post", action, target, rel: "noopener", hidden: true }, ...fields);
  document.body.append(form);
  form.submit();
  form.remove();
}
