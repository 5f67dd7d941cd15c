// The page of a task: what it shows in each state, its output while it runs, editing, and everything that can be done with it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { NARROW, assertCalm, assertNoOverflow, checkLooks, closePage, newPage, screenshot } from "./support/browser.mjs";
import { fillDemo } from "./support/demo.mjs";
import { Server } from "./support/server.mjs";

const QUEUE = "/queues/experiments";
// How soon a page asks again depends on how long the server took: on a busy machine that is seldom.
const LIVE = { timeout: 90_000 };
let server;
let ids;
let made = 0;

before(async () => {
  server = await Server.start();
  ids = await fillDemo(server);
});
after(async () => {
  await server.stop();
});

function page(id, rest = "") {
  return `${server.url}/ui${QUEUE}/tasks/${id}${rest}`;
}

// A new task on a route of its own. `raw` is a body as text, for numbers that JavaScript cannot hold.
async function create(definition, raw) {
  made += 1;
  const id = `t_page${String(made).padStart(8, "0")}`;
  const route = `only${made}`;
  const body = raw ?? JSON.stringify({ routes: [route], ...definition });
  const answer = await fetch(`${server.url}/api/v2${QUEUE}/tasks/${id}`, { method: "PUT", body, headers: { "content-type": "application/json" } });
  assert.equal(answer.status, 201, await answer.text());
  return { id, route };
}

async function claim({ id, route }, worker = { host: "gpu-7", pid: 41, slot: 2 }) {
  made += 1;
  const run_id = `r_page${String(made).padStart(8, "0")}`;
  const claimed = await server.api("POST", `${QUEUE}/tasks/claim`, { run_id, route, worker });
  assert.equal(claimed.task.id, id);
  return run_id;
}

async function running(definition = {}) {
  const task = await create(definition);
  return { ...task, run_id: await claim(task) };
}

function print({ id, run_id }, offset, text) {
  return server.api("POST", `${QUEUE}/tasks/${id}/output`, { run_id, offset, text });
}

async function status(id) {
  return (await server.api("GET", `${QUEUE}/tasks/${id}`)).status;
}

test("a running task looks as it should, wide and narrow, light and dark", async () => {
  const id = ids.running[1];
  await server.api("POST", `${QUEUE}/workers/w_demo00000001/telemetry`, {
    telemetry: { cpu_percent: 312.4, memory_bytes: 5583457485, gpus: [{ memory_total_bytes: 42949672960, memory_used_bytes: 41017000000, utilization_percent: 97 }] },
  });
  await checkLooks(page(id), "task-running", async (shown) => {
    await shown.getByText("97 % · 38.2 of 40 GiB").waitFor();
    await shown.getByText("step 6,039 of 10,000 · 60 %").waitFor();
  });
});

test("a failed, a pending and a succeeded task look as they should", async () => {
  await checkLooks(page(ids.failed[0]), "task-failed", (shown) => shown.getByText("Traceback", { exact: true }).click());
  await checkLooks(page(ids.pending[0]), "task-pending", (shown) => shown.getByText("Why it is pending").waitFor());
  await checkLooks(page(ids.succeeded[0]), "task-succeeded", (shown) => shown.locator("#result .json").waitFor());
});

test("the forms of a task look as they should", async () => {
  await checkLooks(page(ids.failed[0], "/edit"), "task-edit");
  await checkLooks(page(ids.failed[0], "/delete"), "task-delete");
});

test("only the buttons that apply to the state are there", async () => {
  const shown = await newPage();
  const expected = {
    running: ["Duplicate", "Cancel"],
    failed: ["Duplicate", "Edit", "Requeue", "Archive", "Delete"],
    succeeded: ["Duplicate", "Edit", "Archive", "Delete"],
    pending: ["Duplicate", "Edit", "Cancel", "Delete"],
    cancelled: ["Duplicate", "Edit", "Requeue", "Archive", "Delete"],
  };
  for (const [state, buttons] of Object.entries(expected)) {
    await shown.goto(page(ids[state][0]));
    assert.deepEqual(await shown.locator(".task-actions .button").allTextContents(), buttons, state);
    assert.equal(await shown.locator(".task-head .state").textContent(), `${{ pending: "○", running: "◐", succeeded: "●", failed: "✕", cancelled: "–" }[state]}${state}`);
  }
  await shown.goto(page(ids.running[0]));
  await shown.getByText("While it runs it can be neither edited nor deleted.").waitFor();
  await shown.goto(page(ids.succeeded[0]));
  assert.equal(await shown.getByRole("link", { name: "Duplicate" }).getAttribute("href"), `/ui${QUEUE}/submit?from=${ids.succeeded[0]}`);
  assertCalm(shown);
});

test("numbers are shown exactly, wherever they are", async () => {
  const { id } = await create(null, `{"name":"exact","args":{"seed":9007199254740993,"tiny":1e-7,"whole":1.0,"max":9223372036854775807},"priority":9007199254740993,"routes":["exact"]}`);
  const shown = await newPage();
  await shown.goto(page(id));
  const json = await shown.locator("#args .json").innerText();
  for (const number of ["9007199254740993", "1e-7", "1.0", "9223372036854775807"]) assert.ok(json.includes(`: ${number}`), json);
  await shown.locator("#facts").getByText("9007199254740993").waitFor();
  const raw = await (await fetch(page(id, "/json/args"))).text();
  assert.equal(raw, `{"max":9223372036854775807,"seed":9007199254740993,"tiny":1e-7,"whole":1.0}`);
});

test("output follows while the task runs, with colours, lines that are written over, and marked gaps", async () => {
  const task = await running({ name: "prints" });
  const shown = await newPage();
  await shown.goto(page(task.id));
  await shown.getByText("No output was sent so far.").waitFor();
  let text = "first\n\u001b[31mred\u001b[0m plain\n 10%\r 50%\r100%";
  await print(task, 0, text);
  await shown.locator("#output .f1", { hasText: "red" }).waitFor();
  assert.equal(await shown.locator("#output pre").innerText(), "first\nred plain\n100%");
  await print(task, text.length, " done\n\u001b[1");
  await shown.locator("#output", { hasText: "100% done" }).waitFor();
  await print(task, text.length + 9, "mbold\u001b[0m\n");
  await shown.locator("#output .bold", { hasText: "bold" }).waitFor();
  await print(task, 10_000, "after the gap\n");
  await shown.locator("#output .gap").waitFor();
  const seen = await shown.locator("#output pre").innerText();
  assert.match(seen, /^first\nred plain\n100% done\nbold\n— 9\.7 KiB are missing here —\nafter the gap\n$/);
  await shown.reload();
  assert.equal(await shown.locator("#output pre").innerText(), seen, "the same as by following");
  assertCalm(shown);
});

test("output stays at the end for a reader who is there, and where it is for one who is not", async () => {
  const task = await running();
  const lines = (from, count) => Array.from({ length: count }, (_, n) => `line ${from + n}\n`).join("");
  let text = lines(0, 200);
  await print(task, 0, text);
  const shown = await newPage();
  await shown.goto(page(task.id));
  const box = shown.locator("#output");
  const place = () => box.evaluate((element) => [element.scrollTop, element.scrollHeight - element.scrollTop - element.clientHeight]);
  assert.ok((await place())[1] < 12, "it begins at the end");
  const more = lines(200, 50);
  await print(task, text.length, more);
  text += more;
  await box.getByText("line 249").waitFor();
  assert.ok((await place())[1] < 12, "it stayed at the end");
  await box.evaluate((element) => { element.scrollTop = 100; });
  await shown.locator("#output-follow[aria-pressed=false]").waitFor();
  await print(task, text.length, lines(250, 50));
  await box.getByText("line 299").waitFor({ state: "attached" });
  assert.equal((await place())[0], 100, "it stayed where the reader is");
  await shown.getByRole("button", { name: "Follow" }).click();
  assert.ok((await place())[1] < 12, "it went to the end");
  assertCalm(shown);
});

test("the output of the next run takes the place of the one before", async () => {
  const task = await running({ max_attempts: 3 });
  await print(task, 0, "of the first run\n");
  const shown = await newPage();
  await shown.goto(page(task.id));
  await shown.locator("#output", { hasText: "of the first run" }).waitFor();
  await server.api("POST", `${QUEUE}/tasks/${task.id}/fail`, { run_id: task.run_id, error: { type: "Oops", message: "no" } });
  const second = { ...task, run_id: await claim(task) };
  await print(second, 0, "of the second run\n");
  await shown.locator("#output", { hasText: "of the second run" }).waitFor();
  assert.equal(await shown.locator("#output pre").innerText(), "of the second run\n");
  await shown.locator(".timeline").getByText("attempt 2").waitFor(LIVE);
  const events = await shown.locator(".timeline li").allInnerTexts();
  assert.match(events.join("\n"), /attempt 1\s+failed, .* ago\s+Oops[^]*attempt 2\s+running for/);
});

test("search in the output finds, counts and steps, by keyboard alone", async () => {
  const task = await running();
  await print(task, 0, `${"noise\n".repeat(100)}a \u001b[31mWAR\u001b[0mning\n${"noise\n".repeat(100)}another warning\n`);
  const shown = await newPage();
  await shown.goto(page(task.id));
  await shown.locator("#output-search").waitFor();
  await shown.keyboard.press("/");
  await shown.keyboard.type("warning");
  await shown.getByText("2 of 2").waitFor();
  assert.ok(await shown.evaluate(() => CSS.highlights.get("output-match").size === 2));
  await shown.keyboard.press("Enter");
  await shown.getByText("1 of 2").waitFor();
  const isVisible = () => shown.evaluate(() => {
    const [range] = CSS.highlights.get("output-current");
    const [place, frame] = [range.getBoundingClientRect(), document.getElementById("output").getBoundingClientRect()];
    return range.toString() === "WARning" && place.top >= frame.top && place.bottom <= frame.bottom;
  });
  assert.ok(await isVisible(), "across colours, and in view");
  await shown.keyboard.press("Shift+Enter");
  await shown.getByText("2 of 2").waitFor();
  await shown.keyboard.type("s");
  await shown.getByText("nothing", { exact: true }).waitFor();
  assertCalm(shown);
});

test("the whole kept output downloads as a file, and what was pushed out is said", async () => {
  const small = await Server.start({ args: ["--task-output-bytes", "100000"] });
  try {
    const id = "t_pushed000000";
    await small.api("PUT", `${QUEUE}/tasks/${id}`, {});
    await small.api("POST", `${QUEUE}/tasks/claim`, { run_id: "r_pushed000000", route: "default" });
    const line = `${"x".repeat(49)}\n`;
    for (let n = 0; n < 5; n += 1) {
      await small.api("POST", `${QUEUE}/tasks/${id}/output`, { run_id: "r_pushed000000", offset: n * 30_000, text: line.repeat(600) });
    }
    const shown = await newPage();
    await shown.goto(`${small.url}/ui${QUEUE}/tasks/${id}`);
    const note = await shown.locator("#output-note").textContent();
    assert.equal(note, "The first 48.8 KiB are not kept; the last 64 KiB are shown, the download has all of it.");
    const [download] = await Promise.all([shown.waitForEvent("download"), shown.getByRole("link", { name: "Download" }).click()]);
    assert.equal(download.suggestedFilename(), `${id}-output.txt`);
    const answer = await fetch(`${small.url}/ui${QUEUE}/tasks/${id}/output.txt`);
    assert.equal(answer.headers.get("content-type"), "text/plain; charset=utf-8");
    assert.equal(await answer.text(), `[the first 50,000 bytes are not kept]\n${line.repeat(2000)}`);
  } finally {
    await small.stop();
  }
});

test("the page follows a task from pending to its end without a reload", async () => {
  const task = await create({ name: "lives" });
  const shown = await newPage();
  await shown.goto(page(task.id));
  await shown.getByText("No worker is there for its route").waitFor();
  await shown.getByText(new RegExp(`taskqueue loop --queue experiments --url http\\S+ --route ${task.route} -- COMMAND`)).waitFor();
  assert.equal(await shown.locator("#output-card").isVisible(), false);
  const run_id = await claim(task);
  await shown.locator(".task-head .state.running").waitFor(LIVE);
  assert.equal(await shown.locator("#waiting").count(), 0);
  await print({ ...task, run_id }, 0, "hello\n");
  await shown.locator("#output", { hasText: "hello" }).waitFor();
  await server.api("POST", `${QUEUE}/tasks/${task.id}/progress`, { run_id, progress: { step: 1, total: 4, loss: 0.5 } });
  await shown.getByText("step 1 of 4 · 25 %").waitFor(LIVE);
  await server.api("POST", `${QUEUE}/tasks/${task.id}/complete`, { run_id, result: { loss: 0.25 } });
  await shown.locator(".task-head .state.succeeded").waitFor(LIVE);
  await shown.locator("#result", { hasText: "0.25" }).waitFor();
  await shown.locator("#output", { hasText: "hello" }).waitFor();
  assert.equal(await shown.getByRole("button", { name: "Follow" }).count(), 0);
  assertCalm(shown);
});

for (const javaScript of [true, false]) {
  const how = javaScript ? "with JavaScript" : "without JavaScript";

  test(`a task is cancelled, requeued and deleted by its buttons ${how}`, async () => {
    const task = await running({ name: "acted-on" });
    const shown = await newPage({ javaScript });
    await shown.goto(page(task.id));
    await shown.getByRole("link", { name: "Cancel" }).click();
    await shown.getByText("Cancel this task?").waitFor();
    assert.equal(await status(task.id), "running", "asked first");
    await shown.getByRole("button", { name: "Cancel the task" }).click();
    await shown.getByText("The task is cancelled.").waitFor();
    assert.equal(await status(task.id), "cancelled");
    await shown.getByRole("button", { name: "Requeue" }).click();
    await shown.getByText("The task is pending again.").waitFor();
    assert.equal(await status(task.id), "pending");
    await shown.getByRole("button", { name: "Cancel" }).click();
    await shown.getByText("The task is cancelled.").waitFor();
    await shown.getByRole("link", { name: "Delete" }).click();
    await shown.getByText("This cannot be undone.").waitFor();
    await shown.getByRole("button", { name: "Delete the task" }).click();
    await shown.getByText(`The task ${task.id} is deleted.`).waitFor();
    await assert.rejects(status(task.id), /404/);
    assertCalm(shown);
  });

  test(`an edit writes only what changed, and keeps what was typed when something is wrong, ${how}`, async () => {
    const task = await create({ name: "edited", args: { lr: 0.1 }, metadata: { keep: [1, 2.5] }, priority: 3 });
    const shown = await newPage({ javaScript });
    await shown.goto(page(task.id));
    await shown.getByRole("link", { name: "Edit" }).click();
    await shown.getByLabel("Args").fill('{\n  "lr": 0.2,\n  oops\n}');
    await shown.getByLabel("Priority").fill("many");
    await shown.getByLabel("Name").fill("typed <b>");
    await shown.getByRole("button", { name: "Save" }).click();
    await shown.getByText("Line 3, column 3").waitFor();
    await shown.getByText("Write a whole number of 64 bits, such as 5 or -1.").waitFor();
    assert.equal(await shown.getByLabel("Args").inputValue(), '{\n  "lr": 0.2,\n  oops\n}');
    assert.equal(await shown.getByLabel("Name").inputValue(), "typed <b>");
    assert.equal(await shown.getByLabel("Args").getAttribute("aria-invalid"), "true");
    assert.equal((await server.api("GET", `${QUEUE}/tasks/${task.id}`)).name, "edited");
    await shown.getByLabel("Args").fill('{ "lr": 0.2 }');
    await shown.getByLabel("Priority").fill("-4");
    await shown.getByRole("button", { name: "Save" }).click();
    await shown.getByText("Saved: name, args, priority.").waitFor();
    const saved = await server.api("GET", `${QUEUE}/tasks/${task.id}`);
    assert.deepEqual([saved.name, saved.args, saved.priority, saved.metadata], ["typed <b>", { lr: 0.2 }, -4, { keep: [1, 2.5] }]);
    // The browser logs the answer 422 of the wrong form; nothing else may be wrong.
    assert.deepEqual(shown.problems.filter((text) => !text.includes("422")), []);
  });
}

test("an edit that would overwrite what somebody else saved is refused first", async () => {
  const task = await create({ args: { lr: 0.1 }, priority: 1 });
  const shown = await newPage();
  await shown.goto(page(task.id, "/edit"));
  await shown.getByLabel("Args").fill('{"lr": 9}');
  await server.api("PATCH", `${QUEUE}/tasks/${task.id}`, { priority: 77 });
  await shown.getByRole("button", { name: "Save" }).click();
  await shown.getByText("The task has changed since this form was opened, so nothing was saved.").waitFor();
  await shown.getByText("differs from the task in: args, priority.").waitFor();
  assert.equal(await shown.getByLabel("Args").inputValue(), '{"lr": 9}');
  assert.deepEqual((await server.api("GET", `${QUEUE}/tasks/${task.id}`)).args, { lr: 0.1 });
  await shown.getByLabel("Priority").fill("77");
  await shown.getByRole("button", { name: "Save" }).click();
  await shown.getByText("Saved: args.").waitFor();
  const saved = await server.api("GET", `${QUEUE}/tasks/${task.id}`);
  assert.deepEqual([saved.args, saved.priority], [{ lr: 9 }, 77]);
});

test("a running task cannot be edited, and the form says why", async () => {
  const task = await create({ priority: 1, max_attempts: 5 });
  const shown = await newPage();
  await shown.goto(page(task.id, "/edit"));
  const run_id = await claim(task);
  await shown.getByLabel("Priority").fill("5");
  await shown.getByRole("button", { name: "Save" }).click();
  await shown.getByText("The task has changed since this form was opened").waitFor();
  assert.ok(await shown.getByRole("button", { name: "Save" }).isDisabled());
  await shown.goto(page(task.id, "/edit"));
  await shown.getByText("it cannot be changed now").waitFor();
  await server.api("POST", `${QUEUE}/tasks/${task.id}/fail`, { run_id, error: { type: "E", message: "m" } });
  await shown.goto(page(task.id, "/edit"));
  await shown.getByLabel("Attempts at most").fill("1");
  await shown.getByRole("button", { name: "Save" }).click();
  await shown.getByText("1 are used already, and a pending task needs one more: use at least 2.").waitFor();
});

test("a task that is deleted while its page is open says so", async () => {
  const task = await create({ name: "doomed" });
  const shown = await newPage();
  await shown.goto(page(task.id));
  assert.equal(await shown.locator("#gone").isVisible(), false);
  await server.api("DELETE", `${QUEUE}/tasks/${task.id}`);
  await shown.getByText("This task is not there any more").waitFor(LIVE);
  await shown.getByRole("heading", { name: "doomed" }).waitFor();
  const answer = await fetch(page(task.id));
  assert.equal(answer.status, 404);
  assert.match(await answer.text(), /There is no such task/);
});

test("hostile content neither runs nor breaks the layout, and the page stays small", async () => {
  const script = "<script>document.title='hacked'</script><img src=x onerror=alert(1)>";
  const rtl = "a\u202eb\u2066c";
  const word = "w".repeat(10_000);
  const texts = { script, rtl, ansi: "\u001b[31mred\u001b[0m", [`${script}${word.slice(0, 500)}`]: word, nested: { deep: [{ [rtl]: script }, word, word] } };
  const task = await create({ name: `${script}${rtl}`.slice(0, 250), args: texts, metadata: texts, routes: ["hostile", "r".repeat(128)] });
  const run_id = await claim({ ...task, route: "hostile" }, { host: script, slot: word.slice(0, 1000), [rtl]: word.slice(0, 1000), gpu: rtl });
  await print({ ...task, run_id }, 0, `${script}\n${rtl}\n${word}\n\u001b]0;title\u0007\u001b[41;97mwhite on red\u001b[0m\n\u001b[38;2;1;2;3mdark\u001b[0m\n`);
  await server.api("POST", `${QUEUE}/tasks/${task.id}/progress`, { run_id, progress: { step: 1, total: 3, [script]: word, [rtl]: script } });
  const states = ["running", "failed"];
  for (const state of states) {
    if (state === "failed") {
      await server.api("POST", `${QUEUE}/tasks/${task.id}/fail`, { run_id, retry: false, error: { type: `${script}${word}`.slice(0, 200), message: `${script}${rtl}${word}`, traceback: `${script}\n${word}\n`.repeat(60) } });
    }
    for (const viewport of [undefined, NARROW]) {
      const shown = await newPage(viewport ? { viewport } : {});
      const answer = await shown.goto(page(task.id));
      assert.ok((await answer.body()).length < 300_000, `${(await answer.body()).length} bytes`);
      if (state === "failed") await shown.getByText("Traceback", { exact: true }).click();
      await shown.locator("#output", { hasText: "white on red" }).waitFor();
      assert.notEqual(await shown.title(), "hacked");
      assert.equal(await shown.locator("main script, main img").count(), 0);
      assert.match(await shown.locator("#output").innerText(), /aU\+202EbU\+2066c/);
      assert.match(await shown.locator("#args .json").innerText(), /a\\u202eb\\u2066c/);
      await assertNoOverflow(shown);
      assertCalm(shown);
      await screenshot(shown, `task-hostile-${state}-${viewport ? "narrow" : "wide"}`);
      await shown.goto(page(task.id, "/edit"));
      await assertNoOverflow(shown);
      assertCalm(shown);
      await closePage(shown);
    }
  }
  const whole = await (await fetch(page(task.id, "/json/last_error"))).json();
  assert.ok(whole.traceback.length > 600_000 && whole.message.endsWith(word), "the whole is reachable");
});

test("a task with 1 MiB of args is shown in part, and its whole is a link away", async () => {
  const list = Array.from({ length: 100_000 }, (_, n) => n + 100_000);
  const task = await create({ name: "large", args: { list, text: "é".repeat(150_000) } });
  const shown = await newPage();
  const answer = await shown.goto(page(task.id));
  const html = await answer.body();
  assert.ok(html.length < 300_000, `${html.length} bytes`);
  await shown.getByText("Not everything is shown").waitFor();
  await shown.getByText("more characters").waitFor();
  assert.equal(await shown.locator("#args details").first().getAttribute("open"), null, "a long list is folded");
  await shown.locator("#args summary").first().click();
  await shown.getByText("… 99,500 more entries").waitFor();
  const whole = await (await fetch(page(task.id, "/json/args"))).json();
  assert.deepEqual([whole.list.length, whole.text.length], [100_000, 150_000]);
  await shown.goto(page(task.id, "/edit"));
  await shown.getByLabel("Priority").fill("12");
  await shown.getByRole("button", { name: "Save" }).click();
  await shown.getByText("Saved: priority.").waitFor();
  assertCalm(shown);
});

test("folded parts of JSON stay as the reader left them when the page refreshes", async () => {
  const task = await running({ args: { model: { layers: Array.from({ length: 30 }, (_, n) => `layer ${n}`), name: "a name that is long enough to need a line of its own" } } });
  const shown = await newPage();
  await shown.goto(page(task.id));
  const list = shown.locator("#args details details");
  assert.equal(await list.getAttribute("open"), null);
  await list.locator("summary").click();
  await server.api("POST", `${QUEUE}/tasks/${task.id}/progress`, { run_id: task.run_id, progress: { percent: 10 } });
  await shown.getByText("10 %").waitFor(LIVE);
  assert.equal(await list.getAttribute("open"), "");
  await shown.locator("#args").getByText('"layer 29"').waitFor();
});

test("copy buttons copy the id, and an object as it is stored", async () => {
  const { id } = await create(null, `{"args":{"seed":9007199254740993},"routes":["copy"]}`);
  const shown = await newPage({ own: true });
  await shown.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  // "Copied" stays for a second and a half: until this test says that they are over.
  await shown.clock.install();
  await shown.goto(page(id));
  await shown.clock.pauseAt(Date.now() + 3_600_000);
  const copied = () => shown.evaluate(() => navigator.clipboard.readText());
  await shown.getByRole("button", { name: "Copy id" }).click();
  await shown.getByText("Copied").waitFor();
  assert.equal(await copied(), id);
  await shown.evaluate(() => navigator.clipboard.writeText(""));
  await shown.getByRole("button", { name: "Copied" }).click();
  await shown.waitForFunction(async (id) => await navigator.clipboard.readText() === id, id);
  await shown.clock.runFor(1_500);
  await shown.getByRole("button", { name: "Copy id" }).waitFor();
  await shown.locator("#args").getByRole("button", { name: "Copy" }).click();
  await shown.locator("#args").getByText("Copied").waitFor();
  assert.equal(await copied(), '{"seed":9007199254740993}');
});

test("without JavaScript everything of a task can be read", async () => {
  const shown = await newPage({ javaScript: false });
  await shown.goto(page(ids.failed[0]));
  for (const text of ["OutOfMemoryError", "CUDA out of memory", "warning: grad norm clipped", '"seed"', "attempt 1"]) {
    await shown.getByText(text).first().waitFor();
  }
  await shown.getByText("Traceback", { exact: true }).click();
  await shown.getByText("loss.backward()").waitFor();
  assert.equal(await shown.locator("#output-search").isVisible(), false);
  assert.equal(await shown.getByRole("link", { name: "Download" }).isVisible(), true);
  assertCalm(shown);
});

test("a read-only dashboard shows the task without any button that changes it", async () => {
  const looking = await Server.start({ args: ["--dashboard", "read-only"] });
  try {
    const id = "t_readonly0000";
    await looking.api("PUT", `${QUEUE}/tasks/${id}`, { name: "look" });
    const shown = await newPage();
    await shown.goto(`${looking.url}/ui${QUEUE}/tasks/${id}`);
    await shown.getByRole("heading", { name: "look" }).waitFor();
    assert.equal(await shown.locator(".task-actions .button").count(), 0);
    for (const form of ["edit", "delete", "cancel"]) {
      const answer = await fetch(`${looking.url}/ui${QUEUE}/tasks/${id}/${form}`);
      assert.equal(answer.status, 403, form);
    }
  } finally {
    await looking.stop();
  }
});
