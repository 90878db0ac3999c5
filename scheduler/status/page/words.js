// Numbers, times and names as users read them, in one format regardless of the browser's language. Nothing here touches
// the page.

/** Formats are made once: making one takes longer than using it a hundred times. */
const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const TENTH = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const CLOCK = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
const TODAY = new Intl.DateTimeFormat("en-US", CLOCK);
const ANY_DAY = new Intl.DateTimeFormat("en-US", { ...CLOCK, month: "short", day: "numeric" });

const UNITS = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];

/** 7265 → "2 h 1 min". */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** An amount in the API's units, with a readable unit. */
export function amount(resource, value) {
  if (resource === "cpu") return `${trimmed(value / 1000)} cores`;
  if (resource === "memory" || resource.endsWith("storage")) {
    let power = 0;
    let left = value;
    while (Math.abs(left) >= 1024 && power < UNITS.length - 1) {
      left /= 1024;
      power += 1;
    }
    return `${trimmed(left)} ${UNITS[power]}B`;
  }
  return trimmed(value);
}

/** "2 of 960", with the unit once if both have the same. */
export function ratio(resource, part, whole) {
  const [some, all] = [amount(resource, part), amount(resource, whole)];
  const unit = all.includes(" ") ? all.slice(all.indexOf(" ")) : "";
  return `${unit && some.endsWith(unit) ? some.slice(0, -unit.length) : some} of ${all}`;
}

function trimmed(value) {
  return (value < 10 ? TENTH : WHOLE).format(value);
}

/** A share of 0 … 1. 0% and 100% are exact: a single free device never disappears. */
export function percent(share) {
  const whole = Math.round(100 * share);
  if (share > 0 && share < 1) return `${Math.min(99, Math.max(1, whole))}%`;
  return `${whole}%`;
}

const EXCLUDED_BY = {
  selector: "didn't match the node selector",
  affinity: "didn't match the node affinity",
  taint: "had untolerated taints",
  cordon: "were cordoned",
  excluded: "were excluded after failed placements",
  resources: "had insufficient resources",
  ports: "didn't have free ports",
  level: "were outside the required domain",
  candidates: "were excluded by kube-scheduler",
};

/** The nodes that one kind of obstacle excludes, as in the command line: "4 node(s) had insufficient resources". A resource
 *  excludes all of them: no node has it. */
export function excluded(kind, count) {
  if (kind.includes("/")) return `no node has ${kind}`;
  return count ? `${count} node(s) ${EXCLUDED_BY[kind] ?? kind}` : "Gangwright sees no nodes in the cluster";
}

/** A time of the API in the local time zone, with the day if it is not today: "15:24", "Nov 28, 15:24". */
export function moment(seconds) {
  const at = new Date(seconds * 1000);
  return (at.toDateString() === new Date().toDateString() ? TODAY : ANY_DAY).format(at);
}

const left = (at) => Math.max(0, at - Date.now() / 1000);

/** The middle of a forecast, from now on: "in 12 min". */
export function soon(found) {
  return left(found.middle) ? `in ${duration(left(found.middle))}` : "any moment";
}

/** Its bounds: "9 – 40 min". Empty once they have passed. */
export function bounds(found) {
  if (!left(found.high)) return "";
  const [low, high] = [duration(left(found.low)), duration(left(found.high))];
  const [number, unit, ...rest] = low.split(" ");
  return rest.length === 0 && high.endsWith(` ${unit}`) && !/[a-z]/.test(high.slice(0, -unit.length))
    ? `${number} – ${high}` : `${low} – ${high}`;
}

/** "in 12 min (9 – 40 min), about 15:24". */
export function forecast(found) {
  if (!found) return "–";
  return left(found.high) ? `${soon(found)} (${bounds(found)}), about ${moment(found.middle)}` : soon(found);
}

/** Amounts by device: "48 gpu". */
export function devices(amounts) {
  return Object.entries(amounts).map(([name, value]) => `${amount(name, value)} ${short(name)}`).join(", ");
}

/** The name of a gang, or an alias for a hidden one. */
export function called(row) {
  if (row.name === null) return `hidden ${row.id.slice(0, 6)}`;
  return `${row.namespace}/${row.name}`;
}

export function plural(count, word) {
  return `${WHOLE.format(count)} ${word}${count === 1 ? "" : "s"}`;
}

/** The short name of a resource. */
export function short(resource) {
  return resource.slice(resource.lastIndexOf("/") + 1);
}
