// Puts tasks into BullMQ and takes them out again; prints how many of each per second as one line of JSON.
import { createRequire } from "node:module";

const [packages, port, connections, seconds, args] = process.argv.slice(1);
const { Queue, Worker } = createRequire(`${packages}/`)("bullmq");
const connection = { host: "127.0.0.1", port: Number(port) };
const atOnce = Number(connections);
const length = Number(seconds) * 1000;

const queue = new Queue("bench", { connection });
await queue.waitUntilReady();
let created = 0;
let begin = performance.now();
await Promise.all(
  Array.from({ length: atOnce }, async () => {
    while (performance.now() - begin < length) {
      await queue.add("bench", JSON.parse(args));
      created += 1;
    }
  }),
);
const creations = (created * 1000) / (performance.now() - begin);

let done = 0;
const worker = new Worker("bench", async () => ({ loss: 0.125 }), { connection, concurrency: atOnce, autorun: false });
await worker.waitUntilReady();
begin = performance.now();
await new Promise((resolve) => {
  worker.on("completed", () => {
    done += 1;
    if (done === created) resolve();
  });
  setTimeout(resolve, length);
  worker.run();
});
const pairs = (done * 1000) / (performance.now() - begin);
console.log(JSON.stringify({ creations, pairs }));
process.exit(0);
