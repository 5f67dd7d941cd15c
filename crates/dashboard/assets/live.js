// Keeps the marked regions of a page ([data-live]) up to date. It asks for the page again, as often as the server says
// (data-refresh of <body>), and changes only what is different, so that nothing moves: scroll positions, open details, checked boxes
// and the focus stay. It pauses while the page is hidden and while the reader selects text or types in a region.

import { showLocalTimes } from "./small.js";

const LATEST_SECONDS = 60;
let failures = 0;
let timer;
let tag = null;

export function startLive() {
  if (!document.querySelector("[data-live]")) return;
  tell("live", "live");
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
  schedule();
}

// Asks again now.
async function refresh() {
  clearTimeout(timer);
  if (!document.hidden && !isBusy()) await ask();
  schedule();
}

function schedule() {
  clearTimeout(timer);
  const seconds = Number(document.body.dataset.refresh) || 2;
  const wait = failures === 0 ? seconds : Math.min(LATEST_SECONDS, seconds * 2 ** failures);
  timer = setTimeout(refresh, wait * 1000);
}

async function ask() {
  try {
    const answer = await fetch(location.href, { cache: "no-cache", headers: { accept: "text/html" }, signal: AbortSignal.timeout(30_000) });
    if (answer.redirected && new URL(answer.url).pathname === "/ui/sign-in") {
      tell("away", "signed out; reload the page");
      failures += 1;
      return;
    }
    if (answer.status === 404) {
      tell("away", "this is not there any more");
      document.getElementById("gone")?.removeAttribute("hidden");
      failures += 1;
      return;
    }
    document.getElementById("gone")?.setAttribute("hidden", "");
    if (!answer.ok) throw new Error(String(answer.status));
    failures = 0;
    tell("live", "live");
    const current = answer.headers.get("etag");
    if (current && current === tag) return;
    tag = current;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (isBusy()) return;
    document.body.dataset.refresh = page.body.dataset.refresh ?? "2";
    for (const region of document.querySelectorAll("[data-live]")) {
      const other = page.getElementById(region.getAttribute("id"));
      if (other) morph(region, other);
    }
    document.dispatchEvent(new CustomEvent("refreshed"));
  } catch {
    failures += 1;
    tell("away", "the server is away; this page is not up to date");
  }
}

function isBusy() {
  const selection = getSelection();
  if (selection && !selection.isCollapsed && inRegion(selection.anchorNode)) return true;
  const focused = document.activeElement;
  return Boolean(focused?.matches("input:not([type=checkbox]), textarea, select") && inRegion(focused));
}

function inRegion(node) {
  const element = node?.nodeType === Node.ELEMENT_NODE ? node : node?.parentElement;
  return Boolean(element?.closest("[data-live], [data-still]")?.matches("[data-live]"));
}

function tell(state, text) {
  const place = document.getElementById("connection");
  if (!place) return;
  place.hidden = false;
  place.dataset.state = state;
  if (place.textContent !== text) place.textContent = text;
}

// Makes `node` like `other` by as few changes as needed. Children are matched by id or data-key, else by their place and tag.
function morph(node, other) {
  // A part that another module keeps up to date.
  if (node.hasAttribute?.("data-still") || node.isEqualNode(other)) return;
  syncAttributes(node, other);
  const known = new Map();
  for (const child of node.children) if (keyOf(child)) known.set(keyOf(child), child);
  let place = node.firstChild;
  for (const wanted of [...other.childNodes]) {
    const same = keyOf(wanted) ? known.get(keyOf(wanted)) : isAlike(place, wanted) ? place : null;
    if (!same) {
      node.insertBefore(document.importNode(wanted, true), place);
      continue;
    }
    if (same === place) place = place.nextSibling;
    else node.insertBefore(same, place);
    if (same.nodeType === Node.ELEMENT_NODE) morph(same, wanted);
    else if (same.data !== wanted.data) same.data = wanted.data;
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
  showLocalTimes(node);
}

function keyOf(node) {
  // By attribute: the property of a form may be one of its fields.
  return node?.nodeType === Node.ELEMENT_NODE ? node.getAttribute("id") || node.getAttribute("data-key") : null;
}

function isAlike(node, other) {
  return node && node.nodeType === other.nodeType && node.nodeName === other.nodeName && !keyOf(node);
}

// What the reader has set is kept: open details, what boxes and fields hold now, and the row that the keys are at. What a button or
// a hidden field would send belongs to the text beside it, so it changes with that.
function isKept(node, name) {
  if (name === "open" || name === "checked") return true;
  if (name === "title") return node.nodeName === "TIME";
  return name === "value" && node.matches("input:not([type=hidden], [type=checkbox], [type=radio]), textarea");
}

function syncAttributes(node, other) {
  const isAtCursor = node.classList.contains("at-cursor");
  for (const { name } of [...node.attributes]) if (!other.hasAttribute(name) && !isKept(node, name)) node.removeAttribute(name);
  for (const { name, value } of other.attributes) {
    if (!isKept(node, name) && node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  if (isAtCursor) node.classList.add("at-cursor");
}
