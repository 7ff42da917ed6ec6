// Progressive enhancement: theme choice, live preview, config.json upload. Every page is complete without it.

const root = document.documentElement;
const theme = document.getElementById("theme");
if (theme) {
  const stored = localStorage.getItem("theme");
  if (stored) root.dataset.theme = stored;
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const label = () => { theme.textContent = dark() ? "Light" : "Dark"; };
  theme.hidden = false;
  label();
  theme.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
    label();
  });
}

document.getElementById("problems")?.focus();

// A link to a field opens the fold it lies in.
const reveal = () => {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (!target) return;
  for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  target.scrollIntoView({ block: "center" });
  target.focus({ preventScroll: true });
};
addEventListener("hashchange", reveal);
reveal();

const form = document.getElementById("profile");
const preview = document.getElementById("preview");
if (form && preview) {
  for (const input of form.querySelectorAll('input[type="file"]')) {
    input.addEventListener("change", async () => {
      const target = document.getElementById(input.id.replace(/-file$/, ""));
      if (input.files[0] && target) { target.value = await input.files[0].text(); ask(); }
    });
  }
  document.getElementById("f-workload")?.addEventListener("change", () => {
    form.querySelector('button[name="show"]')?.click();
  });
  let timer, running, known = new Map();
  const figures = () => {
    const shown = new Map([...preview.querySelectorAll("[data-name]")].map((item) => [item.dataset.name, item.textContent]));
    // A form that is briefly incomplete shows no figures: then the last ones shown stay the ones to compare with.
    if (shown.size) known = shown;
    return known;
  };
  const tellChanges = (before) => {
    const list = preview.querySelector(".changes");
    if (!list || !before.size) return;
    for (const item of preview.querySelectorAll("[data-name]")) {
      const old = before.get(item.dataset.name);
      if (old === undefined || old === item.textContent) continue;
      const line = document.createElement("li");
      line.textContent = `${item.dataset.name}: ${item.textContent}, was ${old}`;
      list.append(line);
    }
    list.hidden = !list.children.length;
  };
  const ask = () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      running?.abort();
      running = new AbortController();
      const data = new FormData(form);
      for (const name of [...data.keys()]) if (name.endsWith(".file")) data.delete(name);
      try {
        const answer = await fetch("/preview", { method: "POST", body: data, signal: running.signal });
        if (!answer.ok) return;
        const before = figures();
        // The fragment is made by our own server, which escapes every value in it.
        preview.innerHTML = await answer.text();
        tellChanges(before);
      } catch (error) {
        if (error.name !== "AbortError") preview.textContent = "The preview cannot be reached; the button below still works.";
      }
    }, 350);
  };
  form.addEventListener("input", ask);
  // Room for the preview is taken before it is there, so that nothing jumps under the pointer.
  preview.textContent = "Working out a first answer …";
  preview.hidden = false;
  ask();
}
