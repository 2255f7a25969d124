// `config.js` has no source: the gateway writes it from its settings (see bundle.py).
export const clientId: string;
export const clientSecret: string;
/** Media types of which the gateway makes thumbnails. */
export const thumbnailTypes: string[];
/** Whether what is deleted or replaced can be brought back. */
export const keepsDeleted: boolean;
/** Whether this is the page of a share link. */
export const isGuestPage: boolean;
