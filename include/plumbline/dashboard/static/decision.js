"use strict";
// Sliders that recompute: the server decides, with the weights as they stand now, and the part of the page that says it is replaced.
(() => {
  const form = document.getElementById("weights");
  const result = document.getElementById("result");
  const answer = document.getElementById("answer");
  if (!form || !result) return;
  const sliders = [...form.querySelectorAll("input[type=range]")];
  const declared = sliders.map((slider) => slider.defaultValue);
  let waiting = null;
  let asked = null;

  const shares = () => {
    const total = sliders.reduce((sum, slider) => sum + Number(slider.value), 0);
    for (const slider of sliders) {
      const share = total ? Math.round(100 * Number(slider.value) / total) : 0;
      slider.parentElement.querySelector("output").textContent = share + " %";
      slider.setAttribute("aria-valuetext", share + " percent");
    }
    return total;
  };
  const address = () => form.action + "?" + new URLSearchParams(new FormData(form));
  const open = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.matches("details")) { target.open = true; target.scrollIntoView(); }
  };
  const recompute = async () => {
    if (asked) asked.abort();
    answer.toggleAttribute("data-invalid", !shares());
    if (answer.hasAttribute("data-invalid")) { answer.textContent = "All weights are 0. Set at least one above 0."; return; }
    asked = new AbortController();
    result.setAttribute("aria-busy", "true");
    try {
      const to = address();
      const found = await fetch(to, { headers: { Accept: "text/html" }, signal: asked.signal });
      const page = new DOMParser().parseFromString(await found.text(), "text/html");
      const next = page.getElementById("result");
      if (!found.ok || !next) throw new Error((page.querySelector("main p") || page.body).textContent.trim());
      const unfolded = new Set([...result.querySelectorAll("details[open]")].map((box) => box.id || box.querySelector("summary").textContent));
      result.replaceChildren(...next.childNodes);
      for (const box of result.querySelectorAll("details")) box.open = unfolded.has(box.id || box.querySelector("summary").textContent);
      window.plumblineScrolls();
      const sentence = document.createElement("b");
      sentence.textContent = next.dataset.answer;
      answer.replaceChildren(sentence);
      for (const spec of result.querySelectorAll("script[data-for]")) await window.plumblineChart(spec.dataset.for, JSON.parse(spec.textContent));
      history.replaceState(null, "", to);
    } catch (error) {
      if (error.name === "AbortError") return;
      answer.textContent = "Recomputation failed: " + error.message;
    }
    result.removeAttribute("aria-busy");
  };
  const soon = () => { shares(); clearTimeout(waiting); waiting = setTimeout(recompute, 180); };
  for (const slider of sliders) slider.addEventListener("input", soon);
  form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(waiting); recompute(); });
  window.addEventListener("hashchange", open);
  result.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (link && link.hash === location.hash) open();  // the same address again changes nothing, and the box may be shut
  });
  if (declared.some((value, i) => sliders[i].value !== value)) recompute();  // the browser kept what was slid before
  open();
})();
