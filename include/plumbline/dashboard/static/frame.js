"use strict";
// On a narrow screen the navigation is one line that scrolls: its current entry is in sight.
{
  const nav = document.querySelector("nav.places"), entry = nav && nav.querySelector("[aria-current]");
  const show = () => { if (entry) nav.scrollLeft = entry.offsetLeft - nav.offsetLeft - 28; };
  show();
  window.addEventListener("load", show);  // the button of the jump appears after this script and narrows the line
}
// Links to Airflow's own pages (target "_top"), inside Airflow: its frame may not navigate the page around it, but that page may itself.
(() => {
  if (window.parent === window) return;
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[target="_top"]');
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const around = window.parent.document;
    const same = around.createElement("a");
    same.href = link.href;
    around.body.append(same);
    event.preventDefault();
    same.click();
    same.remove();
  });
})();
