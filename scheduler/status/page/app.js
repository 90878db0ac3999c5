// The page: polls the API and draws changes.

import { Refused, all, forget, get, know } from "./api.js";
import * as draw from "./draw.js";
import { called, plural, short } from "./words.js";

const EVERY = 3000;
const LONGEST = 30000;
const QUEUE_SHOWN = 200;

const byId = (id) => document.getElementById(id);
const drawn = new Map();
let live = true;
let timer = 0;
let failures = 0;
let resource = "";
let opened = null;
let round = 0;

/** Replace the contents of an element, unless the answer is the same as before. The focus stays on the same gang. */
function put(id, key, build) {
  const before = drawn.get(id);
  if (before && before.length === key.length && before.every((one, i) => one === key[i])) return;
  drawn.set(id, key);
  const place = byId(id);
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.gang : null;
  place.replaceChildren(...build().filter(Boolean));
  if (focused) place.querySelector(`button[data-gang="${CSS.escape(focused)}"]`)?.focus();
}

/** The state of the replica that answered. */
function doing(cluster) {
  if (!cluster.synced) return "Reading the cluster";
  if (!cluster.acting) return "Standby replica: no scheduling data";
  return cluster.stale ? "Cache is stale: scheduling paused" : "Active replica";
}

function show(cluster, queue, gangs, nodes) {
  byId("door").hidden = true;
  byId("shown").hidden = false;
  byId("live").hidden = false;
  byId("leave").hidden = false;
  const standing = byId("standing");
  standing.hidden = false;
  standing.textContent = `${cluster.user} · ${doing(cluster)}`;
  chooseResources(cluster);
  put("glance", [cluster], () => draw.glance(cluster));
  put("queue-rows", [queue], () => draw.queue(queue, open));
  put("gang-rows", [gangs], () => draw.placed(gangs, open));
  byId("asleep").hidden = !gangs.gangs.some((row) => row.state === "suspended");
  put("asleep-rows", [gangs], () => draw.asleep(gangs, open));
  const chosen = byId("resource").value;
  put("areas", [...nodes.pages, chosen], () => map(nodes, chosen));
  tell(cluster, queue);
}

function map(nodes, chosen) {
  return nodes.nodes.length ? draw.map(nodes, chosen) : [draw.make("p", { class: "empty" }, "No nodes.")];
}

function chooseResources(cluster) {
  const names = cluster.resources.map((one) => one.name).filter((name) => name !== "pods");
  const select = byId("resource");
  if ([...select.options].map((one) => one.value).join() === names.join()) return;
  const before = resource || select.value;
  const device = names.find((name) => name.includes("/"));
  select.replaceChildren(...names.map((name) => draw.make("option", { value: name }, short(name))));
  select.value = names.includes(before) ? before : device || names[0] || "";
}

/** One sentence for screen readers, only when it changes. */
function tell(cluster, queue) {
  const waiting = queue.gangs.filter((row) => row.position !== null);
  const head = waiting[0] ? ` First: ${called(waiting[0])}, ${waiting[0].reason}.` : "";
  const text = `${plural(queue.total, "pending gang")}.${head}`;
  if (byId("news").textContent !== text) byId("news").textContent = text;
}

function trouble(text) {
  byId("trouble").hidden = !text;
  if (byId("trouble").textContent !== text) byId("trouble").textContent = text;
}

async function look() {
  const mine = ++round;
  clearTimeout(timer);
  let wait = EVERY;
  try {
    const cluster = await get("v1/cluster");
    const [queue, gangs, nodes] = await Promise.all([
      get(`v1/queue?limit=${QUEUE_SHOWN}`), get(`v1/gangs?limit=${QUEUE_SHOWN}`), all("v1/nodes", "nodes")]);
    if (mine !== round) return;
    show(cluster, queue, gangs, nodes);
    await again();
    trouble("");
    failures = 0;
  } catch (error) {
    if (mine !== round) return;
    failures += 1;
    wait = Math.min(LONGEST, EVERY * 2 ** failures);
    if (error instanceof Refused && error.status === 401) {
      askWho(error.message);
      return;
    }
    if (error instanceof Refused && error.after) wait = Math.max(wait, 1000 * error.after);
    trouble(error instanceof Refused ? error.message : "Gangwright does not answer. Retrying.");
  }
  if (live && !document.hidden) timer = setTimeout(look, wait);
}

function askWho(text) {
  const known = !byId("shown").hidden || byId("token").value;
  byId("shown").hidden = true;
  byId("live").hidden = true;
  byId("leave").hidden = true;
  byId("standing").hidden = true;
  byId("door").hidden = false;
  byId("detail").close();
  trouble(known ? text : "");
  byId("token").value = "";
  byId("token").focus();
}

async function open(row) {
  opened = row;
  await again();
  if (opened && !byId("detail").open) byId("detail").showModal();
}

async function again() {
  if (!opened) return;
  const path = `v1/gangs/${encodeURIComponent(opened.namespace)}/${encodeURIComponent(opened.key)}`;
  byId("detail-title").textContent = called(opened);
  try {
    const found = await get(path);
    put("detail-body", [found], () => draw.detail(found));
  } catch (error) {
    put("detail-body", [error.message], () => [draw.make("p", { class: "empty" }, error.message)]);
  }
}

byId("door-form").addEventListener("submit", (event) => {
  event.preventDefault();
  know(byId("token").value, byId("keep").checked);
  look().then(() => { if (!byId("shown").hidden) byId("token").value = ""; });
});
byId("leave").addEventListener("click", () => {
  round += 1;
  clearTimeout(timer);
  forget();
  drawn.clear();
  askWho("");
  trouble("");
});
byId("live").addEventListener("click", () => {
  live = !live;
  byId("live").setAttribute("aria-pressed", String(live));
  byId("live").textContent = live ? "Live" : "Paused";
  if (live) look();
  else clearTimeout(timer);
});
byId("resource").addEventListener("change", () => {
  resource = byId("resource").value;
  look();
});
byId("detail-close").addEventListener("click", () => byId("detail").close());
byId("detail").addEventListener("close", () => { opened = null; drawn.delete("detail-body"); });
document.addEventListener("visibilitychange", () => { if (live && !document.hidden) look(); });

/** A token in the fragment, which browsers send to no server: `gangwright ui` opens the page with one. */
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  know(given, true);
  history.replaceState(null, "", location.pathname);
}
look();
