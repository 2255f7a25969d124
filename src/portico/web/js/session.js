/** Who is signed in in this tab. Tokens live in sessionStorage: they survive a reload and end with the tab. */

import { clientId, clientSecret } from "./config.js";
import { Problem, SignedOut, Unreachable, problemOf } from "./problems.js";

const KEPT = "portico.session";
const MARGIN = 60_000;
const TIMEOUT = 20_000;

/** @typedef {{username: string, access: string, refresh: string, expires: number, lifetime: number, rights: string[]}} Kept */

class Session extends EventTarget {
  constructor() {
    super();
    /** @type {Kept | null} */
    this.kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
    this.renewing = null;
    // A duplicated tab begins with the same refresh token, which is good only once: whoever renews it tells the others.
    this.others = new BroadcastChannel("portico.session");
    this.others.onmessage = ({ data }) => {
      if (this.kept && this.kept.refresh === data.replaced) this.#keep(data.kept);
    };
  }

  get username() {
    return this.kept?.username ?? "";
  }

  get isOpen() {
    return this.kept !== null;
  }

  /** @param {...string} rights */
  may(...rights) {
    return rights.every((right) => this.kept?.rights.includes(right));
  }

  /** @returns {boolean} whether that is news */
  setRights(rights) {
    if (!this.kept || this.kept.rights.join() === rights.join()) return false;
    this.#keep({ ...this.kept, rights });
    return true;
  }

  async signIn(username, password) {
    this.#keep(await this.#obtain({ grant_type: "password", username, password }, username));
    this.dispatchEvent(new Event("open"));
  }

  /** An access token that is good for a while yet. */
  async token() {
    if (!this.kept) throw new SignedOut();
    const margin = Math.min(MARGIN, this.kept.lifetime / 5);
    if (Date.now() < this.kept.expires - margin) return this.kept.access;
    return this.renewed(this.kept.access);
  }

  /** A token in place of one that has expired or was refused; one renewal serves all who wait for it. */
  async renewed(stale) {
    if (!this.kept) throw new SignedOut();
    if (this.kept.access !== stale) return this.kept.access;
    this.renewing ??= this.#renew().finally(() => {
      this.renewing = null;
    });
    return this.renewing;
  }

  async #renew() {
    const replaced = this.kept.refresh;
    try {
      const kept = await this.#obtain({ grant_type: "refresh_token", refresh_token: replaced }, this.kept.username);
      this.#keep(kept);
      this.others.postMessage({ replaced, kept });
      return kept.access;
    } catch (error) {
      if (!(error instanceof Problem) || error.status === 429 || error.status >= 500) throw error;
      this.end();
      throw new SignedOut();
    }
  }

  async signOut() {
    const access = this.kept?.access;
    this.end({ asked: true });
    if (!access) return;
    const headers = { Authorization: `Bearer ${access}` };
    await fetch("/backend/logout", { method: "POST", headers, keepalive: true }).catch(() => undefined);
  }

  /** Forget the tokens. `asked` tells whether the user wanted it. */
  end({ asked = false } = {}) {
    if (!this.kept) return;
    const { username } = this.kept;
    this.#keep(null);
    this.dispatchEvent(new CustomEvent("end", { detail: { asked, username } }));
  }

  /** @param {Kept | null} kept */
  #keep(kept) {
    this.kept = kept;
    if (kept) sessionStorage.setItem(KEPT, JSON.stringify(kept));
    else sessionStorage.removeItem(KEPT);
  }

  /** @returns {Promise<Kept>} */
  async #obtain(form, username) {
    const credentials = btoa(String.fromCharCode(...new TextEncoder().encode(`${clientId}:${clientSecret}`)));
    const asked = Date.now();
    let response;
    try {
      response = await fetch("/backend/login", {
        method: "POST",
        headers: { Authorization: `Basic ${credentials}` },
        body: new URLSearchParams(form),
        signal: AbortSignal.timeout(TIMEOUT),
      });
    } catch {
      throw new Unreachable();
    }
    if (!response.ok) throw await problemOf(response);
    const body = await response.json();
    const lifetime = body.expires_in * 1000;
    return {
      username,
      access: body.access_token,
      refresh: body.refresh_token,
      expires: asked + lifetime,
      lifetime,
      rights: body.scope.split(" "),
    };
  }
}

export const session = new Session();
