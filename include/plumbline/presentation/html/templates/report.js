"use strict";
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 44rem)");
  const font = getComputedStyle(document.body).fontFamily;
  const specs = [...document.querySelectorAll('script[type="application/json"][data-for]')].map((s) => [document.getElementById(s.dataset.for), s.textContent]);
  // A chart's data names colours ("$p0"); the style sheet knows what they are in light and in dark.
  const coloured = (text) => {
    const style = getComputedStyle(document.documentElement);
    return JSON.parse(text.replace(/"\$([a-z]+\d*)"/g, (_, name) => JSON.stringify(style.getPropertyValue("--" + name).trim())));
  };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const draw = (div, text) => {
    const { data, layout } = coloured(text);
    const base = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true, height: Number(div.dataset.height),
      font: { family: font, size: narrow.matches ? 11 : 12, color: colour("--soft") },
      margin: { l: 8, r: 22, t: 10, b: 8 },
      legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom", font: { color: colour("--ink") } },
      hoverlabel: { bgcolor: colour("--raised"), bordercolor: colour("--line"), font: { family: font, color: colour("--ink") } },
    };
    const config = { responsive: true, displaylogo: false, displayModeBar: false, showSendToCloud: false, scrollZoom: false };
    return Plotly.react(div, data, { ...base, ...layout, legend: { ...base.legend, ...(layout.legend || {}) } }, config);
  };
  // What is folded has no width to draw in: it is drawn when it is unfolded.
  const shown = (div) => div.closest("details:not([open])") === null;
  const all = () => specs.forEach(([div, text]) => { if (shown(div)) draw(div, text); });
  all();
  document.querySelectorAll("details").forEach((box) => box.addEventListener("toggle", () => {
    specs.forEach(([div, text]) => { if (box.contains(div) && shown(div)) draw(div, text); });
  }));
  window.addEventListener("beforeprint", () => { document.querySelectorAll("details").forEach((box) => { box.open = true; }); all(); });
  dark.addEventListener("change", all);
  narrow.addEventListener("change", all);

  const links = [...document.querySelectorAll("nav li a")];
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links) {
        if (link.hash === "#" + entry.target.id) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
      }
    }
  }, { rootMargin: "-10% 0px -75% 0px" });
  document.querySelectorAll("main > section").forEach((section) => seen.observe(section));
  // Tables that are wider than the screen scroll; the keyboard must be able to do that too.
  document.querySelectorAll(".scroll").forEach((box) => { if (box.scrollWidth > box.clientWidth) { box.tabIndex = 0; box.setAttribute("role", "region"); box.setAttribute("aria-label", "table, scrolls sideways"); } });
})();
