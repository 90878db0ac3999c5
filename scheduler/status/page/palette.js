// The color and the letter of a gang. Both follow from its name, so every user sees the same ones.

export const COLORS = 10;
const LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ";

/** FNV-1a of a text, with its bits mixed once more: 32 bits. */
function hash(text) {
  let found = 0x811c9dc5;
  for (const one of new TextEncoder().encode(text)) found = Math.imul(found ^ one, 0x01000193);
  found = Math.imul(found ^ (found >>> 16), 0x7feb352d);
  found = Math.imul(found ^ (found >>> 15), 0x846ca68b);
  return (found ^ (found >>> 16)) >>> 0;
}

const looks = new Map();

const nameOf = (gang) => (gang.name === null ? gang.id : `${gang.namespace}/${gang.name}`);

/**
 * A hidden gang has no name here: its look follows from its id, which lasts as long as a replica runs.
 * @param {{id: string, namespace: ?string, name: ?string}} gang
 * @returns {{color: number, letter: string}}
 */
export function look(gang) {
  const name = nameOf(gang);
  if (!looks.has(name)) {
    const found = hash(name);
    looks.set(name, { color: found % COLORS, letter: LETTERS[Math.floor(found / COLORS) % LETTERS.length] });
  }
  return looks.get(name);
}

/** Give each of these gangs a look of its own: the second gang of a color and a letter, by name, gets the next letter. */
export function tellApart(gangs) {
  const names = new Map(gangs.map((gang) => [nameOf(gang), gang]));
  for (const name of looks.keys()) if (!names.has(name)) looks.delete(name);
  const taken = new Set([...looks.values()].map((one) => `${one.color}${one.letter}`));
  for (const name of [...names.keys()].filter((one) => !looks.has(one)).sort()) {
    const found = look(names.get(name));
    for (let i = 1; taken.has(`${found.color}${found.letter}`) && i < LETTERS.length; i += 1) {
      found.letter = LETTERS[(LETTERS.indexOf(found.letter) + 1) % LETTERS.length];
    }
    taken.add(`${found.color}${found.letter}`);
  }
}

/** Whether colors alone do not tell these gangs apart. They never do from the eleventh gang on. */
export function isAmbiguous(gangs) {
  const ids = new Set(gangs.map((gang) => gang.id));
  return ids.size > new Set(gangs.map((gang) => look(gang).color)).size;
}
