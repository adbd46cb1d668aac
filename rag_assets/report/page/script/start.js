// Starts what the page has; a chart is drawn when it comes near the window, and again when colours change.

const DRAWN_BY = { charts: startCharts, history: startHistory };

function whenNear(section, action) {
  if (!("IntersectionObserver" in window)) return action();
  const observer = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting)) {
      observer.disconnect();
      action();
    }
  }, { rootMargin: "600px" });
  observer.observe(section);
}

function startDrawing(drawn) {
  loadPlotly();
  drawn.forEach((redraw, section) => whenNear(byId(section), redraw));
}

function start() {
  document.documentElement.classList.add("js");
  document.querySelectorAll("table.sortable").forEach(makeSortable);
  offerTables();
  offerCharts();
  const drawn = new Map();
  for (const [section, begin] of Object.entries(DRAWN_BY)) {
    const data = dataOf(section);
    if (!data) continue;
    drawn.set(section, begin(data));
  }
  const data = dataOf("explorer");
  if (data) startExplorer(data);
  const redrawAll = () => {
    if (drawn.size) loadPlotly();
    drawn.forEach((redraw) => redraw());
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  const print = (isPrinting) => {
    printing = isPrinting;
    redrawAll();
  };
  matchMedia("print").addEventListener("change", (event) => print(event.matches));
  addEventListener("afterprint", () => print(false));
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((one) => { if (one.querySelector(".pairs")) one.open = true; });
    print(true);
  });
  // After the first picture of the page.
  if (drawn.size) requestAnimationFrame(() => setTimeout(() => startDrawing(drawn)));
}

start();
