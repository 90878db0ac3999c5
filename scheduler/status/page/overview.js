// The state of the cluster in one line.

import { make, terms } from "./elements.js";
import { amount, duration, percent, ratio, short } from "./words.js";

export function overview(cluster) {
  const { gangs, nodes, resources, schedulable } = cluster;
  return terms([
    ["Nodes", schedulable === nodes ? amount("nodes", nodes) : `${amount("nodes", nodes)}, ${amount("nodes", nodes - schedulable)} cordoned`],
    ["Gangs", Object.entries(gangs).map(([state, count]) => `${amount("gangs", count)}\u00a0${state}`).join(", ") || "none"],
    ["Longest wait", cluster.acting ? duration(cluster.oldestWaitSeconds) : "–"],
    ...resources.filter((one) => one.name !== "pods" && one.name !== "ephemeral-storage").map((one) => [
      short(one.name), meter(one)]),
  ]);
}

/** The share in use follows from the amounts beside it, so that the numbers agree. */
function meter(one) {
  const used = one.capacity - one.free;
  const broken = one.fragmentation ? `, ${percent(one.fragmentation)} of it fragmented` : "";
  const bar = make("span", { class: "bar", "aria-hidden": "true" }, make("span", { class: "part taken" }));
  bar.firstChild.style.setProperty("--share", Math.min(1, Math.max(0, used / one.capacity)));
  return make("span", {},
    `${percent(used / one.capacity)} used`, bar,
    make("small", {}, `${ratio(one.name, one.free, one.capacity)} free${broken}`));
}
