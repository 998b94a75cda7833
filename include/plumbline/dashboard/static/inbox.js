"use strict";
// The inbox by keyboard: j and k walk the findings, e opens the form of the one with the focus, Escape shuts it.
(() => {
  const findings = [...document.querySelectorAll("article.finding")];
  if (!findings.length) return;
  document.getElementById("keys").hidden = false;
  const headline = (finding) => finding.querySelector("h3 a");
  document.addEventListener("keydown", (event) => {
    const at = findings.findIndex((finding) => finding.contains(document.activeElement));
    const form = at >= 0 && findings[at].querySelector("details.acting");
    if (event.key === "Escape" && form && form.open) { form.open = false; headline(findings[at]).focus(); }
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
    if (event.key === "j" || event.key === "k") headline(findings[Math.min(Math.max(at + (event.key === "j" ? 1 : -1), 0), findings.length - 1)]).focus();
    if (event.key === "e") {
      const acting = form || (at < 0 && findings[0].querySelector("details.acting"));
      if (!acting) return;
      event.preventDefault();  // the letter is not for the field that gets the focus
      acting.open = true;
      acting.querySelector("input[name=why]").focus();
    }
  });
})();
