// Which gangs are shown, and in which order.

import { called } from "./words.js";

const ACCOUNT = /^system:serviceaccount:([^:]+):/;

/**
 * The test for a row. All words must occur in its namespace, name, owner, reason or state.
 * @param {string} text
 */
export function finder(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return (row) => {
    if (!words.length) return true;
    const said = [called(row), row.owner, row.reason, row.state].filter(Boolean).join(" ").toLowerCase();
    return words.every((word) => said.includes(word));
  };
}

/**
 * Whether a gang is the reader's: in the namespace of a service account; for others, in a namespace whose pods the
 * reader may list.
 * @param {string} user As the API knows the reader.
 */
export function isMine(row, user) {
  const account = ACCOUNT.exec(user);
  return row.name !== null && (!account || row.namespace === account[1]);
}

/** Whether `isMine` tells anything: some gang is not the reader's. */
export function isSelective(rows, user) {
  return rows.some((row) => !isMine(row, user));
}

const total = (amounts) => Object.values(amounts).reduce((sum, one) => sum + one, 0);

const KEYS = {
  name: (row) => [row.name === null ? 1 : 0, called(row)],
  size: (row) => [-total(row.devicesWanted), -row.members.present],
  age: (row) => [row.created ?? Infinity],
  start: (row) => [row.forecast ? row.forecast.middle : Infinity, row.position ?? Infinity],
  priority: (row) => [-(row.priority ?? -Infinity)],
};

const inQueue = (row) => [row.position ?? Infinity, -(row.priority ?? -Infinity), row.created ?? Infinity];

/** Pending gangs in queue order: those without a position come last. */
export const queued = (rows) => sorted(rows.filter((row) => row.waitSeconds !== null), inQueue);

/** The rows in the order that was chosen; in their own order if none was. */
export function ordered(rows, choice) {
  return choice in KEYS ? sorted(rows, KEYS[choice]) : rows;
}

function sorted(rows, key) {
  return rows.map((row) => [key(row), row]).sort(([a], [b]) => compared(a, b)).map(([, row]) => row);
}

function compared(a, b) {
  for (let i = 0; i < a.length; i += 1) {
    if (a[i] < b[i]) return -1;
    if (a[i] > b[i]) return 1;
  }
  return 0;
}
