"use strict";
(() => {
  // A link into a folded section unfolds it.
  const unfold = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    const own = target.querySelector(":scope > details");
    for (let box = own || target.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
    target.scrollIntoView();
  };
  window.addEventListener("hashchange", unfold);
  unfold();

  // Files lie beside the report's own file; where pages serve it, they have other addresses.
  if (location.protocol.startsWith("http")) document.querySelectorAll("a[data-served]").forEach((link) => { link.href = link.dataset.served; });

  const links = [...document.querySelectorAll("nav li a")];
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links) {
        if (link.hash === "#" + entry.target.id) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
      }
    }
  }, { rootMargin: "-10% 0px -75% 0px" });
  document.querySelectorAll("#cover, main section").forEach((section) => seen.observe(section));
  // Tables that are wider than the screen scroll; the keyboard must be able to do that too. What is folded has no width yet.
  const scrollable = () => document.querySelectorAll(".scroll").forEach((box) => { if (box.scrollWidth > box.clientWidth) { box.tabIndex = 0; box.setAttribute("role", "region"); box.setAttribute("aria-label", "table, scrolls sideways"); } });
  scrollable();
  document.querySelectorAll("details").forEach((box) => box.addEventListener("toggle", scrollable));
})();
