/**
 * The session of this tab. The access token is in sessionStorage: it survives a reload. The refresh token is in a cookie
 * that no script can read and that is sent to the sign-in only, so a new tab is signed in, too.
 */

import { clientId, clientSecret } from "../config.js";
import { base64 } from "./base64.js";
import { ApiError, errorFrom, SignedOut, Unreachable } from "./errors.js";
import { gives, Mounts } from "./mounts.js";

const STORAGE_KEY = "portico.session";
/** In localStorage: whether it is worth asking for the session of the cookie. */
const SIGNED_IN_KEY = "portico.signedIn";
const COOKIE_HEADER = { "X-Portico-Session": "cookie" };
const EXPIRY_MARGIN = 60_000;
const TIMEOUT = 20_000;

/** @typedef {{username: string, access: string, expires: number, lifetime: number, rights: string[], mounts?: import("./mounts.js").Mount[]}} StoredSession */

/** Emits `open`, and `end` with `{requested, username}`; `change` if the rights have changed, and `refused` if that may be so. */
class Session extends EventTarget {
  constructor() {
    super();
    /** @type {StoredSession | null} */
    this.stored = JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? "null");
    this.mounts = new Mounts(this.stored);
    /** @type {Promise<string> | null} */
    this.renewing = null;
    // All tabs have the same cookie: the one that renews it shares the new access token, and the one that signs out ends all.
    this.others = new BroadcastChannel("portico.session");
    this.others.onmessage = ({ data }) => {
      if (data.signedOut && this.username === data.signedOut) this.end({ requested: true });
      else if (this.stored && this.stored.access === data.replaced) this.#store(data.stored);
    };
  }

  /** Of uploads; see `guest-session.js`. @type {Record<string, string>} */
  uploadHeaders = {};
  /** @type {((body: string) => void) | undefined} */
  received = undefined;
  isGuest = false;

  get username() {
    return this.stored?.username ?? "";
  }

  get isOpen() {
    return this.stored !== null;
  }

  /** Whether these rights are given in any folder. @param {...string} rights */
  may(...rights) {
    return gives(this.stored?.rights ?? [], rights);
  }

  /** Whether they are given at this path. @param {string} path @param {...string} rights */
  mayIn(path, ...rights) {
    return this.mounts.allow(path, ...rights);
  }

  /** @param {import("./client.js").Access} access */
  setAccess({ username, rights, mounts }) {
    if (this.stored?.username === username) this.#store({ ...this.stored, rights, mounts });
  }

  /** @param {string} username @param {string} password */
  async signIn(username, password) {
    this.#store(await this.#obtain({ grant_type: "password", username, password }, username));
    localStorage.setItem(SIGNED_IN_KEY, "true");
    this.dispatchEvent(new Event("open"));
  }

  /** Open the session that another tab of this browser has begun, if there is one. */
  async resume() {
    if (this.stored || !localStorage.getItem(SIGNED_IN_KEY)) return;
    try {
      this.#store(await this.#obtain({ grant_type: "refresh_token" }));
    } catch (error) {
      if (!isTemporary(error)) localStorage.removeItem(SIGNED_IN_KEY);
    }
  }

  /** An access token that does not expire soon. */
  async token() {
    if (!this.stored) throw new SignedOut();
    const margin = Math.min(EXPIRY_MARGIN, this.stored.lifetime / 5);
    if (Date.now() < this.stored.expires - margin) return this.stored.access;
    return this.renewed(this.stored.access);
  }

  /** Replace an access token that expired or was refused. Concurrent callers share one renewal. @param {string} stale @returns {Promise<string>} */
  async renewed(stale) {
    if (!this.stored) throw new SignedOut();
    if (this.stored.access !== stale) return this.stored.access;
    this.renewing ??= this.#renew(this.stored).finally(() => {
      this.renewing = null;
    });
    return this.renewing;
  }

  /** @param {StoredSession} current */
  async #renew({ username, access: replaced }) {
    try {
      const stored = await this.#obtain({ grant_type: "refresh_token" });
      // Another tab has signed in as somebody else: this one must not act for them.
      if (stored.username !== username) throw new ApiError(400, { error: "invalid_grant" }, () => null);
      this.#store(stored);
      this.others.postMessage({ replaced, stored });
      return stored.access;
    } catch (error) {
      if (isTemporary(error)) throw error;
      this.end();
      throw new SignedOut();
    }
  }

  async signOut() {
    // One that has expired could not end the session.
    const access = await this.token().catch(() => "");
    localStorage.removeItem(SIGNED_IN_KEY);
    this.others.postMessage({ signedOut: this.username });
    this.end({ requested: true });
    if (!access) return;
    const headers = { Authorization: `Bearer ${access}`, ...COOKIE_HEADER };
    await fetch("/backend/logout", { method: "POST", headers, keepalive: true }).catch(() => undefined);
  }

  /** Forget the tokens. `requested`: the user signed out. */
  end({ requested = false } = {}) {
    if (!this.stored) return;
    const { username } = this.stored;
    this.#store(null);
    this.dispatchEvent(new CustomEvent("end", { detail: { requested, username } }));
  }

  /** @param {StoredSession | null} stored */
  #store(stored) {
    const former = this.mounts;
    const changes = this.stored && stored && this.stored.username === stored.username;
    this.stored = stored;
    this.mounts = new Mounts(stored);
    if (stored) sessionStorage.setItem(STORAGE_KEY, JSON.stringify(stored));
    else sessionStorage.removeItem(STORAGE_KEY);
    if (changes && JSON.stringify(former.list) !== JSON.stringify(this.mounts.list)) this.dispatchEvent(new Event("change"));
  }

  /** @param {Record<string, string>} form @param {string} [username] @returns {Promise<StoredSession>} */
  async #obtain(form, username = "") {
    const credentials = base64(`${clientId}:${clientSecret}`);
    const requestedAt = Date.now();
    let response;
    try {
      response = await fetch("/backend/login", {
        method: "POST",
        headers: { Authorization: `Basic ${credentials}`, ...COOKIE_HEADER },
        body: new URLSearchParams(form),
        signal: AbortSignal.timeout(TIMEOUT),
      });
    } catch {
      throw new Unreachable();
    }
    if (!response.ok) throw await errorFrom(response);
    const body = await response.json();
    const lifetime = body.expires_in * 1000;
    return {
      username: body.username ?? username,
      access: body.access_token,
      expires: requestedAt + lifetime,
      lifetime,
      ...(await this.#access(body)),
    };
  }

  /** What the new token allows, folder by folder. @param {{access_token: string, scope: string}} body @returns {Promise<{rights: string[], mounts?: import("./mounts.js").Mount[]}>} */
  async #access({ access_token: token, scope }) {
    try {
      const response = await fetch("/backend/session", { headers: { Authorization: `Bearer ${token}` }, signal: AbortSignal.timeout(TIMEOUT) });
      if (response.ok) {
        const { rights, mounts } = await response.json();
        return { rights, mounts };
      }
    } catch {
      // The gateway is asked again when the page is reloaded, or when it refuses something.
    }
    return { rights: scope.split(" ") };
  }
}

/** Whether the session may still be there. @param {unknown} error */
const isTemporary = (error) => !(error instanceof ApiError) || error.status === 429 || error.status >= 500;

export const session = new Session();
