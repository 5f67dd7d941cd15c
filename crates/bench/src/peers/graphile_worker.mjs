// Puts tasks into graphile-worker and takes them out again; prints how many of each per second as one line of JSON.
import { createRequire } from "node:module";

const [packages, connectionString, connections, seconds, args] = process.argv.slice(1);
const { Logger, makeWorkerUtils, run } = createRequire(`${packages}/`)("graphile-worker");
const atOnce = Number(connections);
const length = Number(seconds) * 1000;
const logger = new Logger(() => () => {});

const client = await makeWorkerUtils({ connectionString, logger, maxPoolSize: atOnce });
await client.migrate();
let created = 0;
let begin = performance.now();
await Promise.all(
  Array.from({ length: atOnce }, async () => {
    while (performance.now() - begin < length) {
      await client.addJob("bench", JSON.parse(args));
      created += 1;
    }
  }),
);
const creations = (created * 1000) / (performance.now() - begin);
await client.release();

let done = 0;
let finished;
const ended = new Promise((resolve) => {
  finished = resolve;
});
const bench = async () => {
  done += 1;
  if (done === created) finished();
};
begin = performance.now();
await run({
  connectionString,
  logger,
  concurrency: atOnce,
  maxPoolSize: atOnce + 2,
  noHandleSignals: true,
  taskList: { bench },
});
setTimeout(finished, length);
await ended;
const pairs = (done * 1000) / (performance.now() - begin);
console.log(JSON.stringify({ creations, pairs }));
process.exit(0);
