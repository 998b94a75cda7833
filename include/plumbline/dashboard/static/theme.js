"use strict";
// Follows Airflow's own theme switch: its page around this one, else what it stored, else the system. Without this script the style sheets
// follow the system. Loaded before the body, so that no page is drawn in the other theme first.
(() => {
  const system = "(prefers-color-scheme: dark)";
  const root = document.documentElement;
  const around = (() => { try { return window.parent === window ? null : window.parent.document.documentElement; } catch { return null; } })();
  if (window.parent !== window) root.dataset.framed = "";  // Airflow's bar names the page already
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const chosen = () => ["dark", "light"].find((theme) => around && around.classList.contains(theme)) || stored();
  const dark = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules])
    .filter((rule) => rule instanceof CSSMediaRule && rule.media.mediaText === system);
  const apply = () => {
    const theme = chosen();
    for (const rule of dark) rule.media.mediaText = theme === "dark" ? "all" : theme === "light" ? "not all" : system;
    document.dispatchEvent(new Event("themechange"));
  };
  apply();
  window.addEventListener("storage", apply);
  window.matchMedia(system).addEventListener("change", apply);
  if (around) new MutationObserver(apply).observe(around, { attributes: true, attributeFilter: ["class"] });
})();
