// Starts what the page has; a chart is drawn when it comes near the window, and again when colours change.

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
  const drawn = new Map();
  for (const section of ["charts", "studies", "history"]) {
    const figures = dataOf(section);
    if (figures) drawn.set(section, startCharts(section, figures));
  }
  const data = dataOf("explorer");
  if (data) startExplorer(data);
  const redrawAll = () => {
    if (drawn.size) loadPlotly();
    drawn.forEach((redraw) => redraw());
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  const print = (isPrinting) => { printing = isPrinting; redrawAll(); };
  matchMedia("print").addEventListener("change", (event) => print(event.matches));
  addEventListener("afterprint", () => print(false));
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details.part, details:has(.pairs)").forEach((one) => { one.open = true; });
    print(true);
  });
  // After the first picture of the page.
  if (drawn.size) requestAnimationFrame(() => setTimeout(() => startDrawing(drawn)));
}

start();
