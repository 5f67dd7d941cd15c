// The page Submit: one task by a form, a sweep, lines of JSON; what is checked before anything is created, and what a repeated form
// does.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";

import { assertCalm, assertNoOverflow, checkLooks, closePage, newPage } from "./support/browser.mjs";
import { Server } from "./support/server.mjs";

let server;
let submit;
before(async () => {
  server = await Server.start({ queues: ["experiments", "looks"] });
  submit = `${server.url}/ui/queues/experiments/submit`;
});
after(async () => {
  await server.stop();
});

async function count(filter) {
  const query = filter ? `?filter=${encodeURIComponent(filter)}` : "";
  return (await server.api("GET", `/queues/experiments/tasks/count${query}`)).count;
}

async function named(name) {
  const { items } = await server.api("GET", `/queues/experiments/tasks?filter=${encodeURIComponent(`name == ${JSON.stringify(name)}`)}`);
  return items;
}

function sweepAddress(axes, more = {}) {
  const query = new URLSearchParams({ way: "sweep" });
  for (const [key, values] of axes) {
    query.append("key", key);
    query.append("values", values);
  }
  for (const [name, value] of Object.entries(more)) query.append(name, value);
  return `${submit}?${query}`;
}

// Sends a form as a page of this viewer does.
async function post(fields) {
  const page = await (await fetch(`${submit}?way=one`)).text();
  const token = /name="form_token" value="([^"]*)"/.exec(page)[1];
  const body = new URLSearchParams({ form_token: token, ...fields });
  return fetch(submit, { method: "POST", body, redirect: "manual", headers: { "sec-fetch-site": "same-origin" } });
}

for (const javaScript of [true, false]) {
  const how = javaScript ? "with" : "without";

  test(`${how} JavaScript one task is created exactly as typed, and another like it`, async () => {
    const page = await newPage({ javaScript });
    const name = `one-${how}`;
    await page.goto(submit);
    await page.getByLabel("Name").fill(name);
    await page.getByLabel("Args, a JSON object").fill('{"seed": 9007199254740993,\n "model": {"layers": 12}}');
    await page.getByLabel("Routes").fill("h100, a100");
    await page.getByLabel("Priority").fill("-5");
    await page.getByLabel("Attempts").fill("7");
    await page.getByLabel("Metadata, a JSON object").fill('{"batch": "x"}');
    await page.getByRole("button", { name: "Create task" }).click();
    const done = page.locator(".alert.done");
    await done.waitFor();
    const [task] = await named(name);
    assert.equal(task.priority, -5);
    assert.equal(task.max_attempts, 7);
    assert.deepEqual(task.routes, ["a100", "h100"]);
    assert.deepEqual(task.metadata, { batch: "x" });
    const exact = await (await fetch(`${server.url}/api/v2/queues/experiments/tasks/${task.id}`)).text();
    assert.match(exact, /"seed":9007199254740993[,}]/);
    assert.equal(await done.getByRole("link", { name: task.id }).getAttribute("href"), `/ui/queues/experiments/tasks/${task.id}`);

    await done.getByRole("link", { name: "Submit another like this" }).click();
    await page.getByText("it becomes a new task").waitFor();
    assert.match(await page.getByLabel("Args, a JSON object").inputValue(), /"seed": 9007199254740993/);
    assert.equal(await page.getByLabel("Routes").inputValue(), "a100, h100");
    await page.getByRole("button", { name: "Create task" }).click();
    await page.locator(".alert.done").waitFor();
    const both = await named(name);
    assert.equal(both.length, 2);
    assert.deepEqual(both[0].args, both[1].args);
    assertCalm(page);
  });

  test(`${how} JavaScript a wrong form creates nothing, says where it is wrong and keeps all that was typed`, async () => {
    const page = await newPage({ javaScript });
    const before = await count();
    await page.goto(submit);
    const typed = { Name: "kept", "Args, a JSON object": '{"a": 1,\n "b" 2}', Routes: "gpu -x", Priority: "high", Attempts: "0", "Metadata, a JSON object": "[]" };
    for (const [label, text] of Object.entries(typed)) await page.getByLabel(label).fill(text);
    await page.getByRole("button", { name: "Create task" }).click();
    await page.locator("#metadata-note").filter({ hasText: "Write a JSON object" }).waitFor();
    assert.match(await page.locator("#args-note").textContent(), /Line 2, column 6: expected ':'/);
    assert.match(await page.locator("#routes-note").textContent(), /-x: a route/);
    assert.match(await page.locator("#priority-note").textContent(), /whole number/);
    assert.match(await page.locator("#max_attempts-note").textContent(), /at least 1/);
    assert.equal(await page.locator("[aria-invalid=true]").count(), 5);
    for (const [label, text] of Object.entries(typed)) assert.equal((await page.getByLabel(label).inputValue()).replaceAll("\r\n", "\n"), text);
    assert.equal(await count(), before);
    assertCalm(page);
  });

  test(`${how} JavaScript a sweep shows its number and its first tasks, then creates exactly these, and never twice`, async () => {
    const page = await newPage({ javaScript });
    const name = `sweep-${how}`;
    await page.goto(`${submit}?way=sweep`);
    await page.getByLabel("Key 1").fill("lr");
    await page.getByLabel("Values 1", { exact: true }).fill("log:1e-3..1e-1..3");
    await page.getByLabel("Key 2").fill("seed");
    await page.getByLabel("Values 2", { exact: true }).fill("1..4");
    await page.getByLabel("Name, filled in from the args").fill(`${name}-{seed}`);
    await page.getByRole("button", { name: "Preview" }).click();
    const create = page.getByRole("button", { name: "Create 12 tasks" });
    await create.waitFor();
    assert.match(await page.locator(".total").textContent(), /12 tasks 3 × 4/);
    assert.equal(await page.locator("#preview tbody tr").first().textContent(), `1${name}-10.0011`);
    assert.equal((await named(`${name}-1`)).length, 0, "a preview creates nothing");
    await create.click();
    await page.locator(".alert.done").filter({ hasText: "Created 12 tasks." }).waitFor();
    assert.equal(await page.getByText("Nothing is created yet").count(), 0);
    const { items } = await server.api("GET", `/queues/experiments/tasks?limit=1000&filter=${encodeURIComponent(`args.seed == 4 and name == "${name}-4"`)}`);
    assert.deepEqual(items.map(({ args }) => args.lr).sort(), [0.001, 0.01, 0.1]);
    await page.getByRole("button", { name: "Create 12 tasks" }).click();
    await page.locator(".alert.done").filter({ hasText: "Created 0 tasks. 12 were there already, the same." }).waitFor();
    assertCalm(page);
  });

  test(`${how} JavaScript lines are checked first, and only the valid ones are created when that is wanted`, async () => {
    const page = await newPage({ javaScript });
    const name = `lines-${how}`;
    const line = (n) => JSON.stringify({ name, args: { n } });
    await page.goto(`${submit}?way=lines`);
    await page.getByLabel("One task per line, as JSON").fill([line(1), '{"lr": 1}', "", line(2), '{"args": '].join("\n"));
    await page.getByRole("button", { name: "Check", exact: true }).click();
    const some = page.getByRole("button", { name: "Create the 2 valid ones" });
    await some.waitFor();
    const wrong = await page.locator("#report table").first().locator("tbody tr").allTextContents();
    assert.match(wrong[0], /^2lr is no field of a task/);
    assert.match(wrong[1], /^5send well-formed JSON/);
    assert.equal(wrong.length, 2);
    assert.equal(await page.getByRole("button", { name: /^Create \d+ task/ }).count(), 0);
    assert.equal((await named(name)).length, 0);
    await some.click();
    await page.locator(".alert.done").filter({ hasText: "Created 2 tasks." }).waitFor();
    assert.equal(await page.getByText("Nothing is created yet").count(), 0);
    assert.deepEqual((await named(name)).map(({ args }) => args.n).sort(), [1, 2]);

    await page.getByLabel("One task per line, as JSON").fill([line(1), line(2), line(3)].join("\n"));
    await page.getByRole("button", { name: "Check", exact: true }).click();
    await page.getByRole("button", { name: "Create 3 tasks" }).click();
    await page.locator(".alert.done").filter({ hasText: "Created 1 task. 2 were there already, the same." }).waitFor();
    assertCalm(page);
  });
}

test("args are checked while they are typed, and the command follows", async () => {
  const page = await newPage();
  await page.goto(submit);
  const args = page.getByLabel("Args, a JSON object");
  await args.pressSequentially('{"lr": ');
  await page.locator("#args-note").filter({ hasText: "Line 1, column 8: expected a value." }).waitFor();
  assert.equal(await args.getAttribute("aria-invalid"), "true");
  await args.pressSequentially("0.5}");
  await page.locator("#command-text").filter({ hasText: /taskqueue task submit --queue experiments --url http\S+ --args '\{"lr":0\.5\}'/ }).waitFor();
  assert.equal(await args.getAttribute("aria-invalid"), null);
  assert.equal(await args.inputValue(), '{"lr": 0.5}');
  assertCalm(page);
});

test("the command is that of the form, and an example only while the form is empty", async () => {
  const page = await newPage();
  await page.goto(submit);
  const command = page.locator("#command-text");
  await command.getByText("An example.").waitFor();
  await page.getByLabel("Routes").fill("gpu");
  await command.filter({ hasText: /task submit --queue experiments --url http\S+ --route gpu/ }).waitFor();
  assert.equal(await command.getByText("An example.").count(), 0);
  await page.getByLabel("Priority").fill("high");
  await command.getByText("When what is wrong in the form is mended").waitFor();
  assert.equal(await command.locator("pre").count(), 0);
  await page.goto(`${submit}?way=lines`);
  assert.match(await command.locator("pre").textContent(), /^taskqueue task submit --queue experiments --url http\S+ --from tasks\.jsonl$/);
  await page.getByLabel("One task per line, as JSON").fill('{"args": {"q": "it\'s"}}\n{"args": {"q": 2}}');
  await command.filter({ hasText: "<<'END'" }).waitFor();
  const text = await command.locator("pre").textContent();
  assert.match(text, /^taskqueue task submit --queue experiments --url http\S+ --from=- <<'END'\n\{"args": \{"q": "it's"\}\}\n\{"args": \{"q": 2\}\}\nEND$/);
  await page.goto(sweepAddress([["x", "1..1000000000"]]));
  await command.getByText("When what is wrong in the form is mended").waitFor();
  assertCalm(page);
});

test("a form that is sent several times creates one task, and a changed one asks first", async () => {
  const fields = { way: "one", step: "create", id: "t_formonce0001", args: '{"once": true}', name: "once" };
  const answers = await Promise.all([post(fields), post(fields), post(fields)]);
  assert.deepEqual(answers.map(({ status }) => status), [303, 303, 303]);
  assert.equal((await named("once")).length, 1);

  const page = await newPage();
  await page.goto(submit);
  await page.getByLabel("Name").fill("again");
  await page.getByRole("button", { name: "Create task" }).dblclick();
  await page.locator(".alert.done").waitFor();
  assert.equal((await named("again")).length, 1);

  const changed = await post({ ...fields, args: '{"once": false}' });
  const text = await changed.text();
  assert.match(text, /has created the task t_formonce0001 before/);
  assert.match(text, /&#34;once&#34;: false|&quot;once&quot;: false/, "what was typed is still there");
  assert.doesNotMatch(text, /name="id" value="t_formonce0001"/, "the next try creates another task");
  assert.equal((await named("once")).length, 1);
});

test("the builder of a sweep previews while typing, adds rows, and the address is the state", async () => {
  const page = await newPage();
  await page.goto(`${submit}?way=sweep`);
  for (let n = 1; n <= 4; n += 1) {
    await page.getByLabel(`Key ${n}`).fill(`k${n}`);
    await page.getByLabel(`Values ${n}`, { exact: true }).fill("1,2");
  }
  await page.getByLabel("Key 5").waitFor();
  await page.getByRole("button", { name: "Create 16 tasks" }).waitFor();
  assert.equal(await page.locator("#axis-4-count").textContent(), "× 2");
  await page.getByLabel("Values 2", { exact: true }).fill("1..x");
  await page.locator("#axis-2-note").filter({ hasText: 'x is no number as JSON writes it; for text, put it in quotes: "..."' }).waitFor();
  assert.equal(await page.locator("#preview button").count(), 0, "what is wrong cannot be created");
  await page.getByLabel("Values 2", { exact: true }).fill("1..3");
  await page.getByRole("button", { name: "Create 24 tasks" }).waitFor();
  await page.getByLabel("First with first, second with second").check();
  await page.locator("#sweep-note").filter({ hasText: "k1 has 2, k2 has 3" }).waitFor();
  await page.getByLabel("Every combination").check();
  await page.getByRole("button", { name: "Create 24 tasks" }).waitFor();
  await page.waitForURL(/k4/);
  const other = await newPage({ javaScript: false });
  await other.goto(page.url());
  await other.getByRole("button", { name: "Create 24 tasks" }).waitFor();
  assert.equal(await other.getByLabel("Values 2", { exact: true }).inputValue(), "1..3");
  assertCalm(page);
  await closePage(page);
});

test("a sweep of the command line and the same one here are the same tasks", async () => {
  const page = await newPage({ javaScript: false });
  await page.goto(sweepAddress([["shared.lr", "0.1, 0.01"], ["n", "1..3"]], { name: "it's {n}", base: '{"data": "a b"}', routes: "gpu", batch: "b 1" }));
  const command = await page.locator("#command-text pre").textContent();
  const { execFileSync } = await import("node:child_process");
  const binary = process.env.TASKQUEUE_BINARY ?? "target/debug/taskqueue";
  const env = { PATH: process.env.PATH, HOME: server.folder, TASKQUEUE_URL: server.url };
  execFileSync("sh", ["-c", command.replace(/^taskqueue /, `${binary} `)], { env, stdio: "pipe" });
  assert.equal((await named("it's 3")).length, 2);
  await page.getByRole("button", { name: "Create 6 tasks" }).click();
  await page.locator(".alert.done").filter({ hasText: "Created 0 tasks. 6 were there already, the same." }).waitFor();

  await page.goto(sweepAddress([["shared.lr", "0.1, 0.01"], ["n", "1..3"]], { name: "it's {n}", base: '{"data": "a b"}', routes: "cpu", batch: "b 1" }));
  await page.getByRole("button", { name: "Create 6 tasks" }).click();
  await page.getByRole("status").filter({ hasText: "6 were there already with another definition (routes)" }).waitFor();
});

test("a sweep that takes longer than a request goes on by itself and counts exactly", async () => {
  const total = 30_000;
  const page = await newPage({ own: true });
  page.context().setDefaultTimeout(120_000);
  await page.goto(sweepAddress([["long", `1..${total}`]]));
  await page.getByRole("button", { name: "Create 30,000 tasks" }).click();
  await page.locator(".alert.done").filter({ hasText: "Created 30,000 tasks." }).waitFor();
  assert.equal(await count("args.long >= 1"), total);
});

test("a sweep goes on where it stopped, with the ids that it would have had", async () => {
  const fields = { way: "sweep", step: "create", key: "goes.on", values: "1,1,2..4" };
  const later = await post({ ...fields, done: "2", created: "2" });
  assert.equal(later.status, 303);
  assert.equal(await count("args.goes.on >= 1"), 3);
  assert.equal(await count("args.goes.on == 1"), 0, "what was done before is not done again");
  const whole = await post(fields);
  assert.equal(whole.status, 303);
  assert.equal(await count("args.goes.on >= 1"), 5);
  assert.equal(await count("args.goes.on == 1"), 2, "equal combinations are different tasks");
});

test("a sweep that is too long for an address is previewed and created all the same", async () => {
  const page = await newPage();
  await page.goto(`${submit}?way=sweep`);
  await page.getByLabel("Key 1").fill("listed");
  const values = Array.from({ length: 12_000 }, (_, n) => 100_000 + n);
  await page.getByLabel("Values 1", { exact: true }).fill(values.join(","));
  await page.getByRole("button", { name: "Preview" }).click();
  const create = page.getByRole("button", { name: "Create 12,000 tasks" });
  await create.waitFor();
  assert.equal(new URL(page.url()).search, "?way=sweep");
  await create.click();
  await page.locator(".alert.done").filter({ hasText: "Created 12,000 tasks." }).waitFor();
  assert.equal(await count("args.listed >= 100000"), 12_000);
  assertCalm(page);
});

test("a billion combinations and other impossible sweeps are refused at once", async () => {
  const began = Date.now();
  const cases = [
    [[["a", "1..1000"], ["b", "1..1000"], ["c", "1..1000"]], /more than 100,000 combinations/],
    [[["a", "1..1000000000"]], /more values than fit into a sweep/],
    [[["a", "0..1..1e-30"]], /more values than fit/],
    [Array.from({ length: 64 }, (_, n) => [`k${n}`, "1,2,3"]), /more than 100,000 combinations/],
    [[["a", "99999999999999999999"]], /integers of 64 bits/],
    [[["a.".repeat(100) + "b", "1"]], /at most 64 levels/],
    [[["a", "[".repeat(2000)]], /./],
  ];
  for (const [axes, message] of cases) {
    const text = await (await fetch(sweepAddress(axes))).text();
    assert.match(text, message);
    if (message.source !== ".") assert.doesNotMatch(text, /Create [\d,]+ task/);
  }
  // To go through them would take far longer.
  assert.ok(Date.now() - began < 60_000, `${Date.now() - began} ms`);
});

test("a file is read into the field, and one that is too large is not", async () => {
  const page = await newPage();
  await page.goto(`${submit}?way=lines`);
  const file = page.locator("input[type=file]");
  const buffer = Buffer.from(Array.from({ length: 1000 }, (_, n) => `{"args": {"file": ${n}}}\n`).join(""));
  await file.setInputFiles({ name: "tasks.jsonl", mimeType: "application/jsonl", buffer });
  await page.getByRole("button", { name: "Create 1,000 tasks" }).waitFor();
  assert.match(await page.locator("#report").textContent(), /and 990 more/);
  await page.getByRole("button", { name: "Create 1,000 tasks" }).click();
  await page.locator(".alert.done").filter({ hasText: "Created 1,000 tasks." }).waitFor();
  assert.equal(await count("args.file >= 0"), 1000);
  const large = path.join(server.folder, "large.jsonl");
  writeFileSync(large, Buffer.alloc(9 * 1024 * 1024, "{}\n"));
  await file.setInputFiles(large);
  await page.locator("#lines-note").filter({ hasText: "larger than 8 MiB" }).waitFor();
  assert.equal(await page.getByLabel("One task per line, as JSON").inputValue(), "");
  assertCalm(page);
});

test("lines that changed after the check are shown again before they are created", async () => {
  const answer = await post({ way: "lines", step: "create", expect: "1", lines: '{"args":{"changed":1}}\n{"args":{"changed":2}}' });
  assert.equal(answer.status, 200);
  assert.match(await answer.text(), /have changed since they were checked/);
  assert.equal(await count("args.changed >= 1"), 0);
  const wrong = await post({ way: "lines", step: "create", expect: "1", lines: '{"args":{"changed":1}}\n{' });
  assert.equal(wrong.status, 200);
  assert.equal(await count("args.changed >= 1"), 0, "one wrong line stops all of them");
});

test("hostile forms are answered and create nothing that is not meant", async () => {
  const before = await count();
  const deep = `{"a":${"[".repeat(100_000)}${"]".repeat(100_000)}}`;
  const cases = [
    [{ args: deep }, /at most 64 levels deep/],
    [{ args: '{"a": 1, "a": 2}' }, /for the second time/],
    [{ args: '{"a": 1e999}' }, /too large/],
    [{ args: `{"a": ${"9".repeat(1000)}}` }, /64 bits/],
    [{ args: `{"a": "${"x".repeat(1_100_000)}"}` }, /The task is too large/],
    [{ name: "a\u0007b" }, /control characters/],
    [{ name: "x".repeat(257) }, /at most 256 characters/],
    [{ routes: Array.from({ length: 257 }, (_, n) => `r${n}`).join(",") }, /at most 256 routes/],
    [{ priority: "9223372036854775808" }, /64 bits/],
  ];
  for (const [fields, message] of cases) {
    const answer = await post({ way: "one", step: "create", ...fields });
    assert.equal(answer.status, 200, JSON.stringify(fields).slice(0, 80));
    assert.match(await answer.text(), message);
  }
  const large = await post({ way: "lines", step: "create", expect: "1", lines: "x".repeat(10 * 1024 * 1024) });
  const answer = await large.text();
  assert.match(answer, /more than 8 MiB/);
  assert.ok(answer.length < 100_000, `${answer.length} characters`);
  // One that is too large to be read at all is in contract/browsers.rs: fetch gives up when it is answered before it has sent everything.
  const many = await post({ way: "lines", step: "create-valid", expect: "10001", lines: "{}\n".repeat(10_001) });
  assert.match(await many.text(), /more than 10,000 lines/);
  const foreign = await fetch(submit, { method: "POST", body: new URLSearchParams({ way: "one", step: "create", form_token: "x" }) });
  assert.equal(foreign.status, 403);
  assert.equal(await count(), before);
});

test("hostile content in a preview neither runs nor breaks the page", async () => {
  const page = await newPage();
  const evil = `<script>alert(1)</script><img src=x onerror=alert(2)>"'\u202e\u001b[31m${"w".repeat(10_000)}`;
  await page.goto(`${submit}?way=lines`);
  await page.getByLabel("One task per line, as JSON").fill(`${JSON.stringify({ name: evil.slice(0, 200).replace("\u001b", ""), args: { [evil]: evil } })}\n${JSON.stringify({ [evil]: 1 })}`);
  await page.locator("#report table").nth(1).waitFor();
  await assertNoOverflow(page);
  const query = new URLSearchParams({ way: "sweep", key: evil.replaceAll("=", "-").slice(0, 3000), values: JSON.stringify(evil.slice(0, 3000)), name: "<b>{{x}}</b>" });
  await page.goto(`${submit}?${query}`);
  await page.getByRole("button", { name: "Create 1 task" }).waitFor();
  await assertNoOverflow(page);
  assertCalm(page);
});

test("by keyboard alone a task is created", async () => {
  const page = await newPage();
  await page.goto(`${server.url}/ui/queues/experiments/tasks`);
  await page.keyboard.press("g");
  await page.keyboard.press("s");
  await page.waitForURL(/submit/);
  const focusOn = async (id) => {
    for (let n = 0; n < 40; n += 1) {
      if (await page.evaluate((wanted) => document.activeElement?.id === wanted, id)) return;
      await page.keyboard.press("Tab");
    }
    assert.fail(`${id} is not reached by the keyboard`);
  };
  await focusOn("name");
  await page.keyboard.type("by-keyboard");
  await focusOn("args");
  await page.keyboard.type('{"k": 1}');
  await focusOn("routes");
  await page.keyboard.press("Enter");
  await page.locator(".alert.done").waitFor();
  assert.equal((await named("by-keyboard")).length, 1);
  assertCalm(page);
});

test("who may not submit sees no page and creates nothing", async () => {
  const closed = await Server.start({ args: ["--dashboard", "read-only"] });
  try {
    const answer = await fetch(`${closed.url}/ui/queues/experiments/submit`);
    assert.equal(answer.status, 403);
    assert.match(await answer.text(), /This dashboard is read-only/);
    const sent = await fetch(`${closed.url}/ui/queues/experiments/submit`, { method: "POST", body: new URLSearchParams({ way: "one" }) });
    assert.equal(sent.status, 403);
    assert.doesNotMatch(await (await fetch(`${closed.url}/ui/`)).text(), />Submit</);
  } finally {
    await closed.stop();
  }
  assert.equal((await fetch(`${server.url}/ui/queues/nothing/submit`)).status, 404);
});

test("the page looks right in each of its ways, wide and narrow, light and dark", async () => {
  const base = `${server.url}/ui/queues/looks/submit`;
  await checkLooks(base, "submit-one", async (page) => {
    await page.getByLabel("Args, a JSON object").fill('{"lr": 0.1,\n "layers" 12}');
    await page.locator("#args-note:not(:empty)").waitFor();
  });
  await checkLooks(`${base}?way=sweep`, "submit-sweep-empty");
  const query = new URLSearchParams([["way", "sweep"], ["key", "lr"], ["values", "log:1e-5..1e-1..5"], ["key", "model.layers"], ["values", "12, 24"], ["key", "seed"], ["values", "1..50"], ["name", "vit-{seed}"], ["routes", "a100"]]);
  await checkLooks(`${base}?${query}`, "submit-sweep");
  await checkLooks(`${base}?way=lines`, "submit-lines", async (page) => {
    const line = (n) => (n % 10 === 3 ? `{"lr": ${n}}` : `{"name": "run-${n}", "args": {"lr": ${n / 100}, "model": {"name": "vit", "layers": 12}}}`);
    await page.getByLabel("One task per line, as JSON").fill(Array.from({ length: 30 }, (_, n) => line(n)).join("\n"));
    await page.locator("#report table").first().waitFor();
  });
});
