// The page that compares tasks: what differs, which is the best, charts, groups, CSV.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { NARROW, WIDE, assertAccessible, assertCalm, assertNoOverflow, checkLooks, closePage, newPage, screenshot } from "./support/browser.mjs";
import { Server } from "./support/server.mjs";
import { fillSweep, trainingRun } from "./support/sweep.mjs";

let server;
let ids;
const path = (queue, query = "") => `${server.url}/ui/queues/${queue}/compare${query}`;
const where = (filter) => `?filter=${encodeURIComponent(filter)}`;

before(async () => {
  server = await Server.start({ queues: ["experiments", "seeds", "exact", "hostile", "many", "empty", "live", "odd", "moving", "pages"] });
  const one = (n, next) => ({ ...trainingRun(n, next), ...(n % 40 === 7 ? { result: undefined } : {}) });
  ids = await fillSweep(server, 30, one);
  await fillSweep(server, 160, one, { queue: "pages" });
});
after(async () => {
  await server.stop();
});

// The texts of a column of the table, by its heading.
async function column(page, heading) {
  return page.evaluate((wanted) => {
    const heads = [...document.querySelectorAll("#compare-table thead th")];
    const place = heads.findIndex((head) => (head.querySelector(".sort") ?? head).textContent.trim().replace(/ [↑↓]$/, "") === wanted);
    if (place < 0) return null;
    return [...document.querySelectorAll("#compare-table tbody:not(.summary) tr")].map((row) => row.children[place].innerText.trim());
  }, heading);
}

// Creates a task that has this text as its JSON, digit by digit.
async function create(queue, id, json) {
  const answer = await fetch(`${server.url}/api/v2/queues/${queue}/tasks/${id}`, { method: "PUT", headers: { "content-type": "application/json" }, body: json });
  assert.equal(answer.status, 201, await answer.text());
}

test("it looks well, wide and narrow, light and dark", async () => {
  await checkLooks(path("experiments"), "compare");
  await checkLooks(path("pages", "?page=2&column=args.lr"), "compare-pages", undefined, "#compare-pages");
  await checkLooks(path("experiments", `${where("name != null")}&group=args-but-seed&color=status&axis=args.lr&axis=args.model.optimizer&axis=result.loss`), "compare-groups");
});

test("args that differ are columns, the others are said once, and the best value is marked", async () => {
  const page = await newPage();
  await page.goto(path("experiments"));
  const heads = await page.locator("#compare-table thead .sort").allInnerTexts();
  assert.deepEqual(heads.map((head) => head.replace(/ [↑↓]$/, "")), ["Task", "State", "args.dropout", "args.lr", "args.model.layers", "args.model.optimizer", "args.seed", "result.accuracy", "result.loss", "duration"]);
  assert.match(await page.locator("#compare-constants").innerText(), /args\.batch 128.*args\.model\.name vit.*result\.epochs 20/s);
  assert.equal(await page.locator("#compare-summary").innerText(), "29 tasks, 5 args differ");
  const losses = await server.api("GET", "/queues/experiments/tasks?status=succeeded&limit=1000");
  const lowest = Math.min(...losses.items.map(({ result }) => result.loss));
  const highest = Math.max(...losses.items.map(({ result }) => result.accuracy));
  const best = await page.locator("#compare-table tbody:not(.summary) td.best").allInnerTexts();
  assert.ok(best.includes(String(highest)), `${best} has ${highest}`);
  assert.ok((await page.locator("#compare-table .summary tr").first().innerText()).includes(String(lowest)));
  await page.getByRole("button", { name: "result.loss: lower is better" }).click();
  await page.waitForURL(/higher=result\.loss/);
  const worst = Math.max(...losses.items.map(({ result }) => result.loss));
  assert.ok((await page.locator("#compare-table .summary tr").first().innerText()).includes(String(worst)), "now the largest loss is the best");
  assertCalm(page);
});

test("rows sort by every column, exactly, and missing values come last both ways", async () => {
  const numbers = ["9007199254740993", "9007199254740992", "9007199254740994", "-5", "0.1", "1e300", "9007199254740992.5"];
  for (const [n, number] of numbers.entries()) await create("exact", `t_exact${String(n).padStart(7, "0")}`, `{"name": "n${n}", "args": {"big": ${number}}}`);
  await create("exact", "t_exact9999999", `{"name": "none", "args": {"other": 1}}`);
  const page = await newPage();
  await page.goto(path("exact", `${where("priority == 0")}&sort=args.big&order=ascending&column=args.big`));
  const ascending = await column(page, "args.big");
  // 9007199254740992.5 is stored as the float that it reads as. Equal numbers stay in the order of creation, newest first.
  assert.deepEqual(ascending, ["-5", "0.1", "9007199254740992.0", "9007199254740992", "9007199254740993", "9007199254740994", "1e300", ""]);
  assert.equal(await page.locator("th[aria-sort=ascending] .sort").innerText(), "args.big ↑");
  await page.locator("th[aria-sort] .sort").click();
  await page.locator("th[aria-sort=descending]").waitFor();
  const descending = await column(page, "args.big");
  assert.equal(descending[0], "1e300");
  assert.equal(descending.at(-1), "");
  assertCalm(page);
});

test("a click on a value adds it to the filter, with and without JavaScript", async () => {
  for (const javaScript of [true, false]) {
    const page = await newPage({ javaScript });
    await page.goto(path("experiments"));
    await page.locator("button.value", { hasText: /^lion$/ }).first().click();
    await page.waitForURL(/filter=/);
    assert.equal(await page.getByLabel("Filter", { exact: true }).inputValue(), 'status == "succeeded" and args.model.optimizer == "lion"');
    assert.match(await page.locator("#compare-constants").innerText(), /args\.model\.optimizer lion/);
    assert.equal(await column(page, "args.model.optimizer"), null, "it does not differ any more");
    assert.ok(!/[?&](set|and|apply|x)=/.test(page.url()), page.url());
    await closePage(page);
  }
});

test("without JavaScript axes, scales, colours, columns, groups and pages are chosen by forms", async () => {
  const page = await newPage({ javaScript: false });
  await page.goto(path("pages"));
  await page.getByLabel("Horizontal", { exact: true }).selectOption("args.model.layers");
  await page.getByLabel("Vertical", { exact: true }).selectOption("result.loss");
  await page.getByLabel("Vertical scale").selectOption("log");
  await page.getByLabel("Colour", { exact: true }).selectOption("args.model.optimizer");
  await page.getByRole("button", { name: "Apply" }).click();
  await page.waitForURL(/x=args\.model\.layers/);
  assert.match(await page.locator("#scatter svg.plot").getAttribute("aria-label"), /Scatter of result\.loss against args\.model\.layers, 156 tasks/);
  assert.match(await page.locator("#scatter .legend").innerText(), /adam \d+\s+lion \d+\s+sgd \d+/);
  await page.locator("summary", { hasText: "Columns" }).click();
  await page.getByLabel("args.dropout").first().uncheck();
  await page.getByLabel("metadata.owner").first().check();
  await page.getByLabel("Another path").fill("attempt");
  await page.getByRole("button", { name: "Show these" }).first().click();
  await page.waitForURL(/column=metadata\.owner/);
  assert.equal(await column(page, "args.dropout"), null);
  assert.ok((await column(page, "metadata.owner")).every((text) => text === "ada" || text === "bob"));
  assert.ok((await column(page, "attempt")).every((text) => text === "1"));
  assert.match(page.url(), /color=args\.model\.optimizer/, "the chart is as it was");
  await page.getByRole("button", { name: "Next" }).click();
  await page.waitForURL(/page=2/);
  assert.equal((await column(page, "Task")).length, 56);
  assert.match(page.url(), /color=args\.model\.optimizer/, "the chart is as it was");
  assert.equal(await page.locator("#scatter circle").count() > 150, true);
});

test("groups over seeds have mean, deviation, range and number, and the CSV has the same", async () => {
  const losses = { 0.1: [1, 2, 3], 0.01: [0.5, 0.5, 0.8] };
  await fillSweep(server, 6, (n) => ({ name: `run-${n}`, args: { lr: n < 3 ? 0.1 : 0.01, seed: n % 3, note: "=1+1" }, result: { loss: losses[n < 3 ? 0.1 : 0.01][n % 3] } }), { queue: "seeds" });
  const page = await newPage();
  await page.goto(path("seeds"));
  await page.locator("summary", { hasText: "Group" }).click();
  await page.getByRole("button", { name: "All args but seed" }).click();
  await page.waitForURL(/group=args-but-seed/);
  const rows = await page.locator("#compare-table tbody tr").allInnerTexts();
  assert.equal(rows.length, 2);
  assert.match(rows[0], /0\.01\s+3\s+0\.6 ± 0\.17\s+0\.5 to 0\.8/);
  assert.match(rows[1], /0\.1\s+3\s+2 ± 1\s+1 to 3/);
  assert.match(await page.locator("#compare-table td.best").first().innerText(), /^0\.6/);
  const grouped = await (await fetch(new URL(await page.getByRole("link", { name: "CSV" }).getAttribute("href"), page.url()))).text();
  const [head, first, second] = grouped.trim().split("\n");
  assert.match(head, /^args\.lr,tasks,result\.loss mean,result\.loss std,result\.loss min,result\.loss max,result\.loss n,duration mean/);
  assert.match(first, /^0\.01,3,0\.6[0-9]*,0\.173[0-9]*,0\.5,0\.8,3,/);
  assert.match(second, /^0\.1,3,2,1,1,3,3,/);
  await page.locator("summary", { hasText: "Grouped" }).click();
  await page.getByRole("button", { name: "No groups" }).click();
  await page.waitForURL((url) => !url.search.includes("group"));
  const answer = await fetch(path("seeds", "/csv?column=args.lr&column=args.note&column=result.loss&sort=result.loss&order=descending"));
  assert.match(answer.headers.get("content-disposition"), /attachment; filename="seeds-compare\.csv"/);
  const lines = (await answer.text()).trim().split("\n");
  assert.deepEqual(lines.slice(0, 2), ["id,name,status,args.lr,args.note,result.loss", "t_swp000000002,run-2,succeeded,0.1,'=1+1,3"]);
  assert.equal(lines.length, 7);
  assertCalm(page);
});

test("points lead to their tasks, the best one is marked, and what a logarithm cannot show is said", async () => {
  await fillSweep(server, 6, (n) => ({ args: { x: [0, -1, 1, 10, 100, 1000][n] }, result: { loss: n + 1, text: "NaN" } }), { queue: "odd" });
  const page = await newPage();
  await page.goto(path("odd", "?x=args.x&x_scale=log"));
  assert.match(await page.locator("#scatter .note").innerText(), /2 tasks at zero or below/);
  assert.equal(await page.locator("#scatter .dots circle").count(), 4);
  await page.locator("#scatter .best-point circle").click();
  await page.waitForURL(/\/tasks\/t_swp000000002$/);
  // One task alone: a point in the middle, and no complaint.
  await page.goto(path("odd", where("args.x == 10")));
  assert.match(await page.locator("#scatter svg.plot").getAttribute("aria-label"), /1 task$/);
  await page.goto(path("odd", `${where("args.x == 10")}&x=args.x&y=result.loss`));
  assert.equal(await page.locator("#scatter .dots circle").getAttribute("cx"), "50%");
  await page.goto(path("odd", "?x=result.text"));
  assert.match(await page.locator("#scatter").innerText(), /needs two paths with numbers/);
  assertCalm(page);
});

test("a wrong filter is marked where it is wrong, and a wrong path is named", async () => {
  const page = await newPage();
  await page.goto(path("experiments", where("args.lr = 1")));
  assert.equal(await page.locator("#filter-error p").innerText(), "`=` is not an operator, did you mean `==`?");
  assert.equal(await page.locator("#filter-error pre").textContent(), "        ^");
  await assertAccessible(page);
  await page.goto(path("experiments", "?x=lr&column=args.lr"));
  assert.match(await page.locator("#compare-warnings").innerText(), /“lr” is no path/);
});

test("chosen tasks are compared, also a thousand of them, and those that are gone are counted", async () => {
  const page = await newPage();
  await page.goto(path("experiments", `?id=${ids[0]}&id=${ids[7]}&id=t_notthere0000&status=running&cursor=x`));
  assert.deepEqual((await column(page, "State")).map((text) => text.replace(/^\W+/, "")).sort(), ["failed", "succeeded"]);
  assert.match(await page.locator("#compare-warnings").innerText(), /1 of the chosen tasks/);
  assert.ok(!page.url().includes("cursor"), page.url());
  await page.getByRole("button", { name: "3 chosen" }).click();
  await page.waitForURL((url) => !url.search.includes("id="));
  const filled = await fillSweep(server, 1000, (n) => ({ args: { a: n, b: n % 7 }, result: { score: n } }), { queue: "many", prefix: "few" });
  const answer = await fetch(path("many", `?${filled.map((id) => `id=${id}`).join("&")}`));
  const size = (await answer.text()).length;
  assert.equal(answer.status, 200);
  assert.ok(size < 400 * 1024, `${size} bytes`);
});

test("thousands of points stay quick and the page small, and it says how many tasks it read", async () => {
  await fillSweep(server, 5000, (n, next) => trainingRun(n, next), { queue: "many" });
  const page = await newPage();
  await page.goto(path("many"));
  assert.match(await page.locator("#compare-summary").innerText(), /the newest 1,000 of 6,000 that match/);
  await page.getByRole("link", { name: "read more" }).click();
  await page.waitForURL(/read=5000/);
  assert.match(await page.locator("#compare-summary").innerText(), /the newest 5,000 of 6,000 that match/);
  assert.equal(await page.locator("#scatter a circle").count(), 1, "only the best point is a link");
  assert.match(await page.locator("#scatter").innerText(), /More than 2,000 points/);
  assert.match(await page.locator("#parallel").innerText(), /500 of 5000 lines are drawn/);
  const size = (await (await fetch(page.url())).text()).length;
  assert.ok(size < 400 * 1024, `${size} bytes`);
  await screenshot(page, "compare-5000");
  assertCalm(page);
});

test("hostile content neither runs nor breaks the page", async () => {
  const nasty = ["<script>globalThis.hacked = 1</script>", "\u001b[31mred\u001b[0m", "\u202eright to left", "x".repeat(10_000), "\"onload=alert(1) '", "NaN", "-Infinity", "1".repeat(300)];
  await fillSweep(server, 40, (n) => ({
    name: nasty[n % nasty.length].replaceAll("\u001b", "").slice(0, 250),
    args: { "<img src=x onerror=alert(1)>": n, [`key ${nasty[n % nasty.length]}`]: n, text: nasty[n % nasty.length], deep: { a: { b: { c: { d: { e: n } } } } }, ...Object.fromEntries(Array.from({ length: 250 }, (_, k) => [`k${n}_${k}`, k])) },
    metadata: { html: nasty[n % nasty.length] },
    result: { loss: n % 2 ? nasty[n % nasty.length] : 1e300 / (n + 1), huge: -1.5e308, equal: 5, list: [nasty[n % nasty.length]] },
  }), { queue: "hostile" });
  for (const query of ["", "?color=args.text&axis=args.text&axis=metadata.html&axis=result.equal&column=args.text&column=metadata.html&column=result.list&column=result.loss", "?group=args.text", "?group=args-but-seed", "?x=result.equal&y=result.huge&x_scale=log&y_scale=log"]) {
    const page = await newPage();
    const answer = await page.goto(path("hostile", query));
    assert.equal(answer.status(), 200);
    assert.ok((await answer.text()).length < 400 * 1024, `${(await answer.text()).length} bytes`);
    if (query === "") {
      assert.match(await page.locator("#compare-warnings").innerText(), /more different paths than fit/);
      await screenshot(page, "compare-hostile");
      await assertAccessible(page);
    }
    for (const viewport of [WIDE, NARROW]) {
      await page.setViewportSize(viewport);
      await assertNoOverflow(page);
    }
    assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
    assertCalm(page);
    await closePage(page);
  }
});

test("by keyboard alone: the filter, the rows, a task", async () => {
  const page = await newPage();
  await page.goto(path("experiments"));
  await page.keyboard.press("/");
  await page.keyboard.type("args.model.layers == 12 and result.loss > 0");
  await page.keyboard.press("Enter");
  await page.waitForURL(/filter=args/);
  assert.ok(!(await page.locator("#compare-summary").innerText()).startsWith("29"));
  await page.locator("#compare-table tbody tr[data-row]").first().waitFor();
  const [first] = await column(page, "Task");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/tasks\/t_swp/);
  assert.ok(first.startsWith("vit-"));
});

test("what is new appears without a reload, and nothing to compare teaches", async () => {
  const page = await newPage();
  await page.goto(path("empty"));
  assert.match(await page.locator(".empty").innerText(), /TASKQUEUE_RESULT_FILE/);
  await fillSweep(server, 3, (n) => ({ name: `old-${n}`, args: { a: n }, result: { loss: n } }), { queue: "live" });
  await page.goto(path("live"));
  await page.evaluate(() => { globalThis.same = true; });
  assert.equal((await column(page, "Task")).length, 3);
  await fillSweep(server, 1, () => ({ name: "new-0", args: { a: 9 }, result: { loss: -1 } }), { queue: "live", prefix: "new" });
  await page.getByRole("link", { name: "new-0" }).first().waitFor({ timeout: 30_000 });
  assert.equal(await page.evaluate(() => globalThis.same), true);
  assert.equal((await column(page, "Task"))[0], "new-0");
  assertCalm(page);
});

test("all that match of the list are compared, whatever their state and whichever rows are chosen", async () => {
  const page = await newPage();
  await page.goto(`${server.url}/ui/queues/experiments/tasks`);
  await page.locator("[data-row] input").first().check();
  await page.getByLabel("all 30 that match").check();
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await page.waitForURL(/compare\?.*status=all/);
  assert.match(await page.locator("#compare-summary").innerText(), /^30 tasks/);
  await page.getByRole("button", { name: "every state" }).click();
  await page.waitForURL((address) => !address.search.includes("status"));
  assert.match(await page.locator("#compare-summary").innerText(), /^29 tasks/);
  assertCalm(page);
});

test("a button does what it says, also after the page has changed under it, and no text turns the one beside it round", async () => {
  for (const n of [1, 2, 3]) await create("moving", `t_moving00000${n}`, JSON.stringify({ name: `m-${n}`, args: { m: n, tag: n % 2 ? "\u202eevil" : "good" } }));
  const page = await newPage();
  await page.goto(path("moving", "?status=pending&x=args.m&y=args.m&color=args.tag"));
  const [label, count] = await page.locator("#scatter .legend > span", { hasText: "evil" }).evaluate((entry) => [...entry.querySelectorAll("bdi, .faint")].map((part) => part.getBoundingClientRect().left));
  assert.ok(label < count, `the name is at ${label}, the number at ${count}`);
  await create("moving", "t_moving000009", JSON.stringify({ name: "m-9", args: { a: 5, m: 9, tag: "good" } }));
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  await page.locator("#compare-table button.sort", { hasText: "args.a" }).waitFor();
  const sorts = await page.locator("#compare-table .head button.sort").evaluateAll((buttons) => buttons.map((button) => [button.textContent.trim(), new URLSearchParams(button.value).get("sort")]));
  assert.ok(sorts.length >= 3);
  for (const [text, sort] of sorts) assert.equal(sort, text);
  assertCalm(page);
});
