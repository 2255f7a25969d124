/** A user's tree: the mounts that it consists of, and what is allowed in each folder. */

import { split } from "../paths.js";

/** @typedef {{path: string, rights: string[], connection?: string}} Mount `connection`: where its files are kept, if the administrator shows it */

/** What can be done with a folder above mounts that belongs to none of them. */
const VIRTUAL = ["list"];

export class Mounts {
  /** @param {{rights: string[], mounts?: Mount[]} | null} access without mounts, from an older gateway: one for everything */
  constructor(access) {
    /** Sorted by path, so what contains another mount comes first. */
    this.list = access?.mounts ?? (access ? [{ path: "/", rights: access.rights }] : []);
  }

  /** The mount that a path belongs to: the longest that matches. Without one, the path is a virtual folder. @param {string} path */
  at(path) {
    return this.list.findLast((mount) => contains(mount.path, path));
  }

  /** @param {string} path @param {...string} rights */
  allow(path, ...rights) {
    return gives(this.at(path)?.rights ?? (this.list.length ? VIRTUAL : []), rights);
  }

  /** Whether something can be moved from one path to another. Between mounts, it is read and then deleted. @param {string} from @param {string} to */
  allowMove(from, to) {
    if (this.at(from) === this.at(to)) return this.allow(from, "upload", "overwrite");
    return this.allow(from, "download", "delete") && this.allow(to, "upload");
  }

  /** Whether something can be moved elsewhere. @param {string} path */
  allowMoveFrom(path) {
    return this.list.some((mount) => this.allowMove(path, mount.path));
  }

  /** The mounts that give these rights. @param {...string} rights */
  with(...rights) {
    return this.list.filter((mount) => gives(mount.rights, rights));
  }

  /** Whether a mount begins here, within the tree. @param {string} path */
  beginAt(path) {
    return path !== "/" && this.list.some((mount) => mount.path === path);
  }

  /** The mounts that begin below a folder. @param {string} folder */
  below(folder) {
    return this.list.filter(({ path }) => path !== folder && contains(folder, path));
  }

  /** Those of the entries that a rule has to look at: without mounts in them, all in a folder are alike. @template {{name: string}} Entry @param {string} folder @param {Entry[]} entries */
  samples(folder, entries) {
    const depth = split(folder).length;
    const names = new Set(this.below(folder).map(({ path }) => split(path)[depth]));
    const ordinary = entries.find(({ name }) => !names.has(name));
    return [...(names.size ? entries.filter(({ name }) => names.has(name)) : []), ...(ordinary ? [ordinary] : [])];
  }

  /** Whether it is kept in one place, and so can be renamed, moved, copied and deleted. @param {string} path */
  isWhole(path) {
    return !this.beginAt(path) && !this.below(path).length;
  }
}

/** @param {string} folder @param {string} path */
const contains = (folder, path) => folder === "/" || path === folder || path.startsWith(`${folder}/`);

/** `overwrite` is `replace` and `delete` together. @param {string[]} rights @param {string[]} needed */
export const gives = (rights, needed) => needed.every((right) => rights.includes(right) || ((right === "replace" || right === "delete") && rights.includes("overwrite")));
