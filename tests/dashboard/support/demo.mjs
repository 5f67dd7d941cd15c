// A queue as researchers have it: a sweep in all states, with results, errors, progress, output and workers.

// Numbers that look random and are the same in each run.
export function* numbers(seed = 7) {
  for (let state = seed; ;) {
    state = (state * 1103515245 + 12345) % 2147483648;
    yield state / 2147483648;
  }
}

const ROUTES = ["a100", "h100"];
// A run id is used once, in whatever queue.
let runNumber = 0;

// Makes `count` tasks; the first ones have run. Returns their ids by what became of them.
export async function fillDemo(server, { queue = "experiments", count = 60 } = {}) {
  const random = numbers();
  const next = () => random.next().value;
  const ids = { succeeded: [], failed: [], running: [], pending: [], cancelled: [] };
  for (let n = 0; n < count; n += 1) {
    const id = `t_demo${String(n).padStart(8, "0")}`;
    const lr = [0.1, 0.03, 0.01, 0.003][Math.floor(next() * 4)];
    const args = { lr, seed: n, model: { name: "vit", layers: [12, 24][n % 2] } };
    await server.api("PUT", `/queues/${queue}/tasks/${id}`, {
      name: `vit-${n}`, args, metadata: { batch: "sweep7" }, routes: [ROUTES[n % 2]], max_attempts: 3, priority: 0,
    });
  }
  const runs = Math.floor(count * 0.7);
  for (let n = 0; n < runs; n += 1) {
    runNumber += 1;
    const run_id = `r_demo${String(runNumber).padStart(8, "0")}`;
    const claimed = await server.api("POST", `/queues/${queue}/tasks/claim`, {
      run_id, route: ROUTES[n % 2], worker: { host: `gpu-${1 + (n % 4)}`, pid: 4000 + n, slot: n % 4 },
    });
    if (!claimed) continue;
    const { id, args } = claimed.task;
    const base = `/queues/${queue}/tasks/${id}`;
    await server.api("POST", `${base}/output`, { run_id, offset: 0, text: `epoch 1/20  loss ${(1 + next()).toFixed(4)}\n\u001b[33mwarning: grad norm clipped\u001b[0m\nepoch 2/20\n` });
    if (n >= runs - 4) {
      await server.api("POST", `${base}/progress`, { run_id, progress: { step: 6000 + n, total: 10000, loss: 0.312 } });
      ids.running.push(id);
    } else if (n % 9 === 4) {
      await server.api("POST", `${base}/fail`, { run_id, retry: false, error: { type: "OutOfMemoryError", message: "CUDA out of memory. Tried to allocate 2.00 GiB", traceback: "Traceback (most recent call last):\n  File \"train.py\", line 88, in step\n    loss.backward()\n" } });
      ids.failed.push(id);
    } else {
      await server.api("POST", `${base}/complete`, { run_id, result: { loss: Number((0.2 + args.lr * 3 + next() * 0.3).toFixed(4)), accuracy: Number((95 - next() * 8).toFixed(1)) } });
      ids.succeeded.push(id);
    }
  }
  const { items } = await server.api("GET", `/queues/${queue}/tasks?status=pending&limit=100`);
  ids.pending = items.map(({ id }) => id);
  const cancelled = ids.pending.pop();
  await server.api("POST", `/queues/${queue}/tasks/${cancelled}/cancel`);
  ids.cancelled.push(cancelled);
  for (let n = 0; n < 4; n += 1) {
    await server.api("PUT", `/queues/${queue}/workers/w_demo0000000${n}`, {
      route: "a100", status: n === 0 ? "idle" : "busy", task_id: n === 0 ? null : ids.running[n], metadata: { host: `gpu-${1 + n}`, slot: 0 },
    });
  }
  return ids;
}
