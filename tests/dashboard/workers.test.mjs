// Workers of a queue: by host and route, what they are busy with, what they measure, the filter, pages.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { assertCalm, assertNoOverflow, checkLooks, closePage, newPage } from "./support/browser.mjs";
import { fillDemo } from "./support/demo.mjs";
import { Server } from "./support/server.mjs";

const GIB = 2 ** 30;
const HOSTILE = "<script>alert(1)</script>\u001b[31m\u202Ereversed " + "W".repeat(10_000);
// A page that is slow to make, on a machine that has much to do, is refreshed less often.
const LIVE = { timeout: 60_000 };
let server;
let ids;

before(async () => {
  server = await Server.start({ queues: ["experiments", "idle-queue", "many", "hostile"] });
  ids = await fillDemo(server);
  for (let n = 0; n < 4; n += 1) {
    await server.api("POST", `/queues/experiments/workers/w_demo0000000${n}/telemetry`, {
      telemetry: {
        cpu_percent: 90 + 110 * n, memory_bytes: 5 * GIB * (n + 1), processes: 4,
        host: { cpus: 64, load1: 12.5 + n, memory_bytes: 512 * GIB, memory_used_bytes: (100 + 120 * n) * GIB },
        gpus: [0, 1].map((index) => ({ index, name: "A100", memory_total_bytes: 80 * GIB, memory_used_bytes: (20 + 15 * n) * GIB, temperature_celsius: 55 + 5 * n, utilization_percent: index === 0 ? 97 : 0 })),
      },
    });
  }
});
after(async () => {
  await server.stop();
});

const row = (page, number) => page.locator(`tr[data-key=w_demo0000000${number}]`);

test("workers look right wide and narrow, light and dark", async () => {
  await checkLooks(`${server.url}/ui/queues/experiments/workers`, "workers");
});

test("a worker stands under its host with its task, since when it runs, and what it measures", async () => {
  for (const javaScript of [true, false]) {
    const page = await newPage({ javaScript });
    await page.goto(`${server.url}/ui/queues/experiments/workers`);
    assert.deepEqual(await page.locator("tr.host .name").allInnerTexts(), ["gpu-1", "gpu-2", "gpu-3", "gpu-4"]);
    const host = page.locator("tr.host").nth(1);
    assert.match((await host.innerText()).replace(/\s+/g, " "), /gpu-2 1 busy, 0 idle load 13.5 of 64 cores memory 220 of 512 GiB GPU 0 97 % · 35 of 80 GiB · 60 °C GPU 1 0 %/);
    const busy = await row(page, 1).innerText();
    assert.match(busy.replace(/\s+/g, " "), /slot 0 w_demo00000001 ◐ ?busy a100 vit-\d+ [\d.]+ s [\d.]+ s ago 200 % 10 GiB/);
    assert.equal(await row(page, 1).getByRole("link").getAttribute("href"), `/ui/queues/experiments/tasks/${ids.running[1]}`);
    assert.match((await row(page, 0).innerText()).replace(/\s+/g, " "), /idle a100 – –/);
    assertCalm(page);
    await closePage(page);
  }
});

test("a filter selects workers, its address can be sent, and an error says at which column", async () => {
  const page = await newPage();
  await page.goto(`${server.url}/ui/queues/experiments/workers`);
  await page.keyboard.press("/");
  await page.keyboard.type('metadata.host == "gpu-3"');
  await page.keyboard.press("Enter");
  await page.waitForURL(/filter=/);
  await page.getByText("1 of 4 workers").waitFor();
  assert.equal(await page.locator("tr[data-row]").count(), 1);
  await page.getByLabel("Filter workers").fill('status == "busy" and nothing == 1');
  await page.getByRole("button", { name: "Filter" }).click();
  await page.getByText(/^Column 22: /).waitFor();
  assert.equal(await page.getByLabel("Filter workers").getAttribute("aria-invalid"), "true");
  assert.equal(await page.getByLabel("Filter workers").inputValue(), 'status == "busy" and nothing == 1', "what was written stays");
  await page.goto(`${server.url}/ui/queues/experiments/workers?filter=${encodeURIComponent('route == "none"')}`);
  await page.getByText("No worker matches.").waitFor();
  assertCalm(page);
});

test("a filter that cannot be read looks right, too", async () => {
  await checkLooks(`${server.url}/ui/queues/experiments/workers?filter=status+%3D`, "workers-error");
});

test("a worker that becomes busy or leaves is followed without a reload", async () => {
  const page = await newPage();
  await page.goto(`${server.url}/ui/queues/experiments/workers`);
  await page.evaluate(() => { window.isSamePage = true; });
  const report = (status, task_id) => server.api("PUT", "/queues/experiments/workers/w_demo00000000", { route: "a100", status, task_id, metadata: { host: "gpu-1", slot: 0 } });
  await report("busy", ids.running[0]);
  await row(page, 0).getByText("busy").waitFor(LIVE);
  assert.match(await row(page, 0).getByRole("link").innerText(), /vit-/);
  await report("idle", null);
  await row(page, 0).getByText("idle").waitFor(LIVE);
  assert.equal(await page.evaluate(() => window.isSamePage), true);
});

test("without a worker the page teaches the command that starts one", async () => {
  await checkLooks(`${server.url}/ui/queues/idle-queue/workers`, "workers-empty");
  const page = await newPage();
  await page.goto(`${server.url}/ui/queues/idle-queue/workers`);
  assert.match(await page.locator("pre.command").innerText(), /^taskqueue loop --queue idle-queue --url http\S+ -- python train.py --lr %\{lr\}$/);
});

test("more workers than fit on a page go on on the next one", async () => {
  const id = (n) => `w_many${String(n).padStart(8, "0")}`;
  for (let n = 0; n < 130; n += 1) {
    await server.api("PUT", `/queues/many/workers/${id(n)}`, { route: "cpu", status: "idle", task_id: null, metadata: { host: `node-${n % 3}` } });
  }
  const page = await newPage({ javaScript: false });
  await page.goto(`${server.url}/ui/queues/many/workers`);
  const seen = new Set(await page.locator("tr[data-row]").evaluateAll((rows) => rows.map((row) => row.dataset.key)));
  assert.equal(seen.size, 100);
  // A click is over when the next page begins to come.
  await page.getByRole("link", { name: "Next page" }).click();
  await page.waitForLoadState();
  for (const key of await page.locator("tr[data-row]").evaluateAll((rows) => rows.map((row) => row.dataset.key))) seen.add(key);
  assert.equal(seen.size, 130);
  assert.equal(await page.getByRole("link", { name: "Next page" }).count(), 0);
  await page.getByRole("link", { name: "First page" }).click();
  await page.waitForLoadState();
  assert.equal(await page.locator("tr[data-row]").count(), 100);
  const answer = await page.goto(`${server.url}/ui/queues/many/workers?cursor=forged`);
  assert.equal(answer.status(), 422);
});

test("what a hostile worker says is text, short, and breaks nothing", async () => {
  await server.api("PUT", "/queues/hostile/tasks/t_hostile00001", { name: HOSTILE.replace("\u001b", "").slice(0, 256), args: {} });
  await server.api("PUT", "/queues/hostile/workers/w_hostile00001", { route: "cpu", status: "busy", task_id: "t_hostile00001", metadata: { host: HOSTILE, slot: 7 } });
  await server.api("POST", "/queues/hostile/workers/w_hostile00001/telemetry", { telemetry: { note: HOSTILE } });
  await server.api("PUT", "/queues/hostile/workers/w_hostile00002", { route: "cpu", status: "busy", task_id: "t_deleted00001", metadata: { host: { not: "text" } } });
  await server.api("POST", "/queues/hostile/workers/w_hostile00002/telemetry", { telemetry: { cpu_percent: -5, memory_bytes: 1e300, gpus: [{ index: 1e300, utilization_percent: 1e12 }, 7, null], host: "x" } });
  for (const viewport of [{ width: 1280, height: 900 }, { width: 375, height: 800 }]) {
    const page = await newPage({ viewport });
    await page.goto(`${server.url}/ui/queues/hostile/workers`);
    const names = await page.locator("tr.host .name").allInnerTexts();
    assert.match(names[0], /^<script>alert\(1\)<\/script>/);
    assert.ok(names[0].length <= 101, names[0]);
    assert.equal(names[1], "Host not reported");
    assert.ok((await page.content()).length < 60_000);
    await assertNoOverflow(page);
    assertCalm(page);
    await closePage(page);
  }
});
