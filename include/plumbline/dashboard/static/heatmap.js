"use strict";
// The heat map by keyboard and pointer: one cell is in the tab order, arrow keys move, the line below names the cell, and a card beside it shows
// its number, interval and twelve campaigns, fetched on demand. Without this script cells are links with titles.
const plumblineHeatMap = () => {
  const table = document.querySelector("table.heat:not([data-walked])");
  const line = document.getElementById("cell");
  const card = document.getElementById("cellcard");
  if (!table || !line || !card) return;
  table.dataset.walked = "";
  const first = line.textContent;
  const columns = [...table.querySelectorAll("thead th")].map((head) => head.querySelector("span").textContent);
  const rows = [...table.tBodies[0].rows];
  const link = (row, column) => rows[row] && rows[row].cells[column] && rows[row].cells[column].querySelector("a");
  for (const a of table.querySelectorAll("td a[title]")) {  // the card replaces the browser's own, and the name stays
    a.dataset.words = a.title;
    a.setAttribute("aria-label", `${a.textContent}, ${a.title}`);
    a.removeAttribute("title");
  }

  const SVG = "http://www.w3.org/2000/svg";
  const drawn = (name, attributes) => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const sparkline = (points) => {
    const [wide, high, edge] = [220, 44, 4];
    const values = points.map((point) => point.value);
    const [low, top] = [Math.min(...values), Math.max(...values)];
    const least = Math.abs(top) * 0.02;  // noise of a tenth is no cliff
    const span = Math.max(top - low, least) || 1;
    const x = (i) => edge + (points.length > 1 ? (i * (wide - 2 * edge)) / (points.length - 1) : (wide - 2 * edge) / 2);
    const y = (value) => high - edge - ((value - (low + top) / 2) / span + 0.5) * (high - 2 * edge);
    const svg = drawn("svg", { viewBox: `0 0 ${wide} ${high}`, class: "spark", role: "img", "aria-label": `${points[0].text} in ${points[0].campaign}, ${points[points.length - 1].text} in ${points[points.length - 1].campaign}` });
    svg.append(drawn("polyline", { points: points.map((point, i) => `${x(i).toFixed(1)},${y(point.value).toFixed(1)}`).join(" ") }));
    svg.append(drawn("circle", { cx: x(points.length - 1), cy: y(values[values.length - 1]), r: 3 }));
    return svg;
  };
  const part = (tag, text, name) => {
    const element = document.createElement(tag);
    element.textContent = text;
    if (name) element.className = name;
    return element;
  };
  const known = new Map();
  const history = (path) => {
    if (!known.has(path)) known.set(path, fetch(path, { headers: { Accept: "application/json" } }).then((answer) => (answer.ok ? answer.json() : null)).catch(() => null));
    return known.get(path);
  };
  const names = (a) => {
    const cell = a.closest("td");
    return [cell.parentElement.cells[0].textContent, columns[cell.cellIndex - 1]];
  };
  let current = null;
  let timer = 0;
  const fill = (a, found) => {
    const [provider, workload] = names(a);
    card.replaceChildren(part("b", `${provider} · ${workload}`), part("span", a.dataset.words, "kind"));
    if (!found) return;
    if (!found.points.length) { card.append(part("span", "no usable trial", "quiet")); return; }
    const number = part("span", found.text, "value");
    if (found.interval) number.append(part("small", ` ${found.interval}`));
    card.append(part("span", found.metric, "kind"), number);
    const [start, end] = [found.points[0].campaign, found.points[found.points.length - 1].campaign];
    card.append(sparkline(found.points), part("small", found.points.length > 1 ? `${start} … ${end}` : start, "axis"));
  };
  const placeCard = (a) => {
    const [cell, box] = [a.getBoundingClientRect(), card.offsetParent.getBoundingClientRect()];
    const left = Math.min(cell.right + 8, document.documentElement.clientWidth - card.offsetWidth - 8);
    const below = cell.bottom + 6 + card.offsetHeight < window.innerHeight;
    const top = cell.right + 8 + card.offsetWidth < document.documentElement.clientWidth ? cell.top : below ? cell.bottom + 6 : cell.top - card.offsetHeight - 6;
    card.style.left = `${Math.max(8, left) - box.left}px`;
    card.style.top = `${Math.max(4, Math.min(top, window.innerHeight - card.offsetHeight - 4)) - box.top}px`;
  };
  const hide = () => { window.clearTimeout(timer); card.hidden = true; current = null; };
  const show = (a) => {
    if (a === current) return;
    current = a;
    const [provider, workload] = names(a);
    line.textContent = `${provider} · ${workload}: ${a.dataset.words}`;
    window.clearTimeout(timer);
    timer = window.setTimeout(async () => {
      const found = await history(`${table.dataset.base}/cells/${encodeURIComponent(provider)}/${encodeURIComponent(workload)}`);
      if (current !== a) return;
      fill(a, found);
      card.hidden = false;
      placeCard(a);
    }, 120);
  };

  const start = rows.flatMap((row) => [...row.querySelectorAll("td a")])[0];
  if (start) start.tabIndex = 0;
  table.addEventListener("focusin", (event) => { if (event.target.closest("td")) show(event.target); });
  table.addEventListener("focusout", hide);
  table.addEventListener("mouseover", (event) => { const a = event.target.closest("td a"); if (a) show(a); });
  table.addEventListener("mouseleave", () => { line.textContent = first; hide(); });
  table.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { hide(); return; }
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
};
plumblineHeatMap();
document.addEventListener("partloaded", plumblineHeatMap);
