// "Would it start?": a dry run of manifests, and what came of it.

import { Refused, post } from "./api.js";
import { missing, victims } from "./detail.js";
import { make, table } from "./elements.js";
import { trials } from "./manifest.js";
import { forecast, plural } from "./words.js";

/** Reasons that do not change while the gang waits. */
const REJECTED = new Set(["InvalidSpec", "Conflict", "UnknownLevel"]);

/** The gangs of the manifests, one after another: a user may have one dry run at a time. */
export async function tryOut(text, namespace) {
  const { requests, ignored } = await trials(text, namespace);
  const outcomes = [];
  for (const { name, count, body } of requests) {
    const answer = await post("v1/simulate", body).catch((error) => {
      if (error instanceof Refused) return error;
      throw error;
    });
    outcomes.push({ name, count, answer });
  }
  return { outcomes, ignored };
}

/** The nodes that the pods would get. */
export function nodesOf({ outcomes }) {
  return new Set(outcomes.flatMap(({ answer }) => (answer.seats ?? []).map((seat) => seat.node)));
}

function verdict(answer) {
  if (answer instanceof Refused) return ["not simulated", "refused"];
  if (answer.starts) return answer.victims.length ? ["would preempt", "waiting"] : ["starts now", "running"];
  if (answer.reason === "UnsupportedField") return ["cannot tell", "waiting"];
  return REJECTED.has(answer.reason) ? ["rejected", "refused"] : ["waits", "waiting"];
}

export function outcome({ outcomes, ignored }) {
  const parts = outcomes.flatMap(({ name, count, answer }) => {
    const [text, kind] = verdict(answer);
    return [
      make("h3", {}, make("strong", { class: `tag ${kind}` }, text), " ", name, " ", make("small", {}, plural(count, "pod"))),
      make("p", {}, answer.message),
      answer.forecast ? make("p", {}, `Starts ${forecast(answer.forecast)}.`) : null,
      answer.victims?.length ? victims("Gangs that it would preempt", answer.victims) : null,
      answer.shortfalls ? missing(answer.shortfalls) : null,
      answer.seats?.length ? seats(answer.seats) : null,
    ];
  });
  if (!outcomes.length) parts.push(make("p", { class: "empty" }, "These manifests create no pods that this page knows."));
  if (ignored.length) {
    parts.push(make("p", { class: "note" }, `Without pods that this page knows: ${ignored.join(", ")}. For all kinds, run: gangwright simulate -f FILE`));
  }
  return parts;
}

function seats(list) {
  const counts = new Map();
  for (const { node } of list) counts.set(node, (counts.get(node) ?? 0) + 1);
  return [
    make("h3", {}, `Nodes: ${counts.size}`),
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Nodes of the pods" },
      table("Nodes of the pods", ["Node", "Pods"], [...counts].sort(([a], [b]) => (a < b ? -1 : 1)).map(([node, count]) => [node, String(count)]))),
  ];
}
