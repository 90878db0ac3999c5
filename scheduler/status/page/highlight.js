// The gang under the pointer or with the focus: its row and its cells stand out. A search dims all other gangs, and a dry run
// marks its nodes.

let root = null;
let lit = "";
let found = null;
let tried = new Set();

const gangOf = (element) => element?.closest?.("[data-gang]")?.dataset.gang ?? "";

function light(id) {
  if (id === lit) return;
  lit = id;
  apply();
}

/** Mark the elements of the gang. To be repeated after each drawing. */
function apply() {
  for (const one of root.querySelectorAll(".lit")) one.classList.remove("lit");
  const own = lit ? root.querySelectorAll(`[data-gang="${CSS.escape(lit)}"]`) : [];
  for (const one of own) one.classList.add("lit");
  root.classList.toggle("lighting", own.length > 0);
  for (const one of root.querySelectorAll(".sample[data-gang]")) one.classList.toggle("out", found !== null && !found.has(one.dataset.gang));
  for (const one of root.querySelectorAll("[data-node]")) one.classList.toggle("tried", tried.has(one.dataset.node));
}

export const highlight = {
  apply,
  /** The gangs that a search found; null without one. Takes effect with the next `apply`. */
  among(ids) { found = ids; },
  /** The nodes of a dry run. Takes effect with the next `apply`. */
  tried(names) { tried = names; },
  listen(element) {
    root = element;
    element.addEventListener("pointerover", (event) => light(gangOf(event.target) || gangOf(document.activeElement)));
    element.addEventListener("pointerleave", () => light(gangOf(document.activeElement)));
    element.addEventListener("focusin", (event) => light(gangOf(event.target)));
    element.addEventListener("focusout", () => light(""));
  },
};
