/** Sets up the page of a share link. */

import { loadMessages } from "./i18n/i18n.js";

await loadMessages();
