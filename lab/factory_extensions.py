"""The official extensions that the lab's factory knows: the names of siderolabs/extensions (its Makefile, 2026-08)."""

OFFICIAL = tuple(
    f"siderolabs/{name}"
    for name in """
    amazon-ena amd-ucode amdgpu binfmt-misc bird2 bnx2-bnx2x btrfs cachefilesd chelsio-drivers chelsio-firmware
    cloudflared crun ctr drbd dvb-cx23885 dvb-m88ds3103 ecr-credential-provider fuse3 gasket-driver glibc
    gpio-pinctrl gvisor gvisor-debug hailort harbor-credential-provider hello-world-service hyperv-guest-agent i915
    intel-ice-firmware intel-npu intel-ucode iscsi-tools joydev kata-containers kata-containers-snp lldpd mdadm mei
    mellanox-mstflint metal-agent multipath-tools nebula netbird newt nfs-utils nfsd nfsrahead
    nonfree-kmod-nvidia-lts nonfree-kmod-nvidia-production nut-client nvidia-container-toolkit-lts
    nvidia-container-toolkit-production nvidia-fabricmanager-lts nvidia-fabricmanager-production
    nvidia-gdrdrv-device nvidia-open-gpu-kernel-modules-lts nvidia-open-gpu-kernel-modules-production nvme-cli
    panfrost px-fuse qemu-guest-agent qlogic-firmware realtek-firmware revpi-firmware rockchip-rknn
    soci-snapshotter spin stargz-snapshotter tailscale tenstorrent thunderbolt trident-iscsi-tools uhid uinput
    usb-audio-drivers usb-modem-drivers util-linux-tools v4l-uvc-drivers vc4 vmtoolsd-guest-agent wasmedge
    xdma-driver xe xen-guest-agent youki zerotier zfs
    """.split()  # noqa: SIM905 - easier to read
)

ALIASES = {
    "siderolabs/v4l-uvc": "siderolabs/v4l-uvc-drivers",
    "siderolabs/usb-modem": "siderolabs/usb-modem-drivers",
    "siderolabs/gasket": "siderolabs/gasket-driver",
    "siderolabs/talos-vmtoolsd": "siderolabs/vmtoolsd-guest-agent",
    "siderolabs/xe-guest-utilities": "siderolabs/xen-guest-agent",
    "siderolabs/nvidia-container-toolkit": "siderolabs/nvidia-container-toolkit-lts",
    "siderolabs/nvidia-open-gpu-kernel-modules": "siderolabs/nvidia-open-gpu-kernel-modules-lts",
    "siderolabs/nonfree-kmod-nvidia": "siderolabs/nonfree-kmod-nvidia-lts",
    "siderolabs/nvidia-fabricmanager": "siderolabs/nvidia-fabricmanager-lts",
    "siderolabs/i915-ucode": "siderolabs/i915",
    "siderolabs/amdgpu-firmware": "siderolabs/amdgpu",
}
"""Old names that the factory still resolves when it makes an image (siderolabs/image-factory internal/profile)."""


OVERLAYS = {
    "bananapi_m64": "siderolabs/sbc-allwinner",
    "helios64": "siderolabs/sbc-rockchip",
    "jetson_nano": "siderolabs/sbc-jetson",
    "libretech_all_h3_cc_h5": "siderolabs/sbc-allwinner",
    "nanopi-r4s": "siderolabs/sbc-rockchip",
    "nanopi-r5s": "siderolabs/sbc-rockchip",
    "orangepi-5": "siderolabs/sbc-rockchip",
    "orangepi-r1-plus-lts": "siderolabs/sbc-rockchip",
    "pine64": "siderolabs/sbc-allwinner",
    "revpi_generic": "siderolabs/sbc-raspberrypi",
    "rock4cplus": "siderolabs/sbc-rockchip",
    "rock4se": "siderolabs/sbc-rockchip",
    "rock5a": "siderolabs/sbc-rockchip",
    "rock5b": "siderolabs/sbc-rockchip",
    "rock64": "siderolabs/sbc-rockchip",
    "rockpi4": "siderolabs/sbc-rockchip",
    "rockpi4c": "siderolabs/sbc-rockchip",
    "rpi_5": "siderolabs/sbc-raspberrypi",
    "rpi_generic": "siderolabs/sbc-raspberrypi",
    "turingrk1": "siderolabs/sbc-rockchip",
}
"""The official overlays, each with its image (siderolabs/talos pkg/machinery/platforms, 2026-08)."""


def available(name: str) -> bool:
    """Say whether an image with this extension can be made."""
    return ALIASES.get(name, name) in OFFICIAL
