// What all pages share: the frame around them, headers, the theme, keys, the live refresh.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { assertAccessible, assertCalm, closePage, newPage } from "./support/browser.mjs";
import { fillDemo } from "./support/demo.mjs";
import { Server } from "./support/server.mjs";

let server;
before(async () => {
  server = await Server.start();
  await fillDemo(server);
});
after(async () => {
  await server.stop();
});

test("every answer forbids foreign and inline scripts, framing and guessing of types", async () => {
  for (const path of ["/ui/", "/ui/nothing-here", "/ui/system"]) {
    const { headers } = await fetch(server.url + path);
    assert.match(headers.get("content-security-policy"), /default-src 'none'; script-src 'self'; style-src 'self'/);
    assert.match(headers.get("content-security-policy"), /frame-ancestors 'none'/);
    assert.equal(headers.get("x-content-type-options"), "nosniff");
  }
});

test("the theme is chosen with and without JavaScript and stays", async () => {
  for (const javaScript of [true, false]) {
    const page = await newPage({ javaScript, own: true });
    await page.goto(`${server.url}/ui/`);
    await Promise.all([page.waitForResponse((answer) => answer.url().endsWith("/ui/theme")), page.getByLabel("Dark colours").click()]);
    await page.locator("html[data-theme=dark]").waitFor({ state: "attached" });
    await page.goto(`${server.url}/ui/system`);
    assert.equal(await page.locator("html").getAttribute("data-theme"), "dark");
    assertCalm(page);
    await closePage(page);
  }
});

test("the first page is small", async () => {
  let bytes = 0;
  const page = await newPage({ own: true });
  page.on("response", async (answer) => { bytes += Number(answer.headers()["content-length"] ?? 0); });
  await page.goto(`${server.url}/ui/`);
  await page.waitForLoadState("networkidle");
  assert.ok(bytes > 0 && bytes < 60 * 1024, `${bytes} bytes`);
});

test("a page follows what happens, and nothing that the reader has set changes", async () => {
  const page = await newPage({ viewport: { width: 800, height: 300 } });
  await page.goto(`${server.url}/ui/`);
  const before = await page.locator("main").innerText();
  await page.evaluate(() => { scrollTo(0, 120); });
  // Something new may stand above; what the reader looks at stays where it is on the screen.
  const place = async () => (await page.getByText("ended/min").boundingBox()).y;
  const seenAt = await place();
  for (let n = 0; n < 5; n += 1) await server.api("PUT", `/queues/experiments/tasks/t_live0000000${n}`, { args: {} });
  await page.getByText("65 tasks").waitFor();
  assert.notEqual(await page.locator("main").innerText(), before);
  assert.equal(await place(), seenAt);
  assertCalm(page);
});

test("a page that is hidden asks for nothing, and asks at once when it is seen again", async () => {
  const page = await newPage({ own: true });
  await page.clock.install();
  await page.goto(`${server.url}/ui/`);
  let asked = 0;
  page.on("request", (request) => { if (request.url().endsWith("/ui/")) asked += 1; });
  const show = (hidden) => page.evaluate((value) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => value });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
  await show(true);
  await page.clock.runFor(20_000);
  assert.equal(asked, 0);
  await Promise.all([page.waitForResponse((answer) => answer.url().endsWith("/ui/")), show(false)]);
});

test("a page waits while the reader selects text in what would change", async () => {
  const page = await newPage({ own: true });
  await page.clock.install();
  await page.goto(`${server.url}/ui/`);
  await page.evaluate(() => { getSelection().selectAllChildren(document.querySelector("[data-live]")); });
  let asked = 0;
  page.on("request", (request) => { if (request.url().endsWith("/ui/")) asked += 1; });
  await page.clock.runFor(20_000);
  assert.equal(asked, 0);
  await page.evaluate(() => getSelection().removeAllRanges());
  await Promise.all([page.waitForResponse((answer) => answer.url().endsWith("/ui/")), page.clock.runFor(5_000)]);
});

test("a page says that the server is away, asks less often, and comes back with it", async () => {
  const page = await newPage({ own: true });
  await page.clock.install();
  await page.goto(`${server.url}/ui/`);
  await page.locator("#connection[data-state=live]").waitFor();
  await server.kill("SIGKILL");
  // Longer than a page ever waits before it asks again.
  await page.clock.runFor(301_000);
  await page.locator("#connection[data-state=away]").waitFor();
  assert.match(await page.locator("#connection").innerText(), /not up to date/);
  await server.restart();
  const live = page.locator("#connection[data-state=live]");
  // What the page asked before the restart may fail only now, and lets it wait once more.
  for (let waits = 0; waits < 10 && !(await live.isVisible()); waits += 1) await page.clock.runFor(61_000);
  await live.waitFor();
});

test("keys go to pages, show their list, and are left alone while somebody types", async () => {
  const page = await newPage();
  await page.goto(`${server.url}/ui/`);
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog", { name: "Keys" }).waitFor({ state: "detached" });
  await page.waitForFunction(() => document.activeElement === document.body);
  await page.keyboard.press("g");
  await page.keyboard.press("q");
  await page.waitForURL("**/tasks");
  await page.keyboard.press("/");
  await page.keyboard.type("g o");
  assert.match(page.url(), /\/tasks$/);
  assert.equal(await page.locator("[data-search]").inputValue(), "g o");
  assertCalm(page);
});

test("what is not there is a page that says what to do, by any browser", async () => {
  for (const path of ["/ui/nothing-here", "/ui/queues/none-of-this/tasks", "/ui/queues/experiments/tasks/t_notthere0000", "/ui/queues/%00/tasks", "/ui/queues/experiments/tasks/%3Cscript%3E"]) {
    const page = await newPage();
    const answer = await page.goto(server.url + path);
    assert.equal(answer.status(), 404, path);
    await page.getByRole("link", { name: "Go to the overview" }).waitFor();
    await assertAccessible(page);
    await closePage(page);
  }
});

test("assets are kept for ever under their own name, and given anew under another", async () => {
  const html = await (await fetch(`${server.url}/ui/`)).text();
  const style = html.match(/\/ui\/assets\/[0-9a-f]+\/style\.css/)[0];
  const kept = await fetch(server.url + style);
  assert.match(kept.headers.get("cache-control"), /immutable/);
  assert.equal(kept.headers.get("content-encoding"), "gzip");
  const other = await fetch(server.url + style.replace(/[0-9a-f]{16}/, "0000000000000000"), { headers: { "accept-encoding": "identity" } });
  assert.equal(other.headers.get("cache-control"), "no-cache");
  assert.equal(other.headers.get("content-encoding"), null);
  assert.equal(await other.text(), await kept.text());
});
