// What the filters of the explorer choose. A query: i id, t text, g tags, v values, r results,
// h which of them are relevant, e evidences (s spans, k ranks, l places), m evidences left out,
// u 1: unanswerable,
// o right answers, a an answer of each answerer.

const OUTCOMES = {
  all: { name: () => "all", keeps: () => true },
  right: { name: (left, right) => `won by ${right}`, keeps: (d) => d !== null && d > 1e-9 },
  left: { name: (left) => `won by ${left}`, keeps: (d) => d !== null && d < -1e-9 },
  tie: { name: () => "equal", keeps: (d) => d !== null && Math.abs(d) <= 1e-9 },
  neither: { name: () => "0 for both", keeps: (d, a, b) => a === 0 && b === 0 },
  none: { name: () => "without a value (no relevant label, or failed)", keeps: (d) => d === null },
};

function difference(query, left, right) {
  const [a, b] = [query.v[left], query.v[right]];
  return a === null || b === null ? null : b - a;
}

function size(value) {
  return value === null ? -1 : Math.abs(value);
}

function chosenQueries(data, choice) {
  const words = choice.search.trim().toLowerCase();
  const keeps = (query) => {
    const gained = difference(query, choice.left, choice.right);
    const { left, right } = choice;
    if (!OUTCOMES[choice.outcome].keeps(gained, query.v[left], query.v[right])) return false;
    if (choice.tag !== "" && !query.g.includes(Number(choice.tag))) return false;
    return !words || `${query.i}\n${query.t}`.toLowerCase().includes(words);
  };
  const found = data.queries.filter(keeps);
  const sizes = new Map(found.map((q) => [q, size(difference(q, choice.left, choice.right))]));
  return found.sort((a, b) => sizes.get(b) - sizes.get(a));
}

// On paper a long text is shortened to so many characters around its first evidence, and to as many
// more as that evidence needs, but no more than twice as many. It ends between words.
const PAPER_CHARACTERS = 220;
const PAPER_BEFORE = 40;

function paperPart(characters, isMarked) {
  const n = isMarked.length;
  if (n <= 1.2 * PAPER_CHARACTERS) return [0, n];
  const mark = Math.max(0, isMarked.indexOf(true));
  const start = Math.max(0, Math.min(mark - PAPER_BEFORE, n - PAPER_CHARACTERS));
  const behind = isMarked.indexOf(false, mark);
  const end = isMarked[mark] ? (behind < 0 ? n : behind) : 0;
  const stop = Math.min(n, Math.max(start + PAPER_CHARACTERS, Math.min(end, start + 2 * PAPER_CHARACTERS)));
  let blank = stop;
  while (blank > Math.max(end, stop - PAPER_BEFORE) && !/\s/.test(characters[blank] ?? " ")) blank -= 1;
  return [start, blank > Math.max(end, stop - PAPER_BEFORE) ? blank : stop];
}

// Returns the parts of a text: each with whether it is evidence, and whether it is left out on paper.
// Positions count characters, not UTF-16 units.
function textParts(characters, first, spans) {
  const isMarked = characters.map((_, at) => spans.some(([start, end]) => start <= first + at && first + at < end));
  const [from, to] = paperPart(characters, isMarked);
  const kind = (at) => (isMarked[at] ? 1 : 0) + (from <= at && at < to ? 0 : 2);
  const parts = [];
  for (let at = 0; at < characters.length;) {
    let end = at;
    while (end < characters.length && kind(end) === kind(at)) end += 1;
    parts.push({ text: characters.slice(at, end).join(""), marked: isMarked[at], onScreen: kind(at) > 1 });
    at = end;
  }
  return { parts, from, to };
}
