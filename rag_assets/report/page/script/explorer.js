// The explorer's controls, and the list of queries that they leave.

const PAGE = 50;

// report.html#query=q01 opens the page at a query.
const LINK = "query=";

function explorerChoice() {
  return {
    left: Number(byId("left").value), right: Number(byId("right").value),
    outcome: byId("outcome").value, tag: byId("tag").value, search: byId("search").value,
  };
}

function queryButton(data, query, choice, select) {
  const gained = difference(query, choice.left, choice.right);
  const side = gained === null || Math.abs(gained) <= 1e-9 ? "same" : gained > 0 ? "right" : "left";
  const value = data.retrievers.length > 1 ? signed : () => fixed(query.v[0]);
  const text = gained === null ? (data.metric ? "no value" : "") : value(gained);
  const button = element("button", { type: "button", "aria-controls": "query" },
    element("span", { class: "text clip", dir: "auto", text: query.t }),
    element("span", { class: `delta ${side}`, text }),
    element("span", { class: "id text", text: query.i }));
  button.addEventListener("click", () => {
    select(query, button);
    history.replaceState(null, "", `#${LINK}${encodeURIComponent(query.i)}`);
  });
  return element("li", {}, button);
}

function fillOutcomes(data) {
  const names = [data.retrievers[Number(byId("left").value)], data.retrievers[Number(byId("right").value)]];
  const kept = byId("outcome").value || "all";
  fill(byId("outcome"), Object.entries(OUTCOMES).map(([key, one]) => [key, one.name(...names)]), kept);
}

// Arrow keys move through the list, as in any list box; tab leaves it.
function moveFocus(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const buttons = [...byId("query-list").querySelectorAll("button")];
  const next = buttons[buttons.indexOf(document.activeElement) + step];
  if (!next) return;
  event.preventDefault();
  next.focus();
  next.click();
}

function startExplorer(data) {
  const names = data.retrievers.map((name, n) => [n, name]);
  let [shown, current] = [PAGE, null];
  const select = (query, button) => {
    current = query;
    for (const one of byId("query-list").querySelectorAll("[aria-current]")) one.removeAttribute("aria-current");
    if (button) button.setAttribute("aria-current", "true");
    const { left, right } = explorerChoice();
    showQuery(data, query, left, right);
  };
  const list = () => {
    const choice = explorerChoice();
    const found = chosenQueries(data, choice);
    if (!found.includes(current)) current = found[0] ?? null;
    const items = found.slice(0, shown).map((query) => queryButton(data, query, choice, select));
    byId("query-list").replaceChildren(...items);
    byId("more").hidden = found.length <= shown;
    const gained = `; ${data.metric} of ${data.retrievers[choice.right]} minus ${data.retrievers[choice.left]}, largest differences first`;
    byId("explorer-count").textContent = `${found.length} of ${data.queries.length} queries${data.metric && names.length > 1 ? gained : ""}`;
    select(current, items[found.indexOf(current)]?.firstChild);
  };
  const again = () => { shown = PAGE; fillOutcomes(data); list(); };
  fill(byId("left"), names, Math.min(1, names.length - 1));
  fill(byId("right"), names, 0);
  for (const id of ["left", "right"]) byId(id).parentElement.hidden = names.length < 2;
  fill(byId("tag"), [["", "all"], ...data.tags.map((tag, n) => [n, tag])], "");
  for (const id of ["left", "right", "outcome", "tag"]) byId(id).addEventListener("change", again);
  byId("search").addEventListener("input", again);
  byId("more").addEventListener("click", () => { shown += PAGE; list(); });
  byId("query-list").addEventListener("keydown", moveFocus);
  const follow = () => {
    const hash = location.hash.slice(1);
    if (!hash.startsWith(LINK)) return;
    const id = hash.slice(LINK.length);
    current = data.queries.find((one) => encodeURIComponent(one.i) === id) ?? null;
    for (const [filter, none] of [["outcome", "all"], ["tag", ""], ["search", ""]]) byId(filter).value = none;
    const isMissing = !current;
    again();
    if (isMissing) byId("explorer-count").prepend(`Query ${id} is not on this page. `);
    byId("explorer").scrollIntoView();
  };
  addEventListener("hashchange", follow);
  again();
  follow();
}
