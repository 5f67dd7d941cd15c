"""The Python package labtasker-client speaks the v2 API; its command line, its decorator worker and its command worker
must work unchanged against our server. Usage: run.py PATH_OF_THE_TASKQUEUE_BINARY, with the package importable.
Prints one line for each check and `N passed, N failed` at the end."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

BINARY = Path(sys.argv[1]).resolve()
ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120


class Interop:
    def __init__(self, folder: Path):
        self.folder = folder
        self.passed = self.failed = 0
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("LABTASKER_", "TASKQUEUE_"))}
        self.server = subprocess.Popen(
            [BINARY, "serve", "--listen", "127.0.0.1:0", "--database", folder / "q.db", "--queue", "default"],
            env={**environment, "TASKQUEUE_TOKEN": "interop-token"},
            stdout=subprocess.PIPE,
            stderr=(folder / "server.log").open("wb"),
            text=True,
        )
        url = self.server.stdout.readline().strip()
        self.environment = {**environment, "LABTASKER_URL": url, "LABTASKER_TOKEN": "interop-token"}

    def run(self, *argv: str, expect: int = 0) -> str:
        done = subprocess.run(
            argv, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=PATIENCE
        )
        if done.returncode != expect:
            raise AssertionError(f"{argv} ended with {done.returncode}: {done.stdout}{done.stderr}")
        if "observation unavailable" in done.stderr:
            raise AssertionError(f"{argv}: the server refused an observation: {done.stderr}")
        return done.stdout

    def cli(self, *argv: str, expect: int = 0):
        output = self.run(sys.executable, "-m", "labtasker", *argv, expect=expect)
        return json.loads(output) if output.strip().startswith(("{", "[")) else output

    def check(self, name: str, steps) -> None:
        try:
            steps()
        except Exception as error:  # every check is reported, whatever went wrong in it
            self.failed += 1
            print(f"{name} ... FAILED: {error}")
        else:
            self.passed += 1
            print(f"{name} ... ok")

    def stop(self) -> None:
        self.server.send_signal(signal.SIGTERM)
        assert self.server.wait(timeout=15) == 0


def equal(actual, expected) -> None:
    assert actual == expected, f"{actual!r} instead of {expected!r}"


def queues(it: Interop) -> None:
    equal(it.cli("queue", "create", "lab"), {"name": "lab"})
    equal([queue["name"] for queue in it.cli("queue", "list")], ["default", "lab"])
    it.cli("queue", "delete", "lab")
    equal([queue["name"] for queue in it.cli("queue", "list")], ["default"])


def tasks(it: Interop) -> None:
    made = it.cli("task", "submit", "--name", "first", "--args", '{"lr":0.1,"seed":1}', "--route", "b", "--route", "a")
    equal((made["status"], made["routes"], made["args"]), ("pending", ["a", "b"], {"lr": 0.1, "seed": 1}))
    equal(it.cli("task", "get", made["id"]), made)
    again = it.cli("task", "submit", "--id", made["id"], "--name", "first", "--args", '{"seed":1,"lr":0.1}',
                   "--route", "a", "--route", "b")
    equal(again, made)
    listed = it.cli("task", "list", "--filter", 'args.lr < 0.5 and "a" in routes')
    equal([task["id"] for task in listed["items"]], [made["id"]])
    equal(it.cli("task", "count", "--group-by", "routes,status")["items"],
          [{"key": {"routes": route, "status": "pending"}, "count": 1} for route in ("a", "b")])
    equal(it.cli("task", "update", made["id"], "--changes", '{"priority":7}')["priority"], 7)
    equal(it.cli("task", "update", "--filter", "priority == 7", "--changes", '{"metadata":{"x":null}}'),
          {"matched": 1, "updated": 1})
    equal(it.cli("task", "cancel", made["id"])["status"], "cancelled")
    equal(it.cli("task", "requeue", made["id"])["status"], "pending")
    it.cli("task", "delete", made["id"])
    it.cli("task", "get", made["id"], expect=1)


def decorator_worker(it: Interop) -> None:
    good = it.cli("task", "submit", "--args", '{"n":20}', "--route", "python")
    bad = it.cli("task", "submit", "--args", '{"n":-1}', "--route", "python", "--max-attempts", "2")
    (it.folder / "worker.py").write_text(textwrap.dedent("""
        import labtasker

        @labtasker.loop(route="python", idle_timeout=0.5)
        def work(n: int = labtasker.TaskArg()):
            if n < 0:
                raise ValueError("negative")
            labtasker.finish({"doubled": 2 * n})

        work()
    """))
    it.run(sys.executable, "worker.py")
    done = it.cli("task", "get", good["id"])
    equal((done["status"], done["result"], done["last_route"]), ("succeeded", {"doubled": 40}, "python"))
    failed = it.cli("task", "get", bad["id"])
    equal((failed["status"], failed["attempt"], failed["last_error"]["type"]), ("failed", 2, "ValueError"))
    equal(it.cli("worker", "list")["items"], [])


def progress_and_telemetry(it: Interop) -> None:
    """What a run says of itself is there while it runs; the client's own command line reads it."""
    made = it.cli("task", "submit", "--args", '{"steps":3}', "--route", "progress")
    plain = it.cli("task", "submit", "--args", '{"steps":0}', "--route", "progress")
    (it.folder / "progress.py").write_text(textwrap.dedent("""
        import json
        import subprocess
        import sys
        import time
        from pathlib import Path

        import labtasker

        def cli(*argv):
            return json.loads(subprocess.run([sys.executable, "-m", "labtasker", *argv], capture_output=True, check=True).stdout)

        def report_telemetry(telemetry):
            # The client reports that it is there from another thread, so the first try may come too early.
            end = time.monotonic() + 60
            while not labtasker.report_worker_telemetry(telemetry):
                assert time.monotonic() < end, "telemetry was never accepted"

        @labtasker.loop(route="progress", idle_timeout=0.5, metadata={"host": "interop"})
        def work(steps: int = labtasker.TaskArg()):
            for step in range(steps):
                assert labtasker.report_progress({"step": step + 1, "total": steps, "loss": 0.5})
            if steps:
                report_telemetry({"cpu": 1.5, "gpus": [{"name": "x", "memory": None}]})
                id = labtasker.task_info().id
                Path("seen.json").write_text(json.dumps({
                    "task": cli("task", "get", id),
                    "found": cli("task", "list", "--filter", "progress.step == 3 and 'loss' in progress"),
                    "workers": cli("worker", "list"),
                    "measured": cli("worker", "count", "--filter", "telemetry.cpu > 1 and metadata.host == 'interop'"),
                }))
            labtasker.finish({"steps": steps})

        work()
    """))
    it.run(sys.executable, "progress.py")
    seen = json.loads((it.folder / "seen.json").read_text())
    said = {"step": 3, "total": 3, "loss": 0.5}
    task = seen["task"]
    equal((task["status"], task["progress"], task["progress_attempt"]), ("running", said, 1))
    assert task["started_at"] <= task["progress_updated_at"], task
    equal(seen["found"]["items"], [task])
    worker = seen["workers"]["items"][0]
    equal((worker["telemetry"], worker["metadata"]),
          ({"cpu": 1.5, "gpus": [{"name": "x", "memory": None}]}, {"host": "interop"}))
    assert worker["telemetry_updated_at"], worker
    equal(seen["measured"]["count"], 1)
    done = it.cli("task", "get", made["id"])
    equal((done["status"], done["progress"], done["progress_attempt"]), ("succeeded", said, 1))
    equal(done["progress_updated_at"], task["progress_updated_at"])
    equal(it.cli("task", "get", plain["id"]).get("progress"), None)
    equal(it.cli("worker", "list")["items"], [])


def progress_of_a_command(it: Interop) -> None:
    made = it.cli("task", "submit", "--args", '{"step":7}', "--route", "command-progress")
    code = "import labtasker, sys; sys.exit(not labtasker.report_progress({'step': int(sys.argv[1])}))"
    it.run(sys.executable, "-m", "labtasker", "loop", "--route", "command-progress", "--idle-timeout", "0.5",
           "--", sys.executable, "-c", code, "%{step}")
    done = it.cli("task", "get", made["id"])
    equal((done["status"], done["progress"]), ("succeeded", {"step": 7}))


def worker_of_a_page(it: Interop, page: str, args: dict, result: dict) -> None:
    """The worker that a page shows must do what the page says."""
    blocks = (ROOT / page).read_text().split("```python\n")[1:]
    worker = next(code for code in (block.split("```")[0] for block in blocks) if "@labtasker.loop" in code)
    assert 'route="gpu"' in worker, f"{page} shows another route"
    brief = worker if "idle_timeout" in worker else worker.replace('route="gpu"', 'route="gpu", idle_timeout=0.5')
    (it.folder / "page.py").write_text(brief)
    made = it.cli("task", "submit", "--args", json.dumps(args), "--route", "gpu")
    it.run(sys.executable, "page.py")
    done = it.cli("task", "get", made["id"])
    equal((done["status"], done["result"]), ("succeeded", result))


def pages(it: Interop) -> None:
    worker_of_a_page(it, "README.md", {"lr": 0.5, "seed": 2}, {"loss": 0.25})
    answer = {"answer": "loaded once: hello", "temperature": 0.7}
    worker_of_a_page(it, "docs/guides/from-labtasker.md", {"prompt": "hello"}, answer)


def command_worker(it: Interop) -> None:
    good = it.cli("task", "submit", "--args", '{"code":0}', "--route", "command")
    bad = it.cli("task", "submit", "--args", '{"code":3}', "--route", "command", "--max-attempts", "1")
    it.run(sys.executable, "-m", "labtasker", "loop", "--route", "command", "--idle-timeout", "0.5", "--metadata",
           '{"gpu":"none"}', "--", sys.executable, "-c", "import sys; sys.exit(int(sys.argv[1]))", "%{code}")
    equal(it.cli("task", "get", good["id"])["status"], "succeeded")
    equal(it.cli("task", "get", bad["id"])["status"], "failed")
    equal(it.cli("worker", "count")["count"], 0)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        it = Interop(Path(folder))
        try:
            it.check("queues_from_the_command_line", lambda: queues(it))
            it.check("tasks_from_the_command_line", lambda: tasks(it))
            it.check("a_decorator_worker_completes_and_fails_tasks", lambda: decorator_worker(it))
            it.check("a_run_reports_progress_and_telemetry", lambda: progress_and_telemetry(it))
            it.check("a_command_reports_progress", lambda: progress_of_a_command(it))
            it.check("the_workers_of_the_pages_do_what_the_pages_say", lambda: pages(it))
            it.check("a_command_worker_completes_and_fails_tasks", lambda: command_worker(it))
        finally:
            it.check("the_server_stops_in_order", it.stop)
        print(f"{it.passed} passed, {it.failed} failed")
        return 1 if it.failed else 0


if __name__ == "__main__":
    sys.exit(main())
