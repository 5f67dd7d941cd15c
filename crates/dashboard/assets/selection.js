// Rows that are selected: how many, all of the page at once, and with shift everything from the last one on. The bar with the actions
// shows itself (style.css).

let last = null;

export function startSelection() {
  const form = document.querySelector("form.selection");
  if (!form) return;
  form.addEventListener("click", (event) => {
    const box = event.target.closest("input[type=checkbox][name=id]");
    if (!box) return;
    if (event.shiftKey && last && last !== box) selectBetween(form, last, box);
    last = box;
  });
  form.addEventListener("change", (event) => {
    if (event.target.matches("[data-select-page]")) for (const box of boxes(form)) box.checked = event.target.checked;
    tell(form);
  });
  // Enter in a box would press the first button.
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches("input[type=checkbox]")) event.preventDefault();
  });
  document.addEventListener("refreshed", () => tell(form));
  // A browser that goes back restores the boxes after this ran.
  addEventListener("pageshow", () => tell(form));
  tell(form);
}

function boxes(form) {
  return [...form.querySelectorAll("input[type=checkbox][name=id]")];
}

function selectBetween(form, from, to) {
  const all = boxes(form);
  const [start, end] = [all.indexOf(from), all.indexOf(to)].sort((a, b) => a - b);
  if (start < 0) return;
  for (const box of all.slice(start, end + 1)) box.checked = to.checked;
  tell(form);
}

function tell(form) {
  const all = boxes(form);
  const selected = all.filter((box) => box.checked).length;
  const page = form.querySelector("[data-select-page]");
  if (page) {
    page.hidden = false;
    page.checked = selected > 0 && selected === all.length;
    page.indeterminate = selected > 0 && selected < all.length;
  }
  const place = form.querySelector("[data-selected]");
  const text = form.querySelector("[name=all]")?.checked ? "All" : `${selected} selected`;
  if (place && place.textContent !== text) place.textContent = text;
}
