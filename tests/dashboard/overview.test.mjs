// The overview: cards of queues, what needs attention, creating and deleting queues.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";

import { assertCalm, assertNoOverflow, checkLooks, closePage, newPage, screenshot } from "./support/browser.mjs";
import { fillDemo } from "./support/demo.mjs";
import { Server } from "./support/server.mjs";

const BINARY = path.resolve(process.env.TASKQUEUE_BINARY ?? "target/debug/taskqueue");
const HOSTILE = "<img src=x onerror=alert(1)> \u001b[31mred\u202Eesrever " + "W".repeat(10_000);
// A page that is slow to make, on a machine that has much to do, is refreshed less often.
const LIVE = { timeout: 60_000 };
let server;
let ids;

before(async () => {
  server = await Server.start({ queues: ["experiments", "embeddings"] });
  ids = await fillDemo(server);
  for (let n = 0; n < 12; n += 1) {
    await server.api("PUT", `/queues/embeddings/tasks/t_emb${String(n).padStart(9, "0")}`, { args: { n }, routes: ["h100"] });
  }
});
after(async () => {
  await server.stop();
});

const card = (page, name) => page.locator("article.queue").filter({ has: page.getByRole("heading", { name, exact: true }) });

test("the overview looks right wide and narrow, light and dark", async () => {
  await checkLooks(`${server.url}/ui/`, "overview");
});

test("a card says how many tasks have each state and leads to them", async () => {
  for (const javaScript of [true, false]) {
    const page = await newPage({ javaScript });
    await page.goto(`${server.url}/ui/`);
    const shown = card(page, "experiments");
    await shown.getByText("60 tasks").waitFor();
    for (const [state, count] of Object.entries(ids).map(([state, list]) => [state, list.length])) {
      const link = shown.locator(".counts a").filter({ hasText: state });
      assert.equal((await link.innerText()).replace(/\s+/g, " "), `${count} ${state}`);
      assert.equal(await link.getAttribute("href"), `/ui/queues/experiments/tasks?status=${state}`);
    }
    assert.equal(await shown.locator("svg.bar").getAttribute("aria-label"), "17 pending, 4 running, 34 succeeded, 4 failed, 1 cancelled");
    assert.match(await shown.locator("svg.minutes").getAttribute("aria-label"), /last 60 minutes: at most \d+ in one; 4 failed in all/);
    assert.match(await shown.innerText(), /3 busy, 1 idle/);
    assert.match(await shown.innerText(), /oldest pending \d/);
    assert.match(await shown.innerText(), /done in \d+ min/);
    assertCalm(page);
    await closePage(page);
  }
});

test("tasks without a worker and a queue that fails are told on top, the worse first", async () => {
  const page = await newPage();
  await page.goto(`${server.url}/ui/`);
  const alerts = page.locator(".attention .alert");
  assert.match(await alerts.nth(0).innerText(), /embeddings · h100\s+12 tasks wait and no worker serves this route, the oldest for/);
  assert.match(await alerts.nth(1).innerText(), /experiments\s+4 of 38 runs of the last hour failed, the newest 4 with CUDA out of memory/);
  assert.equal(await alerts.count(), 2);
  assert.equal(await alerts.nth(0).getByRole("link").getAttribute("href"), "/ui/queues/embeddings/tasks?status=pending&filter=%22h100%22%20in%20routes");
  await alerts.nth(1).getByRole("link", { name: "Show what failed" }).click();
  await page.getByText("4 of 4 tasks").waitFor();
});

test("what failed is opened also if it succeeded later", async () => {
  const retried = await Server.start({ queues: ["retried"] });
  try {
    for (let n = 0; n < 4; n += 1) {
      const [id, run_id] = [`t_retried0000${n}`, `r_retried0000${n}`];
      await retried.api("PUT", `/queues/retried/tasks/${id}`, { args: { n }, max_attempts: 9 });
      await retried.api("POST", "/queues/retried/tasks/claim", { run_id, route: "default" });
      if (n < 3) await retried.api("POST", `/queues/retried/tasks/${id}/fail`, { run_id, error: { type: "E", message: "once" } });
      else await retried.api("POST", `/queues/retried/tasks/${id}/complete`, { run_id, result: {} });
      if (n < 3) {
        const again = `r_retriedagai${n}`;
        await retried.api("POST", "/queues/retried/tasks/claim", { run_id: again, route: "default" });
        await retried.api("POST", `/queues/retried/tasks/${id}/complete`, { run_id: again, result: {} });
      }
    }
    const page = await newPage();
    await page.goto(`${retried.url}/ui/`);
    await page.locator(".attention .alert", { hasText: "3 of 7 runs of the last hour failed" }).getByRole("link").click();
    await page.getByText("3 of 3 tasks").waitFor();
    assert.deepEqual(await page.locator("tbody .state").evaluateAll((all) => all.map((state) => state.className)), Array(3).fill("state succeeded"));
    await page.goto(`${retried.url}/ui/`);
    await card(page, "retried").getByRole("link", { name: "3 failed in the last hour" }).click();
    await page.getByText("3 of 3 tasks").waitFor();
    assertCalm(page);
  } finally {
    await retried.stop();
  }
});

test("routes without a worker are one line that unfolds and stays so, and what cannot be claimed is no alarm", async () => {
  const calm = await Server.start({ queues: ["calm", "paused"] });
  try {
    const put = (queue, name, definition) => calm.api("PUT", `/queues/${queue}/tasks/t_${name.padEnd(12, "0")}`, { args: {}, ...definition });
    await put("calm", "delayed", { routes: ["later"], not_before: new Date(Date.now() + 3_600_000).toISOString() });
    await put("calm", "blocked", { routes: ["after"], dependencies: ["t_delayed00000"] });
    await put("paused", "paused", { routes: ["held"] });
    await calm.api("PATCH", "/queues/paused/settings", { paused: true });
    const page = await newPage();
    await page.goto(`${calm.url}/ui/`);
    await page.getByText("Nothing needs attention.").waitFor();
    assert.equal(await page.locator(".queue a.error:visible").count(), 0, "no worker is missed");
    assert.doesNotMatch(await page.locator("#overview").innerText(), /keeps up|done in|stands still/);
    await page.goto(`${calm.url}/ui/queues/calm/routes`);
    await page.locator("tbody tr").first().waitFor();
    assert.equal(await page.locator("tr.starving").count(), 0);
    await page.goto(`${calm.url}/ui/`);
    for (let n = 0; n < 6; n += 1) await put("calm", `starves${n}`, { routes: [`route-${n}`] });
    const line = page.locator(".attention details.alert");
    await line.getByText("6 routes have tasks and no worker.").waitFor(LIVE);
    assert.equal(await page.locator(".attention > .alert").count(), 1);
    assert.equal(await line.locator("li").first().isVisible(), false);
    await line.locator("summary").click();
    assert.match(await line.locator("li").first().innerText(), /calm · route-0\s+1 task waits and no worker serves this route/);
    assert.equal(await line.locator("li").count(), 6);
    await put("calm", "starves6", { routes: ["route-6"] });
    await line.getByText("7 routes have tasks and no worker.").waitFor(LIVE);
    assert.equal(await line.locator("li").first().isVisible(), true, "it stays unfolded");
    assertCalm(page);
    await closePage(page);
    await checkLooks(`${calm.url}/ui/`, "overview-grouped", (shown) => shown.locator(".attention summary").click());
  } finally {
    await calm.stop();
  }
});

test("a card does not say that a queue keeps up or is done soon when nobody is there for what waits", async () => {
  const left = await Server.start({ queues: ["left"] });
  try {
    const worker = "/queues/left/workers/w_left00000001";
    for (let n = 0; n < 6; n += 1) await left.api("PUT", `/queues/left/tasks/t_left0000000${n}`, { args: { n } });
    for (let n = 0; n < 4; n += 1) {
      const run_id = `r_left0000000${n}`;
      const { task } = await left.api("POST", "/queues/left/tasks/claim", { run_id, route: "default" });
      await left.api("POST", `/queues/left/tasks/${task.id}/complete`, { run_id, result: {} });
    }
    await left.api("PUT", worker, { route: "default", status: "idle", task_id: null, metadata: {} });
    const page = await newPage();
    await page.goto(`${left.url}/ui/`);
    await card(page, "left").getByText(/keeps up|done in/).waitFor();
    await left.api("DELETE", worker);
    await card(page, "left").getByText("no worker").waitFor(LIVE);
    assert.doesNotMatch(await card(page, "left").innerText(), /keeps up|done in/);
  } finally {
    await left.stop();
  }
});

test("a card follows what happens without a reload, and nothing moves", async () => {
  const page = await newPage();
  await page.goto(`${server.url}/ui/`);
  const place = async () => await card(page, "experiments").locator("svg.bar").boundingBox();
  const seenAt = await place();
  await page.evaluate(() => { window.isSamePage = true; });
  await server.api("PUT", "/queues/embeddings/workers/w_emb000000001", { route: "h100", status: "idle", task_id: null, metadata: {} });
  await card(page, "embeddings").getByText("0 busy, 1 idle").waitFor(LIVE);
  assert.equal(await page.locator(".attention .alert").count(), 1, "a worker serves the route now");
  await server.api("DELETE", "/queues/embeddings/workers/w_emb000000001");
  await card(page, "embeddings").getByText("no worker").waitFor(LIVE);
  assert.deepEqual(await place(), seenAt);
  assert.equal(await page.evaluate(() => window.isSamePage), true);
  assertCalm(page);
});

test("cards are walked by keyboard, and Enter opens the tasks", async () => {
  const page = await newPage();
  await page.goto(`${server.url}/ui/`);
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.locator("article.at-cursor").filter({ hasText: "experiments" }).waitFor();
  await page.keyboard.press("Enter");
  await page.waitForURL("**/ui/queues/experiments/tasks");
});

test("a queue is created and deleted, with and without JavaScript", async () => {
  for (const javaScript of [true, false]) {
    const page = await newPage({ javaScript });
    await page.goto(`${server.url}/ui/`);
    await page.getByText("New queue").click();
    await page.getByLabel("Name").fill("short-lived");
    await page.getByRole("button", { name: "Create queue" }).click();
    await page.getByText("Queue short-lived created.").waitFor();
    await server.api("PUT", "/queues/short-lived/tasks/t_short0000001", { args: {} });
    await page.goto(`${server.url}/ui/`);
    const shown = card(page, "short-lived");
    await shown.getByLabel("More of short-lived").click();
    await shown.getByRole("link", { name: "Delete queue" }).click();
    await page.getByRole("heading", { name: "Delete queue short-lived" }).waitFor();
    await page.getByLabel("Write the name").fill("something else");
    await page.getByRole("button", { name: "Delete the queue and its 1 task" }).click();
    await page.getByText("This is not the name of the queue").waitFor();
    assert.equal((await server.api("GET", "/queues")).length, 3, "nothing was deleted");
    await page.goto(`${server.url}/ui/queues/short-lived/delete`);
    await page.getByLabel("Write the name").fill("short-lived");
    await page.getByRole("button", { name: "Delete the queue and its 1 task" }).click();
    await page.getByText("Queue short-lived deleted.").waitFor();
    assert.deepEqual((await server.api("GET", "/queues")).map(({ name }) => name), ["embeddings", "experiments"]);
    await closePage(page);
  }
});

test("a queue with running tasks is not deleted, and the page says why", async () => {
  const page = await newPage();
  await page.goto(`${server.url}/ui/queues/experiments/delete`);
  await page.getByText("4 tasks of it run").waitFor();
  assert.equal(await page.getByRole("button", { name: /Delete/ }).count(), 0);
});

test("a name that no queue can have is refused with what to do", async () => {
  const page = await newPage({ javaScript: false });
  await page.goto(`${server.url}/ui/`);
  await page.getByText("New queue").click();
  await page.getByLabel("Name").evaluate((input) => { input.removeAttribute("pattern"); });
  await page.getByLabel("Name").fill("-no good-");
  await page.getByRole("button", { name: "Create queue" }).click();
  await page.getByText("This cannot be the name of a queue").waitFor();
});

test("the delete page looks right wide and narrow, light and dark", async () => {
  await checkLooks(`${server.url}/ui/queues/embeddings/delete`, "delete-queue");
});

test("an error message of a hostile task is shown short and does nothing", async () => {
  const hostile = await Server.start({ queues: ["hostile"] });
  try {
    for (let n = 0; n < 3; n += 1) {
      const [id, run_id] = [`t_hostile0000${n}`, `r_hostile0000${n}`];
      await hostile.api("PUT", `/queues/hostile/tasks/${id}`, { name: HOSTILE.replace("\u001b", "").slice(0, 256), args: {}, max_attempts: 1 });
      await hostile.api("POST", "/queues/hostile/tasks/claim", { run_id, route: "default" });
      await hostile.api("POST", `/queues/hostile/tasks/${id}/fail`, { run_id, retry: false, error: { type: "E", message: HOSTILE } });
    }
    for (const viewport of [{ width: 1280, height: 900 }, { width: 375, height: 800 }]) {
      const page = await newPage({ viewport });
      await page.goto(`${hostile.url}/ui/`);
      const quote = await page.locator(".attention code").innerText();
      assert.ok(quote.startsWith("<img src=x onerror=alert(1)> [31mred") || quote.startsWith("<img src=x onerror=alert(1)>  [31mred"), quote);
      assert.ok(quote.length <= 120, quote);
      await assertNoOverflow(page);
      assertCalm(page);
      await closePage(page);
    }
  } finally {
    await hostile.stop();
  }
});

test("tasks with one attempt left are told", async () => {
  const tried = await Server.start({ queues: ["tried"] });
  try {
    await tried.api("PUT", "/queues/tried/tasks/t_tried0000001", { args: {}, max_attempts: 2 });
    await tried.api("POST", "/queues/tried/tasks/claim", { run_id: "r_tried0000001", route: "default" });
    await tried.api("POST", "/queues/tried/tasks/t_tried0000001/fail", { run_id: "r_tried0000001", retry: true, error: { type: "E", message: "once" } });
    const page = await newPage();
    await page.goto(`${tried.url}/ui/`);
    const alert = page.locator(".alert").filter({ hasText: "one attempt left" });
    assert.match(await alert.innerText(), /1 of the newest 1 tasks to do has one attempt left/);
    await page.goto(tried.url + await alert.getByRole("link").getAttribute("href"));
    assertCalm(page);
  } finally {
    await tried.stop();
  }
});

test("a database that was taken away is told on top and on the system page", async () => {
  const robbed = await Server.start({ queues: ["robbed"] });
  try {
    renameSync(path.join(robbed.folder, "q.db"), path.join(robbed.folder, "elsewhere.db"));
    const page = await newPage();
    await page.goto(`${robbed.url}/ui/`);
    await page.locator(".attention .alert").filter({ hasText: "Database" }).getByText("It does not work").waitFor();
    await page.goto(`${robbed.url}/ui/system`);
    await page.locator(".attention .alert").getByText("It does not work").waitFor();
  } finally {
    await robbed.stop();
  }
});

test("without a queue the overview teaches how to begin", async () => {
  const fresh = await Server.start({ queues: [] });
  try {
    await checkLooks(`${fresh.url}/ui/`, "overview-empty");
    const page = await newPage({ javaScript: false });
    await page.goto(`${fresh.url}/ui/`);
    for (const command of await page.locator("pre.command").allInnerTexts()) {
      // Each command is one that the program has: its own help knows it.
      const words = command.split(" ").slice(1, command.startsWith("taskqueue loop") ? 2 : 3);
      execFileSync(BINARY, [...words, "--help"]);
    }
    await page.getByRole("button", { name: "Create queue" }).click();
    await page.getByText("Queue experiments created.").waitFor();
    assert.deepEqual(await fresh.api("GET", "/queues"), [{ name: "experiments" }]);
  } finally {
    await fresh.stop();
  }
});

test("with many queues the rest is a table, and a queue is found by its name", async () => {
  const names = Array.from({ length: 60 }, (_, n) => `queue-${String(n).padStart(3, "0")}`);
  const many = await Server.start({ queues: names });
  try {
    const page = await newPage();
    await page.goto(`${many.url}/ui/`);
    assert.equal(await page.locator("article.queue").count(), 50);
    assert.equal(await page.locator("#overview tbody tr").count(), 10);
    await page.getByText("The first 50 queues by name show what happened").waitFor();
    await screenshot(page, "overview-many");
    await page.keyboard.press("/");
    await page.keyboard.type("-059");
    await page.keyboard.press("Enter");
    await page.waitForURL("**/ui/?find=-059");
    assert.deepEqual(await page.locator("article.queue h2").allInnerTexts(), ["queue-059"]);
    await page.goto(`${many.url}/ui/?find=nothing`);
    await page.getByText("No queue has “nothing” in its name.").waitFor();
    assertCalm(page);
  } finally {
    await many.stop();
  }
});

test("who may see one queue sees one card, no other name, and no button", async () => {
  const folder = mkdtempSync(path.join(tmpdir(), "taskqueue-tokens-"));
  const file = path.join(folder, "tokens.toml");
  const made = execFileSync(BINARY, ["token", "create", "looks", "--scope", "read", "--queue", "open*", "--append", file, "--output", "json"]);
  const closed = await Server.start({ token: "secret-of-all", args: ["--tokens", file], queues: ["open-one", "secret-two"] });
  try {
    await closed.api("PUT", "/queues/secret-two/tasks/t_secret000001", { args: {} });
    const page = await newPage();
    await page.goto(`${closed.url}/ui/`);
    await page.getByLabel("Token").fill(JSON.parse(made).token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await card(page, "open-one").waitFor();
    assert.doesNotMatch(await page.content(), /secret-two/);
    assert.equal(await page.getByText(/New queue|Submit tasks|Delete queue/).count(), 0);
    const answer = await page.goto(`${closed.url}/ui/queues/open-one/delete`);
    assert.equal(answer.status(), 403);
    await page.goto(`${closed.url}/ui/system`);
    await page.getByRole("heading", { name: "Version" }).waitFor();
    assert.equal(await page.getByRole("heading", { name: "Database" }).count(), 0);
    assert.doesNotMatch(await page.content(), /secret-two/);
  } finally {
    await closed.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});

test("a form of somebody else creates nothing", async () => {
  const answer = await fetch(`${server.url}/ui/queues`, { method: "POST", redirect: "manual", headers: { "content-type": "application/x-www-form-urlencoded" }, body: "name=forged&form_token=guess" });
  assert.equal(answer.status, 403);
  assert.equal((await server.api("GET", "/queues")).some(({ name }) => name === "forged"), false);
});
