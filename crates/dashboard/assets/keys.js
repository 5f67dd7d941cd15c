// The keyboard: / searches, j and k move through rows, x selects, Enter opens, g and a letter go to a page, ? shows all keys. Rows are
// elements with data-row; the link of a row is its first one.

const PAGES = { o: "Overview", q: "Tasks", w: "Workers", r: "Routes", c: "Compare", s: "Submit", t: "Settings", y: "System" };
const HELP = [
  ["/", "go to the filter"],
  ["j, k", "next and previous row"],
  ["x", "select the row"],
  ["Enter", "open the row"],
  ...Object.entries(PAGES).map(([key, title]) => [`g ${key}`, title]),
  ["?", "this list"],
];
let awaitsPage = false;

export function startKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select, dialog")) return;
    if (press(event.key, event)) event.preventDefault();
  });
}

function press(key, event) {
  if (awaitsPage) {
    awaitsPage = false;
    return goTo(PAGES[key]);
  }
  switch (key) {
    case "g": awaitsPage = true; return true;
    case "/": return focusOn(document.querySelector("[data-search]"));
    case "j": return move(1);
    case "k": return move(-1);
    case "x": return toggle();
    case "Enter": return event.target.closest("a, button, summary, input") ? false : open();
    case "?": return help();
    default: return false;
  }
}

function goTo(title) {
  const link = [...document.querySelectorAll(".top nav a")].find((each) => each.textContent === title);
  if (link) location.assign(link.href);
  return Boolean(link);
}

function focusOn(element) {
  element?.focus();
  element?.select?.();
  return Boolean(element);
}

function current() {
  return document.querySelector("[data-row].at-cursor");
}

function move(step) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (rows.length === 0) return false;
  const at = rows.indexOf(current());
  const next = rows[Math.min(rows.length - 1, Math.max(0, at === -1 ? 0 : at + step))];
  current()?.classList.remove("at-cursor");
  next.classList.add("at-cursor");
  next.scrollIntoView({ block: "nearest" });
  next.querySelector("a")?.focus({ preventScroll: true });
  return true;
}

function toggle() {
  const box = current()?.querySelector("input[type=checkbox]");
  box?.click();
  return Boolean(box);
}

function open() {
  const link = current()?.querySelector("a");
  link?.click();
  return Boolean(link);
}

function help() {
  const dialog = document.createElement("dialog");
  dialog.className = "card keys";
  dialog.setAttribute("aria-label", "Keys");
  const list = document.createElement("dl");
  list.className = "facts";
  for (const [key, text] of HELP) {
    const term = document.createElement("dt");
    const name = document.createElement("kbd");
    name.textContent = key;
    term.append(name);
    const meaning = document.createElement("dd");
    meaning.textContent = text;
    list.append(term, meaning);
  }
  const close = document.createElement("button");
  close.className = "button";
  close.textContent = "Close";
  close.addEventListener("click", () => dialog.close());
  const title = document.createElement("h2");
  title.textContent = "Keys";
  dialog.append(title, list, close);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return true;
}
