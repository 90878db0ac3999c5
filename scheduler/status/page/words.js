// Numbers, times and names as users read them. Nothing here touches the page.

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

function trimmed(value) {
  return value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 1 : 0 });
}

export function percent(share) {
  return `${(100 * share).toLocaleString("en", { maximumFractionDigits: 0 })}%`;
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

/** A time of the API in the local time zone, with the day if it is not today. */
export function moment(seconds) {
  const at = new Date(seconds * 1000);
  const day = at.toDateString() === new Date().toDateString() ? {} : { month: "short", day: "numeric" };
  return at.toLocaleString([], { hour: "2-digit", minute: "2-digit", ...day });
}

/** "in 12 min (9 min – 40 min)", from now on. */
export function forecast(found) {
  if (!found) return "–";
  const now = Date.now() / 1000;
  const left = (at) => duration(Math.max(0, at - now));
  return `in ${left(found.middle)} (${left(found.low)} – ${left(found.high)}), about ${moment(found.middle)}`;
}

/** The name of a gang, or an alias for a hidden one. */
export function called(row) {
  if (row.name === null) return `hidden ${row.id.slice(0, 6)}`;
  return `${row.namespace}/${row.name}`;
}

export function plural(count, word) {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}

/** The short name of a resource. */
export function short(resource) {
  return resource.slice(resource.lastIndexOf("/") + 1);
}

const numbers = new Map();

/** A color for a gang, the same while the page is open: hues as far apart as possible, in order of appearance. */
export function hue(id) {
  if (!numbers.has(id)) numbers.set(id, numbers.size);
  return Math.round((205 + numbers.get(id) * 137.508) % 360);
}
