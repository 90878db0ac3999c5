// Elements. Every text is inserted as text, so that no name can become HTML.

/**
 * An element. words: attributes. A function is a listener; null omits the attribute.
 * @param {string} tag
 * @param {Object<string, string|number|boolean|null|function(Event): void>} words
 * @param {...*} inside Nodes and texts, also in nested arrays; null is omitted.
 */
export function make(tag, words = {}, ...inside) {
  return filled(document.createElement(tag), words, inside);
}

/** The same for an element of a drawing. */
export function drawing(tag, words = {}, ...inside) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), words, inside);
}

function filled(element, words, inside) {
  for (const [name, value] of Object.entries(words)) {
    if (value === null || value === false || value === undefined) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...inside.flat(Infinity).filter((one) => one !== null && one !== undefined));
  return element;
}

/**
 * A table that screen readers recognize, regardless of the style sheet for phones.
 * @param {string} caption
 * @param {string[]} heads
 * @param {Array<Array<*>|{id: string, cells: Array<*>}>} rows With an id: the row of a gang.
 * @param {number} named The column that names a row.
 */
export function table(caption, heads, rows, named = 0) {
  const head = make("tr", { role: "row" }, heads.map((one) => make("th", { scope: "col", role: "columnheader", "data-head": one }, one)));
  const body = rows.map((row) => make("tr", { role: "row", "data-gang": row.id ?? null }, (row.cells ?? row).map((cell, i) =>
    i === named
      ? make("th", { scope: "row", role: "rowheader", "data-head": heads[i] }, cell)
      : make("td", { role: "cell", "data-head": heads[i] }, cell))));
  return make("table", { role: "table" },
    make("caption", { class: "hidden" }, caption),
    make("thead", { role: "rowgroup" }, head),
    make("tbody", { role: "rowgroup" }, body));
}

/** Terms and what they are, as the content of a `dl`. */
export function terms(rows) {
  return rows.map(([word, said]) => make("div", {}, make("dt", {}, word), make("dd", {}, said)));
}
