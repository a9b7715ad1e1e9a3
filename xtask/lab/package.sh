#!/bin/bash
# Runs in the lab: installs the package, starts its unit under a real systemd and uses the service on Firecracker.
# Called by `cargo xtask dist --check-unit`, and by `cargo xtask test` with REKINDLE_LAB_E2E=1; the packages and the monitor lie beside it.
set -eu
cd "$(dirname "$0")"
group=/sys/fs/cgroup/machine

step() { echo "package: $*" >&2; }

step "installing"
dpkg --install rekindle.deb >/dev/null
install -m 755 firecracker jailer /usr/local/bin
cat >>/etc/rekindle/rekindle.toml <<'TOML'
[engine]
kind = "firecracker"
TOML

step "starting systemd as the first process of namespaces of its own"
mkdir "$group"
# It joins the group itself: a group with a process of others in it could not be divided.
unshare --pid --fork --kill-child --mount --propagation private bash -euc '
    echo 0 >"$1/cgroup.procs"
    exec unshare --cgroup bash -euc "
        mount -t proc proc /proc
        umount /sys/fs/cgroup
        mount -t cgroup2 cgroup2 /sys/fs/cgroup
        mount -t tmpfs tmpfs /run
        export container=lab
        exec /usr/lib/systemd/systemd --unit=basic.target --show-status=false --log-target=null"
' sh "$group" </dev/null >/dev/null 2>&1 &
outer=$!
inside() { nsenter --target "$(pgrep --parent "$outer")" --mount --pid --cgroup -- "$@"; }
until inside test -S /run/systemd/private 2>/dev/null; do
    kill -0 "$outer"
    sleep 0.2
done
state=$(inside systemctl is-system-running --wait || true)
step "systemd is $state"

step "starting the unit"
inside systemd-analyze verify --man=no rekindle.service
inside systemctl start rekindle.service
failed() {
    inside journalctl --no-pager --lines=60 --unit=rekindle.service >&2
    inside systemctl status --no-pager rekindle.service >&2 || true
    exit 1
}
until inside rekindle ps >/dev/null 2>&1; do
    inside systemctl is-active --quiet rekindle.service || failed
    sleep 0.5
done

step "running programs, after a restart that finds the template"
inside systemctl restart rekindle.service
until inside rekindle ps >/dev/null 2>&1; do
    inside systemctl is-active --quiet rekindle.service || failed
    sleep 0.5
done
inside rekindle status >&2 || failed
id=$(inside rekindle create --ttl 600) || failed
test "$(inside rekindle exec "$id" --python 'print(6 * 7)')" = 42 || failed
test "$(inside rekindle exec "$id" --node 'console.log(6 * 7)')" = 42 || failed
inside rekindle rm "$id" || failed

step "stopping the unit"
inside systemctl stop rekindle.service
inside systemctl show --property=Result rekindle.service | grep -qx Result=success || failed
! inside pgrep firecracker || failed
inside systemd-analyze security --no-pager rekindle.service | tail -n 1

step "removing"
inside dpkg --purge rekindle >/dev/null
test -z "$(inside find / -xdev -name '*rekindle*' -not -path '/share/*' -not -path '/room/*')" || failed
kill "$outer"
