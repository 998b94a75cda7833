"use strict";
// What is folded opens where an address points into it, and on paper.
(() => {
  const folds = () => [...document.querySelectorAll("main details")];
  const open = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let fold = target && target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    if (target) target.scrollIntoView();
  };
  open();
  window.addEventListener("hashchange", open);
  document.addEventListener("partloaded", (event) => {
    if (location.hash && event.detail.querySelector(`#${CSS.escape(decodeURIComponent(location.hash.slice(1)))}`)) open();
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (link && link.hash === location.hash) open();  // the same address again changes nothing, and the fold may be shut
  });
  let closed = [];
  window.addEventListener("beforeprint", () => { closed = folds().filter((fold) => !fold.open); closed.forEach((fold) => { fold.open = true; }); });
  window.addEventListener("afterprint", () => closed.forEach((fold) => { fold.open = false; }));
})();
