// The state of the page in the fragment of its address, which browsers send to no server: #team/gang&q=a100&mine=1

/**
 * @typedef {Object} State
 * @property {string} gang The open gang as NAMESPACE/NAME; empty if none is.
 * @property {string} q The words to search for.
 * @property {string} mine "1": only the reader's gangs.
 * @property {string} sort
 * @property {string} map `full` or `compact`; empty: by the number of nodes.
 * @property {string} area The area that is shown in detail; empty: all areas.
 * @property {string} span The hours of the timeline.
 */

const NAMES = ["q", "mine", "sort", "map", "area", "span"];

/** @returns {State & {token: string}} */
export function read(fragment = location.hash) {
  const parts = fragment.replace(/^#/, "").split("&").filter(Boolean);
  const words = new URLSearchParams(parts.filter((part) => part.includes("=")).join("&"));
  const gang = parts.find((part) => !part.includes("=") && part.includes("/")) || "";
  const found = { gang: decoded(gang), token: words.get("token") || "" };
  for (const name of NAMES) found[name] = words.get(name) || "";
  return found;
}

function decoded(text) {
  try {
    return text.split("/").map(decodeURIComponent).join("/");
  } catch {
    return "";
  }
}

/** Write the state, without a new entry in the history of the browser. A token is never written. */
export function write(state) {
  const words = new URLSearchParams(NAMES.filter((name) => state[name]).map((name) => [name, state[name]]));
  const gang = state.gang ? state.gang.split("/").map(encodeURIComponent).join("/") : "";
  const fragment = [gang, words.toString()].filter(Boolean).join("&");
  history.replaceState(null, "", location.pathname + (fragment ? `#${fragment}` : ""));
}
