// The output of a task: follows while the task runs, stays at the end if the reader is there, and searches. The server makes the
// HTML (colours, lines that are written over); this only puts it into its place.

const EVERY_MS = 1000;
const AWAY_MS = 5000;
// Asked once more after the end of a run, because its last bytes may come late.
const LATE_ROUNDS = 3;
// Beyond this the oldest parts are let go: the download has them.
const KEPT_CHARS = 2_000_000;
const MATCHES = 2000;

export function startOutput() {
  const card = document.getElementById("output-card");
  if (!card) return;
  const box = document.getElementById("output");
  const follow = document.getElementById("output-follow");
  const toEnd = () => { box.scrollTop = box.scrollHeight; };
  const showFollow = () => follow.setAttribute("aria-pressed", String(isAtEnd(box)));
  toEnd();
  follow.addEventListener("click", () => { toEnd(); showFollow(); });
  box.addEventListener("scroll", showFollow, { passive: true });
  const search = startSearch(box);
  let lateRounds = 0;
  const round = async () => {
    const status = document.getElementById("task")?.dataset.status;
    const isRunning = status === "running";
    if (status !== "pending") card.hidden = false;
    search.hide(box.hidden);
    follow.hidden = !isRunning || box.hidden;
    lateRounds = isRunning ? LATE_ROUNDS : Math.max(0, lateRounds - 1);
    let wait = EVERY_MS;
    if (!document.hidden && (isRunning || lateRounds > 0)) {
      const wasAtEnd = isAtEnd(box);
      const answer = await more(card);
      if (answer === "gone") return;
      if (answer === "away") wait = AWAY_MS;
      if (answer === "new") {
        search.renew();
        if (wasAtEnd) toEnd();
        showFollow();
      }
    }
    setTimeout(round, wait);
  };
  round();
}

function isAtEnd(box) {
  return box.scrollHeight - box.scrollTop - box.clientHeight < 12;
}

// Asks for what was printed since. Answers "new", "same", "away" or "gone".
async function more(card) {
  const { address, run, next, look, end } = card.dataset;
  const query = new URLSearchParams(run ? { run, from: next, look, end } : {});
  try {
    const answer = await fetch(`${address}?${query}`, { cache: "no-store", signal: AbortSignal.timeout(20_000) });
    if (answer.status === 404) return "gone";
    if (!answer.ok || answer.redirected) return "away";
    if (answer.status === 204) return "same";
    const [lines, last] = new DOMParser().parseFromString(await answer.text(), "text/html").querySelectorAll("body > pre > span");
    put(card, answer.headers.get("output-reset") === "true", lines, last);
    for (const name of ["run", "next", "look", "end"]) card.dataset[name] = answer.headers.get(`output-${name}`);
    return "new";
  } catch {
    return "away";
  }
}

function put(card, isReset, lines, last) {
  const box = document.getElementById("output");
  const pre = box.querySelector("pre");
  const open = document.getElementById("output-last");
  if (isReset) while (pre.firstChild !== open) pre.firstChild.remove();
  if (lines.firstChild) pre.insertBefore(document.adoptNode(lines), open);
  open.replaceChildren(...last.childNodes);
  let chars = pre.textContent.length;
  while (chars > KEPT_CHARS && pre.childElementCount > 2) {
    chars -= pre.firstChild.textContent.length;
    pre.firstChild.remove();
  }
  box.hidden = false;
  document.getElementById("output-download").hidden = false;
  // What it said was of the moment when the page was made.
  if (isReset) document.getElementById("output-note").hidden = true;
}

function startSearch(box) {
  const form = document.getElementById("output-search");
  const input = form.querySelector("input");
  const found = document.getElementById("output-found");
  const state = { ranges: [], at: -1 };
  const show = (scrolls) => {
    mark("output-match", state.ranges);
    mark("output-current", state.ranges[state.at] ? [state.ranges[state.at]] : []);
    const many = state.ranges.length === MATCHES ? `${MATCHES}+` : String(state.ranges.length);
    found.textContent = input.value === "" ? "" : state.ranges.length === 0 ? "nothing" : `${state.at + 1} of ${many}`;
    if (scrolls && state.ranges[state.at]) reveal(box, state.ranges[state.at]);
  };
  const renew = () => {
    state.ranges = input.value === "" ? [] : matches(box.querySelector("pre"), input.value);
    state.at = Math.min(state.at, state.ranges.length - 1);
    show(false);
  };
  const step = (by) => {
    const count = state.ranges.length;
    if (count > 0) state.at = (state.at + by + count) % count;
    show(true);
  };
  input.addEventListener("input", () => {
    renew();
    // The latest is what most people look for.
    state.at = state.ranges.length - 1;
    show(true);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    step(event.shiftKey ? -1 : 1);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const button of form.querySelectorAll("[data-step]")) button.addEventListener("click", () => step(Number(button.dataset.step)));
  return { renew, hide: (isHidden) => { form.hidden = isHidden; } };
}

// The places of a text, whatever the letters' case and however they are coloured.
function matches(pre, text) {
  const nodes = [];
  let whole = "";
  const walker = document.createTreeWalker(pre, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    nodes.push({ node, start: whole.length });
    whole += node.data;
  }
  // Letters that change their length with their case would move all places behind them.
  const folded = whole.toLowerCase().length === whole.length ? whole.toLowerCase() : whole;
  const wanted = folded === whole ? text : text.toLowerCase();
  const ranges = [];
  let place = 0;
  const locate = (offset) => {
    while (place + 1 < nodes.length && nodes[place + 1].start <= offset) place += 1;
    return [nodes[place].node, offset - nodes[place].start];
  };
  for (let at = folded.indexOf(wanted); at !== -1 && ranges.length < MATCHES; at = folded.indexOf(wanted, at + wanted.length)) {
    const range = new Range();
    range.setStart(...locate(at));
    const [node, offset] = locate(at + wanted.length - 1);
    range.setEnd(node, offset + 1);
    ranges.push(range);
  }
  return ranges;
}

// Marks places without changing the page. Browsers that cannot select the current one instead.
function mark(name, ranges) {
  if (globalThis.CSS?.highlights && globalThis.Highlight) {
    CSS.highlights.set(name, new Highlight(...ranges));
  } else if (name === "output-current" && ranges[0]) {
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(ranges[0]);
  }
}

function reveal(box, range) {
  const place = range.getBoundingClientRect();
  const frame = box.getBoundingClientRect();
  if (place.top < frame.top || place.bottom > frame.bottom) box.scrollTop += place.top - frame.top - box.clientHeight / 2;
}
