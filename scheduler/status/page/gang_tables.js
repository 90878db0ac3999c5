// Gangs as rows: the queue, the running ones and the suspended ones.

import { make, table } from "./elements.js";
import { look } from "./palette.js";
import { bounds, called, devices, duration, forecast, moment, plural, soon } from "./words.js";

/** Rows that a table shows before it is asked for all. */
const FIRST = 25;

/** The same on a phone, where a row takes several lines. */
const FIRST_NARROW = 10;

/**
 * @typedef {Object} Reader What a table needs beside its rows.
 * @property {function(Object): void} open Open a gang.
 * @property {Set<string>} wide The ids of rows whose sentence is shown in full.
 * @property {Set<string>} whole The captions of tables that show all their rows.
 * @property {function(): void} again Draw again.
 * @property {boolean} isNarrow Whether the page is shown on a phone.
 * @property {string} none Why a table is empty, if a search left nothing.
 */

/** The mark of a gang: its color and its letter. */
export function swatch(gang) {
  const { color, letter } = look(gang);
  return make("span", { class: `cell sample c${color}`, "data-mark": letter, "aria-hidden": "true" });
}

/** A gang's name with its mark; a button if it has details. */
export function name(row, open) {
  const text = [swatch(row), make("span", { class: "gang-name" }, called(row))];
  if (row.key === null) return make("span", { class: "gang quiet" }, text);
  return make("button", { type: "button", class: "gang", title: called(row), "data-gang": row.id, click: () => open(row) }, text);
}

/** @param {Reader} reader */
export function pending(rows, reader) {
  return limited("Pending gangs", rows, reader, "No pending gangs.", (shown, caption) =>
    table(caption, ["Position", "Gang", "Reason", "Members", "Devices", "Waiting", "Starts", "Priority"], shown.map((row) => ({
      id: row.id,
      cells: [
        row.position === null ? "–" : String(row.position),
        name(row, reader.open),
        why(row, reader),
        `${row.members.present} of ${row.members.needed ?? "?"}`,
        devices(row.devicesWanted) || "–",
        duration(row.waitSeconds),
        row.forecast ? make("span", { title: forecast(row.forecast) }, soon(row.forecast), " ", make("small", {}, bounds(row.forecast))) : "–",
        String(row.priority),
      ],
    })), 1));
}

export function running(rows, reader) {
  return limited("Running gangs", rows, reader, "No running gangs.", (shown, caption) =>
    table(caption, ["Gang", "State", "Members", "Devices", "Running", "Owner", "Priority"], shown.map((row) => ({
      id: row.id,
      cells: [
        name(row, reader.open),
        make("strong", { class: `tag ${row.state}` }, row.state),
        `${row.members.running} of ${row.members.present}`,
        devices(row.devicesHeld) || "–",
        row.started === null ? "–" : make("span", { title: `since ${moment(row.started)}` }, duration(Date.now() / 1000 - row.started)),
        row.owner ?? "–",
        String(row.priority),
      ],
    }))));
}

export function asleep(rows, reader) {
  return limited("Suspended gangs", rows, reader, "No suspended gangs.", (shown, caption) =>
    table(caption, ["Gang", "Reason", "Quorum"], shown.map((row) => ({
      id: row.id, cells: [name(row, reader.open), why(row, reader), String(row.members.needed ?? "?")],
    }))));
}

/** The reason, and its sentence on one line. Opened, it shows the sentence in full and what the line leaves out. */
function why(row, { wide }) {
  if (row.reason === null) return row.state;
  const tag = make("strong", { class: `tag ${row.state}` }, row.reason);
  if (!row.message) return tag;
  const facts = [
    row.owner && `Owner ${row.owner}.`,
    row.created && `Created ${moment(row.created)}.`,
    row.forecast && `Starts ${forecast(row.forecast)}.`,
  ].filter(Boolean).join(" ");
  const open = wide.has(row.id);
  const noted = (event) => { if (event.target.open) wide.add(row.id); else wide.delete(row.id); };
  return make("details", { class: "why", open, toggle: noted },
    make("summary", { "data-gang": row.id }, tag, " ", make("span", { class: "said" }, untold(row))),
    facts ? make("p", { class: "note" }, facts) : null);
}

/** The sentence without a beginning that repeats the reason: "Insufficient resources: needs …" → "needs …". */
function untold({ reason, message }) {
  const [head, ...rest] = message.split(": ");
  return rest.length && head.replaceAll(" ", "").toLowerCase() === reason.toLowerCase() ? rest.join(": ") : message;
}

function limited(caption, rows, reader, none, build) {
  if (!rows.length) return [make("p", { class: "empty" }, reader.none || none)];
  const shown = reader.whole.has(caption) ? rows : rows.slice(0, reader.isNarrow ? FIRST_NARROW : FIRST);
  const rest = rows.length - shown.length;
  const all = () => { reader.whole.add(caption); reader.again(); };
  return [
    build(shown, caption),
    rest > 0 ? make("button", { type: "button", class: "more", click: all }, `Show ${plural(rest, "more gang")}`) : null,
  ];
}
