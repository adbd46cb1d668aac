// The answers to one query side by side, each with its class and the context that it was made from.
// An answer: text (null: failed), error, EM, F1, number of its class, units of its context (null:
// not known), how many units are left out.

function answerText(text, error) {
  if (text === null) return element("p", { class: "empty text", dir: "auto", text: `Failed: ${error ?? "no answer"}` });
  if (text === "") return element("p", { class: "empty", text: "Refused." });
  return element("p", { class: "text said", dir: "auto", text });
}

function contextOf(data, query, units, more) {
  if (units === null) return element("p", { class: "soft", text: "Its context is not known." });
  if (!units.length) return element("p", { class: "soft", text: "It had no context." });
  const n = units.length + more;
  const hits = units.map((unit, n) => element("li", { class: "hit" },
    element("header", {}, element("span", { class: "rank", text: `[${n + 1}]` }),
      element("span", { class: "text document", dir: "auto", text: documentName(data, data.units[unit][0]) })),
    hitText(query, data.units[unit])));
  const list = element("ol", {}, ...hits);
  if (more) list.append(element("li", { class: "soft", text: `and ${more} more` }));
  const box = element("details", {}, element("summary", { text: `context of ${n} unit${n === 1 ? "" : "s"}` }), list);
  box.addEventListener("toggle", () => box.querySelectorAll(".hit").forEach(showMark));
  return box;
}

function answerBox(data, query, number) {
  const answer = query.a[number];
  const title = element("h4", { text: data.answerers[number] });
  if (!answer) return element("div", { class: "answer" }, title, element("p", { class: "empty", text: "No answer." }));
  const [text, error, em, f1, outcome, units, more] = answer;
  const name = outcome === null ? "" : data.classes[outcome];
  const isGood = name.startsWith("right") || name.endsWith(", refused");
  return element("div", { class: isGood ? "answer good" : "answer" },
    title,
    answerText(text, error),
    element("p", { class: "soft", text: `${name}${name ? "; " : ""}EM ${em ?? "-"}, F1 ${fixed(f1)}` }),
    contextOf(data, query, units, more));
}

function answersPart(data, query) {
  const gold = query.o.length
    ? element("p", {}, "Right: ", ...query.o.flatMap((text, n) => [...(n ? [" or "] : []), element("q", { class: "text", dir: "auto", text })]))
    : element("p", { class: "soft", text: query.u ? "Right: to refuse." : "No right answer is labelled." });
  const boxes = data.answerers.map((_, number) => answerBox(data, query, number));
  return element("div", { class: "answered" }, element("h4", { text: "Answers" }), gold, element("div", { class: "answer-grid" }, ...boxes));
}
