"use strict";
// Tables of more than five rows: headings sort, and a button hands the table out as CSV. Ctrl-K (Cmd-K) opens a jump to any page.
(() => {
  const own = document.currentScript;
  const number = (text) => {
    const found = text.replace(/,/g, "").replace("−", "-").match(/^[^\d-]*(-?\d+(\.\d+)?)/);
    return found ? Number(found[1]) : null;
  };
  const text = (cell) => ((cell.querySelector(".value") || cell).innerText || cell.textContent).trim();
  const sort = (table, index, down) => {
    const body = table.tBodies[0];
    const keyed = [...body.rows].map((row) => [text(row.cells[index]), row]);
    const numeric = keyed.filter(([key]) => number(key) !== null).length > keyed.length / 2;
    const compare = (a, b) => numeric ? (number(a) ?? Infinity) - (number(b) ?? Infinity) : a.localeCompare(b);
    keyed.sort(([a], [b]) => (down ? -1 : 1) * compare(a, b));
    body.append(...keyed.map(([, row]) => row));
  };
  // Text that a spreadsheet would run as a formula gets an apostrophe, as in exported tables; a number is none.
  const harmless = (words) => (/^[=+\-@\t\r]/.test(words) && !/^[+-]?[\d.,]+( ?%)?$/.test(words) ? `'${words}` : words);
  const quoted = (cell) => `"${harmless(cell.innerText.replace(/\s+/g, " ").trim()).replace(/"/g, '""')}"`;
  const csv = (table) => [...table.rows].map((row) => [...row.cells].map(quoted).join(",")).join("\r\n");
  const sortable = (table) => {
    const head = table.tHead && table.tHead.rows[0];
    if (!head || table.tBodies.length !== 1 || table.tBodies[0].rows.length < 6 || table.querySelector("tbody [colspan], tbody [rowspan]")) return;
    for (const cell of head.cells) {
      if (!cell.textContent.trim() || cell.querySelector("a")) continue;  // a link inside a button is neither
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...cell.childNodes);
      cell.append(button);
      button.addEventListener("click", () => {
        const down = cell.getAttribute("aria-sort") === "ascending";
        for (const other of head.cells) other.removeAttribute("aria-sort");
        cell.setAttribute("aria-sort", down ? "descending" : "ascending");
        sort(table, cell.cellIndex, down);
      });
    }
    const link = document.createElement("button");
    link.type = "button";
    link.className = "csv";
    link.textContent = "CSV";
    link.setAttribute("aria-label", `Download as CSV: ${table.parentElement.getAttribute("aria-label") || "table"}`);
    link.addEventListener("click", () => {
      const made = document.createElement("a");
      made.href = "data:text/csv;charset=utf-8," + encodeURIComponent(csv(table));
      made.download = `${(table.parentElement.getAttribute("aria-label") || "table").replace(/[^a-z0-9]+/gi, "-")}.csv`;
      made.click();
    });
    table.parentElement.after(link);
  };
  const tables = (root) => root.querySelectorAll(".scroll > table:not(.heat):not(.card)").forEach(sortable);
  tables(document);
  document.addEventListener("partloaded", (event) => tables(event.detail));

  // The jump: what can be reached, asked once.
  const dialog = document.getElementById("jump");
  if (!dialog) return;
  const field = dialog.querySelector("input");
  const list = dialog.querySelector("ul");
  let places = null, ids = [], asked = "";
  const show = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const named = (places || []).filter((place) => words.every((word) => `${place.kind} ${place.name}`.toLowerCase().includes(word)));
    const found = [...named, ...ids.filter((id) => !named.some((place) => place.path === id.path))].slice(0, 12);
    list.replaceChildren(...found.map((place) => {
      const item = document.createElement("li");
      const link = document.createElement("a");
      const kind = document.createElement("span");
      link.href = own.dataset.base + place.path;
      kind.className = "kind";
      kind.textContent = ` ${place.kind}`;
      link.append(place.name, kind);
      item.append(link);
      return item;
    }));
    dialog.querySelector("[role=status]").textContent = found.length ? `${found.length} found` : "Nothing found";
  };
  const open = async () => {
    dialog.showModal();
    field.select();
    if (!places) places = await (await fetch(own.dataset.base + "/jump", { headers: { Accept: "application/json" } })).json();
    show();
  };
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") { event.preventDefault(); open(); }
  });
  document.getElementById("jump-open").addEventListener("click", open);
  document.getElementById("jump-open").hidden = false;
  field.addEventListener("input", async () => {
    const part = asked = field.value.trim();
    ids = [];
    show();
    if (part.length < 3 || /\s/.test(part)) return;
    const answer = await fetch(`${own.dataset.base}/jump/ids?part=${encodeURIComponent(part)}`, { headers: { Accept: "application/json" } });
    if (!answer.ok || part !== asked) return;  // more was typed meanwhile
    ids = await answer.json();
    show();
  });
  dialog.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    const first = list.querySelector("a");
    if (first) window.location.assign(first.href);
  });
  dialog.addEventListener("keydown", (event) => {
    const links = [field, ...list.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      links[Math.min(Math.max(at + (event.key === "ArrowDown" ? 1 : -1), 0), links.length - 1)].focus();
    }
  });
})();
