// A real browser for tests: Debian's Chromium without windows, driven by playwright-core. scripts/install-test-needs installs both.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { after, afterEach } from "node:test";

const target = path.resolve(process.env.CARGO_TARGET_DIR ?? "target");
const require = createRequire(path.join(target, "test-needs/node/package.json"));
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const SCREENSHOTS = path.join(target, "dashboard-screenshots");

export const WIDE = { width: 1280, height: 900 };
export const NARROW = { width: 375, height: 800 };

let browser;
// To open an address in a page that is there costs a quarter of a new page, which is a process of its own. So the pages of tests that
// are over wait here for others, apart by whether they run scripts.
const shared = { true: { pages: [] }, false: { pages: [] } };
const used = new Set();

async function newContext(javaScript) {
  browser ??= await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium-headless-shell",
    args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  const context = await browser.newContext({ viewport: WIDE, javaScriptEnabled: javaScript, reducedMotion: "reduce" });
  context.setDefaultTimeout(60_000);
  await context.addInitScript(askSoon);
  return context;
}

// A page for the test that runs, without anything that another test has stored. `own` is for tests that are about what a browser keeps
// or that change its clock or permissions, or for two users at once: it is not shared. Whatever a page logs as an error fails the test that asks (`page.problems`).
export async function newPage({ viewport = WIDE, javaScript = true, own = false } = {}) {
  const from = own ? { pages: [] } : shared[javaScript];
  from.context ??= await newContext(javaScript);
  const page = from.pages.pop() ?? await from.context.newPage();
  page.waitsIn = own ? null : from.pages;
  used.add(page);
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(String(error)));
  page.on("console", (message) => { if (message.type() === "error") page.problems.push(message.text()); });
  page.on("dialog", (dialog) => { page.problems.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  await Promise.all([page.setViewportSize(viewport), page.emulateMedia({ colorScheme: "light" }), page.mouse.move(-1, -1)]);
  return page;
}

// A page whose test is over does nothing more, and what was stored by it is gone.
export async function closePage(page) {
  used.delete(page);
  if (!page.waitsIn) return page.context().close();
  for (const event of ["pageerror", "console", "dialog", "request", "response"]) page.removeAllListeners(event);
  const isStill = await page.evaluate(() => {
    globalThis.setTimeout = () => 0;
    for (let timer = setInterval(() => {}, 1e9); timer > 0; timer -= 1) clearTimeout(timer);
    stop();
    localStorage.clear();
    // To open an address again where it is open keeps what was typed.
    history.replaceState(null, "", "/");
  }).then(() => true, () => false);
  await page.context().clearCookies();
  if (isStill) page.waitsIn.push(page);
  else await page.close();
}
afterEach(() => Promise.all([...used].map(closePage)));
after(() => browser?.close());

// A page asks more seldom where pages are slow to make, as it should; on a busy machine tests would wait for minutes. How long a page
// waits is tested where that is decided (state.rs).
function askSoon() {
  const soon = () => { if (Number(document.body?.dataset.refresh) > 2) document.body.dataset.refresh = "2"; };
  new MutationObserver(soon).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-refresh"] });
}

// Keeps a picture, to be looked at, when one file of tests is run alone, as it is while its page is changed.
export async function screenshot(page, name) {
  if (process.env.TASKQUEUE_PICTURES) await page.screenshot({ path: screenshotPath(name), fullPage: true });
}

export function screenshotPath(name) {
  return path.join(SCREENSHOTS, `${name}.png`);
}

// What depends on the colours of a page. All else that axe looks at is the same in the light and in the dark, and the colours are the
// same however wide a page is.
const COLOUR_RULES = { type: "rule", values: ["color-contrast", "link-in-text-block"] };

// No violation of accessibility that is serious or critical, in the page or in a part of it.
export async function assertAccessible(page, rules = {}, part = "html") {
  // The page forbids inline scripts; the driver adds this one past that.
  if (!await page.evaluate(() => globalThis.axe !== undefined)) await page.evaluate(AXE);
  const told = await page.evaluate(async ([part, rules]) => {
    const { violations } = await globalThis.axe.run(part, { resultTypes: ["violations"], preload: false, ...rules });
    const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
    return serious.map(({ id, help, nodes }) => `${id}: ${help}\n  ${nodes.map((node) => `${node.target} ${node.html}`).join("\n  ")}`);
  }, [part, rules]);
  assert.deepEqual(told, []);
}

// Nothing makes the page wider than the window: tables scroll in their own box.
export async function assertNoOverflow(page) {
  const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  assert.ok(content <= window, `the page is ${content} px wide in a window of ${window} px`);
}

// Nothing was logged as an error, and no dialog opened.
export function assertCalm(page) {
  assert.deepEqual(page.problems, []);
}

// The looks of a page: wide and narrow, light and dark, each without overflow. Wide and narrow it is accessible, and its colours are so
// in the light and in the dark. What is prepared in it is prepared in both shapes; else the page is made narrow, which only its styles
// see. `part` is what of it is looked at, where the rest is as on another page.
export async function checkLooks(url, name, prepare, part = "html") {
  let page;
  for (const [shape, viewport] of [["wide", WIDE], ["narrow", NARROW]]) {
    if (page && prepare) await closePage(page);
    if (page && !prepare) await page.setViewportSize(viewport);
    else {
      page = await newPage({ viewport });
      await page.goto(url);
      await prepare?.(page);
    }
    for (const colorScheme of ["dark", "light"]) {
      await page.emulateMedia({ colorScheme });
      await assertNoOverflow(page);
      if (colorScheme === "light") await assertAccessible(page, {}, part);
      else if (shape === "wide") await assertAccessible(page, { runOnly: COLOUR_RULES }, part);
      await screenshot(page, `${name}-${shape}-${colorScheme}`);
    }
    assertCalm(page);
  }
  await closePage(page);
}
