// Click a column's heading to sort by it: by the number that a cell begins with, else by text. Cells without one
// go last either way, so that "not measured" never comes out on top.
function sortKey(row, column) {
  const text = row.cells[column].textContent.replace(/,(?=\d{3})/g, "");
  const number = text.match(/^(?:at least |at most |between |more than )?([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)/i);
  return { text, number: number ? parseFloat(number[1]) : null };
}

function compare(a, b, direction) {
  if (a.number !== null && b.number !== null) return direction * (a.number - b.number);
  if (a.number !== null) return -1;
  if (b.number !== null) return 1;
  return direction * a.text.localeCompare(b.text);
}

function sortBy(heading) {
  const descending = heading.getAttribute("aria-sort") === "ascending";
  for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const body = heading.closest("table").tBodies[0];
  const keyed = [...body.rows].map((row) => ({ row, key: sortKey(row, heading.cellIndex) }));
  keyed.sort((a, b) => compare(a.key, b.key, descending ? -1 : 1));
  for (const { row } of keyed) body.append(row);
}

for (const heading of document.querySelectorAll("thead th")) {
  // Made here, so that without a script there is no button that does nothing.
  const button = document.createElement("button");
  button.type = "button";
  button.append(...heading.childNodes);
  button.addEventListener("click", () => sortBy(heading));
  heading.append(button);
}
// A folded table would print as its caption only.
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
