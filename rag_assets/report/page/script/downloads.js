// Each table as CSV and each chart as SVG, made in the page when they are asked for.

function save(name, content, type) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

// A spreadsheet program takes what begins so for a formula; a number is none.
function csvCell(text) {
  const number = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(text);
  const safe = !number && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function cellText(cell) {
  const value = cell.querySelector(".value") ?? cell.querySelector("button") ?? cell;
  return value.textContent.trim().replace(/\s+/g, " ").replaceAll("\u2212", "-");
}

// What stands small below a mean is its interval: two columns more.
function csvOf(table) {
  const rows = [...table.rows].filter((row) => row.cells.length);
  const width = Math.max(...rows.map((row) => row.cells.length));
  const spread = new Set();
  for (const row of rows) [...row.cells].forEach((cell, n) => { if (cell.querySelector(".interval")) spread.add(n); });
  return rows.map((row) => Array.from({ length: width }, (_, n) => {
    const cell = row.cells[n];
    const text = cell ? cellText(cell) : "";
    if (!spread.has(n)) return [text];
    if (row.parentElement.tagName === "THEAD") return [text, `${text} low`, `${text} high`];
    const bounds = cell?.querySelector(".interval")?.textContent.split(" to ") ?? ["", ""];
    return [text, ...bounds.map((bound) => bound.trim())];
  }).flat().map(csvCell).join(",")).join("\r\n") + "\r\n";
}

function fileName(text) {
  return text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "table";
}

function offerTables() {
  for (const region of document.querySelectorAll("main .scroll")) {
    const table = region.querySelector("table");
    if (!table || !table.tHead || region.closest("#explorer")) continue;
    const label = region.getAttribute("aria-label");
    const button = element("button", { class: "download on-screen", type: "button", text: "CSV", "aria-label": `${label} as CSV` });
    button.addEventListener("click", () => save(`${fileName(label)}.csv`, csvOf(table), "text/csv"));
    region.after(button);
  }
}

function offerCharts() {
  for (const chart of document.querySelectorAll("main .chart")) {
    const button = element("button", { class: "download on-screen", type: "button", text: "SVG", "aria-label": `${chart.id} as SVG` });
    button.addEventListener("click", async () => {
      const address = await Plotly.toImage(chart, { format: "svg" });
      save(`${chart.id}.svg`, decodeURIComponent(address.slice(address.indexOf(",") + 1)), "image/svg+xml");
    });
    (chart.closest(".scroll") ?? chart).after(button);
  }
}
