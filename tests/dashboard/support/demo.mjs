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
  const tasks = Array.from({ length: count }, (_, n) => {
    const lr = [0.1, 0.03, 0.01, 0.003][Math.floor(next() * 4)];
    const args = { lr, seed: n, model: { name: "vit", layers: [12, 24][n % 2] } };
    return { id: `t_demo${String(n).padStart(8, "0")}`, name: `vit-${n}`, args, metadata: { batch: "sweep7" }, routes: [ROUTES[n % 2]], max_attempts: 3, priority: 0 };
  });
  await server.batch(queue, "create", { tasks }, "created");
  const runs = tasks.slice(0, Math.floor(count * 0.7)).map((task, n) => ({ task_id: task.id, run_id: `r_demo${String(runNumber += 1).padStart(8, "0")}`, n }));
  for (const [at, route] of ROUTES.entries()) {
    const mine = runs.filter(({ n }) => n % 2 === at);
    const workers = mine.map(({ n }) => ({ host: `gpu-${1 + (n % 4)}`, pid: 4000 + n, slot: n % 4 }));
    await server.batch(queue, "claim", { route, run_ids: mine.map(({ run_id }) => run_id), workers }, "claimed");
  }
  const ids = { succeeded: [], failed: [], running: [], pending: tasks.slice(runs.length + 1).map(({ id }) => id).reverse(), cancelled: [tasks[runs.length].id] };
  const reports = [];
  for (const { task_id, run_id, n } of runs) {
    await server.api("POST", `/queues/${queue}/tasks/${task_id}/output`, { run_id, offset: 0, text: `epoch 1/20  loss ${(1 + next()).toFixed(4)}\n\u001b[33mwarning: grad norm clipped\u001b[0m\nepoch 2/20\n` });
    if (n >= runs.length - 4) {
      reports.push({ task_id, run_id, action: "progress", progress: { step: 6000 + n, total: 10000, loss: 0.312 } });
      ids.running.push(task_id);
    } else if (n % 9 === 4) {
      reports.push({ task_id, run_id, action: "fail", retry: false, error: { type: "OutOfMemoryError", message: "CUDA out of memory. Tried to allocate 2.00 GiB", traceback: "Traceback (most recent call last):\n  File \"train.py\", line 88, in step\n    loss.backward()\n" } });
      ids.failed.push(task_id);
    } else {
      const result = { loss: Number((0.2 + tasks[n].args.lr * 3 + next() * 0.3).toFixed(4)), accuracy: Number((95 - next() * 8).toFixed(1)) };
      reports.push({ task_id, run_id, action: "complete", result });
      ids.succeeded.push(task_id);
    }
  }
  await server.batch(queue, "report", { reports }, "done");
  await server.api("POST", `/queues/${queue}/tasks/${ids.cancelled[0]}/cancel`);
  for (let n = 0; n < 4; n += 1) {
    await server.api("PUT", `/queues/${queue}/workers/w_demo0000000${n}`, {
      route: "a100", status: n === 0 ? "idle" : "busy", task_id: n === 0 ? null : ids.running[n], metadata: { host: `gpu-${1 + n}`, slot: 0 },
    });
  }
  return ids;
}
