"""PodSecurity admission, with the settings that Talos gives the API server.

Talos enforces `baseline` in every namespace but kube-system, unless a namespace's label says otherwise
(siderolabs/talos pkg/machinery/config/types/v1alpha1 admission control; kubernetes.io "Pod Security Standards").
The API server itself only warns of a workload whose pods it will refuse, and the pods never come; the lab refuses it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from .pods import containers

EXEMPT = frozenset({"kube-system"})
_LABEL = "pod-security.kubernetes.io/enforce"
_DEFAULT = "baseline"

_CAPABILITIES = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)
_VOLUMES = frozenset(
    {
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral"),
        *("persistentVolumeClaim", "projected", "secret", "image"),
    }
)
_SYSCTLS = frozenset(
    {
        *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start"),
        *("net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports"),
        *("net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl"),
        *("net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
    }
)


def level(namespace: str, labels: Mapping[str, Any] | None) -> str:
    """Return the level that a namespace enforces: privileged, baseline or restricted."""
    if namespace in EXEMPT:
        return "privileged"
    return str((labels or {}).get(_LABEL) or _DEFAULT)


def violations(spec: Mapping[str, Any], enforced: str) -> list[str]:
    """Return what a pod's spec does that a level forbids."""
    if enforced == "privileged":
        return []
    found = list(_baseline(spec))
    if enforced == "restricted":
        found += _restricted(spec)
    return found


def _baseline(spec: Mapping[str, Any]) -> Iterator[str]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field) is True:
            yield f"host namespaces ({field}=true)"
    for volume in spec.get("volumes") or []:
        if volume.get("hostPath") is not None:
            yield f"hostPath volumes (volume {volume.get('name')!r})"
    yield from _unconfined(spec.get("securityContext") or {}, "pod")
    for sysctl in (spec.get("securityContext") or {}).get("sysctls") or []:
        if sysctl.get("name") not in _SYSCTLS:
            yield f"forbidden sysctls ({sysctl.get('name')})"
    for container in containers(spec):
        name, context = container.get("name"), container.get("securityContext") or {}
        where = f"container {name!r}"
        if context.get("privileged") is True:
            yield f"privileged ({where})"
        added = set((context.get("capabilities") or {}).get("add") or []) - _CAPABILITIES
        if added:
            yield f"non-default capabilities ({where} must not add {', '.join(sorted(added))})"
        if context.get("procMount") not in (None, "Default"):
            yield f"procMount ({where})"
        for port in container.get("ports") or []:
            if port.get("hostPort"):
                yield f"hostPort ({where} uses hostPort {port['hostPort']})"
        yield from _unconfined(context, where)


def _unconfined(context: Mapping[str, Any], where: str) -> Iterator[str]:
    for field in ("seccompProfile", "appArmorProfile"):
        if (context.get(field) or {}).get("type") == "Unconfined":
            yield f"{field} ({where} must not set it to Unconfined)"
    selinux = context.get("seLinuxOptions") or {}
    if selinux.get("user") or selinux.get("role"):
        yield f"seLinuxOptions ({where} must not set user or role)"


def _restricted(spec: Mapping[str, Any]) -> Iterator[str]:
    pod = spec.get("securityContext") or {}
    for volume in spec.get("volumes") or []:
        if not _VOLUMES & {key for key, value in volume.items() if value is not None}:
            yield f"restricted volume types (volume {volume.get('name')!r})"
    for container in containers(spec):
        context = container.get("securityContext") or {}
        where, capabilities = f"container {container.get('name')!r}", context.get("capabilities") or {}
        if context.get("allowPrivilegeEscalation") is not False:
            yield f"allowPrivilegeEscalation != false ({where})"
        if "ALL" not in (capabilities.get("drop") or []) or set(capabilities.get("add") or []) - {"NET_BIND_SERVICE"}:
            yield f"unrestricted capabilities ({where} must drop ALL and may add NET_BIND_SERVICE only)"
        if context.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
            yield f"runAsNonRoot != true ({where})"
        if context.get("runAsUser", pod.get("runAsUser")) == 0:
            yield f"runAsUser=0 ({where})"
        profile = context.get("seccompProfile") or pod.get("seccompProfile") or {}
        if profile.get("type") not in ("RuntimeDefault", "Localhost"):
            yield f"seccompProfile ({where} must set RuntimeDefault or Localhost)"
