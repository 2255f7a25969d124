// Shapes that several modules share.

/** A file or folder in a listing. */
export interface Entry {
  name: string;
  folder: boolean;
  /** The media type. */
  type: string;
  size?: number;
  modified?: string;
}

/** A result of a search. */
export interface FoundEntry extends Entry {
  path: string;
}

/** An entry as the REST API sends it. */
export interface EntryBody {
  name: string;
  absolutePath: string;
  type: "REGULAR" | "DIRECTORY";
  contentType: string;
  size?: number;
  lastModified?: string;
  isCurrentFolder?: boolean;
  /** The SHA-256 of a file, if it is known. */
  digest?: string;
}

export interface ListingPage {
  content: EntryBody[];
  nextCursor: string | null;
}

export interface SearchPage extends ListingPage {
  /** How many entries were looked at since the search began. */
  searched: number;
}

/** A change that goes on after its request was answered. */
export interface JobBody {
  id: string;
  /** `copy`, `move`, `delete` … */
  kind: string;
  state: "running" | "done" | "failed" | "cancelled";
  source: string;
  target?: string;
  result?: string;
  entriesDone: number;
  bytesDone: number;
  entriesTotal?: number;
  problem?: ErrorBody & { status: number };
  /** Of what was deleted, if it can be restored. */
  trashId?: string;
}

/** What was deleted or replaced, and can be brought back. */
export interface TrashedItem {
  id: string;
  path: string;
  name: string;
  isFolder: boolean;
  size: number | null;
  reason: "deleted" | "replaced";
  deletedAt: string;
  expiresAt: string;
}

export interface TrashPage {
  content: TrashedItem[];
  nextCursor: string | null;
}

/** A change of a file or folder. */
export interface ActivityEvent {
  at: string;
  action: "stored" | "replaced" | "made" | "deleted" | "moved" | "copied" | "restored" | "removed";
  /** Where it is since; null if the user can't see it. */
  path: string | null;
  /** Of a move or copy. */
  source: string | null;
  isFolder: boolean;
  size: number | null;
  /** Null for an administrator. */
  user: string | null;
  byLink: boolean;
  guest: string | null;
  /** Of what can be restored. */
  trashId: string | null;
}

export interface ActivityPage {
  events: ActivityEvent[];
  nextCursor: string | null;
}

/** Something that a rewind does not undo. */
export interface LeftAlone {
  path: string | null;
  why: "conflict" | "not-kept" | "not-known" | "merged" | "outside" | "out-of-reach" | "no-permission" | "changed" | "failed";
  /** Who has changed it since, for `conflict`. */
  user: string | null;
}

/** A rewind of one's own changes, or the plan for one. */
export interface RewindBody {
  id: string | null;
  steps: { restore: number; remove: number; move: number; make: number; tidy: number };
  leftAlone: LeftAlone[];
  leftAloneCount: number;
  job?: JobBody;
}

/** RFC 9457 problem details, or an RFC 6749 error from the sign-in. */
export interface ErrorBody {
  code?: string;
  error?: string;
  detail?: string;
  error_description?: string;
  requestId?: string;
  /** Uploads: the files of the request that were stored. */
  stored?: string[];
}

export type SortKey = "name" | "size" | "modified";

export interface SortOrder {
  key: SortKey;
  descending: boolean;
}

/** The reader's position in a folder, kept in the browser's history. */
export interface ScrollPosition {
  scroll?: number;
  /** The name of the active row. */
  row?: string;
  /** Whether this is a search that began in its folder, which is the entry before. */
  search?: boolean;
  /** Whether to load until that row is found. */
  find?: boolean;
  /** How many entries have to be loaded to get there. */
  count?: number;
}

export type EntryAction = "download" | "copyLink" | "share" | "details" | "activity" | "rename" | "move" | "copy" | "remove";
export type FolderAction = "upload" | "newFolder" | "downloadFolder" | "automate";
/** Everything that a button or a shortcut can start in a folder. */
export type Command =
  | EntryAction | "newFolder" | "downloadFolder" | "uploadFiles" | "uploadFolder" | "automate" | "refresh" | "clear" | "filter" | "search" | "folderDetails" | "folderActivity" | "gridView" | "up" | "focusList";

/** What the gateway does about a name conflict. */
export type OnConflict = "fail" | "replace" | "rename";
/** What a user decides about a name conflict. */
export type ConflictChoice = "replace" | "rename" | "skip";

/** A file that was picked or dropped, and its target folder. Without a file it is an empty folder to create. */
export interface PickedFile {
  folder: string;
  name: string;
  file: File | null;
}

export type UploadState = "waiting" | "running" | "asking" | "done" | "failed" | "skipped" | "cancelled";

/** What a running upload does instead of sending. */
export type UploadPause = "disconnected" | "retrying" | "resuming";

/** Files that were picked or dropped together. */
export interface UploadBatch {
  /** The answer for all conflicts of the batch, if the user gave one. */
  choice: ConflictChoice | null;
  conflicts: import("./uploads/name-conflicts.js").NameConflicts;
}

export interface UploadItem extends PickedFile {
  size: number;
  sent: number;
  state: UploadState;
  pause: UploadPause | null;
  /** How much the gateway already had when the upload was resumed. */
  resumedAt: number | null;
  /** Of a large file, once it has begun. */
  upload: import("./uploads/known-uploads.js").KnownUpload | null;
  error: unknown;
  /** The name that the file has in the storage. */
  stored: string;
  onConflict: OnConflict;
  /** Whether it is sent in a request of its own. */
  alone: boolean;
  /** Whether it may have been stored by a request without an answer. */
  uncertain: boolean;
  /** The ids in the trash of what its request has replaced. */
  replaced: string[];
  batch: UploadBatch;
  aborter: AbortController;
}

/** An upload that is not a folder. */
export type FileItem = UploadItem & { file: File };

export type IconName = import("./ui/icons.js").IconName;
export type Point = { x: number; y: number };

export interface MenuItem {
  label: string;
  icon?: IconName;
  /** The keyboard shortcut to show. */
  key?: string;
  run?: () => void;
  href?: string;
  danger?: boolean;
  checked?: boolean;
  /** Whether a line separates it from the item above. */
  separated?: boolean;
  submenu?: boolean;
  class?: string;
}

/** Attributes of a new element. Names that begin with a dot set properties, `data` sets data attributes. */
export interface ElementOptions {
  class?: string | null;
  data?: Record<string, string>;
  onclick?: (event: MouseEvent) => void;
  oninput?: (event: Event) => void;
  onchange?: (event: Event) => void;
  [attribute: string]: unknown;
}

export type Child = Node | string | null | undefined | false;

/** A message; an object has one form per plural category of the language. */
export type Message = string | { [category in Intl.LDMLPluralRule]?: string };
