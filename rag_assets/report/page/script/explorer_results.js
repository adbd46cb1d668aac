// One query: its evidences with their ranks, and the results of two retrievers side by side.

function rankText(rank) {
  return rank === null ? "not ranked" : `rank ${rank}`;
}

function documentName(data, number) {
  const [id, title] = data.documents[number];
  return title && title !== id ? `${title} (${id})` : id;
}

function spanName(data, span) {
  const [number, start, end] = span;
  return documentName(data, number) + (start === undefined ? "" : `, characters ${start} to ${end}`);
}

function placeText(data, evidence, side) {
  const place = data.places[evidence.l[side]];
  const rank = evidence.k[side];
  if (place === "found" || !place) return rankText(rank);
  return rank === null ? place : `${rankText(rank)}: ${place}`;
}

function evidenceTable(data, query, left, right) {
  const sides = left === right ? [left] : [left, right];
  const heads = ["evidence", ...sides.map((side) => data.retrievers[side])];
  const head = element("tr", {}, ...heads.map((text) => element("th", { scope: "col", text })));
  const rows = query.e.map((evidence) => {
    const names = evidence.s.map((span) => spanName(data, span)).join(" or ");
    const cells = sides.map((side) => element("td", { text: placeText(data, evidence, side) }));
    return element("tr", {}, element("th", { scope: "row", text: names }), ...cells);
  });
  const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
  const box = element("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": "Evidence of this query" }, table);
  if (query.m) box.append(element("p", { class: "soft", text: `and ${query.m} more` }));
  return box;
}

// Spans of the query's evidence in one document; evidence that is a whole document has no span.
function spansIn(query, document) {
  return query.e.flatMap((one) => one.s).filter((span) => span[0] === document && span.length === 3)
    .map(([, start, end]) => [start, end]);
}

function moveText(data, here, there, other) {
  const place = there.indexOf(here.unit);
  const name = data.retrievers[other];
  if (place < 0) return `not in the first ${data.depth} of ${name}`;
  const moved = place - here.rank;
  if (moved === 0) return `= in ${name}`;
  return `${moved > 0 ? "\u25b2" : "\u25bc"}${Math.abs(moved)} from ${place + 1} in ${name}`;
}

// Positions count characters, not UTF-16 units.
function hitText(query, unit) {
  const [document, start, end, first, text] = unit;
  if (text === undefined) return element("p", { class: "empty", text: "Text left out." });
  const line = element("p", { class: "text", dir: "auto" });
  const characters = Array.from(text);
  const spans = spansIn(query, document);
  const marked = characters.map((_, at) => spans.some(([from, to]) => from <= first + at && first + at < to));
  if (first > start) line.append("\u2026 ");
  for (let at = 0; at < characters.length;) {
    let next = at;
    while (next < characters.length && marked[next] === marked[at]) next += 1;
    const part = characters.slice(at, next).join("");
    line.append(marked[at] ? element("mark", { text: part }) : part);
    at = next;
  }
  if (first + characters.length < end) line.append(" \u2026");
  return line;
}

function hit(data, query, side, other, rank) {
  const unit = query.r[side][rank];
  const relevant = query.h[side].includes(rank);
  const header = element("header", {},
    element("span", { class: "rank", text: `${rank + 1}` }),
    element("span", { class: "text document", dir: "auto", text: documentName(data, data.units[unit][0]) }));
  if (relevant) header.append(element("span", { class: "badge", text: "\u2713 relevant" }));
  if (side !== other) {
    const text = moveText(data, { unit, rank }, query.r[other], other);
    header.append(element("span", { class: "move", text }));
  }
  return element("li", { class: relevant ? "hit relevant" : "hit" }, header, hitText(query, data.units[unit]));
}

function results(data, query, side, other) {
  const value = element("span", { class: "value", text: data.metric ? ` ${data.metric} ${fixed(query.v[side])}` : "" });
  const hits = query.r[side].map((_, rank) => hit(data, query, side, other, rank));
  const list = hits.length ? element("ol", {}, ...hits) : element("p", { class: "empty", text: "Nothing retrieved." });
  return element("div", { class: "side" }, element("h4", { text: data.retrievers[side] }, value), list);
}

// A text that is longer than its box is scrolled to its evidence, and can be scrolled by keys.
function showMark(one) {
  const line = one.querySelector("p");
  const mark = one.querySelector("mark");
  if (line.scrollHeight <= line.clientHeight) return;
  line.tabIndex = 0;
  if (mark) line.scrollTop = mark.offsetTop - line.offsetTop - 24;
}

function showQuery(data, query, left, right) {
  const article = byId("query");
  if (!query) {
    article.replaceChildren(element("p", { class: "empty", text: "No query matches these filters." }));
    return;
  }
  const tags = element("ul", { class: "tags", "aria-label": "Tags" }, ...query.g.map((n) => element("li", { class: "text", text: data.tags[n] })));
  const values = data.retrievers.map((name, n) => `${name} ${fixed(query.v[n])}`).join(", ");
  const parts = [
    element("h3", { class: "text", dir: "auto", text: query.t }),
    element("p", { class: "soft text", text: query.i }),
    ...(query.g.length ? [tags] : []),
    ...(data.metric ? [element("p", { class: "soft", text: `${data.metric}: ${values}` })] : []),
    query.e.length ? evidenceTable(data, query, left, right) : element("p", { class: "soft", text: query.u ? "No relevant evidence: the query is unanswerable." : "No relevant evidence is labelled." }),
    ...(data.answerers.length ? [answersPart(data, query)] : []),
    element("div", { class: "sides" }, results(data, query, left, right), ...(left === right ? [] : [results(data, query, right, left)])),
  ];
  article.replaceChildren(...parts);
  article.querySelectorAll(".hit").forEach(showMark);
}
