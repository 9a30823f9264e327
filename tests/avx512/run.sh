#!/usr/bin/env bash
# Runs the tests of the kernels on an emulated CPU with AVX-512, for machines whose own has none: Bochs boots a Linux kernel whose
# only program is the tests. Bochs 2.7 rounds ties away from zero in VCVTPS2PH, so some of them fail, with AVX2 too; the question
# is therefore whether AVX-512 does exactly what AVX2 does, which the other tests prove on the real CPU. Installs what is missing
# on Debian 12. Slow: half an hour.
#   bash tests/avx512/run.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source cmake/install_packages.sh
install_packages g++ cmake ninja-build catch2 libeigen3-dev bochs bochsbios vgabios bochs-term grub-pc-bin grub-common xorriso mtools cpio

build=$PWD/build/avx512
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_EXE_LINKER_FLAGS=-static -DHEADROOM_BUILD_EXAMPLES=OFF
cmake --build "$build" --target test_kernel

# A kernel, unpacked and not installed.
cd "$build"
kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-.*\)/\1/p' | head -1)
[[ -e $kernel.deb ]] || { apt-get download "$kernel" && mv "$kernel"_*.deb "$kernel.deb"; }
dpkg-deb --extract "$kernel.deb" kernel

rm -rf root iso serial.txt
mkdir -p root/dev iso/boot/grub
g++ -O2 -static -o root/init ../../tests/avx512/init.cpp
cp tests/test_kernel root
cp -r --parents "$(realpath ../../tests/golden/fp8)" root # the tests know its path
mknod root/dev/console c 5 1
(cd root && find . | cpio --quiet --create --format=newc | gzip -1) >iso/boot/initrd.gz
cp kernel/boot/vmlinuz-* iso/boot/vmlinuz
# Bochs 2.7 and Linux disagree about the size of what XSAVES saves, so it is switched off.
cat >iso/boot/grub/grub.cfg <<'GRUB'
set timeout=0
menuentry tests {
  linux /boot/vmlinuz console=ttyS0 quiet tsc=unstable nokaslr mitigations=off noxsaves clearcpuid=xsaves,xsavec rdinit=/init
  initrd /boot/initrd.gz
}
GRUB
grub-mkrescue -o tests.iso iso 2>grub.log

cat >bochsrc <<BOCHS
cpu: model=corei7_skylake_x, ips=100000000
megs: 512
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
ata0-master: type=cdrom, path=$build/tests.iso, status=inserted
boot: cdrom
display_library: rfb, options="timeout=0"
sound: waveoutdrv=dummy, waveindrv=dummy, midioutdrv=dummy
com1: enabled=1, mode=file, dev=$build/serial.txt
log: $build/bochs.log
panic: action=fatal
error: action=report
info: action=ignore
BOCHS
echo c >commands # its debugger waits for "continue"
bochs -q -f bochsrc -rc commands </dev/null >bochs.out 2>&1 || true # switching off counts as a panic

# What each of the two has printed, under one name.
section() { tr -d '\r' <serial.txt | sed -n "/^== $1\$/,/^== $2\$/{/^== /!p}" | sed "s/instruction set: $1\$/instruction set/"; }
grep -q '^== done' serial.txt || { echo "The emulated machine did not come to its end: see $build/serial.txt" && exit 1; }
section avx2 avx512 >avx2.txt
section avx512 done >avx512.txt
tail -n 3 avx512.txt
grep -q 'test cases:\|All tests passed' avx512.txt && diff avx2.txt avx512.txt && echo "AVX-512 does what AVX2 does."
