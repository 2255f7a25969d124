/** The order of a folder as a menu, where there are no column headers. */

import { t } from "../i18n/i18n.js";

/** @import { MenuItem, SortKey, SortOrder } from "../types.js" */

/** @type {SortKey[]} */
export const COLUMNS = ["name", "size", "modified"];

/** @param {SortOrder} current @param {(order: SortOrder) => void} onSort @returns {MenuItem[]} */
export function sortMenu(current, onSort) {
  /** @param {Partial<SortOrder>} order */
  const sort = (order) => () => onSort({ ...current, ...order });
  return [
    ...COLUMNS.map((key) => ({ label: t(`column_${key}`), checked: key === current.key, run: sort({ key }) })),
    { label: t("ascending"), checked: !current.descending, run: sort({ descending: false }), separated: true },
    { label: t("descending"), checked: current.descending, run: sort({ descending: true }) },
  ];
}
