// The details of one gang, as the content of its dialog.

import { make, table, terms } from "./elements.js";
import { called, duration, excluded, forecast, moment, plural } from "./words.js";

export function detail(found) {
  const { gang: row } = found;
  const facts = [
    ["State", row.state],
    ["Reason", row.message || row.reason || "–"],
    ["Members", `${row.members.present} of ${row.members.needed ?? "?"} created, ${row.members.held} assigned, ${row.members.bound} bound, ${row.members.running} running`],
    ["Placement", `${found.wishes.strategy} by ${found.wishes.level}${found.wishes.required ? ", required" : ""}`],
    row.waitSeconds === null ? null : ["Waiting", duration(row.waitSeconds)],
    row.forecast ? ["Starts", forecast(row.forecast)] : null,
    ["Priority", String(row.priority)],
    found.deadline ? ["Bind deadline", moment(found.deadline)] : null,
    found.notBefore ? ["Next attempt", moment(found.notBefore)] : null,
    found.plan ? ["Plan", `${found.plan.step}, ${plural(found.plan.outstanding, "write")} under way`] : null,
    found.reservedFrom ? ["Reservation", `starts by ${moment(found.reservedFrom)} if the running gangs end in time`] : null,
    found.preempted ? ["Preempted", preempted(found.preempted)] : null,
    found.barred.length ? ["Excluded nodes", found.barred.map((bar) => `${bar.node} until ${moment(bar.until)}`).join(", ")] : null,
  ].filter(Boolean);
  const blocks = [make("dl", { class: "facts" }, terms(facts))];
  blocks.push(...missing(found.shortfalls));
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
  if (found.victims.length) blocks.push(...victims("Victims", found.victims));
  else if (found.wouldCost.length) blocks.push(...victims("Victims if preemption were allowed", found.wouldCost));
  blocks.push(make("h3", {}, "Pods"), table("Pods of the gang", ["Pod", "State", "Node"], found.members.map((one) => [
    one.name, one.reason ? `${one.state} (${one.reason})` : one.state, one.node || "–"])));
  return blocks;
}

function preempted({ at, gang, id, namespace }) {
  return id === null ? moment(at) : `${moment(at)}, by ${called({ id, name: gang, namespace })}`;
}

/** What a gang is missing, as blocks. */
export function missing(shortfalls) {
  return shortfalls.flatMap((lack) => {
    const blocked = Object.entries(lack.blocked).map(([kind, count]) => excluded(kind, count));
    const where = lack.domain ? `${lack.level} ${lack.domain}` : "the cluster";
    return [
      make("h3", {}, "Missing resources"),
      make("p", {}, `The gang needs ${lack.needed} × ${lack.demand}; ${where} fits ${lack.best}.`),
      blocked.length ? make("ul", {}, blocked.map((text) => make("li", {}, text))) : null,
    ];
  });
}

/** Gangs and pods that are or would be preempted, as blocks. */
export function victims(title, rows) {
  return [
    make("h3", {}, title),
    table(title, ["Gang", "Kind", "Pods", "Priority", "Device time lost"], rows.map((one) => [
      called({ ...one, name: one.gang }), one.kind, String(one.pods), String(one.priority), duration(one.lost)])),
  ];
}
