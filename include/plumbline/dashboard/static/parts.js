"use strict";
// Slow parts of a page: what names an address in `data-later` is filled by the part of the same id of that page, with its charts and tables.
(() => {
  const pages = new Map();
  const page = (address) => {
    if (!pages.has(address)) pages.set(address, fetch(address, { headers: { Accept: "text/html" } }).then(async (answer) => {
      const found = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (!answer.ok) throw new Error((found.querySelector("main p") || found.body).textContent.trim());
      return found;
    }));
    return pages.get(address);
  };
  const line = (box, text) => {
    const status = box.matches(".later") && box.querySelector("[role=status]");
    if (!status) return;
    const link = status.querySelector("a");
    status.replaceChildren(text(link.textContent), " ", link);
    return link;
  };
  const fill = async (box) => {
    const address = box.dataset.later;
    const link = line(box, (name) => `${name}: loading …`);
    if (link) link.hidden = true;  // a link for who has no script
    if (!("frame" in box.dataset)) box.setAttribute("aria-busy", "true");
    try {
      const next = (await page(address)).getElementById(box.id);
      if (!next) { box.remove(); return; }  // nothing to show
      if (box.dataset.later !== address) return;  // it was recomputed meanwhile, and is not busy with this
      box.removeAttribute("data-later");
      for (const name of ["class", "style"]) box.removeAttribute(name);
      for (const { name, value } of next.attributes) box.setAttribute(name, value);
      if (!("frame" in box.dataset)) box.replaceChildren(...next.childNodes);  // a frame's own parts come by themselves
      window.plumblineScrolls();
      document.dispatchEvent(new CustomEvent("partloaded", { detail: box }));
      for (const spec of box.querySelectorAll("script[data-for]")) await window.plumblineChart(spec.dataset.for, JSON.parse(spec.textContent));
    } catch (error) {
      line(box, (name) => `${name}: not available (${error.message}).`);
      if (link) link.hidden = false;
    }
    box.removeAttribute("aria-busy");
  };
  const start = (root) => Promise.all([...root.querySelectorAll("[data-later]")].map(fill));
  document.addEventListener("partloaded", (event) => start(event.detail));
  start(document);
})();
