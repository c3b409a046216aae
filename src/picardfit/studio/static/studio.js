// Look before the first paint, keys for steps and undo, and what else must happen in the browser at once.
const dark = localStorage.getItem("picardfit-look") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
document.cookie = `picardfit-studio-look=${dark}; path=/; SameSite=Strict`;
document.documentElement.lang = "en";

function studioLook(look) {
  localStorage.setItem("picardfit-look", look);
  document.cookie = `picardfit-studio-look=${look}; path=/; SameSite=Strict`;
}

function studioStep(name) {
  history.replaceState(null, "", `/step/${name}`);
  scrollTo(0, 0);
  document.getElementById("step-title")?.focus({ preventScroll: true });
}

function studioStopped() {
  document.body.innerHTML = '<main style="padding:3em"><h1>The studio has stopped</h1><p>You can close this page.</p></main>';
}

document.addEventListener("keydown", (e) => {
  const typing = e.target.closest && e.target.closest("input:not([type=range]):not([type=checkbox]), textarea, .cm-content");
  if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "z" && !typing) {
    e.preventDefault();
    document.getElementById(e.shiftKey ? "redo" : "undo")?.click();
  }
  if (e.altKey && /^[1-7]$/.test(e.key)) {
    e.preventDefault();
    document.getElementById(`go-${e.key}`)?.click();
  }
});

// Tab leaves the editor, as it leaves every other field; otherwise the keyboard would be caught there.
document.addEventListener("keydown", (e) => {
  if (e.key === "Tab" && e.target.closest && e.target.closest(".cm-content")) e.stopImmediatePropagation();
}, true);
