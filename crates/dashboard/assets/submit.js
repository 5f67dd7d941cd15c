// The page Submit: checks while typing, more rows for a sweep, files for lines. The server checks; this only asks it soon. What it
// answers replaces the marked parts ([data-checked]) and nothing that was typed.

const PAUSE = 400;
// A longer text is checked when its field is left, not while it is typed.
const TYPED_CHARS = 200_000;
const ADDRESS_CHARS = 30_000;

export function startSubmit() {
  for (const form of document.querySelectorAll("form[data-watch]")) watch(form);
  for (const form of document.querySelectorAll("form[data-continue]")) form.requestSubmit();
}

function watch(form) {
  let timer;
  const later = (pause) => { clearTimeout(timer); timer = setTimeout(() => check(form), pause); };
  form.addEventListener("input", (event) => {
    if (event.target.type === "file") return;
    if (event.target.name === "key" || event.target.name === "values") addRow(form);
    if ((event.target.value ?? "").length <= TYPED_CHARS) later(PAUSE);
  });
  form.addEventListener("change", (event) => { if (event.target.type !== "file") later(0); });
  form.addEventListener("submit", (event) => {
    clearTimeout(timer);
    if (form.method !== "get" || !isLong(new URLSearchParams(new FormData(form)))) return;
    event.preventDefault();
    check(form);
  });
  const drop = form.querySelector("[data-drop]");
  if (drop) acceptFiles(drop, () => later(0));
}

// Too long for an address.
function isLong(fields) {
  return fields.toString().length > ADDRESS_CHARS;
}

let asked = null;

async function check(form) {
  asked?.abort();
  asked = new AbortController();
  const fields = new URLSearchParams(new FormData(form));
  const isView = form.method === "get" && !isLong(fields);
  if (isView) for (const [name, value] of [...fields]) if (value === "" && name !== "key" && name !== "values") fields.delete(name);
  if (!isView) fields.set("step", "watch");
  if (form.dataset.token && !isView) fields.set("form_token", form.dataset.token);
  const address = isView ? `${form.action}?${fields}` : form.action;
  try {
    const answer = await fetch(address, { method: isView ? "GET" : "POST", body: isView ? undefined : fields, signal: asked.signal });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    show(page);
    // The address says what the page shows, or nothing if that is too long for it.
    if (form.method === "get") history.replaceState(null, "", isView ? address : `${form.action}?way=${fields.get("way")}`);
  } catch {
    // Typed on, or the server is away: the button asks again.
  }
}

function show(page) {
  for (const place of document.querySelectorAll("[data-checked]")) {
    const other = page.getElementById(place.id);
    if (other && !place.isEqualNode(other)) place.replaceChildren(...[...other.childNodes].map((node) => document.importNode(node, true)));
    const control = document.querySelector(`[aria-describedby="${place.id}"]`);
    if (!control) continue;
    if (place.textContent !== "") control.setAttribute("aria-invalid", "true");
    else control.removeAttribute("aria-invalid");
  }
}

// There is always an empty row below the last one.
function addRow(form) {
  const rows = form.querySelector(".axes");
  const keys = [...rows.querySelectorAll("[name=key]")];
  const last = keys.at(-1);
  const values = last?.nextElementSibling;
  if (!last || (last.value === "" && values.value === "") || keys.length >= 64) return;
  const number = keys.length + 1;
  const count = values.nextElementSibling;
  const [key, list, counted, note] = [last, values, count, count.nextElementSibling].map((element) => element.cloneNode(false));
  for (const field of [key, list]) {
    field.value = "";
    field.removeAttribute("value");
    field.removeAttribute("aria-invalid");
    field.removeAttribute("placeholder");
  }
  key.setAttribute("aria-label", `Key ${number}`);
  list.setAttribute("aria-label", `Values ${number}`);
  counted.id = `axis-${number}-count`;
  note.id = `axis-${number}-note`;
  list.setAttribute("aria-describedby", note.id);
  rows.append(key, list, counted, note);
}

function acceptFiles(drop, changed) {
  const area = drop.querySelector("textarea");
  const label = drop.querySelector("[data-file]");
  label.hidden = false;
  label.querySelector("input").addEventListener("change", (event) => take(event.target.files[0]));
  drop.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    if (event.dataTransfer.files.length === 0) return;
    event.preventDefault();
    drop.classList.remove("over");
    take(event.dataTransfer.files[0]);
  });
  async function take(file) {
    if (!file) return;
    if (file.size > Number(area.dataset.mostBytes)) {
      document.getElementById("lines-note").textContent = "The file is larger than 8 MiB. The command line takes files of any size.";
      return;
    }
    area.value = await file.text();
    changed();
  }
}
