// Small helps: lists that submit their form, copy buttons, the theme without a reload, times in the reader's own zone.

export function startSmall() {
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-submit]")) event.target.form.submit();
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy], [data-copy-from]");
    if (button) copy(button);
    // A menu closes when something else is clicked.
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  });
  document.getElementById("theme")?.addEventListener("submit", (event) => {
    event.preventDefault();
    const form = event.target;
    const theme = event.submitter.value;
    document.documentElement.dataset.theme = theme;
    const body = new URLSearchParams(new FormData(form));
    body.set("theme", theme);
    fetch(form.action, { method: "POST", body, redirect: "manual" });
  });
  showLocalTimes(document);
  showCurrentPage();
}

// On narrow windows the navigation is wider than the window: the entry of this page is in sight.
function showCurrentPage() {
  const entry = document.querySelector(".top nav [aria-current]");
  const nav = entry?.parentElement;
  if (nav) nav.scrollLeft = entry.offsetLeft - nav.offsetLeft + entry.offsetWidth + 40 - nav.clientWidth;
}

// What is long is not in the page: data-copy-from is the address of it.
async function copy(button) {
  // Who clicks twice sees the same label again.
  const label = button.dataset.label ??= button.textContent;
  const { copy: text, copyFrom: address } = button.dataset;
  try {
    await navigator.clipboard.writeText(text ?? await (await fetch(address)).text());
    button.textContent = "Copied";
  } catch {
    // Browsers refuse this without TLS on other machines than this one: show the text, to be copied by hand.
    if (text === undefined) location.assign(address);
    else window.prompt("Copy this:", text);
  }
  setTimeout(() => { button.textContent = label; }, 1500);
}

// On hover an exact time is shown in the zone of the reader and in UTC.
export function showLocalTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (!Number.isNaN(at.valueOf())) time.title = `${at.toLocaleString()}\n${time.dateTime}`;
  }
}
