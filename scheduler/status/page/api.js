// The API: a token that stays in this tab, and answers that are transferred only when they have changed.

const KEPT = "gangwright.token";

export class Refused extends Error {
  constructor(status, text, after) {
    super(text);
    this.status = status;
    this.after = after;
  }
}

let token = sessionStorage.getItem(KEPT) || "";
const answers = new Map();

export function know(word, keep) {
  token = word.trim().replace(/^bearer\s+/i, "");
  answers.clear();
  if (keep) sessionStorage.setItem(KEPT, token);
  else sessionStorage.removeItem(KEPT);
}

export function forget() {
  know("", false);
}

/** The answer of a GET. Returns the same object while nothing has changed. */
export async function get(path) {
  const known = answers.get(path);
  const headers = { Accept: "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (known) headers["If-None-Match"] = known.tag;
  const response = await fetch(path, { headers, cache: "no-store", credentials: "same-origin" });
  if (response.status === 304 && known) return known.answer;
  if (!response.ok) throw await refusal(response);
  const answer = await response.json();
  answers.set(path, { tag: response.headers.get("ETag") || "", answer });
  return answer;
}

/** The answer of a POST. */
export async function post(path, body) {
  const headers = { Accept: "application/json", "Content-Type": "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  const response = await fetch(path, {
    method: "POST", headers, body: JSON.stringify(body), cache: "no-store", credentials: "same-origin" });
  if (!response.ok) throw await refusal(response);
  return response.json();
}

/** All pages of a list, as one. `field` holds its rows; `pages` are the answers, the same objects while nothing changes. */
export async function all(path, field, limit = 1000) {
  const rows = [];
  const pages = [];
  let first = null;
  let offset = 0;
  while (offset !== null) {
    const page = await get(`${path}?limit=${limit}&offset=${offset}`);
    first = first || page;
    pages.push(page);
    rows.push(...page[field]);
    offset = page.next;
  }
  return { ...first, [field]: rows, pages };
}

async function refusal(response) {
  let text = response.statusText;
  try {
    text = (await response.json()).error || text;
  } catch {
    // not an answer of Gangwright: the page of a proxy, which is not shown
  }
  return new Refused(response.status, text, Number(response.headers.get("Retry-After")) || 0);
}
