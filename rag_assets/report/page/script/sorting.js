// Tables with the class "sortable": each heading is a button that sorts by its column.

function sortValue(cell) {
  const text = (cell.dataset.value ?? cell.textContent).trim().replace("\u2212", "-");
  const number = Number.parseFloat(text);
  const isNumber = /^[-+]?[\d.]/.test(text) && !Number.isNaN(number);
  return { text, number: isNumber ? number : null };
}

// Numbers before texts, and what is empty last whichever way round.
function compared(a, b, sign) {
  if (!a.text || !b.text) return Number(!a.text) - Number(!b.text);
  if (a.number !== null && b.number !== null) return sign * (a.number - b.number);
  if (a.number !== null || b.number !== null) return a.number !== null ? -1 : 1;
  return sign * a.text.localeCompare(b.text);
}

function sortTable(table, heading, column) {
  const rows = [...table.tBodies[0].rows];
  const values = new Map(rows.map((row) => [row, sortValue(row.cells[column])]));
  const numeric = rows.some((row) => values.get(row).number !== null);
  const ascending = heading.ariaSort
    ? heading.ariaSort === "descending"
    : !numeric || column === 0;
  for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  const sign = ascending ? 1 : -1;
  rows.sort((a, b) => compared(values.get(a), values.get(b), sign));
  table.tBodies[0].append(...rows);
}

function makeSortable(table) {
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    const button = element("button", { type: "button", text: heading.textContent });
    button.addEventListener("click", () => sortTable(table, heading, column));
    heading.replaceChildren(button);
  });
}
