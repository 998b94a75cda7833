"use strict";
// A button beside each command that copies it. The clipboard is there only on a page that came by TLS or from this machine.
(() => {
  for (const command of document.querySelectorAll("[data-copy]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy the command " + command.textContent.trim());
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(command.textContent.trim());
        button.textContent = "Copied";
      } catch {
        const range = document.createRange();
        range.selectNodeContents(command);
        window.getSelection().removeAllRanges();
        window.getSelection().addRange(range);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    command.after(" ", button);
  }
})();
