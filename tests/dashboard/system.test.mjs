// The system page: versions, the database, what the server does.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { assertCalm, checkLooks, closePage, newPage } from "./support/browser.mjs";
import { fillDemo } from "./support/demo.mjs";
import { Server } from "./support/server.mjs";

// A page that is slow to make, on a machine that has much to do, is refreshed less often.
const LIVE = { timeout: 60_000 };
let server;

before(async () => {
  server = await Server.start({ queues: ["experiments", "second"] });
  await fillDemo(server);
});
after(async () => {
  await server.stop();
});

const fact = async (page, name) => (await page.locator(`dt:text-is("${name}") + dd`).innerText()).trim();

test("the system page looks right wide and narrow, light and dark", async () => {
  await checkLooks(`${server.url}/ui/system`, "system");
});

test("it says which versions run, on which database, and how large it is", async () => {
  for (const javaScript of [true, false]) {
    const page = await newPage({ javaScript });
    await page.goto(`${server.url}/ui/system`);
    const capabilities = await server.api("GET", "/capabilities");
    assert.match(await fact(page, "taskqueue"), /^\d+\.\d+\.\d+/);
    assert.equal(await fact(page, "Kind"), "SQLite");
    assert.match(await fact(page, "Size"), /^[\d.]+ [KM]iB$/);
    assert.equal(await fact(page, "Queues"), "2");
    assert.equal(await fact(page, "Tasks"), "60");
    assert.equal(await fact(page, "Features"), capabilities.features.join(", "));
    await page.getByText("The database works, and no setting of it is known to be a risk.").waitFor();
    assertCalm(page);
    await closePage(page);
  }
});

test("it counts what the server does, and follows it without a reload", async () => {
  const page = await newPage();
  const counted = async () => Number(/^taskqueue_writer_commit_seconds_count (\d+)/m.exec(await (await fetch(`${server.url}/metrics`)).text())[1]);
  const before = await counted();
  await page.goto(`${server.url}/ui/system`);
  await page.evaluate(() => { window.isSamePage = true; });
  const commits = Number((await fact(page, "Commits")).split(",")[0]);
  assert.ok(before >= 47, "the demo wrote that much");
  assert.ok(before <= commits && commits <= await counted(), `${commits} after ${before}`);
  const controller = new AbortController();
  const waiting = fetch(`${server.url}/api/v2/queues/second/tasks/claim`, {
    method: "POST", signal: controller.signal, headers: { "content-type": "application/json", prefer: "wait=60" }, body: JSON.stringify({ run_id: "r_waiting00001", route: "none" }),
  }).catch(() => {});
  await page.locator('dt:text-is("… claims") + dd:text-is("1")').waitFor(LIVE);
  assert.equal(await fact(page, "Waiting"), "1 of 10,000");
  controller.abort();
  await waiting;
  await page.locator('dt:text-is("… claims") + dd:text-is("0")').waitFor(LIVE);
  assert.equal(await page.evaluate(() => window.isSamePage), true);
  assertCalm(page);
});

test("its links lead to the metrics and to the description of the API", async () => {
  const page = await newPage();
  await page.goto(`${server.url}/ui/system`);
  for (const path of ["/metrics", "/openapi.json", "/health"]) {
    const address = await page.getByRole("link", { name: path }).getAttribute("href");
    const answer = await fetch(server.url + address);
    assert.equal(answer.status, 200, path);
  }
});

test("queues are listed with their tasks and can be deleted from here", async () => {
  const page = await newPage();
  await page.goto(`${server.url}/ui/system`);
  assert.deepEqual(await page.locator('tr[data-key="experiments"] td').allInnerTexts(), ["experiments", "60", "2", "Delete …"]);
  await page.getByRole("link", { name: "Delete queue second" }).click();
  await page.getByRole("button", { name: "Delete the empty queue" }).click();
  await page.getByText("Queue second deleted.").waitFor();
  assert.deepEqual(await server.api("GET", "/queues"), [{ name: "experiments" }]);
});
