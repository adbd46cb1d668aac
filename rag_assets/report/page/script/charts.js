// Figures are made in Python. Their colours are names of the style sheet, so they follow light, dark and print.

function coloured(figure) {
  const style = getComputedStyle(document.documentElement);
  const text = JSON.stringify(figure).replace(/var\(--([\w-]+)\)/g, (_, name) => style.getPropertyValue(`--${name}`).trim());
  return JSON.parse(text);
}

// Reading plotly takes longest of all, so it lies in the page as a text, and becomes a script when
// the page can be used. The page's policy allows a script with that hash.
function loadPlotly() {
  if (!window.Plotly) document.head.append(element("script", { text: byId("plotly").textContent }));
}

// Paper is narrower than the window, and a chart knows only the width of the window.
const PAPER_WIDTH = 640;
let printing = false;

function draw(id, figure) {
  const chart = byId(id);
  const { data, layout } = coloured(figure);
  // Plotly would move the parts of a flow there slowly, and paper would show them on their way.
  const place = printing ? "paper" : "screen";
  if ((chart.dataset.place ?? "screen") !== place) Plotly.purge(chart);
  chart.dataset.place = place;
  const paper = { width: PAPER_WIDTH, height: chart.clientHeight, autosize: false };
  const sized = { ...layout, ...(printing ? paper : { autosize: true }) };
  return Plotly.react(chart, data, sized, { displayModeBar: false, responsive: true });
}

// Figures by name of the chart and by metric, "" where a chart has one for all.
function startCharts(section, figures) {
  const metric = byId(section).querySelector("select");
  const drawAll = () => {
    for (const [name, by] of Object.entries(figures)) draw(`chart-${name}`, by[""] ?? by[metric.value]);
  };
  if (metric) {
    fill(metric, Object.keys(figures.bars).map((name) => [name, name]));
    metric.addEventListener("change", drawAll);
  }
  return drawAll;
}
