// The map: every node with the gangs on it. In full with a cell for every device; compact with one strip for each node.

import { make } from "./elements.js";
import { look } from "./palette.js";
import { amount, called, plural, ratio, short } from "./words.js";

/** From this number of nodes on, the map is compact unless the reader chose otherwise. */
const MANY = 64;

/** Devices of a node that are shown as cells. More are shown as a bar. */
const MOST_CELLS = 16;

/** Smallest share of a strip that has space for a letter. */
const LETTERED = 0.3;

/**
 * @typedef {Object} View
 * @property {string} resource
 * @property {string} form `full` or `compact`; empty: by the number of nodes.
 * @property {string} area The only area to show, in full; empty: all.
 * @property {function(string): void} zoom Show one area, or all.
 */

export function isCompact(list, view) {
  return view.form ? view.form === "compact" : list.nodes.length > MANY;
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
  return path ? `${level} ${path.slice(path.lastIndexOf("/") + 1)}` : `no ${level}`;
}

const racks = new Map();

/** The map. A rack whose nodes have not changed keeps its element, so that little of a large cluster is redrawn.
 *  @param {View} view
 */
export function clusterMap(list, view) {
  if (!list.nodes.length) return [make("p", { class: "empty" }, "No nodes.")];
  const all = grouped(list);
  const zoomed = all.has(view.area) && all.size > 1;
  const compact = !zoomed && isCompact(list, view);
  const seen = new Set();
  const areas = [...all].filter(([area]) => !zoomed || area === view.area).map(([area, inside]) => {
    const widest = Math.max(...[...inside.values()].map((nodes) => nodes.length));
    const part = make("div", { class: compact ? "racks compact" : "racks" }, [...inside].map(([rack, nodes]) => {
      const key = `${area}\n${rack}`;
      seen.add(key);
      return rackOf(key, rack, nodes, view.resource, compact);
    }));
    part.style.setProperty("--most", widest);
    const section = make("section", { class: "area" }, areaHead(area, inside, view, zoomed, all.size > 1 && isCompact(list, view)), part);
    section.style.setProperty("--racks", compact ? 100 : inside.size);
    return section;
  });
  for (const key of racks.keys()) if (!seen.has(key)) racks.delete(key);
  return areas;
}

function areaHead(area, inside, view, zoomed, zoomable) {
  if (!area) return null;
  const free = [...inside.values()].reduce((sum, nodes) => sum + freeOf(nodes, view.resource), 0);
  const count = [...inside.values()].reduce((sum, nodes) => sum + nodes.length, 0);
  const name = make("h3", {}, area);
  const said = make("small", {}, `${plural(count, "node")}, ${amount(view.resource, free)} ${short(view.resource)} free`);
  const text = zoomed ? "All areas" : "Zoom in";
  const button = zoomed || zoomable
    ? make("button", { type: "button", class: "small", "data-zoom": area, click: () => view.zoom(zoomed ? "" : area) },
      text, zoomed ? null : make("span", { class: "hidden" }, ` to ${area}`))
    : null;
  return make("div", { class: "area-head" }, name, said, button);
}

const freeOf = (nodes, resource) => nodes.reduce((sum, node) => sum + Math.max(0, node.free[resource] || 0), 0);

function rackOf(key, name, nodes, resource, compact) {
  const said = JSON.stringify([resource, compact, nodes]);
  const before = racks.get(key);
  if (before && before.said === said) return before.element;
  const element = compact ? row(name, nodes, resource) : rack(name, nodes, resource);
  racks.set(key, { said, element });
  return element;
}

function rack(name, nodes, resource) {
  const head = name ? make("h4", {}, name, " ", make("small", {}, `${amount(resource, freeOf(nodes, resource))} free`)) : null;
  return make("section", { class: "rack" }, head, make("ul", { class: "nodes" }, nodes.map((node) => nodeOf(node, resource))));
}

/** A rack as one row. Screen readers get a sentence; a node's own text is there when one zooms in. */
function row(name, nodes, resource) {
  const free = freeOf(nodes, resource);
  const gangs = new Set(nodes.flatMap((node) => node.gangs.map(called)));
  const said = `: ${plural(nodes.length, "node")}, ${amount(resource, free)} ${short(resource)} free, ${gangs.size ? [...gangs].join(", ") : "no gangs"}`;
  return make("p", { class: "rack-row" },
    make("span", { class: "rack-name", title: name }, name.slice(name.indexOf(" ") + 1) || "nodes"),
    make("span", { class: "hidden" }, said),
    make("span", { class: "strips", "aria-hidden": "true" }, nodes.map((node) => strip(node, resource))));
}

function strip(node, resource) {
  const { parts, capacity, said } = uses(node, resource);
  const bar = make("span", { class: node.schedulable ? "strip" : "strip cordoned", title: `${node.name}: ${said}`, "data-node": node.name });
  for (const part of parts) {
    const share = Math.min(1, part.value / capacity);
    const piece = tinted("part", part, share >= LETTERED);
    piece.style.setProperty("--share", share);
    bar.append(piece);
  }
  return bar;
}

/** What uses a node: by gang, and all other pods together. */
function uses(node, resource) {
  const capacity = node.capacity[resource] || 0;
  const free = Math.max(0, node.free[resource] || 0);
  const parts = node.gangs.filter((one) => one.uses[resource]).map((one) => ({
    gang: one, text: called(one), value: one.uses[resource], held: one.held === one.pods,
  }));
  const other = Math.max(0, capacity - free - parts.reduce((sum, part) => sum + part.value, 0));
  if (other > 0) parts.push({ gang: null, text: "other pods", value: other, held: false });
  const said = [
    `${ratio(resource, free, capacity)} ${short(resource)} free`,
    ...parts.map((part) => `${part.text} ${amount(resource, part.value)}${part.held ? " reserved" : ""}`),
    node.schedulable ? null : "cordoned",
  ].filter(Boolean).join(", ");
  return { parts, capacity, said };
}

function nodeOf(node, resource) {
  const { parts, capacity, said } = uses(node, resource);
  const whole = Number.isInteger(capacity) && capacity <= MOST_CELLS;
  return make("li", { class: node.schedulable ? "node" : "node cordoned", title: `${node.name}: ${said}`, "data-node": node.name },
    make("span", { class: "node-name" }, node.name),
    make("span", { class: "hidden" }, `: ${said}`),
    capacity === 0 ? make("span", { class: "none" }, "none") : whole ? cells(parts, capacity) : bars(parts, capacity));
}

function cells(parts, capacity) {
  const line = make("span", { class: "cells", "aria-hidden": "true" });
  for (const part of parts) {
    for (let i = 0; i < part.value && line.childElementCount < capacity; i += 1) line.append(tinted("cell", part, true));
  }
  while (line.childElementCount < capacity) line.append(make("span", { class: "cell free" }));
  return line;
}

function bars(parts, capacity) {
  const bar = make("span", { class: "bar", "aria-hidden": "true" });
  for (const part of parts) {
    const share = Math.min(1, part.value / capacity);
    const piece = tinted("part", part, share >= LETTERED);
    piece.style.setProperty("--share", share);
    bar.append(piece);
  }
  return bar;
}

function tinted(kind, part, lettered) {
  if (part.gang === null) return make("span", { class: `${kind} other` });
  const { color, letter } = look(part.gang);
  return make("span", {
    class: `${kind} sample c${color}${part.held ? " held" : ""}`, "data-gang": part.gang.id, "data-mark": lettered ? letter : null,
  });
}
