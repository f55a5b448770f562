"use strict";
const byId = (id) => document.getElementById(id);

function make(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

function counted(number, noun) {
  return number.toLocaleString("en") + " " + noun + (number === 1 ? "" : "s");
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", {numeric: true});
}

// Tables: a button in a header sorts by its column; rows without a value come last.

function valueOf(row, column) {
  const cell = row.cells[column];
  const text = cell.dataset.value ?? cell.textContent.trim();
  const value = Number(text);
  return text === "" || text === "nan" ? null : Number.isNaN(value) ? text : value;
}

function sortTable(table, header) {
  const isAscending = header.getAttribute("aria-sort") !== "ascending";
  for (const other of table.tHead.querySelectorAll("[aria-sort]"))
    other.setAttribute("aria-sort", "none");
  header.setAttribute("aria-sort", isAscending ? "ascending" : "descending");
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [valueOf(row, header.cellIndex), row]);
  rows.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return isAscending ? compare(a, b) : compare(b, a);
  });
  body.append(...rows.map(([, row]) => row));
}

function startTables(root) {
  for (const table of root.querySelectorAll("table.sortable"))
    for (const button of table.tHead.querySelectorAll("th > button")) {
      button.parentElement.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => sortTable(table, button.parentElement));
    }
}

startTables(document);

// Hashes: a press copies all of it.

for (const button of document.querySelectorAll("[data-copy]"))
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      byId("announcement").textContent = "copied";
    } catch {
      getSelection().selectAllChildren(button.querySelector(".full"));
    }
  });
