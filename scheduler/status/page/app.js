// The page: polls the API, and draws what has changed.

import { Refused, all, forget, get, know } from "./api.js";
import { clusterMap, isCompact } from "./cluster_map.js";
import { detail } from "./detail.js";
import { make } from "./elements.js";
import { read, write } from "./fragment.js";
import { asleep, pending, running } from "./gang_tables.js";
import { highlight } from "./highlight.js";
import { overview } from "./overview.js";
import { isAmbiguous, tellApart } from "./palette.js";
import { quotas } from "./quotas.js";
import { finder, isMine, isSelective, ordered, queued } from "./search.js";
import { timeline } from "./timeline.js";
import { nodesOf, outcome, tryOut } from "./trial.js";
import { called, moment, plural, short } from "./words.js";

const EVERY = 3000;
const LONGEST = 30000;
const SLOWLY = 15000;
const HOURS = 6;
const HISTORY = "v1/history?limit=500";

const byId = (id) => document.getElementById(id);
const drawn = new Map();
const wide = new Set();
const whole = new Set();
let state = read();
let latest = null;
let trials = 0; // a dry run that began before the last one, or before a user left, is not shown
let live = true;
let timer = 0;
let failures = 0;
let resource = "";
let opened = null;
let round = 0;
let askedSlowly = -Infinity;

/** Replace the contents of an element, unless its key is the same as before. The focus stays on the same gang. */
function put(id, key, build) {
  const before = drawn.get(id);
  if (before && before.length === key.length && before.every((one, i) => one === key[i])) return;
  drawn.set(id, key);
  const place = byId(id);
  const focused = place.contains(document.activeElement) ? document.activeElement : null;
  const [tag, data] = focused ? [focused.tagName, Object.entries(focused.dataset)[0]] : [];
  place.replaceChildren(...build().filter(Boolean));
  if (data) place.querySelector(`${tag}[data-${data[0]}="${CSS.escape(data[1])}"]`)?.focus();
}

/** The state of the replica that answered. */
function doing(cluster) {
  if (!cluster.synced) return "Reading the cluster";
  if (!cluster.acting) return "Standby replica: no scheduling data";
  return cluster.stale ? "Cache is stale: scheduling paused" : "Active replica";
}

/** Draw the last answers. What has not changed stays as it is. */
function draw() {
  const { cluster, gangs, nodes } = latest;
  for (const id of ["shown", "live", "leave", "standing"]) byId(id).hidden = false;
  byId("door").hidden = true;
  const width = byId("timeline").clientWidth; // asked for before anything changes, or all would be laid out twice
  byId("standing").textContent = `${cluster.user} · ${doing(cluster)}`;
  chooseResources(cluster);
  tellApart(gangs.gangs);
  put("overview", [cluster], () => overview(cluster));
  drawGangs(cluster, gangs, width);
  drawMap(nodes);
  drawQuotas(latest.shares);
  highlight.apply();
}

function drawGangs(cluster, { gangs, pages }, width) {
  const found = finder(state.q);
  const rows = gangs.filter((row) => found(row) && (!state.mine || isMine(row, cluster.user)));
  const isSearched = Boolean(state.q || state.mine);
  byId("mine-choice").hidden = !state.mine && !isSelective(gangs, cluster.user);
  byId("found").textContent = isSearched ? `${rows.length} of ${plural(gangs.length, "gang")}` : "";
  highlight.among(isSearched ? new Set(rows.map((row) => row.id)) : null);
  const waiting = queued(rows);
  const reader = { open, wide, whole, again: redraw, isNarrow: width < 640, none: isSearched ? "No gang is found." : "" };
  const key = [...pages, state.q, state.mine, state.sort, [...whole].join()];
  const rest = ordered(rows.filter((row) => row.waitSeconds === null), state.sort);
  put("queue-rows", key, () => pending(ordered(waiting, state.sort), reader));
  put("gang-rows", key, () => running(rest.filter((row) => row.state !== "suspended"), reader));
  byId("asleep").hidden = !gangs.some((row) => row.state === "suspended");
  put("asleep-rows", key, () => asleep(rest.filter((row) => row.state === "suspended"), reader));
  drawTimeline(rows, key, found, width);
  tell(queued(gangs));
}

/** History has only gangs whose names the reader may know. */
function drawTimeline(rows, key, found, width) {
  const { cluster, history } = latest;
  const ended = history.gangs.filter((row) => found({ ...row, state: row.outcome }) && (!state.mine || isMine(row, cluster.user)));
  const view = {
    now: Date.now() / 1000,
    hours: Number(state.span) || HOURS,
    width,
    all: whole.has("timeline"),
    more: () => { whole.add("timeline"); redraw(); },
    open: wide.has("timeline"),
    opened: (isOpen) => { if (isOpen) wide.add("timeline"); else wide.delete("timeline"); },
  };
  put("timeline", [...key, history, view.hours, view.width, Math.floor(view.now / 15)], () => timeline(rows, ended, view));
  const since = history.since !== null && history.since > view.now - view.hours * 3600;
  byId("timeline-note").textContent = since ? `Gangs that ended are known since ${moment(history.since)}.` : "";
}

function drawQuotas(shares) {
  const rows = quotas(shares);
  byId("quotas").hidden = !rows.length;
  put("quota-rows", [shares], () => rows);
}

function drawMap(nodes) {
  const chosen = byId("resource").value;
  const view = { resource: chosen, form: state.map, area: state.area, zoom: (area) => change({ area }) };
  byId("form").value = state.map || "auto";
  byId("form").options[0].textContent = isCompact(nodes, { form: "" }) ? "Automatic (compact)" : "Automatic (full)";
  byId("shown").classList.toggle("lettered", isAmbiguous(nodes.nodes.flatMap((node) => node.gangs.filter((one) => one.uses[chosen]))));
  put("areas", [...nodes.pages, chosen, state.map, state.area], () => clusterMap(nodes, view));
}

function redraw() {
  if (latest) draw();
}

function change(some) {
  Object.assign(state, some);
  redraw();
  write(state); // last, because a browser may refuse too many of these
}

function chooseResources(cluster) {
  const names = cluster.resources.map((one) => one.name).filter((name) => name !== "pods");
  const select = byId("resource");
  if ([...select.options].map((one) => one.value).join() === names.join()) return;
  const before = resource || select.value;
  const device = names.find((name) => name.includes("/"));
  select.replaceChildren(...names.map((name) => make("option", { value: name }, short(name))));
  select.value = names.includes(before) ? before : device || names[0] || "";
}

/** One sentence for screen readers, only when it changes. */
function tell(waiting) {
  const first = waiting.find((row) => row.position !== null);
  const head = first ? ` First: ${called(first)}, ${first.reason}.` : "";
  const text = `${plural(waiting.length, "pending gang")}.${head}`;
  if (byId("news").textContent !== text) byId("news").textContent = text;
}

function trouble(text) {
  byId("trouble").hidden = !text;
  if (byId("trouble").textContent !== text) byId("trouble").textContent = text;
}

/** Ask and draw. The next look waits longer where an answer takes long. */
async function look() {
  const mine = ++round;
  clearTimeout(timer);
  const began = performance.now();
  let wait = EVERY;
  try {
    const isDue = latest === null || began - askedSlowly >= SLOWLY;
    const [cluster, gangs, nodes, shares, history] = await Promise.all([
      get("v1/cluster"), all("v1/gangs", "gangs"), all("v1/nodes", "nodes"),
      isDue ? get("v1/shares") : latest.shares, isDue ? get(HISTORY) : latest.history]);
    if (mine !== round) return;
    if (isDue) askedSlowly = began;
    const isFirst = latest === null;
    latest = { cluster, gangs, nodes, shares, history };
    draw();
    if (isFirst) openNamed(state.gang);
    await again();
    trouble("");
    failures = 0;
    wait = Math.min(LONGEST, Math.max(EVERY, 10 * (performance.now() - began)));
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
  const known = latest || byId("token").value;
  for (const id of ["shown", "live", "leave", "standing"]) byId(id).hidden = true;
  byId("door").hidden = false;
  byId("detail").close();
  latest = null;
  trials += 1;
  byId("outcome").replaceChildren();
  byId("manifest").value = "";
  byId("try").disabled = false;
  highlight.tried(new Set());
  trouble(known ? text : "");
  byId("token").value = "";
  byId("token").focus();
}

async function open(row) {
  opened = row;
  change({ gang: row.name === null ? "" : called(row) });
  await again();
  if (opened === row && !byId("detail").open) byId("detail").showModal();
}

/** Open the gang of an address: NAMESPACE/NAME. */
function openNamed(text) {
  if (!text || (opened && called(opened) === text)) return;
  const [namespace, ...rest] = text.split("/");
  const name = rest.join("/");
  open(latest.gangs.gangs.find((row) => called(row) === text) ?? { id: text, namespace, name, key: name });
}

async function again() {
  const row = opened;
  if (!row) return;
  byId("detail-title").textContent = called(row);
  const path = `v1/gangs/${encodeURIComponent(row.namespace)}/${encodeURIComponent(row.key)}`;
  const found = await get(path).catch((error) => error);
  if (opened !== row) return;
  put("detail-body", [found.message ?? found], () => (
    found instanceof Error ? [make("p", { class: "empty" }, found.message)] : detail(found)));
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
byId("resource").addEventListener("change", () => { resource = byId("resource").value; redraw(); });
byId("form").addEventListener("change", (event) => {
  change({ area: "", map: event.target.value === "auto" ? "" : event.target.value });
});
byId("tools").addEventListener("submit", (event) => event.preventDefault());
byId("q").addEventListener("input", (event) => change({ q: event.target.value }));
byId("mine").addEventListener("change", (event) => change({ mine: event.target.checked ? "1" : "" }));
byId("sort").addEventListener("change", (event) => change({ sort: event.target.value }));
byId("span").addEventListener("change", (event) => change({ span: event.target.value }));
addEventListener("resize", redraw);
byId("detail-close").addEventListener("click", () => {
  opened = null; // before the event of closing, or an answer on its way would open it again
  byId("detail").close();
});
byId("detail").addEventListener("close", () => {
  opened = null;
  drawn.delete("detail-body");
  change({ gang: "" });
});
byId("shown").addEventListener("click", (event) => {
  const id = event.target.closest(".sample, .line")?.dataset.gang;
  const row = id && latest?.gangs.gangs.find((one) => one.id === id);
  if (row && row.key !== null) open(row);
});
/** A dry run of what the form holds. Its nodes are marked on the map until the text changes. */
async function simulate() {
  const mine = ++trials;
  byId("try").disabled = true;
  try {
    const found = await tryOut(byId("manifest").value, byId("namespace").value);
    if (mine !== trials) return;
    highlight.tried(nodesOf(found));
    byId("outcome").replaceChildren(...outcome(found).flat(Infinity).filter(Boolean));
  } catch (error) {
    if (mine !== trials) return;
    highlight.tried(new Set());
    byId("outcome").replaceChildren(make("p", { class: "wrong" }, error.message));
  }
  if (mine === trials) byId("try").disabled = false;
  highlight.apply();
}

async function take(file) {
  if (!file) return;
  byId("manifest").value = await file.text();
  simulate();
}

byId("trial-form").addEventListener("submit", (event) => { event.preventDefault(); simulate(); });
byId("manifest").addEventListener("input", () => { highlight.tried(new Set()); highlight.apply(); });
byId("file").addEventListener("change", (event) => take(event.target.files[0]));
byId("trial").addEventListener("dragover", (event) => event.preventDefault());
byId("trial").addEventListener("drop", (event) => { event.preventDefault(); take(event.dataTransfer.files[0]); });
document.addEventListener("visibilitychange", () => { if (live && !document.hidden) look(); });
highlight.listen(byId("shown"));

/** Take the state over from the address. It may bring a token: `gangwright ui` opens the page with one. */
function takeOver() {
  const { token, ...given } = read();
  state = given;
  if (token) { // nothing of another user is shown to this one
    know(token, true);
    latest = null;
    drawn.clear();
  }
  byId("q").value = state.q;
  byId("mine").checked = Boolean(state.mine);
  byId("sort").value = state.sort;
  byId("span").value = state.span;
  write(state);
  if (!latest || token) return look();
  redraw();
  if (!state.gang) byId("detail").close();
  return openNamed(state.gang);
}
addEventListener("hashchange", takeOver);
takeOver();
