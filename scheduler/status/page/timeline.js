// What ran, what runs, and what is forecast, as bars over time, with a table of the same times.

import { drawing, make, table } from "./elements.js";
import { look } from "./palette.js";
import { called, duration, forecast, moment, plural } from "./words.js";

/** Rows of each kind that are drawn before all are asked for. */
const FIRST = 8;

const HEIGHT = 20;
const BAR = 12;
const AXIS = 22;
const LETTER = 7;
const MINUTE = 60;
const HOUR = 3600;
const STEPS = [5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080].map((minutes) => minutes * MINUTE);

/** Outcomes in which the work was not finished. */
const BROKEN = new Set(["failed", "preempted", "runtime exceeded"]);

/**
 * @typedef {Object} Line One gang in time. Times are seconds since the epoch.
 * @property {Object} gang
 * @property {string} state
 * @property {number} since When it began to wait.
 * @property {?number} start
 * @property {?number} end
 * @property {?{middle: number, low: number, high: number}} forecast
 */

/** @returns {{ended: Line[], running: Line[], pending: Line[]}} Each by time. */
export function lines(gangs, history, now, hours) {
  const from = now - hours * HOUR;
  const ended = history.filter((one) => one.ended > from && one.ranSeconds > 0).map((one) => {
    const start = one.ended - one.ranSeconds;
    return { gang: one, state: one.outcome, since: start - one.waitedSeconds, start, end: one.ended, forecast: null };
  });
  const running = gangs.filter((row) => row.started !== null && row.waitSeconds === null && row.state !== "suspended").map((row) => (
    { gang: row, state: row.state, since: row.created ?? row.started, start: row.started, end: null, forecast: null }));
  const pending = gangs.filter((row) => row.forecast).map((row) => (
    { gang: row, state: row.state, since: row.created ?? now, start: null, end: null, forecast: row.forecast }));
  return {
    ended: ended.sort((a, b) => a.end - b.end),
    running: running.sort((a, b) => a.start - b.start),
    pending: pending.sort((a, b) => a.forecast.middle - b.forecast.middle),
  };
}

/**
 * @param {{now: number, hours: number, width: number, all: boolean, more: function(): void}} view width: in pixels.
 */
export function timeline(gangs, history, view) {
  const found = lines(gangs, history, view.now, view.hours);
  const every = [...found.ended, ...found.running, ...found.pending];
  if (!every.length) return [make("p", { class: "empty" }, "No gang ended, runs or has a forecast.")];
  const shown = view.all ? every : [
    ...found.ended.slice(-FIRST), ...found.running.slice(-FIRST), ...found.pending.slice(0, FIRST)];
  const rest = every.length - shown.length;
  const said = `${plural(found.ended.length, "ended gang")}, ${found.running.length} running, ${plural(found.pending.length, "forecast")}`;
  return [
    picture(shown, view, said),
    rest > 0 ? make("button", { type: "button", class: "more", click: view.more }, `Show ${plural(rest, "more gang")}`) : null,
    make("details", { class: "why", open: view.open, toggle: (event) => view.opened(event.target.open) },
      make("summary", { "data-table": "timeline" }, "The same as a table"), times(every)),
  ];
}

function times(every) {
  return table("Gangs over time", ["Gang", "State", "Began to wait", "Started", "Ran", "Ended", "Starts"], every.map((line) => ({
    id: line.gang.id,
    cells: [
      called(line.gang), line.state, moment(line.since), line.start === null ? "–" : moment(line.start),
      line.start === null ? "–" : duration((line.end ?? Date.now() / 1000) - line.start),
      line.end === null ? "–" : moment(line.end), forecast(line.forecast),
    ],
  })));
}

/** The span of time that is drawn: no longer than the lines need, and at least a quarter of an hour to each side. */
function span(shown, { now, hours }) {
  const first = Math.min(...shown.map((line) => line.start ?? now));
  const last = Math.max(now, ...shown.filter((line) => line.forecast).map((line) => line.forecast.high));
  const past = Math.min(hours * HOUR, Math.max(HOUR / 4, 1.05 * (now - first)));
  return [now - past, now + Math.min(hours * HOUR, Math.max(0.06 * past, 1.05 * (last - now)))];
}

function picture(shown, view, said) {
  const [from, to] = span(shown, view);
  const left = view.width < 600 ? 104 : 190;
  const x = (time) => left + ((Math.min(to, Math.max(from, time)) - from) / (to - from)) * (view.width - left - 6);
  const height = AXIS + shown.length * HEIGHT;
  return drawing("svg", {
    class: "timeline", role: "img", width: view.width, height, viewBox: `0 0 ${view.width} ${height}`,
    "aria-label": `Timeline from ${moment(from)} to ${moment(to)}: ${said}. The table below has the times.`,
  },
  ticks(from, to, view.width - left, x, height),
  shown.map((line, i) => bar(line, AXIS + i * HEIGHT, x, view, left)),
  drawing("line", { class: "now", x1: x(view.now), x2: x(view.now), y1: AXIS - 6, y2: height }),
  drawing("text", { class: "now", x: x(view.now), y: 12, "text-anchor": "middle" }, "now"));
}

/** Round local times, at least 75 pixels apart and not on top of "now". */
function ticks(from, to, width, x, height) {
  const step = STEPS.find((one) => ((to - from) / one) * 75 < width) ?? STEPS.at(-1);
  const offset = new Date(from * 1000).getTimezoneOffset() * MINUTE;
  const found = [];
  for (let at = Math.ceil((from - offset) / step) * step + offset; at <= to; at += step) found.push(at);
  const now = x(Date.now() / 1000);
  return found.map((at) => [
    drawing("line", { class: "tick", x1: x(at), x2: x(at), y1: AXIS - 4, y2: height }),
    Math.abs(x(at) - now) < 40 || x(at) > x(to) - 20 ? null
      : drawing("text", { class: "tick", x: x(at), y: 12, "text-anchor": "middle" }, moment(at)),
  ]);
}

function bar(line, y, x, view, left) {
  const { color, letter } = look(line.gang);
  const top = y + (HEIGHT - BAR) / 2;
  const middle = y + HEIGHT / 2;
  const told = line.forecast ? `starts ${forecast(line.forecast)}`
    : `${line.state}, ${line.end === null ? `since ${moment(line.start)}` : `${moment(line.start)} to ${moment(line.end)}`}`;
  const name = called(line.gang);
  const most = Math.floor((left - 8) / LETTER);
  const parts = [
    drawing("title", {}, `${name}: ${told}`),
    drawing("rect", { class: "ground", x: 0, y, width: view.width, height: HEIGHT }),
    drawing("text", { class: "name", x: 2, y: middle + 4 }, name.length > most ? `${name.slice(0, most - 1)}…` : name),
    drawing("line", { class: "wait", x1: x(line.since), x2: x(line.start ?? view.now), y1: middle, y2: middle }),
  ];
  if (line.start !== null) {
    const [a, b] = [x(line.start), x(line.end ?? view.now)];
    parts.push(drawing("rect", { class: `run c${color}${line.end === null ? "" : " over"}`, x: a, y: top, width: Math.max(2, b - a), height: BAR, rx: 2 }));
    if (b - a > 14) parts.push(drawing("text", { class: `mark c${color}`, x: a + 7, y: middle + 3.5, "text-anchor": "middle" }, letter));
    if (BROKEN.has(line.state)) parts.push(drawing("text", { class: "broken", x: b + 7, y: middle + 4, "text-anchor": "middle" }, "✕"));
  } else {
    const { low, middle: likely, high } = line.forecast;
    parts.push(
      drawing("rect", { class: `soon c${color}`, x: x(low), y: top + 2, width: Math.max(2, x(high) - x(low)), height: BAR - 4, rx: 2 }),
      drawing("rect", { class: `run c${color}`, x: x(likely) - 2, y: top, width: 4, height: BAR }));
  }
  return drawing("g", { class: "line", "data-gang": line.gang.id }, parts);
}
