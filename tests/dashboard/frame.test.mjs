// What all pages share: the frame around them, headers, the theme, keys, the live refresh.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { assertCalm, closeBrowser, newPage } from "./support/browser.mjs";
import { fillDemo } from "./support/demo.mjs";
import { Server } from "./support/server.mjs";

let server;
before(async () => {
  server = await Server.start();
  await fillDemo(server);
});
after(async () => {
  await closeBrowser();
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
    const page = await newPage({ javaScript });
    await page.goto(`${server.url}/ui/`);
    await Promise.all([page.waitForResponse((answer) => answer.url().endsWith("/ui/theme")), page.getByLabel("Dark colours").click()]);
    await page.locator("html[data-theme=dark]").waitFor({ state: "attached" });
    await page.goto(`${server.url}/ui/system`);
    assert.equal(await page.locator("html").getAttribute("data-theme"), "dark");
    assertCalm(page);
    await page.context().close();
  }
});

test("the first page is small", async () => {
  let bytes = 0;
  const page = await newPage();
  page.on("response", async (answer) => { bytes += Number(answer.headers()["content-length"] ?? 0); });
  await page.goto(`${server.url}/ui/`);
  await page.waitForLoadState("networkidle");
  assert.ok(bytes > 0 && bytes < 60 * 1024, `${bytes} bytes`);
});
