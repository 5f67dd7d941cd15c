// Routes of a queue: tasks against workers, and where nobody serves what waits.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { assertCalm, checkLooks, closePage, newPage } from "./support/browser.mjs";
import { fillDemo } from "./support/demo.mjs";
import { Server } from "./support/server.mjs";

// A page that is slow to make, on a machine that has much to do, is refreshed less often.
const LIVE = { timeout: 60_000 };
let server;

before(async () => {
  server = await Server.start({ queues: ["experiments", "unused", "many"] });
  await fillDemo(server);
  for (let n = 0; n < 3; n += 1) {
    await server.api("PUT", `/queues/experiments/tasks/t_starve00000${n}`, { args: {}, routes: ["tpu"] });
  }
});
after(async () => {
  await server.stop();
});

const cells = async (page, route) => (await page.locator(`tr[data-key="${route}"] td`).allInnerTexts()).map((text) => text.trim());

test("routes look right wide and narrow, light and dark", async () => {
  await checkLooks(`${server.url}/ui/queues/experiments/routes`, "routes");
});

test("a route without a worker comes first and is red; the others follow by name", async () => {
  for (const javaScript of [true, false]) {
    const page = await newPage({ javaScript });
    await page.goto(`${server.url}/ui/queues/experiments/routes`);
    assert.deepEqual(await page.locator("tbody tr").evaluateAll((rows) => rows.map((row) => [row.dataset.key, row.className])), [["tpu", "starving"], ["a100", ""], ["h100", ""]]);
    const [route, pending, running, oldest, busy, idle, used] = await cells(page, "tpu");
    assert.deepEqual([route, pending, running, busy, idle, used], ["tpu", "3", "0", "0", "0", "no worker"]);
    assert.match(oldest, /^\d/);
    const [, pendingA, runningA, , busyA, idleA] = await cells(page, "a100");
    assert.deepEqual([pendingA, runningA, busyA, idleA], ["8", "2", "3", "1"]);
    assertCalm(page);
    await closePage(page);
  }
});

test("numbers lead to the tasks and workers of the route", async () => {
  const page = await newPage();
  await page.goto(`${server.url}/ui/queues/experiments/routes`);
  const links = await page.locator('tr[data-key="a100"] a').evaluateAll((all) => all.map((link) => link.getAttribute("href")));
  const workers = "/ui/queues/experiments/workers?filter=route%20%3D%3D%20%22a100%22";
  const tasks = (status) => `/ui/queues/experiments/tasks?status=${status}&filter=%22a100%22%20in%20routes`;
  assert.deepEqual(links, [workers, tasks("pending"), tasks("running"), workers, workers]);
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.getByText("4 of 4 workers").waitFor();
  assert.equal(await page.locator("tr[data-row]").count(), 4);
});

test("a route that gets a worker is not red any more, without a reload", async () => {
  const page = await newPage();
  await page.goto(`${server.url}/ui/queues/experiments/routes`);
  await page.evaluate(() => { window.isSamePage = true; });
  const red = page.locator("tr.starving");
  assert.equal(await red.count(), 1);
  await server.api("PUT", "/queues/experiments/workers/w_tpu000000001", { route: "tpu", status: "idle", task_id: null, metadata: {} });
  await red.waitFor({ state: "detached", ...LIVE });
  assert.deepEqual(await page.locator("tbody tr").evaluateAll((rows) => rows.map((row) => row.dataset.key)), ["a100", "h100", "tpu"]);
  await server.api("DELETE", "/queues/experiments/workers/w_tpu000000001");
  await red.waitFor(LIVE);
  assert.equal(await page.evaluate(() => window.isSamePage), true);
});

test("a queue without routes in use teaches what a route is", async () => {
  await checkLooks(`${server.url}/ui/queues/unused/routes`, "routes-empty");
  const page = await newPage();
  await page.goto(`${server.url}/ui/queues/unused/routes`);
  assert.match(await page.locator("pre.command").innerText(), /^taskqueue loop --queue unused --url http\S+ --route gpu -- /);
});

test("of many routes the first ones are shown, and one is found by its name", async () => {
  const routes = Array.from({ length: 600 }, (_, n) => `route-${String(n).padStart(4, "0")}`);
  for (let n = 0; n < 3; n += 1) {
    await server.api("PUT", `/queues/many/tasks/t_many0000000${n}`, { args: {}, routes: routes.slice(n * 200, n * 200 + 200) });
  }
  const page = await newPage();
  await page.goto(`${server.url}/ui/queues/many/routes`);
  assert.equal(await page.locator("tbody tr").count(), 500);
  await page.getByText("100 more routes are not shown").waitFor();
  await page.getByLabel("Find a route").fill("-0599");
  await page.getByLabel("Find a route").press("Enter");
  await page.waitForURL("**/routes?find=-0599");
  assert.equal(await page.locator("tbody tr").count(), 1);
  assertCalm(page);
});

test("a queue that is not there is told, and so is one with an impossible name", async () => {
  for (const path of ["/ui/queues/nothing/routes", "/ui/queues/nothing/workers", "/ui/queues/-x/routes"]) {
    const answer = await fetch(server.url + path);
    assert.equal(answer.status, 404, path);
    assert.match(await answer.text(), /There is no such queue/);
  }
});
