// Elements are made here and nowhere else; text of documents and queries goes through textContent.

function byId(id) {
  return document.getElementById(id);
}

function dataOf(section) {
  const block = byId(`data-${section}`);
  return block ? JSON.parse(block.textContent) : null;
}

// Returns an element with properties, attributes (by their hyphenated names) and children.
function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") made.className = value;
    else if (key === "text") made.textContent = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function fill(select, options, chosen) {
  select.replaceChildren(
    ...options.map(([value, text]) => element("option", { value: String(value), text })),
  );
  if (chosen !== undefined) select.value = String(chosen);
}

function fixed(value) {
  return value === null || value === undefined ? "-" : value.toFixed(4);
}

function signed(value) {
  if (Math.abs(value) < 0.00005) return "0";
  return (value > 0 ? "+" : "\u2212") + Math.abs(value).toFixed(4);
}
