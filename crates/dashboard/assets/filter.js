// The filter field: says as you type where a filter cannot be read, completes fields, and remembers the filters that were used. What
// can be read and which fields there are is asked of the server; nothing about the language of filters is known here.

const CHECK_AFTER_MS = 200;
const MOST_OPTIONS = 12;
const MOST_REMEMBERED = 20;

export function startFilter() {
  const form = document.querySelector("form[data-filter]");
  const input = form?.querySelector("input.filter");
  if (input) new FilterField(form, input);
}

class FilterField {
  #form;
  #input;
  #list;
  #base;
  #fields = null;
  #options = [];
  #active = -1;
  #timer;
  #asked;

  constructor(form, input) {
    this.#form = form;
    this.#input = input;
    this.#base = form.dataset.filter;
    this.#list = document.createElement("ul");
    this.#list.id = "filter-options";
    this.#list.className = "options";
    this.#list.setAttribute("role", "listbox");
    this.#list.setAttribute("aria-label", "Fields and earlier filters");
    this.#list.hidden = true;
    input.after(this.#list);
    for (const [name, value] of [["role", "combobox"], ["aria-autocomplete", "list"], ["aria-expanded", "false"], ["aria-controls", this.#list.id]]) input.setAttribute(name, value);
    input.addEventListener("input", () => { this.#checkSoon(); this.#suggest(); });
    input.addEventListener("focus", () => this.#load());
    input.addEventListener("blur", () => this.#close());
    input.addEventListener("keydown", (event) => this.#press(event));
    // Before the field loses the focus.
    this.#list.addEventListener("mousedown", (event) => {
      event.preventDefault();
      const option = event.target.closest("[role=option]");
      if (option) this.#accept([...this.#list.children].indexOf(option));
    });
    form.addEventListener("submit", () => this.#remember());
  }

  // Errors, under the field.

  #checkSoon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#check(), CHECK_AFTER_MS);
  }

  async #check() {
    this.#asked?.abort();
    this.#asked = new AbortController();
    try {
      const answer = await fetch(`${this.#base}/check?filter=${encodeURIComponent(this.#input.value)}`, { signal: this.#asked.signal });
      if (answer.ok) this.#tell(await answer.json());
    } catch {
      // Another letter was typed, or the server is away, which the page says elsewhere.
    }
  }

  #tell(found) {
    const place = document.getElementById("filter-error");
    if (found.ok) this.#input.removeAttribute("aria-invalid");
    else this.#input.setAttribute("aria-invalid", "true");
    place.replaceChildren();
    if (found.ok) return;
    const mark = document.createElement("pre");
    mark.setAttribute("aria-hidden", "true");
    mark.textContent = `${found.around === null ? "" : `${found.around}\n`}${found.blanks}^`;
    const message = document.createElement("p");
    message.textContent = found.message;
    place.append(mark, message);
  }

  // Fields, and filters that were used before.

  async #load() {
    if (this.#fields === null) {
      this.#fields = [];
      try {
        const answer = await fetch(`${this.#base}/fields`);
        if (answer.ok) this.#fields = (await answer.json()).fields;
      } catch {
        this.#fields = null;
      }
    }
  }

  // The name that ends at the caret; nothing inside a string.
  #word() {
    const before = this.#input.value.slice(0, this.#input.selectionStart);
    const quotes = before.replace(/\\./g, "").replace(/"[^"]*"|'[^']*'/g, "");
    if (/["']/.test(quotes)) return null;
    return /[A-Za-z_][A-Za-z0-9_.]*$/.exec(before)?.[0] ?? null;
  }

  #suggest() {
    const word = this.#word();
    if (word === null) return this.#close();
    const low = word.toLowerCase();
    const fields = this.#fields ?? [];
    const begins = fields.filter((field) => field.toLowerCase().startsWith(low));
    const others = fields.filter((field) => !begins.includes(field) && field.toLowerCase().includes(low));
    const found = [...begins, ...others].slice(0, MOST_OPTIONS);
    if (found.length === 0 || (found.length === 1 && found[0] === word)) return this.#close();
    this.#show(found.map((field) => ({ text: field, take: () => this.#complete(word, field) })));
  }

  #showHistory() {
    const used = remembered();
    if (used.length > 0) this.#show(used.map((filter) => ({ text: filter, take: () => { this.#input.value = filter; this.#checkSoon(); } })));
  }

  #complete(word, field) {
    const at = this.#input.selectionStart;
    this.#input.setRangeText(field, at - word.length, at, "end");
    this.#checkSoon();
  }

  #show(options) {
    this.#options = options;
    this.#list.replaceChildren(...options.map(({ text }, at) => {
      const option = document.createElement("li");
      option.id = `filter-option-${at}`;
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", "false");
      option.textContent = text;
      return option;
    }));
    this.#list.hidden = false;
    this.#input.setAttribute("aria-expanded", "true");
    this.#activate(-1);
  }

  #close() {
    this.#options = [];
    this.#list.hidden = true;
    this.#input.setAttribute("aria-expanded", "false");
    this.#activate(-1);
  }

  #activate(at) {
    this.#active = at;
    [...this.#list.children].forEach((option, each) => option.setAttribute("aria-selected", String(each === at)));
    if (at < 0) return this.#input.removeAttribute("aria-activedescendant");
    this.#input.setAttribute("aria-activedescendant", `filter-option-${at}`);
    this.#list.children[at].scrollIntoView({ block: "nearest" });
  }

  #accept(at) {
    const option = this.#options[at];
    this.#close();
    option?.take();
  }

  #press(event) {
    const isOpen = this.#options.length > 0;
    if (event.key === "ArrowDown" && !isOpen) {
      if (this.#input.value.trim() === "") this.#showHistory();
      else this.#suggest();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const step = event.key === "ArrowDown" ? 1 : -1;
      const count = this.#options.length;
      this.#activate(this.#active < 0 && step < 0 ? count - 1 : (this.#active + step + count) % count);
    } else if ((event.key === "Enter" || event.key === "Tab") && isOpen && this.#active >= 0) {
      this.#accept(this.#active);
    } else if (event.key === "Escape" && isOpen) {
      this.#close();
    } else {
      return;
    }
    event.preventDefault();
  }

  #remember() {
    const filter = this.#input.value.trim();
    if (filter === "") return;
    const used = [filter, ...remembered().filter((other) => other !== filter)].slice(0, MOST_REMEMBERED);
    try {
      localStorage.setItem("taskqueue-filters", JSON.stringify(used));
    } catch {
      // The browser keeps nothing for this page.
    }
  }
}

function remembered() {
  try {
    const used = JSON.parse(localStorage.getItem("taskqueue-filters") ?? "[]");
    return Array.isArray(used) ? used.filter((filter) => typeof filter === "string") : [];
  } catch {
    return [];
  }
}
