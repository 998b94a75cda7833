"use strict";
// Draws what stands beside each chart as JSON (templates/charts.html.j2). Colours are names ("$p0"); the style sheet knows them.
(() => {
  const own = document.currentScript;
  const narrow = window.matchMedia("(max-width: 44rem)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const coloured = (text) => JSON.parse(text.replace(/"\$([a-z]+\d*)"/g, (_, name) => JSON.stringify(colour(name))));

  const draw = (div, text) => {
    const { data, layout } = coloured(text);
    const font = getComputedStyle(document.body).fontFamily;
    const base = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true, height: Number(div.dataset.height),
      font: { family: font, size: narrow.matches ? 11 : 12, color: colour("soft") },
      margin: { l: 8, r: 22, t: 10, b: 8 },
      legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom", font: { color: colour("ink") } },
      hoverlabel: { bgcolor: colour("raised"), bordercolor: colour("line"), font: { family: font, color: colour("ink") } },
    };
    // On a phone two months beside each other would be written over each other.
    if (narrow.matches) {
      const dated = Object.keys(layout).filter((name) => /^xaxis\d*$/.test(name) && layout[name].type === "date" && !layout[name].tickvals);
      dated.forEach((name) => { layout[name] = { ...layout[name], nticks: 4, tickangle: 0 }; });
    }
    const config = { responsive: true, displaylogo: false, displayModeBar: false, showSendToCloud: false, scrollZoom: false };
    const done = Plotly.react(div, data, { ...base, ...layout, legend: { ...base.legend, ...(layout.legend || {}) } }, config);
    if (!div.dataset.links) {
      div.dataset.links = "1";
      // A mark whose `customdata` is a path of these pages leads there.
      const path = (event) => event.points.map((p) => p.customdata).find((d) => typeof d === "string" && d.startsWith("/"));
      div.on("plotly_click", (event) => { const to = path(event); if (to) window.location.assign(own.dataset.base + to); });
      div.on("plotly_hover", (event) => div.classList.toggle("leads", Boolean(path(event))));
      div.on("plotly_unhover", () => div.classList.remove("leads"));
    }
    return done;
  };
  const specs = () => [...document.querySelectorAll('script[type="application/json"][data-for]')];
  const one = (script) => draw(document.getElementById(script.dataset.for), script.textContent);
  const all = () => specs().forEach(one);

  let loading = null;
  const plotly = () => {
    // Four megabytes that most pages do not need: loaded by the first chart.
    loading = loading || new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = own.dataset.plotly;
      script.onload = resolve;
      script.onerror = () => reject(new Error("Plotly could not be loaded from " + script.src));
      document.head.append(script);
    });
    return loading;
  };
  // For scripts that compute: show the chart `{data, layout}` in place of what was drawn under this id.
  window.plumblineChart = async (id, chart) => {
    const script = document.querySelector(`script[data-for="${CSS.escape(id)}"]`);
    script.textContent = JSON.stringify(chart);
    await plotly();
    return one(script);
  };
  if (specs().length) plotly().then(all);
  const again = () => { if (window.Plotly) all(); };  // also what came after the page
  document.addEventListener("themechange", again);
  narrow.addEventListener("change", again);

  // What is drawn inside a closed fold has no width until it opens.
  document.addEventListener("toggle", (event) => {
    if (event.target.open) event.target.querySelectorAll(".js-plotly-plot").forEach((div) => Plotly.Plots.resize(div));
  }, true);

  // Tables wider than the screen scroll; the keyboard must be able to do that too, and only where there is something to scroll.
  const scrolls = () => document.querySelectorAll(".scroll").forEach((box) => {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0; else box.removeAttribute("tabindex");
  });
  scrolls();
  window.addEventListener("resize", scrolls);
  document.addEventListener("toggle", scrolls, true);  // in some browsers what is folded has no width
  window.plumblineScrolls = scrolls;  // for scripts that put new tables on the page
})();
