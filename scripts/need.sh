# Sourced by scripts that install what they need and the machine lacks. Says nothing where everything is there.
# shellcheck shell=bash

# Debian starts the services of the packages it installs, unless this file says no. The tests start their own servers.
without_services() { # COMMAND...
    local policy=/usr/sbin/policy-rc.d
    if [ -e $policy ]; then
        "$@"
        return
    fi
    # shellcheck disable=SC2064 # the variable is gone when the trap runs
    trap "rm -f $policy" EXIT
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod +x $policy
    "$@"
    rm -f $policy
    trap - EXIT
}

# Debian's package of a command that is missing; elsewhere the user has to install it.
need() { # COMMAND PACKAGE...
    local command=$1
    shift
    if $command >/dev/null 2>&1; then
        return
    fi
    if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
        apt-get update -qq && without_services apt-get install -y -qq --no-install-recommends "$@" >/dev/null
    fi
    $command >/dev/null 2>&1 || { echo "install $* and try again: '$command' does not work" >&2; exit 1; }
}
