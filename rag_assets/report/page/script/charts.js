// Bars by retriever and top_k, curves over top_k, quality against time.

function whiskers(bounds) {
  const known = bounds.map((one) => one && one[1] !== null);
  return {
    type: "data", visible: known.some(Boolean), symmetric: false, thickness: 1, width: 2,
    color: colour("soft"),
    array: bounds.map((one, n) => (known[n] ? one[2] - one[0] : 0)),
    arrayminus: bounds.map((one, n) => (known[n] ? one[0] - one[1] : 0)),
  };
}

function drawBars(data, measure) {
  const traces = data.retrievers.map((name, number) => {
    const bounds = data.values[measure][number];
    const { colour: fillColour, pattern } = look(number);
    return {
      type: "bar", name: plain(name), x: data.cutoffs.map((k) => `@${k}`),
      y: bounds.map((one) => one && one[0]), error_y: whiskers(bounds),
      marker: { color: fillColour, pattern: hatching(fillColour, pattern) },
      hovertemplate: "%{fullData.name}<br>%{x}: %{y:.4f}<extra></extra>",
    };
  });
  draw("chart-bars", traces, layout({
    barmode: "group", bargap: 0.18, bargroupgap: 0.04, xaxis: axis({ type: "category" }),
    yaxis: axis({ title: { text: plain(measure) }, rangemode: "tozero" }), showlegend: true,
  }));
}

function band(name, number, ks, bounds) {
  const known = ks.map((k, n) => [k, bounds[n]]).filter(([, one]) => one && one[1] !== null);
  const back = [...known].reverse();
  return {
    type: "scatter", mode: "lines", legendgroup: name, showlegend: false, hoverinfo: "skip",
    x: [...known, ...back].map(([k]) => k),
    y: [...known.map(([, one]) => one[2]), ...back.map(([, one]) => one[1])],
    fill: "toself", fillcolor: withAlpha(look(number).colour, 0.1), line: { width: 0 },
  };
}

function drawCurves(data, measure) {
  if (!byId("chart-curves")) return;
  const lines = data.retrievers.map((name, number) => {
    const { colour: lineColour, symbol, dash } = look(number);
    return {
      type: "scatter", mode: "lines+markers", name: plain(name), legendgroup: plain(name),
      x: data.cutoffs, y: data.values[measure][number].map((one) => one && one[0]),
      line: { color: lineColour, dash, width: 2 }, marker: { color: lineColour, symbol, size: 8 },
      connectgaps: true, hovertemplate: "%{fullData.name}<br>@%{x}: %{y:.4f}<extra></extra>",
    };
  });
  const few = data.retrievers.length <= 4;
  const bands = data.retrievers.map((name, n) => band(plain(name), n, data.cutoffs, data.values[measure][n]));
  draw("chart-curves", few ? [...bands, ...lines] : lines, layout({
    xaxis: axis({ type: "log", tickvals: data.cutoffs, ticktext: data.cutoffs.map(String), title: { text: "top_k" } }),
    yaxis: axis({ title: { text: plain(measure) } }), showlegend: true,
  }));
}

function primaryBounds(data, name) {
  const k = data.cutoffs.indexOf(data.primary.cutoff);
  return data.values[data.primary.measure][data.retrievers.indexOf(name)][k];
}

// Where more retrievers lie close together, only those of the front are named in the chart.
const MOST_LABELS = 5;

// Of points whose names would lie over each other the first is named; the legend names all.
function namedPoints(points, spans) {
  const named = [];
  for (const point of points) {
    const isFree = named.every((other) => Math.abs(point.x - other.x) > 0.3 * spans.x || Math.abs(point.y - other.y) > 0.12 * spans.y);
    if (isFree) named.push(point);
  }
  return new Set(named.map((point) => point.name));
}

function paretoNames(data, isCrowded) {
  const names = isCrowded ? [...data.front].reverse() : Object.keys(data.times);
  const points = names.map((name) => ({ name, x: Math.log10(data.times[name]), y: primaryBounds(data, name)[0] }));
  const every = Object.keys(data.times);
  const span = (values) => Math.max(...values) - Math.min(...values) || 1;
  return namedPoints(points, {
    x: span(every.map((name) => Math.log10(data.times[name]))),
    y: span(every.flatMap((name) => primaryBounds(data, name)).filter((value) => value !== null)),
  });
}

function drawPareto(data) {
  if (!byId("chart-pareto")) return;
  const exponents = Object.values(data.times).map(Math.log10);
  const [least, most] = [Math.min(...exponents), Math.max(...exponents)];
  const middle = (least + most) / 2;
  const named = paretoNames(data, exponents.length > MOST_LABELS);
  const isCrowded = named.size < exponents.length;
  const points = Object.keys(data.times).map((name) => {
    const number = data.retrievers.indexOf(name);
    const { colour: pointColour, symbol } = look(number);
    const bounds = primaryBounds(data, name);
    const isRight = Math.log10(data.times[name]) > middle;
    return {
      type: "scatter", mode: "markers+text", name: plain(name), x: [data.times[name]], y: [bounds[0]],
      text: [!named.has(name) ? "" : isRight ? `${plain(name)}  ` : `  ${plain(name)}`], textposition: isRight ? "top left" : "top right", cliponaxis: false, error_y: whiskers([bounds]),
      marker: { color: pointColour, symbol, size: 13, line: { color: colour("page"), width: 1 } },
      hovertemplate: "%{fullData.name}<br>%{x:.3g} ms, %{y:.4f}<extra></extra>", showlegend: isCrowded,
    };
  });
  const front = {
    type: "scatter", mode: "lines", name: "Pareto front", x: data.front.map((name) => data.times[name]),
    y: data.front.map((name) => primaryBounds(data, name)[0]), hoverinfo: "skip", showlegend: false,
    line: { color: colour("soft"), dash: "dot", width: 2, shape: "hv" },
  };
  const room = Math.max(0.35, 0.18 * (most - least));
  draw("chart-pareto", [front, ...points], layout({
    xaxis: axis({
      type: "log", title: { text: "milliseconds a query (logarithmic)" }, dtick: 1,
      range: [least - room, most + room],
    }),
    yaxis: axis({ title: { text: `${plain(data.primary.measure)}@${data.primary.cutoff}`, standoff: 14 } }),
  }));
}

function startCharts(data) {
  const metric = byId("chart-metric");
  fill(metric, data.measures.map((name) => [name, name]), data.primary.measure);
  const drawMetric = () => {
    drawBars(data, metric.value);
    drawCurves(data, metric.value);
  };
  metric.addEventListener("change", drawMetric);
  return () => {
    drawMetric();
    drawPareto(data);
  };
}
