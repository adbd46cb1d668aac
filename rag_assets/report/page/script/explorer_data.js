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
