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

  const shares = () => {
    const total = sliders.reduce((sum, slider) => sum + Number(slider.value), 0);
    for (const slider of sliders) {
      const share = total ? Math.round(100 * Number(slider.value) / total) : 0;
      slider.parentElement.querySelector("output").textContent = share + " %";
      slider.setAttribute("aria-valuetext", share + " percent");
    }
    return total;
  };
  const decided = window.plumblineRecompute(form, result, (next) => {
    answer.removeAttribute("data-later");
    const sentence = document.createElement("b");
    sentence.textContent = next.dataset.answer;
    answer.replaceChildren(sentence);
  }, (text) => { answer.textContent = text; });
  const recompute = () => {
    decided.stop();
    answer.toggleAttribute("data-invalid", !shares());
    if (answer.hasAttribute("data-invalid")) { answer.textContent = "All weights are 0. Set at least one above 0."; return; }
    decided.run();
  };
  const soon = () => { shares(); clearTimeout(waiting); waiting = setTimeout(recompute, 180); };
  for (const slider of sliders) slider.addEventListener("input", soon);
  form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(waiting); recompute(); });
  if (declared.some((value, i) => sliders[i].value !== value)) recompute();  // the browser kept what was slid before
})();
