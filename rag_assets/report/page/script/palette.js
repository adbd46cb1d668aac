// Colours come from the style sheet, so charts follow light, dark and print. A retriever is told by
// its colour and by its symbol and dash, so that no colour has to be told apart.

const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down"];
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const PATTERNS = ["", "/", "\\", "x", "-", "|", "+", "."];
const N_COLOURS = 8;

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function look(number) {
  return {
    colour: colour(`c${number % N_COLOURS}`),
    symbol: SYMBOLS[(number + 3 * Math.floor(number / N_COLOURS)) % SYMBOLS.length],
    dash: DASHES[number % DASHES.length],
    pattern: PATTERNS[Math.floor(number / N_COLOURS) % PATTERNS.length],
  };
}

function withAlpha(hex, alpha) {
  const channel = (start) => Number.parseInt(hex.slice(start, start + 2), 16);
  return `rgba(${channel(1)},${channel(3)},${channel(5)},${alpha})`;
}

// Where a bar is hatched, its own colour lies behind the lines.
function hatching(background, shape) {
  return { shape, bgcolor: background, fgcolor: colour("page"), size: 6, solidity: 0.25 };
}

function axis(more = {}) {
  return {
    gridcolor: colour("line"), zerolinecolor: colour("line"), linecolor: colour("soft"),
    automargin: true, fixedrange: true, exponentformat: "none", ...more,
  };
}

function layout(more = {}) {
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: colour("ink"), family: "system-ui, sans-serif", size: 12 },
    margin: { l: 56, r: 12, t: 8, b: 40 },
    hoverlabel: { bgcolor: colour("panel"), bordercolor: colour("line"), font: { color: colour("ink") } },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    ...more,
  };
}

// Reading plotly takes longest of all, so it lies in the page as a text, and becomes a script when
// the page can be used. The page's policy allows a script with that hash.
function loadPlotly() {
  if (!window.Plotly) document.head.append(element("script", { text: byId("plotly").textContent }));
}

// Paper is narrower than the window, and a chart knows only the width of the window.
const PAPER_WIDTH = 640;
let printing = false;

function draw(id, traces, shape) {
  const chart = byId(id);
  // Plotly would move the parts of a flow there slowly, and paper would show them on their way.
  const place = printing ? "paper" : "screen";
  if ((chart.dataset.place ?? "screen") !== place) Plotly.purge(chart);
  chart.dataset.place = place;
  const paper = { width: PAPER_WIDTH, height: chart.clientHeight, autosize: false };
  const sized = { ...shape, ...(printing ? paper : { autosize: true }) };
  return Plotly.react(chart, traces, sized, { displayModeBar: false, responsive: true });
}

// Plotly reads a little HTML in its texts; a name has none.
function plain(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
