"use strict";
// An offered price: the server decides at it, and the part of the page that says so is replaced.
(() => {
  const bind = () => {
    const form = document.getElementById("offer");
    const result = document.getElementById("result");
    const price = document.getElementById("price");
    const slide = document.getElementById("slide");
    const provider = document.getElementById("provider");
    let waiting = null;

    const offer = window.plumblineRecompute(form, result, (next) => {
      if (!price.value) price.value = next.dataset.price;
      result.dataset.now = next.dataset.now;
      slide.min = next.dataset.low;
      slide.max = next.dataset.high;
      slide.value = price.value;
    }, (text) => { document.getElementById("answer").textContent = text; });
    const soon = () => { clearTimeout(waiting); result.setAttribute("aria-busy", "true"); waiting = setTimeout(offer.run, 180); };
    slide.parentElement.hidden = false;
    slide.addEventListener("input", () => { price.value = Number(slide.value); soon(); });
    price.addEventListener("input", () => { if (price.value && price.checkValidity()) { slide.value = price.value; soon(); } });
    provider.addEventListener("change", () => { price.value = ""; soon(); });  // another provider begins at its own price
    form.addEventListener("submit", (event) => { 
      event.preventDefault();
      clearTimeout(waiting);
      const less = event.submitter && event.submitter.value;
      if (less) price.value = slide.value = Number((document.getElementById("result").dataset.now * (1 - less / 100)).toFixed(4));
      offer.run();
    });
    const button = document.getElementById("print");
    button.hidden = false;
    button.addEventListener("click", () => window.print());
  };
  if (document.getElementById("offer")) bind();
  document.addEventListener("partloaded", (event) => { if (event.detail.id === "negotiation") bind(); });
})();
