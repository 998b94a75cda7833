"use strict";
// An offered price: the server decides at it, and the part of the page that says so is replaced.
(() => {
  const form = document.getElementById("offer");
  const result = document.getElementById("result");
  const price = document.getElementById("price");
  const slide = document.getElementById("slide");
  const provider = document.getElementById("provider");
  let waiting = null;
  let asked = null;

  const address = () => form.action + "?" + new URLSearchParams(new FormData(form));
  const recompute = async () => {
    if (asked) asked.abort();
    asked = new AbortController();
    result.setAttribute("aria-busy", "true");
    try {
      const to = address();
      const found = await fetch(to, { headers: { Accept: "text/html" }, signal: asked.signal });
      const page = new DOMParser().parseFromString(await found.text(), "text/html");
      const next = page.getElementById("result");
      if (!found.ok || !next) throw new Error((page.querySelector("main p") || page.body).textContent.trim());
      result.replaceChildren(...next.childNodes);
      if (!price.value) price.value = next.dataset.price;
      slide.min = next.dataset.low;
      slide.max = next.dataset.high;
      slide.value = price.value;
      window.plumblineScrolls();
      for (const spec of result.querySelectorAll("script[data-for]")) await window.plumblineChart(spec.dataset.for, JSON.parse(spec.textContent));
      history.replaceState(null, "", to);
    } catch (error) {
      if (error.name === "AbortError") return;
      document.getElementById("answer").textContent = "Recomputation failed: " + error.message;
    }
    result.removeAttribute("aria-busy");
  };
  const soon = () => { clearTimeout(waiting); result.setAttribute("aria-busy", "true"); waiting = setTimeout(recompute, 180); };
  slide.parentElement.hidden = false;
  slide.addEventListener("input", () => { price.value = Number(slide.value); soon(); });
  price.addEventListener("input", () => { if (price.value && price.checkValidity()) { slide.value = price.value; soon(); } });
  provider.addEventListener("change", () => { price.value = ""; soon(); });  // another provider begins at its own price
  form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(waiting); recompute(); });
  const button = document.getElementById("print");
  button.hidden = false;
  button.addEventListener("click", () => window.print());
})();
