# Sourced by the scripts beside it: `check` runs one check and prints its line; `round_trip` uses the program as a user would.
# shellcheck shell=bash

# shellcheck disable=SC2034 # used by the scripts
target_dir=$(realpath -m "${CARGO_TARGET_DIR:-target}")
# shellcheck disable=SC2034 # used by the scripts
packages=$target_dir/packages
# shellcheck disable=SC2034
needs=$target_dir/package-needs
version=$(scripts/packaging/version)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Runs a function or command in a shell of its own, where the first failure ends it, and counts the outcome.
check() { # TEXT COMMAND...
    local text=$1 code
    shift
    set +e
    (
        set -e
        trap end_started EXIT
        "$@"
    ) >"$work/check.log" 2>&1
    code=$?
    set -e
    if [ $code = 0 ]; then
        echo "ok      $text"
    else
        echo "FAILED  $text"
        tail -n 40 "$work/check.log" | sed 's/^/        /'
    fi
    echo "$code" >>"${CHECK_CODES:-/dev/null}"
}

# What a failed check has left running. Ended servers are not in the list, so that no other process is hit.
started=()
end_started() {
    if [ ${#started[@]} -gt 0 ]; then
        kill "${started[@]}" || true
    fi
}

equal() { # ACTUAL EXPECTED
    [ "$1" = "$2" ] || { echo "got '$1', expected '$2'"; return 1; }
}

# Starts a server with the given command, and sets `url` and `server`. Its log is in $work/server.log.
start_server() { # COMMAND...
    exec {lines}< <(exec "$@" 2>"$work/server.log")
    server=$!
    started+=("$server")
    read -r -t 60 -u "$lines" url || { cat "$work/server.log"; return 1; }
}

wait_for_server() {
    local pid others=()
    for pid in "${started[@]}"; do
        if [ "$pid" != "$server" ]; then
            others+=("$pid")
        fi
    done
    started=("${others[@]}")
    wait "$server"
}

# SIGTERM, and a normal end.
stop_server() {
    kill -TERM "$server"
    wait_for_server
    exec {lines}<&-
}

# A task from its creation to its result, and a clean stop. STATE is a folder as the command sees it. The command of the run is
# the program itself, because some roots have no other one.
round_trip() { # STATE COMMAND...
    local state=$1 id
    shift
    equal "$("$@" --version)" "taskqueue $version"
    start_server "$@" serve --listen 127.0.0.1:0 --database "$state/tasks.db" --queue default
    "$@" health --url "$url" --output quiet
    "$@" health --url "${url/127.0.0.1/localhost}" --output quiet
    id=$("$@" task submit --url "$url" --arg text=hello --output quiet)
    "$@" loop --url "$url" --max-tasks 1 --run-dir "$state/runs" -- "${PROGRAM:-$1}" --version
    "$@" task get --url "$url" "$id" --output json | grep -q '"status": *"succeeded"'
    "$@" task logs --url "$url" "$id" | grep -qx "taskqueue $version"
    stop_server
}
