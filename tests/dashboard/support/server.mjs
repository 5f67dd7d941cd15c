// A real server for a test: the binary of this tree on a database of its own.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";

export const BINARY = path.resolve(process.env.TASKQUEUE_BINARY ?? "target/debug/taskqueue");

export class Server {
  // `args` are more arguments of `taskqueue serve`; `token` is the server-wide token.
  static async start({ args = [], token = null, queues = ["experiments"] } = {}) {
    const server = new Server();
    server.folder = mkdtempSync(path.join(tmpdir(), "taskqueue-dashboard-"));
    server.token = token;
    server.args = ["--database", path.join(server.folder, "q.db"), ...queues.flatMap((name) => ["--queue", name]), ...args];
    await server.#spawn("127.0.0.1:0");
    return server;
  }

  async #spawn(listen) {
    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("TASKQUEUE_"));
    const env = { ...Object.fromEntries(inherited), ...(this.token ? { TASKQUEUE_TOKEN: this.token } : {}) };
    this.process = spawn(BINARY, ["serve", "--listen", listen, ...this.args], { env, stdio: ["ignore", "pipe", "pipe"] });
    this.log = "";
    this.process.stderr.on("data", (data) => { this.log += data; });
    const ended = once(this.process, "exit").then(() => { throw new Error(`the server ended: ${this.log}`); });
    ended.catch(() => {});
    const [line] = await Promise.race([once(createInterface(this.process.stdout), "line"), ended]);
    this.url = line.trim();
  }

  // One request of the API; the answer as JSON, or null if it has no body.
  async api(method, target, body) {
    const headers = { ...(this.token ? { authorization: `Bearer ${this.token}` } : {}), ...(body === undefined ? {} : { "content-type": "application/json" }) };
    const answer = await fetch(`${this.url}/api/v2${target}`, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${target}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }

  // A batch; each of its items must have this outcome.
  async batch(queue, what, body, outcome) {
    const { items } = await this.api("POST", `/queues/${queue}/tasks/batch/${what}`, body);
    const other = items.find((item) => item.outcome !== outcome);
    if (other) throw new Error(`not ${outcome}: ${JSON.stringify(other)}`);
    return items;
  }

  // Ends the process, as a stop does, or as a crash does with SIGKILL.
  async kill(signal = "SIGTERM") {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const ended = once(this.process, "exit");
    this.process.kill(signal);
    await ended;
  }

  // Starts again at the same address with the same data.
  async restart() {
    await this.kill();
    await this.#spawn(new URL(this.url).host);
  }

  async stop() {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
