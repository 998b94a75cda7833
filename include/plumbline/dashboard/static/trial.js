"use strict";
// The page of a trial: charts of its raw evidence are fetched when they scroll into view; commands get a button that copies them.
(() => {
  const section = document.querySelector("[data-charts]");
  const element = (name, text, attributes = {}) => {
    const made = document.createElement(name);
    made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const figure = (into, chart) => {
    const id = "raw-" + chart.name.replace(/[^a-z0-9]+/gi, "-");
    const box = element("figure", "", chart.wide ? { class: "wide" } : {});
    const place = element("div", "", { class: "chart", id, "data-height": chart.height, role: "img", "aria-label": chart.title });
    const spec = element("script", "", { type: "application/json", "data-for": id });
    box.append(element("h3", chart.title), place, spec, element("figcaption", chart.caption));
    into.append(box);
    return window.plumblineChart(id, { data: chart.data, layout: chart.layout });
  };
  const load = async () => {
    const status = section.querySelector("[data-notes]");
    const into = section.querySelector("[data-into]");
    section.setAttribute("aria-busy", "true");
    status.textContent = "Loading evidence files …";
    try {
      const answer = await fetch(section.dataset.charts, { headers: { Accept: "application/json" } });
      if (!answer.ok) throw new Error("the server answered " + answer.status);
      const found = await answer.json();
      for (const chart of found.charts) await figure(into, chart);
      status.textContent = found.notes.join(" ");
      status.hidden = !found.notes.length;
    } catch (error) {
      status.textContent = "Charts not available: " + error.message + ". Download the files below.";
    }
    into.classList.remove("expected");  // its height was kept for what is drawn now
    section.setAttribute("aria-busy", "false");
  };
  if (section) {
    const near = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      near.disconnect();
      load();
    }, { rootMargin: "400px" });
    near.observe(section);
  }
})();
