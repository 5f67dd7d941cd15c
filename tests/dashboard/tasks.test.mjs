// The tasks of a queue: what the list shows, finding tasks, acting on many of them, files and commands of a view.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import path from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";

import { NARROW, WIDE, assertAccessible, assertCalm, assertNoOverflow, checkLooks, closePage, newPage, screenshot } from "./support/browser.mjs";
import { fillDemo } from "./support/demo.mjs";
import { Server } from "./support/server.mjs";

const run = promisify(execFile);
const BINARY = path.resolve(process.env.TASKQUEUE_BINARY ?? "target/debug/taskqueue");

let server;
let demo;
before(async () => {
  server = await Server.start({ queues: ["experiments", "empty", "many", "acts", "live", "number", "change", "patch", "hostile", "still", "keys", "none", "looks"] });
  demo = await fillDemo(server);
  await fillDemo(server, { queue: "looks", count: 30 });
});
after(async () => {
  await server.stop();
});

function list(queue, parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).flatMap(([name, values]) => [values].flat().map((value) => [name, value]))).toString();
  return `${server.url}/ui/queues/${queue}/tasks${query ? `?${query}` : ""}`;
}

async function open(address, options) {
  const page = await newPage(options);
  await page.goto(address);
  return page;
}

async function close(page) {
  assertCalm(page);
  await closePage(page);
}

// Many small tasks at once: `args` makes those of each.
async function create(queue, count, make) {
  for (let from = 0; from < count; from += 1000) {
    const tasks = Array.from({ length: Math.min(1000, count - from) }, (_, at) => ({ id: id(queue, from + at), ...make(from + at) }));
    await server.api("POST", `/queues/${queue}/tasks/batch/create`, { tasks });
  }
}

function id(queue, n) {
  return `t_${queue.slice(0, 4).padEnd(4, "x")}${String(n).padStart(8, "0")}`;
}

async function statuses(queue) {
  const { items } = await server.api("GET", `/queues/${queue}/tasks?limit=1000`);
  const counts = {};
  for (const { status } of items) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

const rows = (page) => page.locator("[data-row]");
const tabs = async (page) => (await page.locator(".tabs a").allTextContents()).map((text) => text.trim());

test("the list looks right in every shape and colour", async () => {
  // Rows of each state, more of them than are seen at once, and a next page.
  const looks = list("looks", { limit: 20 });
  await checkLooks(looks, "tasks", (page) => rows(page).first().waitFor());
  await checkLooks(list("experiments", { filter: "args.lr <= 0.1 and routes" }), "tasks-wrong-filter");
  await checkLooks(looks, "tasks-selected", async (page) => {
    await rows(page).nth(1).locator("input").check();
    await page.locator(".actions").waitFor();
  }, ".actions, thead, tr:has(:checked)");
  await checkLooks(`${list("experiments")}/confirm?action=delete&all=1&filter=args.lr%20%3C%200.1`, "tasks-confirm");
  await checkLooks(list("empty"), "tasks-empty");
});

test("the counts of the tabs follow the filter and the name, and a tab shows its state", async () => {
  const page = await open(list("experiments"));
  const count = async (selection) => (await server.api("GET", `/queues/experiments/tasks/count?${new URLSearchParams(selection)}`)).count;
  assert.deepEqual(await tabs(page), ["All60", "Pending17", "Running4", `Succeeded${demo.succeeded.length}`, `Failed${demo.failed.length}`, "Cancelled1"]);
  await page.locator("#filter").fill("args.seed < 10");
  await page.getByPlaceholder("Name").fill("vit1");
  await page.getByRole("button", { name: "Search" }).click();
  await page.waitForURL(/name_fuzzy=vit1/);
  const search = { filter: "args.seed < 10", name_fuzzy: "vit1" };
  assert.equal(await count(search), 1);
  assert.equal((await tabs(page))[0], "All1");
  await page.getByRole("link", { name: "Clear" }).click();
  await page.waitForURL((url) => !url.search.includes("filter"));
  await page.locator(".tabs a", { hasText: "Failed" }).click();
  await page.locator(".tabs a[aria-current]", { hasText: "Failed" }).waitFor();
  assert.equal(await rows(page).count(), demo.failed.length);
  assert.deepEqual(new Set(await page.locator("[data-row] .state").allTextContents()), new Set(["✕failed"]));
  await close(page);
});

test("a wrong filter is marked under its column, with and without JavaScript", async () => {
  const filter = "args.lr === 0.1";
  for (const javaScript of [true, false]) {
    const page = await open(list("experiments", { filter }), { javaScript });
    const mark = await page.locator("#filter-error pre").textContent();
    assert.equal(mark.indexOf("^"), filter.indexOf("==="));
    assert.match(await page.locator("#filter-error p").textContent(), /===/);
    assert.equal(await rows(page).count(), 0);
    await close(page);
  }
  // As it is typed; and the mark goes with the mistake.
  const page = await open(list("experiments"));
  await page.locator("#filter").fill("status == 5");
  await page.locator("#filter[aria-invalid=true]").waitFor();
  const mark = await page.locator("#filter-error pre").textContent();
  assert.equal(mark.indexOf("^"), "status == ".length);
  // The mark stands under the character that it means.
  const [field, sign] = await page.evaluate(() => {
    const style = getComputedStyle(document.querySelector("#filter"));
    const pre = document.querySelector("#filter-error pre");
    return [`${style.fontFamily} ${style.fontSize}`, `${getComputedStyle(pre).fontFamily} ${getComputedStyle(pre).fontSize}`];
  });
  assert.equal(field, sign);
  await page.locator("#filter").fill("status == 'failed'");
  await page.locator("#filter:not([aria-invalid])").waitFor();
  assert.equal(await page.locator("#filter-error").textContent(), "");
  await close(page);
});

test("fields are completed and earlier filters come back by the keyboard alone", async () => {
  const page = await open(list("looks"), { own: true });
  await Promise.all([page.waitForResponse((answer) => answer.url().endsWith("/fields")), page.keyboard.press("/")]);
  await page.keyboard.type("args.lr < 0.05 and lay");
  await page.getByRole("option", { name: "args.model.layers" }).waitFor();
  assert.equal(await page.locator("#filter").getAttribute("aria-expanded"), "true");
  await page.keyboard.press("ArrowDown");
  assert.equal(await page.locator("#filter").getAttribute("aria-activedescendant"), "filter-option-0");
  await assertAccessible(page);
  await page.keyboard.press("Enter");
  await page.keyboard.type(" == 12");
  assert.equal(await page.locator("#filter").inputValue(), "args.lr < 0.05 and args.model.layers == 12");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Enter");
  await page.waitForURL(/filter=args/);
  assert.ok(await rows(page).count() > 0);
  // Nothing is completed inside a string.
  await page.locator("#filter").fill("");
  await page.locator("#filter").pressSequentially("name == 'args");
  assert.ok(!await page.locator("#filter-options").isVisible());
  // An empty field offers what was used.
  await page.locator("#filter").fill("");
  await page.keyboard.press("ArrowDown");
  await page.getByRole("option", { name: "args.lr < 0.05 and args.model.layers == 12" }).waitFor();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  assert.equal(await page.locator("#filter").inputValue(), "args.lr < 0.05 and args.model.layers == 12");
  await close(page);
});

test("columns are chosen from what occurs, and the address keeps them", async () => {
  const page = await open(list("experiments", { status: "succeeded" }), { javaScript: false });
  const heads = async () => (await page.locator("thead th").allTextContents()).map((text) => text.trim()).filter(Boolean);
  assert.deepEqual(await heads(), ["State", "Task", "args.lr", "args.model.layers", "args.seed", "result.accuracy", "result.loss", "Attempt", "Ran on", "Age"]);
  await page.locator("summary", { hasText: "Columns" }).click();
  for (const path of ["args.model.layers", "args.seed", "result.accuracy", "attempt", "last_run.worker", "created_at"]) {
    await page.getByRole("checkbox", { name: path, exact: false }).first().uncheck();
  }
  await page.getByRole("checkbox", { name: /metadata\.batch/ }).check();
  await page.getByLabel("Another column").fill("last_run.worker.host");
  await page.getByRole("button", { name: "Show" }).click();
  assert.deepEqual(await heads(), ["State", "Task", "args.lr", "result.loss", "metadata.batch", "last_run.worker.host"]);
  const { items } = await server.api("GET", "/queues/experiments/tasks?status=succeeded&limit=1");
  const cells = await rows(page).first().locator("td").allTextContents();
  assert.deepEqual(cells.slice(3), [String(items[0].args.lr), String(items[0].result.loss), "sweep7", items[0].last_run.worker.host]);
  const other = await open(page.url());
  assert.equal(await other.locator("thead th").count(), await page.locator("thead th").count());
  await other.goto(list("experiments", { column: "lr" }));
  assert.match(await other.locator(".alert.warn").textContent(), /No task has a column lr/);
  await close(other);
  await close(page);
});

test("numbers are shown exactly as they are stored", async () => {
  await server.api("PUT", "/queues/hostile/tasks/t_exactnumber0", { args: {} });
  const body = '{"args":{"big":9007199254740993,"small":1e-7,"long":0.30000000000000004,"neg":-9223372036854775808}}';
  const answer = await fetch(`${server.url}/api/v2/queues/hostile/tasks/t_exactnumber0`, { method: "PATCH", headers: { "content-type": "application/json" }, body });
  assert.equal(answer.status, 200, await answer.text());
  const page = await open(list("hostile", { column: "args.big,args.small,args.long,args.neg" }));
  const cells = await page.locator("[data-key=t_exactnumber0] td").allTextContents();
  assert.deepEqual(cells.slice(3), ["9007199254740993", "1e-7", "0.30000000000000004", "-9223372036854775808"]);
  await close(page);
});

test("every order has its heads and links, and pages by cursor show each task once", async () => {
  const page = await open(list("experiments", { limit: 25 }), { javaScript: false });
  await page.getByRole("columnheader", { name: "Task" }).getByRole("link").click();
  assert.equal(await page.getByRole("columnheader", { name: "Task" }).getAttribute("aria-sort"), "ascending");
  const seen = [];
  for (;;) {
    seen.push(...await rows(page).evaluateAll((all) => all.map((row) => row.dataset.key)));
    const next = page.getByRole("link", { name: "Next page" });
    if (await next.count() === 0) break;
    await next.click();
    await page.waitForLoadState();
  }
  const { items } = await server.api("GET", "/queues/experiments/tasks?order_by=name&descending=false&limit=100");
  assert.deepEqual(seen, items.map((task) => task.id));
  await page.getByRole("link", { name: "First page" }).click();
  await page.waitForLoadState();
  assert.equal(await rows(page).count(), 25);
  await page.locator("summary", { hasText: "By name" }).click();
  await page.getByRole("link", { name: "priority, descending" }).click();
  assert.match(page.url(), /order_by=priority/);
  // A cursor of another list is refused with a page that says what to do.
  const answer = await fetch(list("experiments", { cursor: "nonsense" }));
  assert.equal(answer.status, 422);
  assert.match(await answer.text(), /Go back to the first page/);
  await close(page);
});

test("rows are walked, selected and opened by the keyboard, and shift selects a range", async () => {
  const page = await open(list("experiments"));
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await page.getByText("1 selected").waitFor();
  await page.keyboard.press("k");
  await page.keyboard.press("x");
  await page.getByText("2 selected").waitFor();
  await rows(page).nth(5).locator("input").click();
  await rows(page).nth(9).locator("input").click({ modifiers: ["Shift"] });
  await page.getByText("7 selected").waitFor();
  await page.getByLabel("Select all rows of this page").click();
  await page.getByText("50 selected").waitFor();
  const first = await rows(page).nth(0).getAttribute("data-key");
  await page.keyboard.press("Enter");
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("Enter");
  await page.waitForURL(new RegExp(`/tasks/${first}`));
  await close(page);
});

test("a selection survives the refresh of the page, and the counts follow", async () => {
  await create("live", 3, (n) => ({ name: `live-${n}`, args: { n } }));
  const page = await open(list("live"));
  await page.locator(`[data-key=${id("live", 1)}] input`).check();
  const all = page.getByLabel("Select all rows of this page");
  await all.focus();
  await server.api("POST", `/queues/live/tasks/${id("live", 0)}/cancel`);
  // The page asks again as soon as it is looked at, however long its usual pause is.
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  await page.locator(`[data-key=${id("live", 0)}] .state.cancelled`).waitFor();
  await page.locator(".tabs a", { hasText: "Cancelled" }).locator("b", { hasText: "1" }).waitFor();
  assert.ok(await page.locator(`[data-key=${id("live", 1)}] input`).isChecked());
  await page.getByText("1 selected").waitFor();
  assert.ok(await all.isVisible());
  assert.ok(await all.evaluate((box) => box === document.activeElement), "the focus stays");
  await close(page);
});

test("a task that is claimed and reports moves neither rows nor columns", async () => {
  for (const n of [1, 2, 3]) await server.api("PUT", `/queues/still/tasks/t_still000000${n}`, { name: `vit-${n}`, args: { lr: 0.1 } });
  const page = await open(list("still", { column: ["progress", "args.lr", "attempt", "last_run.worker", "created_at"] }));
  const places = () => page.locator(".tasks-table :is(th, tr)").evaluateAll((parts) => parts.map((part) => { const { x, y, width } = part.getBoundingClientRect(); return [x, y, width].map(Math.round); }));
  const before = await places();
  const run_id = "r_still0000001";
  const worker = { host: "a-rather-long-name-of-a-host.example.org", pid: 1, slot: 0 };
  const { task } = await server.api("POST", "/queues/still/tasks/claim", { run_id, route: "default", worker });
  await server.api("POST", `/queues/still/tasks/${task.id}/progress`, { run_id, progress: { step: 1, total: 3 } });
  await page.locator(`tr[data-key="${task.id}"]`).getByText("33 %").waitFor();
  assert.deepEqual(await places(), before);
  await close(page);
});

test("the row that the keys are at stays the same when the page refreshes", async () => {
  await create("keys", 4, (n) => ({ name: `key-${n}`, args: { n } }));
  const page = await open(list("keys"));
  for (let n = 0; n < 3; n += 1) await page.keyboard.press("j");
  const at = () => page.locator("[data-row].at-cursor").getAttribute("data-key");
  const before = await at();
  await server.api("POST", `/queues/keys/tasks/${before}/cancel`);
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  await page.locator(`[data-key=${before}] .state.cancelled`).waitFor();
  assert.equal(await at(), before);
  await page.keyboard.press("k");
  assert.equal(await at(), await rows(page).nth(1).getAttribute("data-key"));
  await close(page);
});

test("nothing that is selected is nothing to do, and never everything", async () => {
  await create("none", 3, (n) => ({ args: { n } }));
  for (const chosen of ["", "&id=t_no", "&filter=args.n%20%3E%3D%200"]) {
    const address = `${list("none")}/confirm?action=delete${chosen}`;
    const asked = await fetch(address);
    assert.equal(asked.status, 422);
    assert.match(await asked.text(), /No task is selected/);
    const page = await (await fetch(list("none"))).text();
    const body = new URLSearchParams({ form_token: /name="form_token" value="([^"]+)"/.exec(page)[1], expect: "3" });
    assert.equal((await fetch(address, { method: "POST", body })).status, 422);
  }
  assert.deepEqual(await statuses("none"), { pending: 3 });
});

test("selected tasks are cancelled, requeued and deleted after a question that says the number, without JavaScript", async () => {
  await create("acts", 6, (n) => ({ name: `act-${n}`, args: { n } }));
  const page = await open(list("acts", { column: "args.n" }), { javaScript: false });
  assert.ok(!await page.locator(".actions").isVisible());
  const choose = async (numbers, action) => {
    for (const n of numbers) await page.locator(`[data-key=${id("acts", n)}] input`).check();
    await page.getByRole("button", { name: action, exact: true }).click();
  };
  await choose([0, 1, 2], "Cancel");
  await page.getByRole("heading", { name: "Cancel 3 tasks?" }).waitFor();
  await page.getByRole("button", { name: "Cancel 3 tasks" }).click();
  assert.equal(await page.locator(".alert.done").textContent(), "3 tasks cancelled.");
  assert.match(page.url(), /column=args\.n/);
  assert.deepEqual(await statuses("acts"), { pending: 3, cancelled: 3 });
  // What it does not apply to is left out, and told.
  await choose([2, 3], "Requeue");
  assert.match(await page.locator("main").textContent(), /1 pending left out: they already wait/);
  await page.getByRole("button", { name: "Requeue 1 task" }).click();
  assert.equal(await page.locator(".alert.done").textContent(), "1 task requeued.");
  await choose([0, 1], "Delete");
  await page.getByRole("link", { name: "Keep everything as it is" }).click();
  assert.deepEqual(await statuses("acts"), { pending: 4, cancelled: 2 });
  // Everything that matches, whatever is on this page.
  await page.goto(list("acts", { filter: "args.n < 2" }));
  await page.locator(`[data-key=${id("acts", 0)}] input`).check();
  await page.getByLabel("all 2 that match").check();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByRole("button", { name: "Delete 2 tasks" }).click();
  assert.equal(await page.locator(".alert.done").textContent(), "2 tasks deleted.");
  assert.deepEqual(await statuses("acts"), { pending: 4 });
  await close(page);
});

test("nothing is done when another number of tasks matches than was agreed to", async () => {
  await create("number", 4, (n) => ({ args: { n } }));
  for (const action of ["Delete", "Priority"]) {
    const page = await open(list("number", { filter: "args.n >= 1" }));
    await rows(page).first().locator("input").check();
    await page.getByLabel("all 3 that match").check();
    await page.getByRole("button", { name: action, exact: true }).click();
    await page.getByRole("heading", { name: /3 tasks\?/ }).waitFor();
    await server.api("PUT", "/queues/number/tasks/t_onemoretask0", { args: { n: 9 } });
    if (action === "Priority") await page.getByLabel("New priority").fill("7");
    await page.getByRole("button", { name: /3 tasks/ }).click();
    await page.getByText("Nothing was done; look again.").waitFor();
    await page.getByRole("heading", { name: /4 tasks\?/ }).waitFor();
    const { items } = await server.api("GET", "/queues/number/tasks?limit=100");
    assert.equal(items.length, 5);
    assert.ok(items.every((task) => task.priority === 0));
    await server.api("DELETE", "/queues/number/tasks/t_onemoretask0");
    await closePage(page);
  }
});

test("priority and routes of many are changed, a wrong value is told, and a search by name counts", async () => {
  await create("change", 5, (n) => ({ name: n < 3 ? `wanted-${n}` : `other-${n}`, args: { n } }));
  const page = await open(list("change", { name_fuzzy: "wanted" }));
  const begin = async (action) => {
    await rows(page).first().locator("input").check();
    await page.getByLabel("all 3 that match").check();
    await page.getByRole("button", { name: action, exact: true }).click();
  };
  await begin("Priority");
  await page.getByLabel("New priority").fill("high");
  await page.getByRole("button", { name: "Change 3 tasks" }).click();
  await page.getByText("Write a whole number").waitFor();
  await page.getByLabel("New priority").fill("-5");
  await page.getByRole("button", { name: "Change 3 tasks" }).click();
  await page.locator(".alert.done", { hasText: "3 tasks changed." }).waitFor();
  await begin("Routes");
  await page.getByLabel("New routes").fill("a100, h100");
  await page.getByRole("button", { name: "Change 3 tasks" }).click();
  await page.locator(".alert.done", { hasText: "3 tasks changed." }).waitFor();
  const { items } = await server.api("GET", "/queues/change/tasks?order_by=id&descending=false");
  assert.deepEqual(items.map((task) => task.priority), [-5, -5, -5, 0, 0]);
  assert.deepEqual(items.map((task) => task.routes.join()), ["a100,h100", "a100,h100", "a100,h100", "default", "default"]);
  await begin("Cancel");
  await page.getByRole("button", { name: "Cancel 3 tasks" }).click();
  await page.locator(".alert.done", { hasText: "3 tasks cancelled." }).waitFor();
  assert.deepEqual(await statuses("change"), { pending: 2, cancelled: 3 });
  assert.ok(page.problems.every((problem) => problem.includes("422")), page.problems.join());
});

test("args of many are changed by a patch, which is kept when it is wrong or another number matches", async () => {
  await create("patch", 4, (n) => ({ args: { n, lr: 0.1, old: true, model: { layers: 12, name: "vit" } } }));
  for (const javaScript of [true, false]) {
    const page = await open(list("patch", { filter: "args.n >= 1" }), { javaScript });
    await rows(page).first().locator("input").check();
    await page.getByLabel("all 3 that match").check();
    await page.getByRole("button", { name: "Args", exact: true }).click();
    await page.getByRole("heading", { name: "Change the args of 3 tasks?" }).waitFor();
    const field = page.getByLabel("Change of the args, a JSON object");
    await field.fill("{\"lr\": }");
    await page.getByRole("button", { name: "Change 3 tasks" }).click();
    await page.getByText("Line 1, column").waitFor();
    assert.equal(await field.inputValue(), "{\"lr\": }", "nothing that was typed is lost");
    const patch = `{"lr": ${javaScript ? 0.5 : 0.25}, "old": null, "model": {"layers": 24}}`;
    await field.fill(patch);
    await server.api("PUT", "/queues/patch/tasks/t_onemorepatch", { args: { n: 9, lr: 0.1 } });
    await page.getByRole("button", { name: "Change 3 tasks" }).click();
    await page.getByText("Nothing was done; look again.").waitFor();
    assert.equal(await field.inputValue(), patch);
    await server.api("DELETE", "/queues/patch/tasks/t_onemorepatch");
    await page.getByRole("button", { name: "Change 4 tasks" }).click();
    await page.getByRole("heading", { name: "Change the args of 3 tasks?" }).waitFor();
    await page.getByRole("button", { name: "Change 3 tasks" }).click();
    await page.locator(".alert.done", { hasText: "3 tasks changed." }).waitFor();
    const { items } = await server.api("GET", "/queues/patch/tasks?order_by=id&descending=false");
    assert.deepEqual(items[0].args, { n: 0, lr: 0.1, old: true, model: { layers: 12, name: "vit" } });
    assert.deepEqual(items[3].args, { n: 3, lr: javaScript ? 0.5 : 0.25, model: { layers: 24, name: "vit" } });
    await closePage(page);
  }
  await checkLooks(`${list("patch")}/confirm?action=args&all=1`, "tasks-confirm-args");
});

test("wide windows are used, and the age is in sight", async () => {
  const page = await open(list("experiments"));
  for (const [width, least] of [[1400, 1340], [1900, 1840], [2600, 1840]]) {
    await page.setViewportSize({ width, height: 900 });
    const table = await page.locator(".tasks-table").boundingBox();
    assert.ok(table.width >= least && table.width <= 1900, `${table.width} px of ${width}`);
    const age = await rows(page).first().locator("td").last().boundingBox();
    assert.ok(age.x + age.width <= table.x + table.width, "the age is within the table");
    await assertNoOverflow(page);
  }
  await page.setViewportSize(WIDE);
  const [table, age] = [await page.locator(".tasks-table").boundingBox(), await page.locator("th.of-age").boundingBox()];
  assert.ok(age.x + age.width <= table.x + table.width + 1, "also where the table scrolls");
  await close(page);
});

test("a form from elsewhere does nothing", async () => {
  const address = `${list("experiments")}/confirm?action=delete&all=1`;
  const answer = await fetch(address, { method: "POST", headers: { "content-type": "application/x-www-form-urlencoded" }, body: "expect=60&form_token=guessed" });
  assert.equal(answer.status, 403);
  assert.equal((await server.api("GET", "/queues/experiments/tasks/count")).count, 60);
});

test("files have everything that matches, in pages of bounded size, and clients that leave free their place", async () => {
  await create("many", 2500, (n) => ({ name: n === 7 ? '=HYPERLINK("http://evil")' : `n-${n}`, args: { n, text: n === 8 ? 'a,"b"\nc' : "x" } }));
  const csv = await fetch(`${list("many")}/download?format=csv&column=id,args.n,name,args.text`);
  assert.equal(csv.headers.get("content-type"), "text/csv; charset=utf-8");
  assert.match(csv.headers.get("content-disposition"), /^attachment; filename="many-tasks-\d{4}-\d\d-\d\d\.csv"$/);
  const text = await csv.text();
  assert.equal(text.split("\n")[0], "id,args.n,name,args.text");
  assert.ok(text.includes(`${id("many", 7)},7,"'=HYPERLINK(""http://evil"")",x\n`));
  assert.ok(text.includes(`${id("many", 8)},8,n-8,"a,""b""\nc"\n`));
  assert.equal(new Set(text.match(/t_many\d{8}/g)).size, 2500);
  const filter = { filter: "args.n < 1500" };
  const lines = await (await fetch(`${list("many")}/download?${new URLSearchParams({ format: "jsonl", ...filter })}`)).text();
  const tasks = lines.trim().split("\n").map((line) => JSON.parse(line));
  assert.equal(tasks.length, 1500);
  assert.deepEqual(tasks[0], await server.api("GET", `/queues/many/tasks/${tasks[0].id}`));
  // More clients that leave in the middle than there are places.
  for (let n = 0; n < 8; n += 1) {
    const left = new AbortController();
    const answer = await fetch(`${list("many")}/download?format=jsonl`, { signal: left.signal });
    await answer.body.getReader().read();
    left.abort();
  }
  const deadline = Date.now() + 60_000;
  let status;
  do {
    const answer = await fetch(`${list("many")}/download?format=csv`);
    await answer.text();
    status = answer.status;
  } while (status !== 200 && Date.now() < deadline);
  assert.equal(status, 200);
  assert.equal((await fetch(`${list("many")}/download?format=xlsx`)).status, 422);
  assert.equal((await fetch(`${list("many")}/download?format=csv&filter=(`)).status, 422);
});

test("the links of the export menu are files of this view", async () => {
  const page = await open(list("experiments", { status: "failed", column: "args.lr" }));
  await page.locator("summary", { hasText: "Export" }).click();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: /CSV/ }).click()]);
  const chunks = [];
  for await (const chunk of await download.createReadStream()) chunks.push(chunk);
  const lines = Buffer.concat(chunks).toString().trim().split("\n");
  assert.equal(lines[0], "id,status,name,args.lr");
  assert.deepEqual(new Set(lines.slice(1).map((line) => line.split(",")[0])), new Set(demo.failed));
  await close(page);
});

test("the commands of a view, as they are copied, give the tasks of the view", async () => {
  const parameters = { status: "succeeded", filter: `args.lr < 0.05 and metadata.batch == 'sweep7'`, name_fuzzy: "VIT 1", order_by: "priority", descending: "false", limit: 10, column: "args.lr,result.loss" };
  const page = await open(list("experiments", parameters));
  const shown = await rows(page).evaluateAll((all) => all.map((row) => row.dataset.key));
  assert.ok(shown.length > 0);
  await page.locator("summary", { hasText: "Copy" }).click();
  const [cli, curl] = await Promise.all(["#cli-command", "#curl-command"].map((place) => page.locator(place).textContent()));
  assert.equal(await page.getByRole("button", { name: "Copy as command" }).getAttribute("data-copy"), cli);
  const shell = async (command) => (await run("bash", ["-c", `taskqueue() { ${BINARY} "$@"; }; ${command}`])).stdout;
  const ids = (text) => text.match(/t_demo\d{8}/g) ?? [];
  assert.deepEqual(ids(await shell(`${cli} --output csv`)), shown);
  assert.equal((await shell(`${cli} --output csv`)).split("\n")[0], "id,status,name,args.lr,result.loss");
  assert.deepEqual(JSON.parse(await shell(`${curl} --silent`)).items.map((task) => task.id), shown);
  await close(page);
});

test("an empty queue teaches how to fill it, and what matches nothing how to see everything", async () => {
  const page = await open(list("empty"));
  const command = await page.locator(".empty pre").textContent();
  const { stdout } = await run("bash", ["-c", `taskqueue() { ${BINARY} "$@"; }; ${command}`]);
  assert.match(stdout, /t_/);
  await rows(page).first().waitFor();
  await page.goto(list("empty", { filter: "args.lr > 5" }));
  await page.getByText("No task matches.").waitFor();
  await page.getByRole("link", { name: "Clear the filter" }).click();
  await rows(page).first().waitFor();
  await close(page);
});

test("hostile names, keys and values neither run nor break the layout nor make the page large", async () => {
  const script = `<script>alert(1)</script><img src=x onerror=alert(2)>`;
  const word = "W".repeat(10_000);
  const tasks = [
    { name: script, args: { [script]: script, "a\"onmouseover=alert(3) ": 1, long: word } },
    { name: "\u202eevil\u2066 \u05d0\u05d1", args: { rtl: "\u202e\u05d0\u05d1", ansi: "\u001b]0;x\u0007", [word.slice(0, 300)]: 1 } },
    { name: "W".repeat(256), args: { big: "x".repeat(1_000_000) }, metadata: { [script]: word } },
    { name: "", args: Object.fromEntries(Array.from({ length: 3000 }, (_, n) => [`key${n}`, n])) },
  ];
  for (const [n, task] of tasks.entries()) await server.api("PUT", `/queues/hostile/tasks/${id("hostile", n)}`, task);
  for (const parameters of [{}, { column: "args,metadata,args.long,args.big", filter: script, name_fuzzy: script }, { column: "args,metadata,args.long,args.big,args.rtl" }]) {
    const answer = await fetch(list("hostile", parameters));
    const body = await answer.text();
    assert.ok(body.length < 200_000, `${body.length} bytes`);
    assert.ok(!body.includes("<script>alert") && !body.includes("<img src=x"));
    const page = await open(list("hostile", parameters));
    for (const viewport of [WIDE, NARROW]) {
      await page.setViewportSize(viewport);
      await assertNoOverflow(page);
      await screenshot(page, `tasks-hostile-${viewport.width}`);
    }
    await close(page);
  }
  const page = await open(list("hostile"));
  await page.locator("summary", { hasText: "Columns" }).click();
  await assertNoOverflow(page);
  await rows(page).first().locator("input").check();
  await page.getByLabel(/that match/).check();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByRole("heading", { name: /^Delete/ }).waitFor();
  await assertNoOverflow(page);
  await close(page);
});

test("a read-only dashboard has no buttons that change something, and refuses what is sent anyway", async () => {
  const reader = await Server.start({ args: ["--dashboard", "read-only"] });
  try {
    await reader.api("PUT", "/queues/experiments/tasks/t_demo00000000", { args: {} });
    const page = await open(`${reader.url}/ui/queues/experiments/tasks`);
    await rows(page).first().locator("input").check();
    assert.deepEqual(await page.locator(".actions button").allTextContents(), ["Compare"]);
    assert.equal((await fetch(`${reader.url}/ui/queues/experiments/tasks/confirm?action=delete&all=1`)).status, 403);
    await close(page);
  } finally {
    await reader.stop();
  }
});
