// Tasks that wait and tasks that are archived: what lists and pages say of them, the forms that set it, and what the archive leaves out.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { NARROW, assertAccessible, assertCalm, assertNoOverflow, checkLooks, closePage, newPage } from "./support/browser.mjs";
import { Server } from "./support/server.mjs";

const LIVE = { timeout: 90_000 };
let server;
let made = 0;

before(async () => {
  server = await Server.start({ queues: ["waits", "graph", "forms", "archive", "actions", "paused", "submit"] });
});
after(async () => {
  await server.stop();
});

function ui(queue, rest = "") {
  return `${server.url}/ui/queues/${queue}${rest}`;
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

function ahead(seconds) {
  return new Date(Date.now() + seconds * 1000).toISOString();
}

async function create(queue, definition = {}) {
  made += 1;
  const id = `t_wait${String(made).padStart(8, "0")}`;
  await server.api("PUT", `/queues/${queue}/tasks/${id}`, definition);
  return id;
}

function get(queue, id) {
  return server.api("GET", `/queues/${queue}/tasks/${id}`);
}

// Runs the next task of a route, which must be this one, to its end.
async function run(queue, id, end = "complete") {
  made += 1;
  const run_id = `r_wait${String(made).padStart(8, "0")}`;
  const { task } = await server.api("POST", `/queues/${queue}/tasks/claim`, { run_id, route: "default" });
  assert.equal(task.id, id);
  const body = end === "complete" ? { run_id, result: { loss: 1 } } : { run_id, retry: false, error: { type: "E", message: "no" } };
  await server.api("POST", `/queues/${queue}/tasks/${id}/${end}`, body);
}

async function ended(queue, definition = {}, end = "complete") {
  const id = await create(queue, definition);
  await run(queue, id, end);
  return id;
}

const row = (page, id) => page.locator(`[data-key=${id}]`);

test("a row says in a few words why its task waits, and columns say more", async () => {
  const first = await create("waits", { name: "first" });
  const delayed = await create("waits", { name: "delayed", not_before: ahead(9 * 60 + 20), timeout_seconds: 7200, retry_delay: { seconds: 30 } });
  const blocked = await create("waits", { name: "blocked", dependencies: [first, delayed, "t_nosuchtask00"], not_before: ahead(60) });
  const both = await create("waits", { name: "past", not_before: ahead(-60) });
  for (const javaScript of [true, false]) {
    const page = await open(ui("waits", "/tasks"), { javaScript });
    assert.equal(await row(page, delayed).locator(".waits").textContent(), "in 9 min");
    assert.equal(await row(page, blocked).locator(".waits").textContent(), "waits for 3");
    assert.equal(await row(page, first).locator(".waits").count(), 0);
    assert.equal(await row(page, both).locator(".waits").count(), 0, "its time has come");
    await page.goto(ui("waits", "/tasks?column=not_before,timeout_seconds,retry_delay,dependencies"));
    const cells = async (id) => (await row(page, id).locator("td").allTextContents()).slice(3).map((text) => text.trim());
    assert.deepEqual(await cells(delayed), ["in 9 min", "7200", '{"factor":2,"max_seconds":86400,"seconds":30}', ""]);
    assert.match((await cells(blocked))[3], /^\["t_nosuchtask00","t_wait/);
    assert.equal((await cells(both))[0], "1 min ago");
    await close(page);
  }
  // When what it waits for succeeds, the row says so by itself.
  const page = await open(ui("waits", "/tasks"));
  await run("waits", first);
  await row(page, blocked).getByText("waits for 2").waitFor(LIVE);
  await close(page);
  await checkLooks(ui("waits", "/tasks"), "tasks-waiting");
});

test("a task shows what it waits for and what waits for it, and says why it is not claimed", async () => {
  const done = await ended("graph", { name: "prepare" });
  const failed = await ended("graph", { name: "broken" }, "fail");
  const middle = await create("graph", { name: "train", dependencies: [done, failed, "t_nosuchtask00"], on_dependency_failure: "wait", not_before: ahead(3600) });
  const child = await create("graph", { name: "evaluate", dependencies: [middle], on_dependency_failure: "cancel" });
  for (const options of [{}, { javaScript: false }, { viewport: NARROW }]) {
    const page = await open(ui("graph", `/tasks/${middle}`), options);
    const items = async (id) => (await page.locator(`#${id} li`).allTextContents()).map((text) => text.replace(/\s+/g, " ").trim());
    const shown = await items("dependencies");
    assert.deepEqual(shown.map((text) => text.replace(/[●✕]/, "")).sort(), [`failedbroken ${failed}`, `missing t_nosuchtask00`, `succeeded prepare ${done}`].map((text) => text.replace("failedbroken", "failed broken")).sort());
    assert.match(await page.locator("#dependencies").textContent(), /this task goes on waiting/);
    assert.deepEqual((await items("dependents")).map((text) => text.replace("○", "")), [`pending evaluate ${child}`]);
    const reasons = await page.locator("#waiting p").allTextContents();
    assert.match(reasons[0], /^2 tasks that it waits for have not succeeded \(1 failed or cancelled, 1 missing\)\./);
    assert.match(reasons[1], /^It cannot be claimed before \d{4}-.*, in (59|60|1)/);
    assert.match(await page.locator("#timeline").textContent(), /delayed.*until \d{4}/s);
    await assertNoOverflow(page);
    await page.locator("#dependents a").click();
    await page.getByText("this task is cancelled").waitFor();
    await page.locator("#dependencies a").click();
    await page.getByRole("heading", { name: "train" }).waitFor();
    await close(page);
  }
  await checkLooks(ui("graph", `/tasks/${middle}`), "task-waiting");
  // A dependency that cannot succeed cancels who asked for it, and that is told.
  await server.api("POST", `/queues/graph/tasks/${middle}/cancel`);
  const page = await open(ui("graph", `/tasks/${child}`));
  await page.locator(".task-head .state.cancelled").waitFor(LIVE);
  assert.match(await page.locator("#timeline").textContent(), new RegExp(`the task ${middle} that this one waits for was cancelled`));
  await close(page);
});

test("of many tasks a hundred are shown, and how many more there are", async () => {
  const hub = await create("graph", { name: "hub" });
  const tasks = Array.from({ length: 130 }, (_, n) => ({ id: `t_many${String(n).padStart(8, "0")}`, dependencies: [hub] }));
  await server.api("POST", "/queues/graph/tasks/batch/create", { tasks });
  const ids = tasks.map(({ id }) => id);
  const sink = await create("graph", { dependencies: ids });
  let page = await open(ui("graph", `/tasks/${hub}`));
  assert.equal(await page.locator("#dependents li").count(), 100);
  await page.getByText("and 30 more").waitFor();
  await page.goto(ui("graph", `/tasks/${sink}`));
  assert.equal(await page.locator("#dependencies li").count(), 100);
  await page.getByText("and 30 more").waitFor();
  await close(page);
  page = await open(ui("graph", "/tasks?filter=name==null"));
  assert.equal(await row(page, sink).locator(".waits").textContent(), "waits for 130");
  await close(page);
});

test("a pending task says that its queue is paused or at its limit, and where to change that", async () => {
  const running = await create("paused", { name: "runs", timeout_seconds: 3600 });
  await server.api("POST", "/queues/paused/tasks/claim", { run_id: "r_pausedqueue0", route: "default" });
  const id = await create("paused", { name: "waits" });
  await server.api("PATCH", "/queues/paused/settings", { max_running: 1 });
  const page = await open(ui("paused", `/tasks/${id}`));
  await page.getByText("As many tasks of the queue are running as may be: 1.").waitFor();
  await server.api("PATCH", "/queues/paused/settings", { paused: true });
  await page.locator("#waiting").getByText("The queue is paused.").waitFor(LIVE);
  await page.locator("#waiting").getByRole("link", { name: "Settings" }).first().click();
  await page.getByRole("heading", { name: "Settings of paused" }).waitFor();
  await page.goto(ui("paused", `/tasks/${running}`));
  assert.match(await page.locator("#timeline").textContent(), /time limit\s*in (59|60) min|time limit\s*in 1 h/);
  assert.match(await page.locator("#facts").textContent(), /Time limit\s*1 h for a run/);
  await close(page);
});

for (const javaScript of [true, false]) {
  test(`${javaScript ? "with" : "without"} JavaScript a form changes what a task waits for, and errors stand at their fields`, async () => {
    const other = await create("forms", { name: "other" });
    const id = await create("forms", { name: "edited", timeout_seconds: 60 });
    const page = await open(ui("forms", `/tasks/${id}/edit`), { javaScript });
    assert.equal(await page.getByLabel("Time limit of a run").inputValue(), "1 min");
    await page.getByLabel("Not before").fill("someday");
    await page.getByLabel("Time limit of a run").fill("0");
    await page.getByLabel("Later retries: times").fill("3");
    await page.getByLabel("Waits for these tasks, by id").fill(`${other} nonsense`);
    await page.getByRole("button", { name: "Save" }).click();
    const errors = { "not_before": /2027-01-31T08:00:00Z/, timeout: /at least 1 s/, retry_seconds: /first retry waits/, dependencies: /nonsense: an id/ };
    for (const [name, text] of Object.entries(errors)) {
      assert.match(await page.locator(`#${name}-error`).textContent(), text);
      assert.equal(await page.locator(`#${name}`).getAttribute("aria-invalid"), "true");
    }
    assert.equal(await page.locator("[aria-invalid=true]").count(), 4);
    if (javaScript) await assertAccessible(page);
    await page.getByLabel("Not before").fill("in 2 h");
    await page.getByLabel("Time limit of a run").fill("90 min");
    await page.getByLabel("First retry after").fill("30 s");
    await page.getByLabel("Waits for these tasks, by id").fill(`${other},\n${other}`);
    await page.getByLabel("If a dependency fails").selectOption("cancel");
    // By the keyboard alone.
    await page.getByLabel("First retry after").focus();
    await page.keyboard.press("Enter");
    await page.locator(".alert.done").waitFor();
    assert.equal(await page.locator(".alert.done").textContent(), "Saved: not before, retry delay, time limit, dependencies, what happens if a dependency fails.");
    const task = await get("forms", id);
    assert.deepEqual([task.timeout_seconds, task.retry_delay, task.dependencies, task.on_dependency_failure], [5400, { seconds: 30, factor: 3, max_seconds: 86400 }, [other], "cancel"]);
    const delay = (Date.parse(task.not_before) - Date.now()) / 1000;
    assert.ok(delay > 7100 && delay <= 7200, task.not_before);
    await page.goto(ui("forms", `/tasks/${id}/edit`));
    for (const label of ["Not before", "Time limit of a run", "First retry after", "Later retries: times", "Waits for these tasks, by id"]) await page.getByLabel(label).fill("");
    await page.getByLabel("If a dependency fails").selectOption("");
    await page.getByRole("button", { name: "Save" }).click();
    await page.locator(".alert.done").waitFor();
    const emptied = await get("forms", id);
    for (const field of ["not_before", "timeout_seconds", "retry_delay", "dependencies", "on_dependency_failure"]) assert.equal(emptied[field], undefined, field);
    assert.ok(page.problems.every((problem) => problem.includes("422")), page.problems.join());
  });

  test(`${javaScript ? "with" : "without"} JavaScript new tasks wait as the form says, and a duplicate carries all but the time`, async () => {
    const parent = await create("submit", { name: "parent" });
    const name = `child-${javaScript}`;
    const page = await open(ui("submit", "/submit?way=one"), { javaScript });
    await page.getByLabel("Name").fill(name);
    await page.getByText("Delay, time limit, retries, dependencies").click();
    await page.getByLabel("Not before").fill("in 1 h");
    await page.getByLabel("Time limit of a run").fill("2 days");
    await page.getByLabel("First retry after").fill("10 s");
    await page.getByLabel("At most").fill("1 h");
    await page.getByLabel("Waits for these tasks, by id").fill("t_x");
    await page.getByLabel("If one of them fails").selectOption("cancel");
    await page.getByRole("button", { name: "Create task" }).click();
    await page.locator("#dependencies-note").filter({ hasText: "t_x: an id of a task" }).waitFor();
    assert.equal(await page.locator("[aria-invalid=true]").count(), 1);
    await page.getByLabel("Waits for these tasks, by id").fill(parent);
    await page.getByRole("button", { name: "Create task" }).click();
    await page.locator(".alert.done").waitFor();
    const named = async () => (await server.api("GET", `/queues/submit/tasks?name=${name}&order_by=created_at&descending=false`)).items;
    const [task] = await named();
    assert.deepEqual([task.timeout_seconds, task.retry_delay, task.dependencies, task.on_dependency_failure], [172800, { seconds: 10, factor: 2, max_seconds: 3600 }, [parent], "cancel"]);
    assert.ok(Date.parse(task.not_before) > Date.now() + 3_500_000);
    await page.getByRole("link", { name: "Submit another like this" }).click();
    await page.getByText("it becomes a new task").waitFor();
    assert.equal(await page.getByLabel("Not before").inputValue(), "");
    assert.equal(await page.getByLabel("Time limit of a run").inputValue(), "2 days");
    assert.match(await page.locator("#command-text").textContent(), new RegExp(`--retry-delay 10s..3600s --timeout 172800s --after ${parent} --on-dependency-failure cancel`));
    await page.getByRole("button", { name: "Create task" }).click();
    await page.locator(".alert.done").waitFor();
    const both = await named();
    assert.equal(both.length, 2);
    assert.deepEqual([both[1].dependencies, both[1].timeout_seconds, both[1].not_before], [[parent], 172800, undefined]);
    await close(page);
  });
}

test("a sweep and lines carry what tasks wait for", async () => {
  const parent = await create("submit", { name: "of all" });
  const page = await open(ui("submit", `/submit?${new URLSearchParams({ way: "sweep", key: "lr", values: "1,2", name: "swept", dependencies: parent, timeout: "1 h", not_before: "in 1 h" })}`));
  await page.getByRole("button", { name: "Create 2 tasks" }).click();
  await page.locator(".alert.done").waitFor();
  const swept = (await server.api("GET", "/queues/submit/tasks?name=swept")).items;
  assert.equal(swept.length, 2);
  for (const task of swept) assert.deepEqual([task.dependencies, task.timeout_seconds, Date.parse(task.not_before) > Date.now()], [[parent], 3600, true]);
  await page.goto(ui("submit", "/submit?way=sweep&key=lr&values=1&timeout=never"));
  assert.match(await page.locator("#timeout-note").textContent(), /a number with its unit/);
  await page.goto(ui("submit", "/submit?way=lines"));
  await page.locator("#lines").fill(`{"name": "lined", "dependencies": ["${parent}"], "timeout_seconds": 5}\n{"name": "wrong", "timeout_seconds": 0}`);
  await page.getByRole("button", { name: "Check", exact: true }).click();
  await page.locator("#report").getByText("1 line wrong").waitFor();
  assert.match(await page.locator("#report").textContent(), /timeout_seconds/);
  await page.getByRole("button", { name: "Create the 1 valid one" }).click();
  await page.locator(".alert.done").waitFor();
  const [lined] = (await server.api("GET", "/queues/submit/tasks?name=lined")).items;
  assert.deepEqual([lined.dependencies, lined.timeout_seconds], [[parent], 5]);
  await close(page);
});

test("the forms look as they should", async () => {
  const other = await create("forms", { name: "a" });
  const id = await create("forms", { name: "b", dependencies: [other], timeout_seconds: 60, retry_delay: { seconds: 5 } });
  await checkLooks(ui("forms", `/tasks/${id}/edit`), "task-edit-waiting");
  await checkLooks(ui("forms", `/submit?way=one&from=${id}`), "submit-one-waiting", (page) => page.getByLabel("Waits for these tasks, by id").waitFor());
});

test("archived tasks are left out of the list, its counts and its files until they are asked for", async () => {
  const kept = await ended("archive", { name: "kept" });
  const archived = await ended("archive", { name: "archived" });
  await server.api("PATCH", `/queues/archive/tasks/${archived}`, { archived: true });
  const lines = async (address) => (await (await fetch(new URL(address, server.url))).text()).trim().split("\n");
  for (const javaScript of [true, false]) {
    const page = await open(ui("archive", "/tasks?status=succeeded"), { javaScript });
    const tab = () => page.locator("#tabs a", { hasText: "Succeeded" });
    assert.deepEqual([await tab().textContent(), await page.locator("[data-row]").count()], ["Succeeded1", 1]);
    const files = async () => Promise.all((await page.locator(".tools a[download]").all()).map(async (link) => lines(await link.getAttribute("href"))));
    assert.deepEqual((await files()).map((file) => file.length), [2, 1]);
    await page.getByRole("link", { name: "Show archived" }).click();
    assert.match(page.url(), /status=succeeded&archived=1/);
    assert.deepEqual([await tab().textContent(), await page.locator("[data-row]").count()], ["Succeeded2", 2]);
    assert.equal(await row(page, archived).locator(".archived").textContent(), "archived");
    assert.equal(await row(page, kept).locator(".archived").count(), 0);
    assert.deepEqual((await files()).map((file) => file.length), [3, 2]);
    assert.match(await page.locator("#curl-command").textContent(), /include_archived=true/);
    // The address is the state: a search stays in it.
    await page.getByLabel("Filter", { exact: true }).fill("archived == true");
    await page.getByRole("button", { name: "Search" }).click();
    await page.waitForURL(/archived=1/);
    assert.deepEqual(await page.locator("[data-row]").evaluateAll((rows) => rows.map(({ dataset }) => dataset.key)), [archived]);
    await page.getByRole("link", { name: "Hide archived" }).click();
    await page.getByText("No task matches.").waitFor();
    await close(page);
  }
  await checkLooks(ui("archive", "/tasks?archived=1"), "tasks-archived");
  // A queue whose tasks are all archived is not one without tasks.
  await server.api("PATCH", `/queues/archive/tasks/${kept}`, { archived: true });
  const page = await open(ui("archive", "/tasks"));
  await page.getByText("All tasks of this queue are archived.").waitFor();
  await page.locator(".empty").getByRole("link", { name: "Show archived" }).click();
  await page.waitForLoadState();
  assert.equal(await page.locator("[data-row]").count(), 2);
  await close(page);
});

test("many are archived and brought back as the number says that was agreed to, and others are left alone", async () => {
  const done = [];
  for (let n = 0; n < 3; n += 1) done.push(await ended("actions", { name: `done-${n}` }));
  const failed = await ended("actions", { name: "failed" }, "fail");
  const pending = await create("actions", { name: "pending" });
  const archived = async () => (await server.api("GET", "/queues/actions/tasks?include_archived=true&limit=100")).items.filter((task) => task.archived).map(({ id }) => id).sort();
  for (const javaScript of [true, false]) {
    const page = await open(ui("actions", "/tasks"), { javaScript });
    await row(page, done[0]).locator("input").check();
    await page.getByLabel("all 5 that match").check();
    await page.getByRole("button", { name: "Archive", exact: true }).click();
    await page.getByRole("heading", { name: "Archive 4 tasks?" }).waitFor();
    assert.match(await page.locator("main").textContent(), /1 pending left out: only what has ended can be archived/);
    await page.getByRole("button", { name: "Archive 4 tasks" }).click();
    assert.equal(await page.locator(".alert.done").textContent(), "4 tasks archived.");
    assert.deepEqual(await archived(), [...done, failed].sort());
    // Actions leave them out now.
    await page.goto(ui("actions", "/tasks/confirm?action=delete&all=1"));
    await page.getByRole("heading", { name: "Delete 1 task?" }).waitFor();
    await page.goto(ui("actions", "/tasks/confirm?action=delete&all=1&archived=1"));
    await page.getByRole("heading", { name: "Delete 5 tasks?" }).waitFor();
    // Single ones: what is done already is told.
    await page.goto(ui("actions", "/tasks?archived=1"));
    for (const id of [done[0], done[1], pending]) await row(page, id).locator("input").check();
    await page.getByRole("button", { name: "Unarchive", exact: true }).click();
    await page.getByRole("button", { name: "Unarchive 2 tasks" }).click();
    assert.equal(await page.locator(".alert.done").textContent(), "2 tasks unarchived.");
    assert.match(page.url(), /archived=1/);
    for (const id of [done[0], done[2]]) await row(page, id).locator("input").check();
    await page.getByRole("button", { name: "Archive", exact: true }).click();
    assert.match(await page.locator("main").textContent(), /1 left out: archived already/);
    await page.getByRole("link", { name: "Keep everything as it is" }).click();
    // All that match, of which some are not archived.
    await row(page, done[0]).locator("input").check();
    await page.getByLabel("all 5 that match").check();
    await page.getByRole("button", { name: "Unarchive", exact: true }).click();
    await page.getByRole("button", { name: "Unarchive 2 tasks" }).click();
    assert.equal(await page.locator(".alert.done").textContent(), "2 tasks unarchived.");
    assert.deepEqual(await archived(), []);
    await close(page);
  }
  // Requeue of an archived task that is asked for brings it back.
  await server.api("PATCH", `/queues/actions/tasks/${failed}`, { archived: true });
  const page = await open(ui("actions", "/tasks?archived=1&status=failed"));
  await row(page, failed).locator("input").check();
  await page.getByRole("button", { name: "Requeue", exact: true }).click();
  await page.getByRole("button", { name: "Requeue 1 task" }).click();
  await page.locator(".alert.done", { hasText: "1 task requeued." }).waitFor();
  const task = await get("actions", failed);
  assert.deepEqual([task.status, task.archived], ["pending", undefined]);
  await close(page);
});

test("a task is archived and brought back on its page", async () => {
  const id = await ended("forms", { name: "one" , priority: 9 });
  for (const javaScript of [true, false]) {
    const page = await open(ui("forms", `/tasks/${id}`), { javaScript });
    await page.getByRole("button", { name: "Archive", exact: true }).click();
    await page.locator(".alert.done", { hasText: "The task is archived." }).waitFor();
    assert.equal(await page.locator(".task-head .archived").textContent(), "archived");
    assert.equal((await get("forms", id)).archived, true);
    await page.getByRole("button", { name: "Unarchive" }).click();
    await page.locator(".alert.done", { hasText: "not archived any more" }).waitFor();
    assert.equal((await get("forms", id)).archived, undefined);
    await close(page);
  }
});
