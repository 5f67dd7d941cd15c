// The settings of a queue: pause, limits and retention, on their page and on the card of the overview.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";

import { assertAccessible, assertCalm, checkLooks, closePage, newPage } from "./support/browser.mjs";
import { BINARY, Server } from "./support/server.mjs";

const LIVE = { timeout: 90_000 };
const TOKEN = "the-token-of-all";
const DEFAULT = { paused: false, max_running: null, route_limits: {}, retention: { succeeded_seconds: null, failed_seconds: null, cancelled_seconds: null } };
let folder;
let server;
let looker;
let made = 0;

before(async () => {
  folder = mkdtempSync(path.join(tmpdir(), "taskqueue-settings-"));
  const file = path.join(folder, "tokens.toml");
  looker = JSON.parse(execFileSync(BINARY, ["token", "create", "looks", "--scope", "read", "--scope", "submit", "--append", file, "--output", "json"])).token;
  server = await Server.start({ token: TOKEN, args: ["--tokens", file], queues: ["experiments", "other", "retention", "wrong", "looks"] });
});
after(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function signedIn(address, options = {}, token = TOKEN) {
  const page = await newPage(options);
  await page.goto(`${server.url}/ui/`);
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.waitForURL(`${server.url}/ui/`);
  await page.goto(`${server.url}${address}`);
  return page;
}

async function close(page) {
  assertCalm(page);
  await closePage(page);
}

function settings(queue) {
  return server.api("GET", `/queues/${queue}/settings`);
}

async function create(queue, definition = {}) {
  made += 1;
  const id = `t_set${String(made).padStart(9, "0")}`;
  await server.api("PUT", `/queues/${queue}/tasks/${id}`, definition);
  return id;
}

function claim(queue, route = "default") {
  made += 1;
  return server.api("POST", `/queues/${queue}/tasks/claim`, { run_id: `r_set${String(made).padStart(9, "0")}`, route });
}

const card = (page, name) => page.locator("article.queue").filter({ has: page.getByRole("heading", { name, exact: true }) });

test("a queue is paused and resumed on its card and on its page, with and without JavaScript", async () => {
  await create("experiments");
  for (const javaScript of [true, false]) {
    const page = await signedIn("/ui/", { javaScript });
    await card(page, "experiments").getByRole("button", { name: "Pause experiments" }).click();
    await page.locator(".alert.done", { hasText: "Queue experiments is paused" }).waitFor();
    assert.equal(await card(page, "experiments").locator(".state.paused").textContent(), "paused");
    assert.equal(await card(page, "other").locator(".state.paused").count(), 0);
    assert.equal((await settings("experiments")).paused, true);
    assert.equal(await claim("experiments"), null);
    await page.goto(`${server.url}/ui/queues/experiments/settings`);
    await page.getByText("Nothing is claimed.").waitFor();
    await page.getByRole("button", { name: "Resume" }).click();
    await page.locator(".alert.done", { hasText: "is not paused any more" }).waitFor();
    assert.equal(new URL(page.url()).pathname, "/ui/queues/experiments/settings");
    await page.getByText("Workers claim tasks.").waitFor();
    assert.equal((await settings("experiments")).paused, false);
    await close(page);
  }
});

test("a pause by somebody else appears by itself, and the keyboard leads to the page", async () => {
  const page = await signedIn("/ui/");
  await card(page, "other").getByRole("button", { name: "Pause other" }).waitFor();
  await server.api("PATCH", "/queues/other/settings", { paused: true });
  await card(page, "other").getByRole("button", { name: "Resume other" }).waitFor(LIVE);
  await server.api("PATCH", "/queues/other/settings", { paused: false });
  await page.locator("body").press("g");
  await page.locator("body").press("t");
  await page.getByRole("heading", { name: /^Settings of/ }).waitFor();
  await close(page);
});

for (const javaScript of [true, false]) {
  test(`${javaScript ? "with" : "without"} JavaScript limits are set, shown with what runs, and removed`, async () => {
    await server.api("PATCH", "/queues/other/settings", { paused: false, max_running: null, route_limits: null });
    await create("other", { routes: ["gpu", "cpu"] });
    await claim("other", "gpu");
    const page = await signedIn("/ui/queues/other/settings", { javaScript });
    await page.getByLabel("Running at most", { exact: true }).fill("8");
    await page.getByLabel("Route 1").fill("gpu");
    await page.getByLabel("Limit 1").fill("2");
    await page.getByLabel("Route 2").fill("cpu");
    await page.getByLabel("Limit 2").fill("0");
    await page.getByLabel("Limit 2").press("Enter");
    await page.locator(".alert.done", { hasText: "The settings are saved." }).waitFor();
    assert.deepEqual(await settings("other"), { ...DEFAULT, max_running: 8, route_limits: { cpu: 0, gpu: 2 } });
    const running = (await server.api("GET", "/queues/other/tasks/count?status=running")).count;
    assert.equal(await page.getByLabel("Route 2").inputValue(), "gpu");
    // A task counts for the route that it was claimed for.
    assert.deepEqual(await page.locator(".limits span.small").allTextContents(), ["0/0", `${running}/2`, "", ""]);
    await page.goto(`${server.url}/ui/`);
    assert.match(await card(page, "other").locator(".claims").innerText(), new RegExp(`${running}/8 running, cpu at most 0, gpu at most 2`));
    await page.goto(`${server.url}/ui/queues/other/settings`);
    for (const label of ["Running at most", "Route 1", "Limit 1"]) await page.getByLabel(label, { exact: true }).fill("");
    await page.getByRole("button", { name: "Save" }).click();
    await page.locator(".alert.done").waitFor();
    assert.deepEqual(await settings("other"), { ...DEFAULT, route_limits: { gpu: 2 } });
    await close(page);
  });

  test(`${javaScript ? "with" : "without"} JavaScript what is wrong is said at its field, and nothing is saved`, async () => {
    const page = await signedIn("/ui/queues/wrong/settings", { javaScript });
    await page.getByLabel("Running at most", { exact: true }).fill("many");
    await page.getByLabel("Route 1").fill("a/b");
    await page.getByLabel("Limit 1").fill("3");
    await page.getByLabel("Failed tasks are kept for").fill("a while");
    await page.getByRole("button", { name: "Save" }).click();
    assert.match(await page.locator("#max_running-error").textContent(), /at least 0/);
    assert.match(await page.locator("#limit-1-error").textContent(), /Name the route/);
    assert.match(await page.locator("#failed-error").textContent(), /7 days/);
    assert.equal(await page.getByLabel("Failed tasks are kept for").inputValue(), "a while");
    if (javaScript) await assertAccessible(page);
    assert.deepEqual(await settings("wrong"), DEFAULT);
    assert.ok(page.problems.every((problem) => problem.includes("422")), page.problems.join());
  });
}

test("what a shorter retention deletes is counted and agreed to before it is saved", async () => {
  for (let n = 0; n < 3; n += 1) {
    const id = await create("retention");
    const { task } = await claim("retention");
    assert.equal(task.id, id);
    await server.api("POST", `/queues/retention/tasks/${id}/complete`, { run_id: `r_set${String(made).padStart(9, "0")}`, result: {} });
    if (n === 0) await server.api("PATCH", `/queues/retention/tasks/${id}`, { archived: true });
  }
  const cancelled = await create("retention");
  await server.api("POST", `/queues/retention/tasks/${cancelled}/cancel`);
  const page = await signedIn("/ui/queues/retention/settings", { javaScript: false });
  await page.getByLabel("Succeeded tasks are kept for").fill("0");
  await page.getByLabel("Cancelled tasks are kept for").fill("7 days");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("heading", { name: "Delete tasks of retention?" }).waitFor();
  const told = await page.locator("main li").allTextContents();
  assert.deepEqual(told.map((text) => text.trim()), ["succeeded, kept for 0 s: 3 tasks ended longer ago.", "cancelled, kept for 7 days: 0 tasks ended longer ago."]);
  assert.deepEqual(await settings("retention"), DEFAULT);
  await page.getByRole("link", { name: "Keep everything as it is" }).click();
  assert.equal(await page.getByLabel("Succeeded tasks are kept for").inputValue(), "");
  await page.getByLabel("Succeeded tasks are kept for").fill("0");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("button", { name: "Save and delete" }).click();
  await page.locator(".alert.done", { hasText: "The settings are saved." }).waitFor();
  assert.deepEqual((await settings("retention")).retention, { succeeded_seconds: 0, failed_seconds: null, cancelled_seconds: null });
  assert.equal(await page.getByLabel("Succeeded tasks are kept for").inputValue(), "0 s");
  // A longer one deletes nothing that was kept, and is saved at once.
  await page.getByLabel("Succeeded tasks are kept for").fill("");
  await page.getByRole("button", { name: "Save" }).click();
  await page.locator(".alert.done", { hasText: "The settings are saved." }).waitFor();
  await close(page);
});

test("settings that somebody else has changed meanwhile are not overwritten unseen", async () => {
  const page = await signedIn("/ui/queues/wrong/settings");
  await page.getByLabel("Running at most", { exact: true }).fill("5");
  await server.api("PATCH", "/queues/wrong/settings", { max_running: 7 });
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("nothing was saved").waitFor();
  assert.equal((await settings("wrong")).max_running, 7);
  assert.equal(await page.getByLabel("Running at most", { exact: true }).inputValue(), "5");
  await page.getByRole("button", { name: "Save" }).click();
  await page.locator(".alert.done").waitFor();
  assert.equal((await settings("wrong")).max_running, 5);
  assert.ok(page.problems.every((problem) => problem.includes("409")), page.problems.join());
});

test("who may not change settings sees them, and no form; and none is taken from elsewhere", async () => {
  await server.api("PATCH", "/queues/looks/settings", { paused: true, max_running: 3, route_limits: { gpu: 1 }, retention: { failed_seconds: 86400 } });
  const page = await signedIn("/ui/queues/looks/settings", {}, looker);
  const text = (await page.locator("#values").innerText()).replace(/\s+/g, " ");
  assert.match(text, /Running at most 3 Route gpu 1 at most, 0\/1 running Succeeded kept for ever Failed kept for 1 day Cancelled kept for ever/);
  await page.getByText("Nothing is claimed.").waitFor();
  assert.equal(await page.locator("main form").count(), 0);
  const token = await page.locator("#theme [name=form_token]").getAttribute("value");
  const refused = await page.evaluate(async ([form_token, queue]) => {
    const post = (address, fields) => fetch(address, { method: "POST", body: new URLSearchParams({ form_token, ...fields }) });
    return [(await post(`/ui/queues/${queue}/pause`, { paused: "no" })).status, (await post(`/ui/queues/${queue}/settings`, { max_running: "" })).status];
  }, [token, "looks"]);
  assert.deepEqual(refused, [403, 403]);
  await page.goto(`${server.url}/ui/`);
  assert.equal(await card(page, "looks").locator(".state.paused").textContent(), "paused");
  assert.equal(await card(page, "looks").getByRole("button", { name: /Resume|Pause/ }).count(), 0);
  await closePage(page);
  const admin = await signedIn("/ui/");
  const forged = await admin.evaluate(async () => (await fetch("/ui/queues/looks/pause", { method: "POST", body: new URLSearchParams({ form_token: "guessed", paused: "no" }) })).status);
  assert.equal(forged, 403);
  await closePage(admin);
  assert.equal((await settings("looks")).paused, true);
});

test("settings and cards with limits look as they should", async () => {
  const open = await Server.start({ queues: ["experiments", "others"] });
  try {
    await open.api("PATCH", "/queues/experiments/settings", { paused: true, max_running: 8, route_limits: { a100: 4, "a-route-with-a-very-long-name-that-goes-on-and-on": 2 }, retention: { succeeded_seconds: 604800 } });
    await checkLooks(`${open.url}/ui/queues/experiments/settings`, "settings");
    await checkLooks(`${open.url}/ui/`, "overview-paused");
  } finally {
    await open.stop();
  }
});
