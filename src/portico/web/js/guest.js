/** Sets up the page of a share link. */

import { GuestPage } from "./guest/guest-page.js";
import { loadMessages } from "./i18n/i18n.js";

await loadMessages();
new GuestPage().start();
