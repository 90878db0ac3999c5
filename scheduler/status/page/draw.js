// Answers → elements. Every text is inserted as text, so that no name can become HTML.

import { amount, called, duration, excluded, forecast, hue, moment, percent, plural, short } from "./words.js";

/** An element. words: attributes. A function is a listener; null omits the attribute. */
export function make(tag, words = {}, ...inside) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(words)) {
    if (value === null || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...inside.flat(Infinity).filter((one) => one !== null && one !== undefined));
  return element;
}

/** A table that screen readers recognize, regardless of the style sheet for phones. */
export function table(caption, heads, rows) {
  const head = make("tr", { role: "row" }, heads.map((one) => make("th", { scope: "col", role: "columnheader" }, one)));
  const body = rows.map((cells) =>
    make("tr", { role: "row" }, cells.map((cell, i) =>
      i === 0
        ? make("th", { scope: "row", role: "rowheader", "data-head": heads[i] }, cell)
        : make("td", { role: "cell", "data-head": heads[i] }, cell))));
  return make("table", { role: "table" },
    make("caption", { class: "hidden" }, caption),
    make("thead", { role: "rowgroup" }, head),
    make("tbody", { role: "rowgroup" }, body));
}

function swatch(id) {
  const mark = make("span", { class: "cell sample", "aria-hidden": "true" });
  mark.style.setProperty("--hue", hue(id));
  return mark;
}

/** A gang's name with its color; a button if it has details. */
function gang(row, open) {
  const text = [swatch(row.id), called(row)];
  if (row.key === null) return make("span", { class: "gang quiet" }, text);
  return make("button", { type: "button", class: "gang", "data-gang": row.id, click: () => open(row) }, text);
}

function members(counts) {
  const needed = counts.needed === null ? "?" : counts.needed;
  return `${counts.present} of ${needed}`;
}

export function glance(cluster) {
  const rows = [
    ["Nodes", cluster.schedulable === cluster.nodes
      ? String(cluster.nodes) : `${cluster.nodes}, ${cluster.nodes - cluster.schedulable} cordoned`],
    ["Gangs", Object.entries(cluster.gangs).map(([state, count]) => `${count}\u00a0${state}`).join(", ") || "none"],
    ["Longest wait", cluster.acting ? duration(cluster.oldestWaitSeconds) : "–"],
    ...cluster.resources.filter((one) => one.name !== "pods" && one.name !== "ephemeral-storage").map((one) => [
      short(one.name), meter(one)]),
  ];
  return rows.map(([word, said]) => make("div", {}, make("dt", {}, word), make("dd", {}, said)));
}

function meter(one) {
  const broken = one.fragmentation ? `, ${percent(one.fragmentation)} of it unusable (fragmented)` : "";
  const bar = make("span", { class: "bar", "aria-hidden": "true" }, make("span", { class: "part taken" }));
  bar.firstChild.style.setProperty("--share", Math.min(1, Math.max(0, one.use)));
  return make("span", {},
    `${percent(one.use)} of ${amount(one.name, one.capacity)}`, bar,
    make("small", {}, `${amount(one.name, one.free)} free${broken}`));
}

export function queue(list, open) {
  if (!list.gangs.length) return [make("p", { class: "empty" }, "No pending gangs.")];
  const rows = list.gangs.map((row) => [
    gang(row, open),
    row.position === null ? "–" : String(row.position),
    why(row),
    members(row.members),
    duration(row.waitSeconds),
    forecast(row.forecast),
    String(row.priority),
  ]);
  return [
    table("Pending gangs", ["Gang", "Position", "Reason", "Members", "Waiting", "Starts", "Priority"], rows),
    more(list),
  ];
}

function why(row) {
  if (row.reason === null) return row.state;
  return make("span", {}, make("strong", { class: `tag ${row.state}` }, row.reason), " ", row.message || "");
}

function more(list) {
  const hidden = list.total - list.gangs.length;
  return hidden > 0 ? make("p", { class: "note" }, `and ${plural(hidden, "more gang")}`) : null;
}

export function placed(list, open) {
  const rows = list.gangs.filter((row) => row.waitSeconds === null && row.state !== "suspended");
  if (!rows.length) return [make("p", { class: "empty" }, "No running gangs.")];
  return [
    table("Running gangs", ["Gang", "State", "Members", "Priority"], rows.map((row) => [
      gang(row, open),
      make("strong", { class: `tag ${row.state}` }, row.state),
      `${row.members.bound} bound, ${row.members.running} running`,
      String(row.priority),
    ])),
    more(list),
  ];
}

export function asleep(list, open) {
  const rows = list.gangs.filter((row) => row.state === "suspended");
  return [
    table("Suspended gangs", ["Gang", "Reason", "Quorum"], rows.map((row) => [
      gang(row, open), why(row), row.members.needed === null ? "?" : String(row.members.needed)])),
  ];
}

/** Nodes as areas and racks: a Map of area → Map of rack → nodes. The finest level is the node itself. */
function grouped(list) {
  const [fine, coarse] = list.levels.slice(0, -1).reverse();
  const areas = new Map();
  for (const node of list.nodes) {
    const area = place(node, coarse);
    const rack = place(node, fine);
    if (!areas.has(area)) areas.set(area, new Map());
    if (!areas.get(area).has(rack)) areas.get(area).set(rack, []);
    areas.get(area).get(rack).push(node);
  }
  return areas;
}

/** "rack r7", or "no rack"; the empty text if there is no such level. */
function place(node, level) {
  if (!level) return "";
  const path = node.levels[level];
  return path ? `${level} ${last(path)}` : `no ${level}`;
}

function last(path) {
  return path.slice(path.lastIndexOf("/") + 1);
}

const racks = new Map();

/** The map. A rack whose nodes have not changed keeps its element, so that little of a large cluster is redrawn. */
export function map(list, resource) {
  const seen = new Set();
  const areas = [...grouped(list)].map(([area, inside]) =>
    make("section", { class: "area" },
      area ? make("h3", {}, area) : null,
      make("div", { class: "racks" }, [...inside].map(([rack, nodes]) => {
        const key = `${area}\n${rack}`;
        seen.add(key);
        return rackOf(key, rack, nodes, resource);
      }))));
  for (const key of racks.keys()) if (!seen.has(key)) racks.delete(key);
  return areas;
}

function rackOf(key, name, nodes, resource) {
  const said = JSON.stringify([resource, nodes]);
  const before = racks.get(key);
  if (before && before.said === said) return before.element;
  const free = nodes.reduce((sum, node) => sum + Math.max(0, node.free[resource] || 0), 0);
  const head = name ? make("h4", {}, name, " ", make("small", {}, `${amount(resource, free)} free`)) : null;
  const element = make("section", { class: "rack" }, head,
    make("ul", { class: "nodes" }, nodes.map((node) => nodeOf(node, resource))));
  racks.set(key, { said, element });
  return element;
}

const MOST_CELLS = 16;

function nodeOf(node, resource) {
  const capacity = node.capacity[resource] || 0;
  const free = Math.max(0, node.free[resource] || 0);
  const parts = node.gangs
    .filter((one) => one.uses[resource])
    .map((one) => ({ id: one.id, text: called(one), value: one.uses[resource], held: one.held === one.pods }));
  const used = parts.reduce((sum, part) => sum + part.value, 0);
  const other = Math.max(0, capacity - free - used);
  if (other > 0) parts.push({ id: null, text: "other pods", value: other, held: false });
  const said = [
    `${amount(resource, free)} of ${amount(resource, capacity)} ${short(resource)} free`,
    ...parts.map((part) => `${part.text} ${amount(resource, part.value)}${part.held ? " reserved" : ""}`),
    node.schedulable ? null : "cordoned",
  ].filter(Boolean).join(", ");
  const whole = Number.isInteger(capacity) && capacity <= MOST_CELLS;
  return make("li", { class: node.schedulable ? "node" : "node cordoned", title: `${node.name}: ${said}` },
    make("span", { class: "node-name" }, node.name),
    make("span", { class: "hidden" }, `: ${said}`),
    capacity === 0 ? make("span", { class: "none" }, "none") : whole ? cells(parts, capacity) : bars(parts, capacity));
}

function cells(parts, capacity) {
  const row = make("span", { class: "cells", "aria-hidden": "true" });
  for (const part of parts) {
    for (let i = 0; i < part.value && row.childElementCount < capacity; i += 1) row.append(tinted("cell", part));
  }
  while (row.childElementCount < capacity) row.append(make("span", { class: "cell free" }));
  return row;
}

function bars(parts, capacity) {
  const bar = make("span", { class: "bar", "aria-hidden": "true" });
  for (const part of parts) {
    const piece = tinted("part", part);
    piece.style.setProperty("--share", Math.min(1, part.value / capacity));
    bar.append(piece);
  }
  return bar;
}

function tinted(kind, part) {
  const mark = make("span", {
    class: `${kind} ${part.id === null ? "other" : "sample"}${part.held ? " held" : ""}`, "data-gang": part.id,
  });
  if (part.id !== null) mark.style.setProperty("--hue", hue(part.id));
  return mark;
}

export function detail(found) {
  const { gang: row } = found;
  const facts = [
    ["State", row.state],
    ["Reason", row.message || row.reason || "–"],
    ["Members", `${members(row.members)} created, ${row.members.held} assigned, ${row.members.bound} bound, ${row.members.running} running`],
    ["Placement", `${found.wishes.strategy} by ${found.wishes.level}${found.wishes.required ? ", required" : ""}`],
    row.waitSeconds === null ? null : ["Waiting", duration(row.waitSeconds)],
    row.forecast ? ["Starts", forecast(row.forecast)] : null,
    ["Priority", String(row.priority)],
    found.deadline ? ["Bind deadline", moment(found.deadline)] : null,
    found.notBefore ? ["Next attempt", moment(found.notBefore)] : null,
    found.plan ? ["Plan", `${found.plan.step}, ${plural(found.plan.outstanding, "write")} under way`] : null,
    found.reservedFrom ? ["Reservation", `starts by ${moment(found.reservedFrom)} if the running gangs end in time`] : null,
    found.barred.length ? ["Excluded nodes", found.barred.map((bar) => `${bar.node} until ${moment(bar.until)}`).join(", ")] : null,
  ].filter(Boolean);
  const blocks = [make("dl", { class: "facts" }, facts.map(([word, said]) => [make("dt", {}, word), make("dd", {}, said)]))];
  for (const lack of found.shortfalls) {
    const blocked = Object.entries(lack.blocked).map(([kind, count]) => excluded(kind, count));
    const where = lack.domain ? `${lack.level} ${lack.domain}` : "the cluster";
    blocks.push(make("h3", {}, "Missing resources"),
      make("p", {}, `The gang needs ${lack.needed} × ${lack.demand}; ${where} fits ${lack.best}.`),
      make("ul", {}, blocked.map((text) => make("li", {}, text))));
  }
  const near = found.nearest.filter((one) => one.best);
  if (near.length) {
    blocks.push(make("h3", {}, "Best domains"), table("Best domains", ["Level", "Domain", "Fits", "Of"], near.map((one) => [
      one.level, one.domain, String(one.best), `${one.needed} × ${one.demand}`])));
  }
  if (found.behind) {
    blocks.push(make("p", {}, `The capacity is reserved for ${called({ ...found.behind, name: found.behind.gang })}, ${found.behind.start * 1000 > Date.now() ? `which starts by ${moment(found.behind.start)} if the running gangs end in time.` : "which waits for preempted pods to terminate."}`));
  }
  if (found.leaving.length) {
    blocks.push(make("h3", {}, "Terminating victims"), table("Terminating victims", ["Pod", "Method"], found.leaving.map((one) => [
      called({ ...one, name: one.pod }), one.accepted ? one.way : `${one.way}, not accepted yet`])));
  }
  if (found.victims.length) {
    blocks.push(make("h3", {}, "Victims"), table("Victims", ["Gang", "Kind", "Pods", "Device time lost"],
      found.victims.map((one) => [called({ ...one, name: one.gang }), one.kind, String(one.pods), duration(one.lost)])));
  }
  if (!found.victims.length && found.wouldCost.length) {
    blocks.push(make("h3", {}, "Victims if preemption were allowed"), table("Cost", ["Gang", "Kind", "Pods", "Device time lost"],
      found.wouldCost.map((one) => [called({ ...one, name: one.gang }), one.kind, String(one.pods), duration(one.lost)])));
  }
  blocks.push(make("h3", {}, "Pods"), table("Pods of the gang", ["Pod", "State", "Node"], found.members.map((one) => [
    one.name, one.reason ? `${one.state} (${one.reason})` : one.state, one.node || "–"])));
  return blocks;
}
