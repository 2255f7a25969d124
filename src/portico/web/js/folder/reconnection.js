/** Waits until a folder that could not be opened can be listed again. */

import { listPage } from "../api/client.js";
import { isTemporary } from "../api/errors.js";
import { Retries } from "../uploads/retries.js";

/**
 * Ask again and again, after an error that may pass. What is shown stays meanwhile.
 * @param {import("./listing.js").Listing} listing
 * @param {unknown} error why it could not be opened
 * @returns {Promise<boolean>} whether to open it; false if the user has gone elsewhere, or the error does not pass
 */
export async function listable(listing, error) {
  if (!isTemporary(error)) return false;
  const { signal } = listing.aborter;
  const retries = new Retries();
  while (isTemporary(error)) {
    try {
      await retries.wait(error, signal);
      await listPage(listing.path, { cursor: null, size: 1, signal });
      break;
    } catch (reason) {
      error = reason;
    }
  }
  return !listing.closed;
}
