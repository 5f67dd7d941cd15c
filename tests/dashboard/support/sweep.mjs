// A sweep that has run, made by batches: as many tasks as a test needs, with args and results of its choice.

import { numbers } from "./demo.mjs";

const BATCH = 1000;
// Ids of runs are known to the whole server, whatever the queue.
let runsSoFar = 0;

// Args and result of the run of that number. A run without a result fails.
export function trainingRun(n, next) {
  const lr = Number((10 ** (-4 + 3 * next())).toPrecision(3));
  const layers = [6, 12, 24][n % 3];
  const optimizer = ["adam", "sgd", "lion"][Math.floor(n / 3) % 3];
  const loss = 0.2 + (Math.log10(lr) + 2.2) ** 2 * 0.18 + (24 - layers) * 0.008 + next() * 0.15;
  return {
    name: `vit-${n}`,
    args: { lr, seed: n % 5, dropout: [0, 0.1, 0.2][Math.floor(n / 9) % 3], batch: 128, model: { name: "vit", layers, optimizer } },
    metadata: { batch: "sweep7", owner: n % 2 ? "ada" : "bob" },
    result: { loss: Number(loss.toFixed(4)), accuracy: Number((97 - loss * 20).toFixed(1)), epochs: 20 },
  };
}

// Creates, claims and reports `count` runs that `make(n, next)` describes. Returns the ids in the order of creation.
export async function fillSweep(server, count, make = trainingRun, { queue = "experiments", prefix = "swp" } = {}) {
  const random = numbers();
  const next = () => random.next().value;
  const runs = Array.from({ length: count }, (_, n) => ({ id: `t_${prefix}${String(n).padStart(12 - prefix.length, "0")}`, ...make(n, next) }));
  for (let from = 0; from < count; from += BATCH) {
    const part = runs.slice(from, from + BATCH);
    await server.batch(queue, "create", { tasks: part.map(({ id, name, args, metadata }) => ({ id, name, args, metadata })) }, "created");
    const run_ids = part.map(() => `r_${String(runsSoFar++).padStart(12, "0")}`);
    const claimed = await server.batch(queue, "claim", { route: "default", run_ids }, "claimed");
    const byId = new Map(part.map((run) => [run.id, run]));
    const reports = claimed.map(({ run_id, task }) => {
      const { result } = byId.get(task.id);
      const end = result ? { action: "complete", result } : { action: "fail", retry: false, error: { type: "OutOfMemoryError", message: "out of memory" } };
      return { task_id: task.id, run_id, ...end };
    });
    await server.batch(queue, "report", { reports }, "done");
  }
  return runs.map(({ id }) => id);
}
