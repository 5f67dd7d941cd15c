// Who may look: signing in with a token and out again, what a session is to the browser, what tokens of less than everything show,
// and that no foreign page can frame ours or send its forms.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { request as httpsRequest } from "node:https";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";

import { assertCalm, checkLooks, closePage, newPage } from "./support/browser.mjs";
import { fillDemo } from "./support/demo.mjs";
import { BINARY, Server } from "./support/server.mjs";

const TOKEN = "a-token-that-is-not-to-be-seen";
const TWELVE_HOURS = 12 * 3600;

let folder;
let server;
const tokens = {};

function createToken(name, ...options) {
  const file = path.join(folder, "tokens.toml");
  const made = execFileSync(BINARY, ["token", "create", name, ...options, "--append", file, "--output", "json"]);
  tokens[name] = JSON.parse(made).token;
}

before(async () => {
  folder = mkdtempSync(path.join(tmpdir(), "taskqueue-tokens-"));
  createToken("looks", "--scope", "read");
  createToken("team", "--scope", "read", "--scope", "submit", "--queue", "experiments");
  createToken("works", "--scope", "work");
  server = await Server.start({ token: TOKEN, args: ["--tokens", path.join(folder, "tokens.toml"), "--log-requests"], queues: ["experiments", "finances"] });
  await fillDemo(server);
});
after(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function signIn(page, token = TOKEN) {
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
}

async function signedIn(token, options) {
  const page = await newPage(options);
  await page.goto(`${server.url}/ui/`);
  await signIn(page, token);
  await page.waitForURL(`${server.url}/ui/`);
  return page;
}

// What would be sent to change something: all forms but those of the frame.
const changes = (page) => page.locator("form[method=post]:not([action='/ui/theme']):not([action='/ui/sign-out']), [formmethod=post], button[name=action]");

test("who is not signed in gets the form, and with the token the page that they wanted", async () => {
  for (const javaScript of [true, false]) {
    const page = await newPage({ javaScript, own: true });
    const wanted = `${server.url}/ui/queues/experiments/tasks?filter=${encodeURIComponent("args.lr < 1 and name != \"a&b\"")}`;
    await page.goto(wanted);
    assert.equal(new URL(page.url()).pathname, "/ui/sign-in");
    assert.equal(await page.getByLabel("Token").evaluate((field) => document.activeElement === field), true, "it can be typed at once");
    await page.keyboard.type(TOKEN);
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => url.pathname === "/ui/queues/experiments/tasks");
    assert.equal(new URL(page.url()).searchParams.get("filter"), "args.lr < 1 and name != \"a&b\"");
    await page.getByRole("button", { name: "Sign out" }).waitFor();
    assertCalm(page);
    await closePage(page);
  }
});

test("a browser that opens the address of the server gets to the form, and then to the overview", async () => {
  const page = await newPage({ own: true });
  await page.goto(server.url);
  assert.equal(new URL(page.url()).pathname, "/ui/sign-in");
  await signIn(page);
  await page.waitForURL(`${server.url}/ui/`);
});

test("the browser keeps a session of twelve hours that no script and no other site gets, and never the token", async () => {
  const page = await signedIn(TOKEN, { own: true });
  const cookies = await page.context().cookies(`${server.url}/ui/`);
  const session = cookies.find(({ name }) => name === "taskqueue_session");
  assert.deepEqual([session.httpOnly, session.sameSite, session.path], [true, "Strict", "/ui/"]);
  const left = session.expires - Date.now() / 1000;
  assert.ok(left > TWELVE_HOURS - 60 && left <= TWELVE_HOURS, `${left} s`);
  const seen = await page.evaluate(() => JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }, location.href, document.documentElement.outerHTML]));
  assert.ok(!seen.includes(TOKEN) && !seen.includes(session.value));
  assert.ok(!JSON.stringify(cookies).includes(TOKEN));
  assert.ok(!server.log.includes(TOKEN) && !server.log.includes(session.value), "the log");
  assert.match(server.log, /path="\/ui\/" status=303/);
});

test("a wrong token says so, keeps nothing, and can be corrected", async () => {
  for (const javaScript of [true, false]) {
    const page = await newPage({ javaScript, own: true });
    await page.goto(`${server.url}/ui/system`);
    await signIn(page, "wrong");
    const message = page.getByRole("alert");
    await message.waitFor();
    assert.match(await message.innerText(), /wrong or has expired/);
    assert.equal(await page.getByLabel("Token").getAttribute("aria-describedby"), await message.getAttribute("id"));
    assert.equal(await page.getByLabel("Token").inputValue(), "");
    assert.deepEqual(await page.context().cookies(), []);
    await signIn(page);
    await page.waitForURL(`${server.url}/ui/system`);
    await closePage(page);
  }
});

test("a token that cannot read is told what it lacks", async () => {
  const page = await newPage({ own: true });
  await page.goto(`${server.url}/ui/`);
  await signIn(page, tokens.works);
  assert.match(await page.getByRole("alert").innerText(), /does not have the scope read/);
  assert.deepEqual(await page.context().cookies(), []);
});

test("who signs out is out, in all tabs of the browser", async () => {
  const page = await signedIn(TOKEN, { own: true });
  const other = await page.context().newPage();
  await other.goto(`${server.url}/ui/system`);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForURL(`${server.url}/ui/sign-in`);
  await other.reload();
  assert.equal(new URL(other.url()).pathname, "/ui/sign-in");
});

test("a token that may only read shows everything and no button that changes something", async () => {
  const page = await signedIn(tokens.looks);
  await page.getByText("looks", { exact: true }).waitFor();
  const task = (await server.api("GET", "/queues/experiments/tasks?limit=1")).items[0].id;
  for (const place of ["", "system", "queues/experiments/tasks", `queues/experiments/tasks/${task}`, "queues/experiments/workers", "queues/experiments/routes", "queues/experiments/compare"]) {
    await page.goto(`${server.url}/ui/${place}`);
    assert.equal(new URL(page.url()).pathname, `/ui/${place}`);
    assert.equal(await changes(page).count(), 0, place);
    assert.equal(await page.getByRole("link", { name: "Submit" }).count(), 0, place);
  }
  assertCalm(page);
});

test("a token for one queue shows this one and nothing of the others", async () => {
  const page = await signedIn(tokens.team);
  assert.equal(await page.getByLabel("Queue").locator("option").count(), 1);
  for (const place of ["", "system"]) {
    await page.goto(`${server.url}/ui/${place}`);
    assert.ok(!(await page.content()).includes("finances"), place);
  }
  const answer = await page.goto(`${server.url}/ui/queues/finances/tasks`);
  assert.equal(answer.status(), 404);
  await page.getByRole("heading", { name: "There is no such queue" }).waitFor();
});

test("a session goes on when the server was restarted", async () => {
  const page = await signedIn(TOKEN, { own: true });
  await server.restart();
  await page.goto(`${server.url}/ui/system`);
  assert.equal(page.url(), `${server.url}/ui/system`);
  await page.getByRole("button", { name: "Sign out" }).waitFor();
});

test("a read-only dashboard has no button that changes something, and one that is off is not there", async () => {
  const readOnly = await Server.start({ args: ["--dashboard", "read-only"] });
  await fillDemo(readOnly, { count: 10 });
  const page = await newPage();
  for (const place of ["", "queues/experiments/tasks"]) {
    await page.goto(`${readOnly.url}/ui/${place}`);
    assert.equal(await changes(page).count(), 0, place);
  }
  await closePage(page);
  await readOnly.stop();
  const off = await Server.start({ args: ["--dashboard", "off"] });
  for (const place of ["/", "/ui", "/ui/", "/ui/sign-in"]) {
    const answer = await fetch(off.url + place, { headers: { accept: "text/html" }, redirect: "manual" });
    assert.deepEqual([answer.status, answer.headers.get("content-type")], [404, "application/json"], place);
  }
  await off.stop();
});

test("with TLS the session is sent over TLS only", async () => {
  const encrypted = await Server.start({ token: TOKEN, args: ["--tls-self-signed"] });
  const sent = httpsRequest(`${encrypted.url}/ui/sign-in`, { method: "POST", rejectUnauthorized: false, headers: { "content-type": "application/x-www-form-urlencoded" } });
  sent.end(`token=${TOKEN}`);
  const [answer] = await once(sent, "response");
  assert.equal(answer.statusCode, 303);
  assert.match(answer.headers["set-cookie"][0], /^taskqueue_session=[\w-]+; Path=\/ui\/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure$/);
  answer.resume();
  await encrypted.stop();
});

// A page of another site: the same machine under another name.
async function foreignPage(html) {
  const foreign = createServer((_, answer) => { answer.setHeader("content-type", "text/html"); answer.end(`<!doctype html>${html}`); });
  foreign.listen(0, "127.0.0.1");
  await once(foreign, "listening");
  return { url: `http://localhost:${foreign.address().port}/`, close: () => foreign.close() };
}

test("a link of another site opens the page, with the session that the browser has", async () => {
  const foreign = await foreignPage(`<a href="${server.url}/ui/queues/experiments/workers?x=%22%3E1">look</a>`);
  for (const javaScript of [true, false]) {
    const page = await signedIn(TOKEN, { javaScript, own: true });
    await page.goto(foreign.url);
    await page.getByText("look").click();
    await page.getByRole("button", { name: "Sign out" }).waitFor();
    assert.equal(page.url(), `${server.url}/ui/queues/experiments/workers?x=%22%3E1`);
    await page.context().clearCookies();
    await page.goto(foreign.url);
    await page.getByText("look").click();
    await page.getByLabel("Token").waitFor();
    await closePage(page);
  }
  foreign.close();
});

test("a foreign page can neither frame ours nor send forms to it", async () => {
  const form = (action, fields) => `<form method="post" action="${server.url}${action}">${fields}<button>${action}</button></form>`;
  const foreign = await foreignPage(`<iframe src="${server.url}/ui/"></iframe>
    ${form("/ui/sign-in", `<input name="token" value="${TOKEN}">`)}${form("/ui/theme", "<input name=theme value=dark>")}${form("/ui/sign-out", "")}`);
  const page = await signedIn(TOKEN, { own: true });
  await page.goto(foreign.url);
  const [frame] = page.frames().filter((each) => each !== page.mainFrame());
  assert.equal(await frame.locator("body").innerText().catch(() => "").then((text) => text.includes("taskqueue")), false);
  assert.ok(page.problems.some((problem) => /frame-ancestors|X-Frame-Options/i.test(problem)), page.problems.join("\n"));
  const cookies = await page.context().cookies(`${server.url}/ui/`);
  for (const action of ["/ui/sign-in", "/ui/theme", "/ui/sign-out"]) {
    await page.goto(foreign.url);
    const [answer] = await Promise.all([page.waitForResponse((each) => each.url().endsWith(action)), page.getByText(action).click()]);
    assert.equal(answer.status(), 403, action);
    await page.getByRole("heading", { name: "This did not come from a page of this server" }).waitFor();
  }
  assert.deepEqual(await page.context().cookies(`${server.url}/ui/`), cookies);
  await closePage(page);
  foreign.close();
});

test("the form looks right, empty and after a wrong token", async () => {
  await checkLooks(`${server.url}/ui/sign-in`, "sign-in");
  await checkLooks(`${server.url}/ui/sign-in`, "sign-in-wrong", async (page) => {
    await page.getByText("Where do I get a token?").click();
    await signIn(page, "wrong");
    await page.getByRole("alert").waitFor();
    await page.getByText("Where do I get a token?").click();
    page.problems.length = 0;
  });
});
