/** A player for video and audio. The browser itself requests the parts that it needs, by a ticket in the address. */

import { fileUrl, ticketFor } from "../api/client.js";
import { make } from "../ui/dom.js";
import { isAbort } from "../api/errors.js";
import { t } from "../i18n/i18n.js";
import { visible } from "../visible-text.js";

/** A ticket is renewed after this share of its lifetime, for as long as the player is open. */
const RENEW_AT = 0.4;

/**
 * @param {string} path @param {"video" | "audio"} kind @param {string} name @param {AbortSignal} signal ends it
 * @param {(error: Error) => void} onFailure
 */
export async function mediaView(path, kind, name, signal, onFailure) {
  let { ticket, expiresIn } = await ticketFor(path, { signal });
  let timer = 0;
  let hasPlayed = false;
  const player = make(kind, { controls: true, preload: "metadata", playsinline: true, "aria-label": visible(name) });
  const load = () => {
    const { currentTime, paused } = player;
    player.src = fileUrl(path, { ticket });
    if (!currentTime) return;
    player.currentTime = currentTime;
    if (!paused) player.play().catch(() => undefined);
  };
  /** `reload`: also if the ticket stays the same. Setting the address twice would lose whether it plays. */
  const renew = async ({ reload = false } = {}) => {
    try {
      const next = await ticketFor(path, { renewed: ticket, signal });
      const isOther = next.ticket !== ticket;
      ({ ticket, expiresIn } = next);
      if (isOther || reload) load();
    } catch (error) {
      if (isAbort(error)) return;
    }
    if (!signal.aborted) schedule();
  };
  const schedule = () => {
    clearTimeout(timer);
    timer = setTimeout(renew, expiresIn * 1000 * RENEW_AT);
  };
  player.addEventListener("timeupdate", () => (hasPlayed ||= player.currentTime > 0));
  player.addEventListener("error", () => {
    if (signal.aborted) return;
    // The connection was lost, or the computer slept for longer than the ticket lives.
    if (hasPlayed) renew({ reload: true });
    else onFailure(new Error(t("cannotPlay")));
    hasPlayed = false;
  });
  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    player.pause();
    player.removeAttribute("src");
    player.load();
  });
  load();
  schedule();
  return player;
}
