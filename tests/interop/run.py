"""The Python packages labtasker-client and labtasker-webui speak the v2 API; the command line, the decorator worker and the
command worker of the one and the HTTP backend of the other must work unchanged against our server.
Usage: run.py PATH_OF_THE_TASKQUEUE_BINARY, with the packages importable.
Prints one line for each check and `N passed, N failed` at the end."""

import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import textwrap
import traceback
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlencode

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
        return checked(argv, done.returncode, done.stdout, done.stderr, expect)

    def cli(self, *argv: str, expect: int = 0):
        """Each command is a process of its own, forked from one that has imported all of it: that takes longer than most commands."""
        import labtasker.cli  # noqa: F401

        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            # What is not written yet would be written by both.
            sys.stdout.flush()
            sys.stderr.flush()
            child = os.fork()
            if child == 0:
                self.become_command(argv, output.fileno(), errors.fileno())
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            output.seek(0)
            errors.seek(0)
            output = checked(argv, code, output.read(), errors.read(), expect)
        return json.loads(output) if output.strip().startswith(("{", "[")) else output

    def become_command(self, argv: tuple[str, ...], output: int, errors: int):
        code = 1
        try:
            signal.alarm(PATIENCE)
            os.dup2(output, 1)
            os.dup2(errors, 2)
            os.chdir(self.folder)
            os.environ.clear()
            os.environ.update(self.environment)
            sys.argv = ["labtasker", *argv]
            runpy.run_module("labtasker", run_name="__main__")
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(code)

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


def checked(argv: tuple[str, ...], code: int, output: str, errors: str, expect: int) -> str:
    if code != expect:
        raise AssertionError(f"{argv} ended with {code}: {output}{errors}")
    if "observation unavailable" in errors:
        raise AssertionError(f"{argv}: the server refused an observation: {errors}")
    return output


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


def run_tasks(it: Interop, route: str) -> None:
    """A command worker takes what it can claim for the route, until there is nothing."""
    it.run(sys.executable, "-m", "labtasker", "loop", "--route", route, "--idle-timeout", "0.5", "--",
           sys.executable, "-c", "pass")


def dependencies(it: Interop) -> None:
    first, second = (it.cli("task", "submit", "--route", "first") for _ in range(2))
    equal(first.get("dependencies"), [])
    both = sorted([first["id"], second["id"]])
    waits = ["--dependency", second["id"], "--dependency", first["id"]]
    made = it.cli("task", "submit", "--route", "second", *waits)
    equal((made["status"], made["dependencies"]), ("pending", both))
    again = it.cli("task", "submit", "--route", "second", "--id", made["id"], *reversed_pairs(waits), *waits)
    equal(again, made)
    equal(it.cli("task", "submit", "--route", "second", "--id", made["id"], expect=1)["error"]["code"], "task_id_conflict")
    run_tasks(it, "second")
    equal(it.cli("task", "get", made["id"]), made)
    run_tasks(it, "first")
    run_tasks(it, "second")
    done = it.cli("task", "get", made["id"])
    equal((done["status"], done["attempt"], done["dependencies"]), ("succeeded", 1, both))
    ended = [it.cli("task", "get", id)["finished_at"] for id in both]
    assert max(ended) <= done["started_at"], (ended, done)


def reversed_pairs(options: list[str]) -> list[str]:
    return [*options[2:], *options[:2]]


def changed_dependencies(it: Interop) -> None:
    never = "t_" + "n" * 12
    one, other = (it.cli("task", "submit", "--route", "changed", "--dependency", never) for _ in range(2))
    run_tasks(it, "changed")
    equal([it.cli("task", "get", task["id"])["attempt"] for task in (one, other)], [0, 0])
    equal(it.cli("task", "update", one["id"], "--changes", '{"dependencies":[]}')["dependencies"], [])
    run_tasks(it, "changed")
    equal([it.cli("task", "get", task["id"])["status"] for task in (one, other)], ["succeeded", "pending"])
    of_one = json.dumps({"dependencies": [one["id"]]})
    equal(it.cli("task", "update", "--filter", f"id == '{other['id']}'", "--changes", of_one),
          {"matched": 1, "updated": 1})
    run_tasks(it, "changed")
    equal(it.cli("task", "get", other["id"])["status"], "succeeded")


def archive(it: Interop) -> None:
    """Archived tasks are where the options say, and nowhere else."""
    here = '"archived" in routes'
    ids = [it.cli("task", "submit", "--route", "archived", "--name", f"archived {n}")["id"] for n in range(3)]
    refused = it.cli("task", "update", ids[0], "--changes", '{"archived":true}', expect=1)["error"]
    equal((refused["code"], refused["details"].get("field")), ("update_conflict", "archived"))
    run_tasks(it, "archived")

    def seen(*options: str) -> tuple:
        listed = it.cli("task", "list", "--filter", here, "--order-by", "name", "--ascending", *options)["items"]
        counted = it.cli("task", "count", "--filter", here, *options)["count"]
        groups = it.cli("task", "count", "--filter", here, "--group-by", "status", *options)["items"]
        equal((counted, [group["count"] for group in groups]), (len(listed), [len(listed)] if listed else []))
        return [(ids.index(task["id"]), task["archived"]) for task in listed]

    equal(it.cli("task", "update", ids[1], "--changes", '{"archived":true}')["archived"], True)
    equal(it.cli("task", "get", ids[1])["archived"], True)
    equal(seen(), [(0, False), (2, False)])
    equal(seen("--include-archived"), [(0, False), (1, True), (2, False)])
    archive_all = ["task", "update", "--filter", here, "--changes", '{"archived":true}']
    equal(it.cli(*archive_all), {"matched": 2, "updated": 2})
    equal(it.cli(*archive_all), {"matched": 0, "updated": 0})
    equal(it.cli(*archive_all, "--include-archived"), {"matched": 3, "updated": 0})
    equal((seen(), seen("--include-archived")), ([], [(0, True), (1, True), (2, True)]))
    equal(it.cli("task", "count", "--filter", f"{here} and archived == true", "--include-archived")["count"], 3)
    first = it.cli("task", "list", "--filter", here, "--limit", "1", "--include-archived")
    it.cli("task", "list", "--filter", here, "--limit", "1", "--cursor", first["next_cursor"], expect=1)
    rest = it.cli("task", "list", "--filter", here, "--include-archived", "--cursor", first["next_cursor"])
    equal(len(rest["items"]), 2)
    unarchive_all = ["task", "update", "--filter", here, "--changes", '{"archived":false}']
    equal(it.cli(*unarchive_all, "--include-archived"), {"matched": 3, "updated": 3})
    equal([is_archived for _, is_archived in seen()], [False] * 3)
    other = it.cli("task", "submit", "--route", "other")["id"]
    it.cli("task", "cancel", other)
    equal(it.cli("task", "update", other, "--changes", '{"archived":true}')["archived"], True)
    equal(it.cli("task", "requeue", other)["archived"], False)


# Binds a port of its own choice and says which, so that nobody else can have it.
WEBUI = """
import socket
import uvicorn
from labtasker_webui.app import create_app
from labtasker_webui.config import Settings

listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
print(listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(create_app(Settings()), log_level="warning")).run(sockets=[listener])
"""


class WebUI:
    """The backend of labtasker-webui, connected to our server, and what a browser would ask it."""

    def __init__(self, it: Interop):
        self.process = subprocess.Popen([sys.executable, "-c", WEBUI], cwd=it.folder, env=it.environment,
                                        stdout=subprocess.PIPE, stderr=(it.folder / "webui.log").open("wb"), text=True)
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}/api/webui"
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        connection = {"server_url": it.environment["LABTASKER_URL"], "token": it.environment["LABTASKER_TOKEN"]}
        equal(self.call("POST", "/connect", connection)["connected"], True)

    def call(self, method: str, path: str, body=None, expect: int = 200):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with self.opener.open(request, timeout=PATIENCE) as response:
                status, text = response.status, response.read()
        except urllib.error.HTTPError as refused:
            status, text = refused.code, refused.read()
        if status != expect:
            raise AssertionError(f"{method} {path} was answered {status}: {text.decode()}")
        return json.loads(text)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=15)


def webui(it: Interop) -> None:
    it.cli("queue", "create", "web")
    done, pending = (it.cli("task", "submit", "--queue", "web", "--route", route) for route in ("now", "later"))
    waiting = it.cli("task", "submit", "--queue", "web", "--route", "later", "--dependency", done["id"],
                     "--dependency", "t_" + "n" * 12)
    it.run(sys.executable, "-m", "labtasker", "loop", "--queue", "web", "--route", "now", "--idle-timeout", "0.5", "--",
           sys.executable, "-c", "pass")
    ui = WebUI(it)
    try:
        webui_archive(ui, done["id"], pending["id"], waiting)
    finally:
        ui.stop()


def webui_archive(ui: WebUI, done: str, pending: str, waiting: dict) -> None:
    def task(id: str, rest: str = "") -> str:
        return f"/queues/web/tasks/{id}{rest}"

    def seen(**parameters: str) -> tuple:
        query = "?" + urlencode(parameters)
        items = ui.call("GET", f"/queues/web/tasks{query}")["items"]
        groups = ui.call("GET", "/queues/web/task-groups?" + urlencode({"include_inactive": "true", **parameters}))
        equal(ui.call("GET", f"/queues/web/tasks/count{query}")["count"], len(items))
        equal(groups["count"], len(items))
        return {item["id"] for item in items}

    def counts() -> dict:
        [counts] = [queue["counts"] for queue in ui.call("GET", "/queues") if queue["name"] == "web"]
        return counts

    equal(ui.call("GET", task(waiting["id"]))["dependencies"], waiting["dependencies"])
    shown = ui.call("GET", task(pending))
    equal((shown["dependencies"], shown["archived"]), ([], False))
    equal((counts()["succeeded"], counts()["pending"]), (1, 2))
    refused = ui.call("PATCH", task(pending, "/archived"), {"archived": True}, expect=409)["error"]
    equal((refused["code"], refused["details"].get("field")), ("update_conflict", "archived"))
    equal(ui.call("PATCH", task(done, "/archived"), {"archived": True})["archived"], True)
    equal(ui.call("GET", task(done))["archived"], True)
    equal((seen(), seen(include_archived="true")), ({pending, waiting["id"]}, {done, pending, waiting["id"]}))
    equal(counts()["succeeded"], 0)
    succeeded = {"status": "succeeded"}
    equal(ui.call("POST", "/queues/web/delete-snapshot", succeeded)["task_ids"], [])
    with_archive = {**succeeded, "include_archived": True}
    equal(ui.call("POST", "/queues/web/delete-snapshot", with_archive)["task_ids"], [done])
    equal(ui.call("PATCH", task(done, "/archived"), {"archived": False})["archived"], False)
    equal(seen(), {done, pending, waiting["id"]})
    ui.call("POST", task(pending, "/cancel"))
    equal(ui.call("PATCH", task(pending, "/archived"), {"archived": True})["archived"], True)
    equal(ui.call("POST", task(pending, "/requeue"))["archived"], False)


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
            it.check("a_task_is_claimed_when_those_it_depends_on_have_succeeded", lambda: dependencies(it))
            it.check("dependencies_are_updated_by_id_and_by_filter", lambda: changed_dependencies(it))
            it.check("tasks_are_archived_and_brought_back_by_id_and_by_filter", lambda: archive(it))
            it.check("the_web_interface_shows_dependencies_and_archives_tasks", lambda: webui(it))
        finally:
            it.check("the_server_stops_in_order", it.stop)
        print(f"{it.passed} passed, {it.failed} failed")
        return 1 if it.failed else 0


if __name__ == "__main__":
    sys.exit(main())
