// Each metric over evaluations: a line joins those that can be compared, and the table has the rest.

// Points at equal distances, whatever time lies between; a value that is not there is skipped, and
// an empty point breaks the line.
function historyLine(points, values) {
  const [x, y, told] = [[], [], []];
  const add = (place, value, text) => {
    x.push(place);
    y.push(value);
    told.push(text);
  };
  points.forEach((point, n) => {
    if (point.broken) add(n + 0.5, null, "");
    if (values[n] === null) return;
    const change = n && !point.broken && values[n - 1] !== null ? `, ${signed(values[n] - values[n - 1])}` : "";
    const said = point.said.map((text) => `<br>${plain(text)}`).join("");
    add(n + 1, values[n], [`${n + 1}, ${point.time}`, `${change}${said}`]);
  });
  return { x, y, customdata: told };
}

function historyMarks(points) {
  const line = (x, name, dash) => ({
    type: "line", xref: "x", yref: "paper", x0: x, x1: x, y0: 0, y1: 1, layer: "below",
    line: { color: colour(name), dash, width: 2 },
  });
  const shapes = [];
  const annotations = [];
  points.forEach((point, n) => {
    if (point.broken) shapes.push(line(n + 0.5, "soft", "dot"));
    if (!point.anchor) return;
    shapes.push(line(n + 1, "good", "solid"));
    const isLate = n + 1 > points.length / 2;
    annotations.push({
      x: n + 1, y: 1, xref: "x", yref: "paper", text: isLate ? "anchor " : " anchor", showarrow: false,
      xanchor: isLate ? "right" : "left", yanchor: "top", font: { color: colour("good"), size: 12 }, bgcolor: colour("page"),
    });
  });
  return { shapes, annotations };
}

// So many dates stand below each other without touching.
function historyTicks(points, width) {
  const step = Math.ceil(points.length / Math.max(2, Math.floor(width / 90)));
  const shown = points.map((_, n) => n).filter((n) => (points.length - 1 - n) % step === 0);
  const isOneDay = new Set(points.map((point) => point.time.slice(0, 10))).size === 1;
  const [from, to] = isOneDay ? [11, 16] : [2, 10];
  return {
    tickvals: shown.map((n) => n + 1),
    ticktext: shown.map((n) => `${n + 1}<br>${points[n].time.slice(from, to)}`),
  };
}

function historyRange(values) {
  const known = values.flat().filter((value) => value !== null);
  if (!known.length) return [0, 1];
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const room = Math.max(0.02, 0.12 * (high - low));
  return [Math.max(low - room, -room / 2), high + room];
}

const MANY_POINTS = 20;

function drawHistory(data, values) {
  const chart = byId("chart-history");
  const traces = data.retrievers.map((name, number) => {
    const { colour: lineColour, symbol, dash } = look(number);
    return {
      type: "scatter", mode: "lines+markers", ...historyLine(data.points, values[number]),
      name: plain(name) + (name === data.baseline ? " (baseline)" : ""), connectgaps: false,
      line: { color: lineColour, dash, width: name === data.baseline ? 3.5 : 2 },
      marker: { color: lineColour, symbol, size: data.points.length > MANY_POINTS ? 6 : 9 },
      hovertemplate: "%{fullData.name}<br>%{customdata[0]}: %{y:.4f}%{customdata[1]}<extra></extra>",
    };
  }).filter((trace) => trace.y.some((value) => value !== null));
  draw("chart-history", traces, layout({
    ...historyMarks(data.points), showlegend: true, hovermode: "closest", margin: { ...layout().margin, r: 32 },
    xaxis: axis({
      ...historyTicks(data.points, chart.clientWidth), range: [0.5, data.points.length + 0.5],
      zeroline: false, showgrid: false, ticklabeloverflow: "allow",
    }),
    yaxis: axis({ range: historyRange(values), zeroline: false }),
  }));
}

function fillHistory(data, values, shown) {
  byId("history-shown").textContent = shown;
  for (const row of byId("history-table").tBodies[0].rows) {
    const n = Number(row.dataset.point);
    const comparable = n > 0 && !data.points[n].broken;
    [...row.cells].slice(3).forEach((cell, number) => {
      const value = values[number][n];
      const before = comparable ? values[number][n - 1] : null;
      cell.replaceChildren(element("span", { class: "value", text: fixed(value) }));
      if (value === null || before === null) return;
      cell.append(element("small", { class: "interval", text: signed(value - before) }));
    });
  }
}

function startHistory(data) {
  const metric = byId("history-metric");
  const cutoff = byId("history-top-k");
  fill(metric, data.measures.map((name) => [name, name]), data.primary.measure);
  fill(cutoff, data.cutoffs.map((k, n) => [n, k]), data.cutoffs.indexOf(data.primary.cutoff));
  const chosen = () => data.values[metric.value].map((of) => of[Number(cutoff.value)]);
  const changed = () => {
    fillHistory(data, chosen(), `${metric.value}@${data.cutoffs[Number(cutoff.value)]}`);
    drawHistory(data, chosen());
  };
  for (const select of [metric, cutoff]) select.addEventListener("change", changed);
  return () => drawHistory(data, chosen());
}
