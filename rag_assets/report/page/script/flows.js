// Where evidence and answers are lost, as flows.

// Pixels, on average.
const LETTER_WIDTH = 6;

// What is left goes along the bottom from stage to stage; what a stage loses leaves to the top.
const KINDS = { lost: "below", neutral: "c5", gained: "c2" };

// Breaks a label into lines, so that it ends before the next one begins.
function wrapped(label, characters) {
  const lines = [""];
  for (const word of label.split(" ")) {
    const line = lines.at(-1);
    if (line && line.length + word.length >= characters) lines.push(word);
    else lines[lines.length - 1] = line ? `${line} ${word}` : word;
  }
  return lines.map(plain).join("<br>");
}

function flowParts(flow, name, what, width) {
  const node = { label: [], x: [], y: [], color: [] };
  const link = { source: [], target: [], value: [], color: [] };
  const steps = flow.steps.length || 1;
  const characters = Math.max(8, Math.floor(width / steps / LETTER_WIDTH) - 3);
  const add = (label, number, x, y, name) => {
    node.label.push(`${wrapped(label, characters)}<br>${number}`);
    node.x.push(x);
    node.y.push(y);
    node.color.push(colour(name));
    return node.label.length - 1;
  };
  const join = (source, target, value, name, alpha) => {
    link.source.push(source);
    link.target.push(target);
    link.value.push(value);
    link.color.push(withAlpha(colour(name), alpha));
  };
  let place = add(name, `${flow.n} ${what}`, 0.001, 0.6, "c0");
  flow.steps.forEach((step, n) => {
    const tone = KINDS[step.kind ?? "lost"];
    join(place, add(step.lost, step.n_lost, (n + 0.6) / steps, 0.1, tone), step.n_lost, tone, 0.5);
    if (!step.n_left) return;
    const next = add(step.left, step.n_left, Math.min((n + 1) / steps, 0.999), 0.6, "c0");
    join(place, next, step.n_left, "c0", 0.25);
    place = next;
  });
  if (!flow.steps.length) join(place, add("found", flow.n, 0.999, 0.6, "c0"), flow.n, "c0", 0.25);
  return { node, link };
}

function startFlow(data) {
  return startFlowOf(data.retrievers, data.flows, "evidences", "flow-retriever", "chart-flow");
}

function startAnswerFlow(data) {
  return startFlowOf(data.names, data.flows, "questions", "answer-flow-name", "chart-answer-flow");
}

function startFlowOf(names, flows, what, control, chart) {
  const chosen = byId(control);
  fill(chosen, names.map((name, n) => [n, name]), 0);
  const drawFlow = () => {
    const number = Number(chosen.value);
    byId(chart).style.minWidth = `${Math.max(40, 11 * flows[number].steps.length)}rem`;
    const width = printing ? PAPER_WIDTH : byId(chart).clientWidth;
    const { node, link } = flowParts(flows[number], names[number], what, width);
    draw(chart, [{
      type: "sankey", arrangement: "snap", link: { ...link, hoverinfo: "none" },
      node: { ...node, pad: 20, thickness: 14, line: { width: 0 }, hoverinfo: "none" },
      textfont: { color: colour("ink"), size: printing ? 9 : 12, shadow: "none" },
    }], layout({ margin: { l: 8, r: 72, t: 16, b: 16 } }));
  };
  chosen.addEventListener("change", drawFlow);
  return drawFlow;
}
