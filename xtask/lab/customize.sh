#!/bin/sh
# Runs inside the lab host's new tree (chroot), at the end of mmdebstrap: keeps the kernel
# modules the lab needs, unpacked, and makes the initial RAM disk. Called by `cargo xtask lab`.
set -eu

build=/rekindle-build
version=$(ls /lib/modules)
modules=/lib/modules/$version
# What the initial RAM disk loads to reach the root image, then what the machine itself needs.
boot="virtio_pci virtio_blk erofs overlay"
later="virtio_console 9pnet_virtio 9p kvm-amd loop tun veth ext4"

# Prints the module files that `modprobe` would load, in its order.
files() {
    for name in "$@"; do
        modprobe --show-depends --ignore-install --set-version "$version" "$name" | sed -n 's/^insmod \([^ ]*\).*/\1/p'
    done
}

depmod "$version"
files $boot | awk '!seen[$0]++' >"$build/boot.list"
files $boot $later | sort -u >"$build/all.list"
mkdir "$build/modules"
while read -r file; do
    target="$build/modules/${file#"$modules/"}"
    mkdir -p "$(dirname "$target")"
    case $file in
    # Unpacking them here saves an emulated processor the work.
    *.xz) xz --decompress --stdout "$file" >"${target%.xz}" ;;
    *.zst) zstd --quiet --decompress --stdout "$file" >"${target%.zst}" ;;
    *) cp "$file" "$target" ;;
    esac
done <"$build/all.list"

initrd=$build/initrd
mkdir -p "$initrd/bin" "$initrd/modules" "$initrd/proc" "$initrd/sys" "$initrd/dev" "$initrd/lower" \
    "$initrd/upper" "$initrd/root"
cp /usr/bin/busybox "$initrd/bin/busybox"
for name in sh mount insmod switch_root mkdir umount; do ln -s busybox "$initrd/bin/$name"; done
cp "$build/initrd-init" "$initrd/init"
chmod 755 "$initrd/init"
number=100
while read -r file; do
    plain=${file%.xz}
    plain=${plain%.zst}
    cp "$build/modules/${plain#"$modules/"}" "$initrd/modules/$number-$(basename "$plain")"
    number=$((number + 1))
done <"$build/boot.list"
(cd "$initrd" && find . | sort | cpio --quiet --create --format=newc --reproducible) >"$build/initrd.cpio"

rm -rf "$modules/kernel"
mv "$build/modules/kernel" "$modules/kernel"
depmod "$version"
cp /boot/vmlinuz-"$version" "$build/vmlinuz"

install -m 755 "$build/init" /sbin/lab-init
install -m 755 "$build/server.py" /sbin/lab-server
mkdir -p /share /room
rm -rf /boot/* /usr/share/doc/* /usr/share/man/* /usr/share/locale/* /usr/share/info/* /var/log/*
rm -f /etc/machine-id /initrd.img* /vmlinuz*
: >/etc/machine-id
rm -rf /var/cache/apt/archives/*.deb
