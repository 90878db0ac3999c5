// The part of YAML that manifests are written in. Anchors, tags and multi-line quotes are rejected by name.

const INDICATORS = { "&": "anchors", "*": "aliases", "!": "tags", "%": "directives", "@": "a leading @", "`": "a leading `" };
const KEY = /^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'#[\]{},&*!|>%@`-][^#]*?|-[^\s#][^#]*?)\s*:(?:\s+(.*))?$/;
const BLOCK = /^([|>])([-+]?)\d*([-+]?)\s*(?:#.*)?$/;

/** The documents of a text. Raises SyntaxError with the line of what is wrong. */
export function documents(text) {
  const lines = text.replace(/^\uFEFF/, "").split(/\r?\n/);
  const found = [];
  let start = 0;
  for (let i = 0; i <= lines.length; i += 1) {
    if (i < lines.length && !/^(---|\.\.\.)(\s|$)/.test(lines[i])) continue;
    const own = new Reader(lines.slice(start, i), start);
    if (own.next() !== null) found.push(own.whole());
    start = i + 1;
  }
  return found;
}

/** The text without a comment, and without spaces at its end. */
function bare(text) {
  let quote = "";
  for (let i = 0; i < text.length; i += 1) {
    const one = text[i];
    if (quote) {
      if (one === "\\" && quote === '"') i += 1;
      else if (one === quote) quote = "";
    } else if ((one === '"' || one === "'") && (i === 0 || /[\s,[{:]/.test(text[i - 1]))) quote = one;
    else if (one === "#" && (i === 0 || /\s/.test(text[i - 1]))) return text.slice(0, i).trimEnd();
  }
  return text.trimEnd();
}

/** Lines of a folded block: one line break is a space, except beside lines that are indented more. */
function folded(lines) {
  let text = "";
  let blanks = 0;
  let last = null;
  for (const line of lines) {
    if (!line.trim()) {
      blanks += 1;
      continue;
    }
    const isDeep = /^\s/.test(line) || (last !== null && /^\s/.test(last));
    const breaks = "\n".repeat(blanks + (last !== null && isDeep ? 1 : 0));
    text += (last === null ? breaks : breaks || " ") + line;
    [last, blanks] = [line, 0];
  }
  return text;
}

const indentOf = (line) => line.length - line.trimStart().length;

class Reader {
  constructor(lines, first) {
    this.lines = lines;
    this.first = first;
    this.at = 0;
  }

  wrong(text) {
    return new SyntaxError(`line ${this.first + Math.min(this.at, this.lines.length - 1) + 1}: ${text}`);
  }

  /** The next line with content, or null. The reader stands on it. */
  next() {
    for (; this.at < this.lines.length; this.at += 1) {
      const line = this.lines[this.at];
      if (/^\s*(#|$)/.test(line)) continue;
      if (/^ *\t/.test(line)) throw this.wrong("tabs must not indent. Use spaces.");
      return line;
    }
    return null;
  }

  whole() {
    const found = this.node(indentOf(this.next()));
    if (this.next() !== null) throw this.wrong("wrong indentation");
    return found;
  }

  /** What begins on the next line, which is indented so far. */
  node(indent) {
    const text = bare(this.next().slice(indent));
    if (text === "-" || text.startsWith("- ")) return this.sequence(indent);
    return KEY.test(text) ? this.mapping(indent) : this.value(text, indent - 1);
  }

  sequence(indent) {
    const found = [];
    for (let line = this.next(); line !== null && indentOf(line) === indent; line = this.next()) {
      const [, dash, rest] = /^(-\s*)(.*)$/.exec(line.slice(indent)) ?? [];
      if (dash === undefined || (dash === "-" && rest)) break;
      if (!bare(rest)) {
        this.at += 1;
        found.push(this.below(indent, false));
      } else {
        this.lines[this.at] = " ".repeat(indent + dash.length) + rest;
        found.push(this.node(indent + dash.length));
      }
    }
    return found;
  }

  mapping(indent) {
    const found = Object.create(null);
    for (let line = this.next(); line !== null && indentOf(line) === indent; line = this.next()) {
      const [, said, rest] = KEY.exec(bare(line.slice(indent))) ?? [];
      if (said === undefined) throw this.wrong("must be KEY: VALUE");
      const key = String(/^["']/.test(said) ? this.quoted(said) : said);
      if (key in found) throw this.wrong(`${key} is given twice`);
      if (rest) {
        found[key] = this.value(rest, indent);
      } else {
        this.at += 1;
        found[key] = this.below(indent, true);
      }
    }
    const after = this.next();
    if (after !== null && indentOf(after) > indent) throw this.wrong("wrong indentation");
    return found;
  }

  /** What stands below a key or a dash: indented more, or a sequence that is not. Null if nothing does. */
  below(indent, allowsSame) {
    const line = this.next();
    if (line === null) return null;
    const own = indentOf(line);
    if (own > indent || (own === indent && allowsSame && /^-(\s|$)/.test(line.slice(own)))) return this.node(own);
    return null;
  }

  /** A value that begins on this line, below something that is indented so far. The reader leaves it. */
  value(text, indent) {
    const block = BLOCK.exec(text);
    if (block) return this.block(block[1] === ">", block[2] || block[3], indent);
    if (text[0] in INDICATORS) throw this.wrong(`${INDICATORS[text[0]]} are not supported here`);
    if (text[0] === "[" || text[0] === "{") return this.flow(text);
    if (text[0] === '"' || text[0] === "'") {
      this.at += 1;
      return this.quoted(text);
    }
    let plain = text;
    this.at += 1;
    for (let line = this.next(); line !== null && indentOf(line) > Math.max(indent, 0); line = this.next()) {
      if (KEY.test(bare(line.trim()))) throw this.wrong("wrong indentation");
      plain += ` ${bare(line.trim())}`;
      this.at += 1;
    }
    return scalar(plain);
  }

  block(folds, chomping, indent) {
    const lines = [];
    let own = null;
    for (this.at += 1; this.at < this.lines.length; this.at += 1) {
      const line = this.lines[this.at];
      if (line.trim()) {
        own ??= indentOf(line);
        if (indentOf(line) <= indent || indentOf(line) < own) break;
      }
      lines.push(line.slice(own ?? 0));
    }
    const text = folds ? folded(lines) : lines.join("\n");
    if (chomping === "+") return `${text}\n`;
    return chomping === "-" ? text.trimEnd() : `${text.trimEnd()}\n`;
  }

  /** [ … ] or { … }, also over several lines. */
  flow(text) {
    let whole = bare(text);
    this.at += 1;
    for (;;) {
      const tokens = this.tokens(whole);
      const depth = tokens.reduce((sum, one) => sum + (/^[[{]$/.test(one) ? 1 : /^[\]}]$/.test(one) ? -1 : 0), 0);
      if (depth <= 0) return this.flowed(tokens);
      const line = this.next();
      if (line === null) throw this.wrong("a bracket is not closed");
      whole += ` ${bare(line.trim())}`;
      this.at += 1;
    }
  }

  /** Brackets, commas, colons, quotes and plain texts. */
  tokens(text) {
    const found = [];
    for (let rest = text.trimStart(); rest; rest = rest.trimStart()) {
      const [own] = /^"(?:[^"\\]|\\.)*"|^'(?:[^']|'')*'|^[[\]{},]|^:(?=[\s,\]}"'[{]|$)|^(?:[^,[\]{}:]|:(?=\S))+/.exec(rest) ?? [rest];
      found.push(own.trimEnd());
      rest = rest.slice(own.length);
    }
    return found;
  }

  flowed(tokens) {
    const rest = [...tokens];
    const one = () => {
      const token = rest.shift();
      if (token === "[") {
        const found = [];
        while (rest.length && rest[0] !== "]") {
          found.push(one());
          if (rest[0] === ",") rest.shift();
          else if (rest[0] !== "]") throw this.wrong("a comma or ] is missing");
        }
        rest.shift();
        return found;
      }
      if (token === "{") {
        const found = Object.create(null);
        while (rest.length && rest[0] !== "}") {
          const key = String(one());
          found[key] = null;
          if (rest[0] === ":") {
            rest.shift();
            found[key] = rest[0] === "," || rest[0] === "}" ? null : one();
          }
          if (rest[0] === ",") rest.shift();
          else if (rest[0] !== "}") throw this.wrong("a comma or } is missing");
        }
        rest.shift();
        return found;
      }
      if (token === undefined || /^[\]},:]$/.test(token)) throw this.wrong("a value is missing");
      if (token[0] in INDICATORS) throw this.wrong(`${INDICATORS[token[0]]} are not supported here`);
      return /^["']/.test(token) ? this.quoted(token) : scalar(token.trim());
    };
    const found = one();
    if (rest.length) throw this.wrong("text after the closing bracket");
    return found;
  }

  quoted(text) {
    const own = bare(text);
    if (own[0] === "'") {
      if (!/^'(?:[^']|'')*'$/.test(own)) throw this.wrong("quotes must end on the same line");
      return own.slice(1, -1).replaceAll("''", "'");
    }
    try {
      return JSON.parse(own);
    } catch {
      throw this.wrong("quotes must end on the same line, with escapes as in JSON");
    }
  }
}

function scalar(text) {
  if (/^(null|Null|NULL|~|)$/.test(text)) return null;
  if (/^(true|True|TRUE)$/.test(text)) return true;
  if (/^(false|False|FALSE)$/.test(text)) return false;
  return /^[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?$/i.test(text) ? Number(text) : text;
}
