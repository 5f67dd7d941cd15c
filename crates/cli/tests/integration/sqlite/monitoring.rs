//! A real Prometheus reads a real server, and evaluates every expression of `deploy/monitoring/`: the alert rules and the panels of
//! the Grafana dashboard. For SQLite only, which shows every metric.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use taskqueue_test_postgres::eventually;

use super::support::*;

const TOKEN: &str = "for-monitoring";

fn deployed(file: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/monitoring")).join(file)
}

/// Runs `promtool` with this input and fails unless it is content.
fn promtool(arguments: &[&str], file: Option<&Path>, input: &str) {
    let mut command = Command::new("promtool");
    command.args(arguments).args(file).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("promtool; scripts/install-test-needs installs it");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "promtool {arguments:?}: {said}");
}

/// A Prometheus that scrapes every second; it ends with this value.
struct Prometheus {
    child: Child,
    address: String,
    _directory: tempfile::TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Prometheus {
    /// Scrapes the API of a server with its token, and the address that it has for metrics alone without one.
    fn start(api: &str, metrics: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (config, log) = (directory.path().join("prometheus.yml"), directory.path().join("log"));
        fs::write(directory.path().join("token"), TOKEN).unwrap();
        let rules = fs::canonicalize(deployed("taskqueue.rules.yml")).unwrap();
        let settings = json!({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [rules],
            "scrape_configs": [
                {"job_name": "taskqueue", "authorization": {"credentials_file": "token"}, "scheme": "https",
                 "tls_config": {"insecure_skip_verify": true}, "static_configs": [{"targets": [api]}]},
                {"job_name": "alone", "static_configs": [{"targets": [metrics]}]},
                {"job_name": "refused", "scheme": "https", "tls_config": {"insecure_skip_verify": true},
                 "static_configs": [{"targets": [api]}]},
            ],
        });
        // JSON is YAML.
        fs::write(&config, settings.to_string()).unwrap();
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()));
        command.args(["--web.listen-address=127.0.0.1:0", "--log.level=info"]);
        command.stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap());
        let child = command.spawn().expect("prometheus; scripts/install-test-needs installs it");
        let mut started = Self { child, address: String::new(), _directory: directory };
        eventually("Prometheus listens", || {
            let log = fs::read_to_string(&log).unwrap();
            let line = log.lines().find_map(|line| line.split_once("msg=\"Listening on\" address="));
            started.address = line.map(|(_, address)| address.trim().to_owned()).unwrap_or_default();
            !started.address.is_empty()
        });
        started
    }

    fn get(&self, path: &str) -> Value {
        let answer = Connection::tcp(&self.address).unwrap().exchange(&Request::new("GET", path)).unwrap();
        if answer.status == 200 { answer.json()["data"].clone() } else { Value::Null }
    }

    /// What an expression gives now: the list of its series, or what is wrong with it.
    fn query(&self, expression: &str) -> Result<Vec<Value>, String> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let request = Request::new("POST", "/api/v1/query")
            .header("Content-Type", "application/x-www-form-urlencoded")
            .body(format!("query={encoded}"));
        let answer = Connection::tcp(&self.address).unwrap().exchange(&request).unwrap().json();
        let series = answer["data"]["result"].as_array().cloned();
        series.ok_or_else(|| answer["error"].as_str().unwrap_or("no error").to_owned())
    }

    fn health_of(&self, scrape: &str) -> String {
        let targets = self.get("/api/v1/targets");
        let targets = targets["activeTargets"].as_array().cloned().unwrap_or_default();
        let target = targets.iter().find(|target| target["labels"]["job"] == scrape);
        target.map_or(String::new(), |target| format!("{} {}", target["health"], target["lastError"]))
    }
}

/// A server in which something of everything happens.
struct Workload {
    server: Server,
    metrics: String,
    tasks: usize,
}

impl Workload {
    fn start() -> Self {
        let arguments = ["--log-level", "info", "--metrics-listen", "127.0.0.1:0", "--tls-self-signed"];
        let server = Server::launch(Some(TOKEN), &arguments);
        server.await_log_lines("serving metrics", 1);
        let log = server.stderr();
        let (_, address) = log.split_once("serving metrics address=\"http://").unwrap_or_else(|| panic!("{log}"));
        let metrics = address.split('"').next().unwrap().to_owned();
        server.create_queue("q");
        // Far from being reached.
        let limits = json!({"max_running": 100, "route_limits": {"default": 100}});
        server.patch(&in_queue("/settings"), limits).expect(200);
        server.put(&of_worker(1), idle()).expect(204);
        server.create(900_000, json!({"routes": ["nobody"]}));
        Self { server, metrics, tasks: 0 }
    }

    /// Some tasks are created, one of them succeeds and one fails, and somebody asks for a task that is not there.
    fn go_on(&mut self) {
        for end in ["complete", "fail", ""] {
            self.tasks += 1;
            self.server.create(self.tasks, json!({"max_attempts": 1}));
            if !end.is_empty() {
                let claimed = self.server.claimed(self.tasks);
                self.server.act(claimed, end, self.tasks).expect(204);
            }
        }
        self.server.get(&of_task(800_000, "")).expect(404);
    }
}

/// The titles and expressions of all panels, with the variables filled in.
fn panels() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_slice(&fs::read(deployed("grafana-dashboard.json")).unwrap()).unwrap();
    let mut panels = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap();
            let filled = expression.replace("$queue", ".*").replace("$__rate_interval", "30s");
            assert!(!filled.contains('$'), "{filled}");
            panels.push((panel["title"].as_str().unwrap().to_owned(), filled));
        }
    }
    panels
}

#[test]
fn prometheus_understands_every_metric_rule_and_panel() {
    let mut workload = Workload::start();
    workload.go_on();
    let prometheus = Prometheus::start(&workload.server.address, &workload.metrics);
    for scraped in ["taskqueue", "alone"] {
        eventually("Prometheus reads the metrics", || prometheus.health_of(scraped) == r#""up" """#);
    }
    eventually("without the token it is refused", || prometheus.health_of("refused").contains("401"));

    // Every panel shows something after some work, and none has an error.
    let panels = panels();
    assert!(panels.len() > 40, "{}", panels.len());
    for (title, expression) in &panels {
        eventually(&format!("{title} has data: {expression}"), || {
            workload.go_on();
            let series = prometheus.query(expression).unwrap_or_else(|error| panic!("{title}: {expression}: {error}"));
            !series.is_empty()
        });
    }
    // All rules were loaded and evaluated.
    let evaluated = || {
        let groups = prometheus.get("/api/v1/rules");
        groups["groups"][0]["rules"].as_array().cloned().unwrap_or_default()
    };
    eventually("every rule is evaluated", || {
        let rules = evaluated();
        rules.len() >= 18 && rules.iter().all(|rule| rule["health"] == "ok")
    });
    for rule in evaluated() {
        let expression = rule["query"].as_str().unwrap();
        prometheus.query(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
    }
    let firing = prometheus.query(r#"ALERTS{alertstate="firing"}"#).unwrap();
    assert_eq!(firing, [] as [Value; 0], "nothing is wrong with this server");
}

#[test]
fn the_alert_rules_are_valid_and_fire_when_they_should() {
    promtool(&["check", "rules"], Some(&deployed("taskqueue.rules.yml")), "");
    promtool(&["test", "rules"], Some(&deployed("taskqueue.rules.test.yml")), "");
    promtool(&["check", "config", "--syntax-only"], Some(&deployed("prometheus.yml")), "");
    let rules = fs::read_to_string(deployed("taskqueue.rules.yml")).unwrap();
    let (tests, page) = (
        fs::read_to_string(deployed("taskqueue.rules.test.yml")).unwrap(),
        fs::read_to_string(deployed("../..").join("docs/monitoring.md")).unwrap(),
    );
    let fired = tests.matches("ALERTS{alertname=").count() - tests.matches("- expr: ALERTS{alertname=").count();
    let of_instances = tests.lines().filter(|line| line.contains("exp_samples: [{") && line.contains("instance=\""));
    assert_eq!(of_instances.count(), fired, "every alert says of which server it is");
    for alert in rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        for outcome in ["fires", "is silent"] {
            assert!(tests.contains(&format!("name: {alert} {outcome}\n")), "{alert} {outcome}");
        }
        assert!(page.contains(&format!("| `{alert}` |")), "docs/monitoring.md explains {alert}");
    }
}

#[test]
fn names_and_help_of_the_metrics_are_as_prometheus_wants_them() {
    let mut workload = Workload::start();
    workload.go_on();
    let mut connection = Connection::tcp(&workload.metrics).unwrap();
    let mut given = |request: Request| connection.exchange(&request).unwrap().expect(200).text();
    let plain = given(Request::new("GET", "/metrics"));
    promtool(&["check", "metrics"], None, &plain);
    // promtool reads this format only, in which the whole name of a counter is declared.
    let open = given(Request::new("GET", "/metrics").header("Accept", "application/openmetrics-text"));
    let declared: Vec<String> = open
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .map(|name| format!("{name} "))
        .collect();
    let older = |line: &str| {
        let described = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE ")).unwrap_or_default();
        let counter = declared.iter().find(|name| described.starts_with(name.as_str()));
        counter.map_or(line.to_owned(), |name| line.replacen(name.trim_end(), &format!("{}_total", name.trim_end()), 1))
    };
    let older: String = open.lines().map(|line| older(line) + "\n").collect();
    promtool(&["check", "metrics"], None, &older);
}

#[test]
fn the_dashboard_has_what_grafana_needs() {
    let dashboard: Value = serde_json::from_slice(&fs::read(deployed("grafana-dashboard.json")).unwrap()).unwrap();
    assert!(dashboard["schemaVersion"].as_u64() >= Some(38) && dashboard["uid"] == "taskqueue");
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<&str> = variables.iter().filter_map(|variable| variable["name"].as_str()).collect();
    assert_eq!(names, ["datasource", "queue"]);
    let panels = dashboard["panels"].as_array().unwrap();
    let rows: Vec<&str> =
        panels.iter().filter(|panel| panel["type"] == "row").filter_map(|panel| panel["title"].as_str()).collect();
    assert_eq!(rows, ["Overview", "Queues", "Workers", "HTTP", "Writer and database", "Process"]);
    let (mut ids, mut cells) = (HashSet::new(), HashSet::new());
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "ids are unique: {}", panel["title"]);
        let place = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24, "{}", panel["title"]);
        for (x, y) in (0..place("w")).flat_map(|x| (0..place("h")).map(move |y| (x, y))) {
            assert!(cells.insert((place("x") + x, place("y") + y)), "it lies on another panel: {}", panel["title"]);
        }
        if panel["type"] != "row" {
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
            assert!(panel["targets"].as_array().is_some_and(|targets| !targets.is_empty()), "{}", panel["title"]);
        }
    }
}
