"use strict";
// A form whose answer is a part of its own page: the server computes it, and that part is replaced, with its charts and the address.
(() => {
  // `replaced(next)` is called with the new part, `failed(text)` with why there is none. `stop` drops an answer that is on its way.
  window.plumblineRecompute = (form, result, replaced, failed) => {
    let asked = null;
    const stop = () => { if (asked) asked.abort(); result.removeAttribute("aria-busy"); };
    const run = async () => {
      stop();
      asked = new AbortController();
      result.setAttribute("aria-busy", "true");
      try {
        const to = form.action + "?" + new URLSearchParams(new FormData(form));
        const found = await fetch(to + "&parts=main", { headers: { Accept: "text/html" }, signal: asked.signal });
        const page = new DOMParser().parseFromString(await found.text(), "text/html");
        const next = page.getElementById("result");
        if (!found.ok || !next) throw new Error((page.querySelector("main .error") || page.querySelector("main p") || page.body).textContent.trim());
        const name = (box) => box.id || box.querySelector("summary").textContent;
        const unfolded = new Set([...result.querySelectorAll("details[open]")].map(name));
        result.removeAttribute("data-later");
        result.removeAttribute("class");
        result.replaceChildren(...next.childNodes);
        for (const box of result.querySelectorAll("details")) box.open = unfolded.has(name(box));
        window.plumblineScrolls();
        document.dispatchEvent(new CustomEvent("partloaded", { detail: result }));
        replaced(next);
        for (const spec of result.querySelectorAll("script[data-for]")) await window.plumblineChart(spec.dataset.for, JSON.parse(spec.textContent));
        history.replaceState(null, "", to);
      } catch (error) {
        if (error.name === "AbortError") return;
        failed("Recomputation failed: " + error.message);
      }
      result.removeAttribute("aria-busy");
    };
    return { run, stop };
  };
})();
