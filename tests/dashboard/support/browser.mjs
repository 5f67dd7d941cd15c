// A real browser for a test: Debian's Chromium without windows, driven by playwright-core. scripts/install-test-needs installs both.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const target = path.resolve(process.env.CARGO_TARGET_DIR ?? "target");
const require = createRequire(path.join(target, "test-needs/node/package.json"));
const { chromium } = require("playwright-core");
const AXE = require.resolve("axe-core/axe.min.js");
const SCREENSHOTS = path.join(target, "dashboard-screenshots");

export const WIDE = { width: 1280, height: 900 };
export const NARROW = { width: 375, height: 800 };

let browser;

// A page of its own in the browser that all tests of a file share. Whatever a page logs as an error fails the test that asks
// (`page.problems`).
export async function newPage({ viewport = WIDE, javaScript = true } = {}) {
  browser ??= await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium-headless-shell",
    args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  const context = await browser.newContext({ viewport, colorScheme: "light", javaScriptEnabled: javaScript, reducedMotion: "reduce" });
  context.setDefaultTimeout(60_000);
  await context.addInitScript(askSoon);
  const page = await context.newPage();
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(String(error)));
  page.on("console", (message) => { if (message.type() === "error") page.problems.push(message.text()); });
  page.on("dialog", (dialog) => { page.problems.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  return page;
}

// A page asks more seldom where pages are slow to make, as it should; on a busy machine tests would wait for minutes. How long a page
// waits is tested where that is decided (state.rs).
function askSoon() {
  const soon = () => { if (Number(document.body?.dataset.refresh) > 2) document.body.dataset.refresh = "2"; };
  new MutationObserver(soon).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-refresh"] });
}

export async function closeBrowser() {
  await browser?.close();
  browser = undefined;
}

// Keeps a picture as build output, to be looked at.
export async function screenshot(page, name, options = {}) {
  mkdirSync(SCREENSHOTS, { recursive: true });
  await page.screenshot({ path: screenshotPath(name), ...options });
}

export function screenshotPath(name) {
  return path.join(SCREENSHOTS, `${name}.png`);
}

// What depends on the colours of a page. All else that axe looks at is the same in the light and in the dark, and the colours are the
// same however wide a page is.
const COLOUR_RULES = { type: "rule", values: ["color-contrast", "link-in-text-block"] };

// No violation of accessibility that is serious or critical.
export async function assertAccessible(page, rules = {}) {
  // The page forbids inline scripts; the driver adds this one past that.
  await page.evaluate(readFileSync(AXE, "utf8"));
  const options = { resultTypes: ["violations"], preload: false, ...rules };
  const { violations } = await page.evaluate((options) => globalThis.axe.run(document, options), options);
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const told = serious.map(({ id, help, nodes }) => `${id}: ${help}\n  ${nodes.map((node) => `${node.target} ${node.html}`).join("\n  ")}`);
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
// in the light and in the dark. Pictures of it are kept when one file of tests is run alone, as it is while its page is changed.
export async function checkLooks(url, name, prepare = async () => {}) {
  for (const [shape, viewport] of [["wide", WIDE], ["narrow", NARROW]]) {
    const page = await newPage({ viewport });
    await page.goto(url);
    await prepare(page);
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await assertNoOverflow(page);
      if (colorScheme === "light") await assertAccessible(page);
      else if (shape === "wide") await assertAccessible(page, { runOnly: COLOUR_RULES });
      if (process.env.TASKQUEUE_PICTURES) await screenshot(page, `${name}-${shape}-${colorScheme}`, { fullPage: true });
    }
    assertCalm(page);
    await page.context().close();
  }
}
