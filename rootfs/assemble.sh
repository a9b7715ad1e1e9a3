#!/bin/sh
# Turns a base tree into a root image: agent, user and overlay files laid on top, then
# erofs. Runs as root, or under fakeroot for an ordinary user. Touches nothing outside
# the work directory. Called by `cargo xtask rootfs`:
#
#   assemble.sh unpack TREE BASE_TAR
#   assemble.sh finish TREE BASE_TREE AGENT INTERPRETERS NATIVE CLOCK USER UID GID HOME SHELL OVERLAY…
#   assemble.sh pack   TREE IMAGE EPOCH UUID
#
# TREE shares its files with BASE_TREE by hard links, which makes a new agent cheap.
# So no file may be changed in place: replace it.
set -eu
umask 022
verb=$1 tree=$2
shift 2

# Adds a line to a file of the tree, if it is there.
append() {
    [ -f "$tree/$1" ] || return 0
    cp -p "$tree/$1" "$tree/$1.new"
    echo "$2" >>"$tree/$1.new"
    mv "$tree/$1.new" "$tree/$1"
}

case $verb in
unpack)
    mkdir "$tree"
    # mknod needs real root, and the guest's /dev is a devtmpfs anyway.
    tar -xf "$1" -C "$tree" --numeric-owner --same-permissions --exclude='./dev/*'
    ;;
finish)
    base=$1 agent=$2 interpreters=$3 native=$4 clock=$5
    shift 5
    user=$1 uid=$2 gid=$3 home=$4 shell=$5
    shift 5
    cp -a --link "$base" "$tree"
    # The mount points the agent expects in a read-only root.
    for dir in proc sys dev run mnt tmp home root; do mkdir -p "$tree/$dir"; done
    rm -rf "$tree/run/"* "$tree/tmp/"* "$tree/var/log/"* "$tree/etc/apt" "$tree/var/lib/apt" \
        "$tree/var/cache/"* "$tree/etc/.pwd.lock"
    rm -rf "$tree/var/lib/dpkg/"*-old "$tree/var/lib/dpkg/"lock*
    if [ -x "$tree/usr/bin/apt-get" ]; then
        # Root installs packages in a sandbox; where from, an overlay says.
        for dir in etc/apt/apt.conf.d etc/apt/auth.conf.d etc/apt/preferences.d etc/apt/sources.list.d \
            etc/apt/trusted.gpg.d var/lib/apt/lists/partial var/cache/apt/archives/partial var/cache/debconf \
            var/lib/dpkg/updates var/log/apt; do
            mkdir -p "$tree/$dir"
        done
    else
        # The list of packages stays readable, the means to change it go.
        rm -rf "$tree/var/lib/dpkg/triggers" "$tree/var/lib/dpkg/info" "$tree/var/lib/dpkg/updates" \
            "$tree/var/lib/dpkg/alternatives"
    fi
    for file in passwd group shadow gshadow subuid subgid; do rm -f "$tree/etc/$file-"; done
    chmod 1777 "$tree/tmp"
    chmod 700 "$tree/root"

    # Without it nobody's account counts as valid, and sudo refuses everybody.
    if [ ! -f "$tree/etc/shadow" ]; then
        sed 's/:.*/:*:19000:0:99999:7:::/' "$tree/etc/passwd" >"$tree/etc/shadow"
        chgrp "$(sed -n 's/^shadow:[^:]*:\([0-9]*\):.*/\1/p' "$tree/etc/group")" "$tree/etc/shadow"
        chmod 640 "$tree/etc/shadow"
    fi

    # The user: no password, no way to log in, only executions of the agent.
    append etc/passwd "$user:x:$uid:$gid::$home:$shell"
    append etc/group "$user:x:$gid:"
    append etc/shadow "$user:*:19000:0:99999:7:::"
    append etc/gshadow "$user:*::"
    mkdir -p "$tree$home"
    [ ! -d "$tree/etc/skel" ] || cp -R "$tree/etc/skel/." "$tree$home/"
    chown -R "$uid:$gid" "$tree$home"
    chmod 700 "$tree$home"

    for overlay in "$@"; do
        (cd "$overlay" && find . -type d | sort | while read -r dir; do
            [ -d "$tree/$dir" ] || install -d -m 755 -o 0 -g 0 "$tree/$dir"
        done)
        (cd "$overlay" && find . -type f | sort | while read -r file; do
            mode=644
            [ ! -x "$file" ] || mode=755
            rm -f "$tree/$file"
            install -m "$mode" -o 0 -g 0 "$file" "$tree/$file"
        done)
    done
    # The agent writes an identity over this at every restore.
    rm -f "$tree/etc/machine-id" "$tree/var/lib/dbus/machine-id"
    : >"$tree/etc/machine-id"

    install -m 755 -o 0 -g 0 "$agent" "$tree/usr/sbin/rekindle-agent"
    ln -sf rekindle-agent "$tree/usr/sbin/init"
    # What warm interpreters run (rootfs/interpreters/README.md).
    target="$tree/usr/lib/rekindle/interpreters"
    install -d -m 755 -o 0 -g 0 "$target" "$target/node" "$target/python" "$target/python/rekindle_warm"
    install -m 644 -o 0 -g 0 "$interpreters"/node/*.cjs "$target/node"
    install -m 644 -o 0 -g 0 "$interpreters"/python/rekindle_warm/*.py "$target/python/rekindle_warm"
    install -m 644 -o 0 -g 0 "$native" "$target/native.so"
    # The clock of executions that have their own (rootfs/clock).
    install -m 644 -o 0 -g 0 "$clock" "$tree/usr/lib/rekindle/clock.so"
    ;;
pack)
    mkfs.erofs --quiet -T "$2" -U "$3" "$1" "$tree"
    ;;
*)
    echo "assemble.sh: unknown verb $verb" >&2
    exit 2
    ;;
esac
