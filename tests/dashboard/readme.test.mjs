// The two pictures of README.md and of the book: made here, so that they show what is there. UPDATE_PICTURES=1 scripts/dashboard-test
// tests/dashboard/readme.test.mjs writes them into docs/images; without it they are build output like the others.

import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, statSync } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";

import { assertCalm, closePage, newPage, screenshotPath } from "./support/browser.mjs";
import { fillDemo } from "./support/demo.mjs";
import { Server } from "./support/server.mjs";
import { fillSweep, trainingRun } from "./support/sweep.mjs";

const WIDTH = 1000;
const MOST_BYTES = 256 * 1024;

let server, sweeps;
before(async () => {
  sweeps = await Server.start({ queues: ["sweeps"] });
  await fillSweep(sweeps, 45, trainingRun, { queue: "sweeps" });
  server = await Server.start({ queues: ["embeddings", "experiments", "inference"] });
  await fillDemo(server, { count: 200 });
  await fillDemo(server, { queue: "inference", count: 40 });
  for (let n = 0; n < 12; n += 1) {
    const id = `t_embed${String(n).padStart(7, "0")}`;
    await server.api("PUT", `/queues/embeddings/tasks/${id}`, { args: { shard: n }, routes: ["l4"] });
  }
});
after(async () => {
  await server.stop();
  await sweeps.stop();
});

test("the pictures of README.md are made, and are small", async () => {
  const pictures = [["dashboard-overview", `${server.url}/ui/`, 520], ["dashboard-compare", `${sweeps.url}/ui/queues/sweeps/compare`, 900]];
  for (const [name, address, height] of pictures) {
    const page = await newPage({ viewport: { width: WIDTH, height } });
    await page.goto(address);
    await page.locator("svg").first().waitFor();
    assertCalm(page);
    await page.screenshot({ path: screenshotPath(name) });
    const bytes = statSync(screenshotPath(name)).size;
    assert.ok(bytes > 10_000 && bytes < MOST_BYTES, `${name}: ${bytes} bytes`);
    if (process.env.UPDATE_PICTURES) {
      mkdirSync("docs/images", { recursive: true });
      copyFileSync(screenshotPath(name), path.join("docs/images", `${name}.png`));
    }
    await closePage(page);
  }
});
