// The labelling page. Texts from the server are only ever set as text, never as markup.
"use strict";
(() => {
const $ = (id) => document.getElementById(id);
const NEAR = 1500;
let task = null;     // the item that is shown
let spans = [];      // evidence: [start, end] in the document, in characters
let last = 0;        // end of the passage as far as it is shown
let seconds = 0;     // in which the item could be read
let since = 0;
let busy = false;
let failed = null;   // what is sent again, with the time of its key

const element = (name, text, props = {}) => Object.assign(document.createElement(name), { textContent: text, ...props });
const say = (text) => { $("said").textContent = text; };
const trouble = (text) => { $("trouble").hidden = !text; $("trouble").firstElementChild.textContent = text; $("retry").hidden = !failed; };
// Positions count characters as Python does; a string of JavaScript counts UTF-16 units.
const characters = (text) => [...text].length;
const units = (text, n) => [...text].slice(0, n).join("").length;
const at = () => new Date().toISOString();
const by = () => $("by").value.trim() || "anonymous";
const clock = () => { const now = performance.now(); if (since) seconds += (now - since) / 1000; since = document.hidden ? 0 : now; };

async function ask(path, body) {
  const reply = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  const said = await reply.json().catch(() => null);
  if (reply.ok) return said;
  if (reply.status === 404) throw Object.assign(new Error("The server was restarted. Open the address that it printed. Anything not confirmed was not saved."), { final: true });
  throw Object.assign(new Error(said?.problem ?? `the server answered ${reply.status}`), { final: reply.status < 500 });
}

// One change at a time; where no answer came, the same request is sent again: it is written once.
async function send(path, body, then) {
  if (busy) return;
  busy = true;
  document.body.setAttribute("aria-busy", "true");
  try {
    const reply = await ask(path, body);
    failed = null;
    trouble("");
    await then(reply);
  } catch (error) {
    failed = error.final ? null : () => send(path, body, then);
    trouble(error.final ? error.message : `Not saved: ${error.message}.`);
  } finally {
    busy = false;
    document.body.removeAttribute("aria-busy");
  }
}

// The words of the question are marked by their beginnings; in Chinese and Japanese, two characters each.
const words = /[\u3040-\u30ff\u3400-\u9fff]{2}|(?<!\p{L})(?!(?:the|and|for|are|was|what|how|does|when|who|with)(?!\p{L}))[\p{L}\p{N}\p{M}]{3,}/gu;
const pattern = (word) => word.length < 3 ? word : `(?<!\\p{L})${word.slice(0, Math.max(3, word.length - 2))}[\\p{L}\\p{N}\\p{M}]*`;
function fill(target, text) {
  const found = new Set(task.question.toLowerCase().slice(0, 2000).match(words) ?? ["[]"]);
  const parts = text.split(new RegExp(`(${[...found].map(pattern).join("|")})`, "giu"));
  target.append(...parts.map((part, n) => n % 2 ? element("mark", part) : part));
}

function show(shown) {
  task = shown;
  spans = [];
  seconds = 0;
  since = document.hidden ? 0 : performance.now();
  document.querySelector("main").hidden = task === null;
  $("end").hidden = task !== null;
  if (task === null) return;
  $("question").textContent = task.question;
  $("title").textContent = task.title || task.document_id;
  const where = [task.title && task.title !== task.document_id ? task.document_id : "", task.heading, `line ${task.line}`,
    `characters ${task.start}–${task.end} of ${task.length}`];
  $("place").textContent = where.filter(Boolean).join(" · ");
  for (const name of ["passage", "context-before", "context-after"]) $(name).replaceChildren();
  fill($("passage"), task.text.text);
  $("passage").scrollTop = 0;
  last = task.text.end;
  task.first = task.start;
  task.until = task.end;
  $("rest").hidden = last >= task.end;
  $("before").disabled = task.start === 0;
  $("after").disabled = task.end >= task.length;
  for (const button of document.querySelectorAll("[data-mark]")) button.setAttribute("aria-pressed", String(button.dataset.mark === task.mark));
  paintEvidence();
  $("question").focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

function arrive(reply) {
  const { answered, left, questions, gone } = reply.progress;
  $("progress").textContent = `${answered} answered, ${left} left; ${questions} questions${gone ? `; ${gone} texts are gone` : ""}`;
  show(reply.task);
}

const next = () => send("next", {}, arrive);

function answer(status, grade) {
  if (!task || busy) return;
  clock();
  const said = { by: by(), at: at(), seconds, grade };
  const evidence = status === "judged" ? spans : [];
  return send("answer", { ...said, query_id: task.query_id, document_id: task.document_id, start: task.start, end: task.end, status, evidence }, (reply) => {
    arrive(reply);
    say(status === "judged" ? `Saved: ${grade}.` : status === "skipped" ? "Skipped." : "Saved: cannot tell.");
  });
}

const undo = () => send("undo", { by: by(), at: at() }, (reply) => {
  arrive(reply);
  const was = reply.undone;
  const what = was && (was.status === "judged" ? was.grade : was.status.replace("_", " "));
  say(was ? `Undone: ${what}. Judge it again.` : "Undone.");
});

function mark(name) {
  const pressed = task.mark === name ? null : name;
  const of = pressed === "duplicate" ? window.prompt("The id of the question that it repeats (may be empty)") || null : null;
  return send("mark", { by: by(), at: at(), query_id: task.query_id, mark: pressed, of }, () => {
    task.mark = pressed;
    for (const button of document.querySelectorAll("[data-mark]")) button.setAttribute("aria-pressed", String(button.dataset.mark === pressed));
    const rest = pressed === "unanswerable" ? "The passage still needs a grade." : "No more of its passages will be shown: skip this one, or press again to remove the mark.";
    say(pressed ? `Question marked as ${pressed}. ${rest}` : "Mark removed.");
  });
}

async function more(start, end, target, first) {
  if (!task || start >= end) return;
  const shown = task;
  try {
    const part = await ask("text", { document_id: task.document_id, start, end });
    if (shown !== task) return null;
    const box = $(target), kept = [...box.childNodes];
    if (first) box.replaceChildren();
    fill(box, part.text);
    if (first) box.append(...kept);
    return part;
  } catch (error) { failed = null; trouble(error.message); }
}

async function before() {
  const part = await more(Math.max(0, task.first - NEAR), task.first, "context-before", true);
  if (part) { task.first = part.start; $("before").disabled = part.start === 0; }
}
async function after() {
  const part = await more(task.until, Math.min(task.length, task.until + NEAR), "context-after");
  if (part) { task.until = part.end; $("after").disabled = part.end >= task.length; }
}
async function rest() {
  const part = await more(last, task.end, "passage");
  if (part) { last = part.end; $("rest").hidden = last >= task.end; }
}

// Evidence: what is selected in the passage, cut to it.
function selected() {
  const selection = window.getSelection(), box = $("passage");
  if (!selection.rangeCount || selection.isCollapsed) return null;
  const range = selection.getRangeAt(0);
  if (!range.intersectsNode(box)) return null;
  const whole = document.createRange();
  whole.selectNodeContents(box);
  if (range.compareBoundaryPoints(Range.START_TO_START, whole) > 0) whole.setStart(range.startContainer, range.startOffset);
  if (range.compareBoundaryPoints(Range.END_TO_END, whole) < 0) whole.setEnd(range.endContainer, range.endOffset);
  const text = whole.toString();
  const head = document.createRange();
  head.selectNodeContents(box);
  head.setEnd(whole.startContainer, whole.startOffset);
  const start = task.start + characters(head.toString()) + characters(text) - characters(text.trimStart());
  const length = characters(text.trim());
  return length ? [start, start + length] : null;
}

function rangeOf(start, end) {
  const box = $("passage"), text = box.textContent;
  let from = units(text, start - task.start), to = units(text, end - task.start);
  const range = document.createRange(), walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
  let begun = false;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!begun && from < node.length) { range.setStart(node, from); begun = true; }
    if (begun && to <= node.length) { range.setEnd(node, to); return range; }
    from -= node.length;
    to -= node.length;
  }
  return range;
}

function markEvidence() {
  const found = task && selected();
  if (!found) return say("Select a part of the passage first, with the mouse or with j and k.");
  spans = [...spans.filter(([start, end]) => end <= found[0] || start >= found[1]), found].sort((a, b) => a[0] - b[0]);
  window.getSelection().removeAllRanges();
  paintEvidence();
  say("Marked as evidence.");
}

function paintEvidence() {
  const ranges = spans.map((one) => rangeOf(...one));
  if (window.Highlight) CSS.highlights.set("evidence", new Highlight(...ranges));
  $("evidence").hidden = !spans.length;
  $("evidence").querySelector("ul").replaceChildren(...ranges.map((range, n) => {
    const line = element("li", "");
    const remove = element("button", "remove", { type: "button", ariaLabel: `remove evidence ${n + 1}` });
    remove.addEventListener("click", () => { spans.splice(n, 1); paintEvidence(); $("passage").focus(); });
    line.append(element("q", range.toString(), { dir: "auto" }), remove);
    return line;
  }));
}

function sentence(step, extend) {
  const text = $("passage").textContent;
  const found = Intl.Segmenter ? [...new Intl.Segmenter(undefined, { granularity: "sentence" }).segment(text)] : [{ index: 0, segment: text }];
  const list = found.filter((one) => one.segment.trim()).map((one) => [characters(text.slice(0, one.index)), one.segment]);
  const now = selected();
  const place = now && now[step > 0 || extend ? 1 : 0] - task.start;
  let chosen = step > 0 ? list.find(([start]) => now === null || start >= place) : list.findLast(([start]) => now !== null && start < place);
  chosen ??= step > 0 ? list.at(-1) : list[0];
  if (!chosen) return;
  const [from, own] = [task.start + chosen[0], chosen[1].trimEnd()];
  const range = rangeOf(extend && now ? now[0] : from, from + characters(own));
  window.getSelection().removeAllRanges();
  window.getSelection().addRange(range);
  range.startContainer.parentElement.scrollIntoView({ block: "nearest" });
  say(`Selected: ${range.toString().slice(0, 300)}`);
}

const number = (value) => value === null ? "?" : value.toFixed(3);
const interval = (low, high) => low === null ? "?" : `${number(low)} to ${number(high)}`;
const range = (one, name) => one[`${name}_low`] === one[`${name}_high`] ? one[`${name}_low`] : `${one[`${name}_low`]} to ${one[`${name}_high`]}`;
const rows = (id, cells) => $(id).tBodies[0].replaceChildren(...cells.map((row) => {
  const line = element("tr", "");
  line.append(...row.map((text, n) => n ? element("td", text) : element("th", text, { scope: "row" })));
  return line;
}));

async function standing() {
  try {
    const now = await ask("standing", {});
    $("metric").textContent = now.metric;
    for (const name of ["items", "questions"]) $(name).textContent = now.targets[name];
    $("pairs").caption.textContent = `Differences on ${now.targets.items}`;
    $("price").textContent = `${now.price}.${now.estimates.some((one) => one.lowest !== one.highest) ? " Passages marked 'cannot tell' are treated as missing at random." : ""}`;
    const pairs = now.differences, open = pairs.filter((one) => !one.decided).length;
    $("standing-text").textContent = now.estimates.length === 0 ? "There is no judgment of the sample yet." :
      `${now.n_labels} label${now.n_labels === 1 ? "" : "s"}. ${pairs.length - open} of ${pairs.length} differences are decided. ` + (open && now.more_judgments_high ?
      `The rest need about ${range(now, "more_judgments")} more judgments${now.more_minutes_low === null ? "" : ` (${range(now, "more_minutes")} min at the pace so far)`}. ` : "") +
      `Decisions are about ${now.targets.items}; intervals hold with ${100 * now.level} %.`;
    rows("systems", now.estimates.map((one) => [one.retriever, number(one.value), interval(one.items_low, one.items_high), interval(one.questions_low, one.questions_high)]));
    rows("pairs", pairs.map((one) => [`${one.retriever_a} − ${one.retriever_b}`, number(one.value) + (one.outside ? " (outside)" : ""),
      interval(one.low, one.high), one.decided ? "yes" : one.more_judgments_high ? `${range(one, "more_judgments")} more` : "no"]));
    $("standing").showModal();
  } catch (error) { failed = null; trouble(error.message); }
}

const press = { e: markEvidence, c: () => answer("cannot_tell", null), s: () => answer("skipped", null), u: undo, b: before, a: after,
  j: () => sentence(1), k: () => sentence(-1), J: () => sentence(1, true) };
for (const grade of [0, 1, 2, 3]) press[grade] = () => answer("judged", grade);

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input:not([type=checkbox])");
  if (event.key === "Escape" && typing) { event.target.blur(); return $("passage").focus(); }
  if (typing || !$("keys").checked || $("standing").open || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if ((task || event.key === "u") && Object.hasOwn(press, event.key)) { event.preventDefault(); press[event.key](); }
});
document.addEventListener("visibilitychange", clock);
for (const button of document.querySelectorAll("[data-grade]")) button.addEventListener("click", press[button.dataset.grade]);
for (const button of document.querySelectorAll("[data-mark]")) button.addEventListener("click", () => mark(button.dataset.mark));
const clicks = { "undo-last": undo, "mark-evidence": markEvidence, "cannot-tell": press.c, skip: press.s, undo, before, after, rest,
  retry: () => failed?.(), "show-standing": standing, close: () => $("standing").close() };
for (const [id, action] of Object.entries(clicks)) $(id).addEventListener("click", action);
$("by").addEventListener("change", () => sessionStorage.setItem("by", by()));

send("start", {}, (start) => {
  $("by").value = sessionStorage.getItem("by") || start.by;
  busy = false;
  return next();
});
})();
