"use strict";
// The heat map by keyboard and pointer: one cell is in the tab order, arrow keys move, and the line below names the cell. Without this script
// cells are links with titles.
(() => {
  const table = document.querySelector("table.heat");
  const line = document.getElementById("cell");
  if (!table || !line) return;
  const first = line.textContent;
  const columns = [...table.querySelectorAll("thead th")].map((head) => head.querySelector("span").textContent);
  const rows = [...table.tBodies[0].rows];
  const link = (row, column) => rows[row] && rows[row].cells[column] && rows[row].cells[column].querySelector("a");
  const name = (a) => {
    const cell = a.closest("td");
    if (!cell) return;
    line.textContent = `${cell.parentElement.cells[0].textContent} · ${columns[cell.cellIndex - 1]}: ${a.title || a.dataset.words}`;
  };
  const start = rows.flatMap((row) => [...row.querySelectorAll("td a")])[0];
  if (start) start.tabIndex = 0;
  table.addEventListener("focusin", (event) => { if (event.target.closest("td")) name(event.target); });
  table.addEventListener("mouseover", (event) => { const a = event.target.closest("td a"); if (a) name(a); });
  table.addEventListener("mouseleave", () => { line.textContent = first; });
  table.addEventListener("keydown", (event) => {
    const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    const cell = event.target.closest("td");
    if (!step || !cell) return;
    event.preventDefault();
    let [row, column] = [cell.parentElement.sectionRowIndex, cell.cellIndex];
    do { row += step[0]; column += step[1]; } while (rows[row] && rows[row].cells[column] && !link(row, column));
    const next = link(row, column);
    if (!next) return;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
})();
