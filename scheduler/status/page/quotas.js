// The quota of each namespace: what it uses, against its guarantee and its ceiling.

import { make, table } from "./elements.js";
import { amount, plural, short } from "./words.js";

/** Whether a guarantee or a ceiling is set. */
const isNamed = (own) => own.guaranteed > 0 || own.ceiling !== null;

/** Every namespace with its devices, and with the other resources that have a guarantee or a ceiling somewhere. */
export function quotas({ shares }) {
  const named = new Set(shares.flatMap((row) => Object.entries(row.resources).filter(([, own]) => isNamed(own)).map(([name]) => name)));
  const lines = shares.flatMap((row) => Object.entries(row.resources)
    .filter(([name]) => named.has(name) || name.includes("/"))
    .map(([name, own]) => ({ row, name, own })));
  if (!lines.length) return [];
  const widest = (name) => Math.max(...lines.filter((one) => one.name === name).map(({ own }) => Math.max(own.ceiling ?? 0, own.guaranteed, own.used)));
  return [
    table("Quotas", ["Namespace", "Resource", "Use", "Used", "Guaranteed", "Borrowed", "Ceiling", "Pending"], lines.map(({ row, name, own }) => {
      const said = (value) => (value ? amount(name, value) : "–");
      return [
        row.namespace ?? plural(row.namespaces, "other"), short(name), gauge(own, widest(name)), amount(name, own.used),
        said(own.guaranteed), said(own.borrowed), own.ceiling === null ? "none" : amount(name, own.ceiling), said(own.waiting),
      ];
    })),
    named.size ? null : make("p", { class: "note" }, "No guarantee and no ceiling is set (queue.shares)."),
  ];
}

/** A bar as wide as the ceiling: what is used within the guarantee, what is borrowed, and a mark at the guarantee. */
function gauge(own, widest) {
  const bar = make("span", { class: "bar gauge", "aria-hidden": "true" });
  const share = (kind, value) => {
    const part = make("span", { class: `part ${kind}` });
    part.style.setProperty("--share", widest ? Math.min(1, value / widest) : 0);
    bar.append(part);
  };
  share("taken", own.used - own.borrowed);
  share("borrowed", own.borrowed);
  if (own.guaranteed) share("guarantee", own.guaranteed);
  if (own.ceiling !== null) share("ceiling", own.ceiling);
  return bar;
}
