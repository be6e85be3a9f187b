"""Fields whose change replaces an object (pulumi-kubernetes pkg/provider/diff.go, ``forceNew``)."""

_ALWAYS = frozenset({"metadata.name", "metadata.namespace"})
_POD_CONTAINER = (
    *("args", "command", "env", "image", "imagePullPolicy", "lifecycle", "livenessProbe", "ports", "readinessProbe"),
    *("resources", "securityContext", "stdin", "stdinOnce", "terminationMessagePath", "terminationMessagePolicy"),
    *("tty", "volumeDevices", "volumeMounts", "workingDir"),
)
_POD = (
    *("affinity", "automountServiceAccountToken", "dnsConfig", "dnsPolicy", "enableServiceLinks", "hostAliases"),
    *("hostIPC", "hostNetwork", "hostPID", "hostname", "imagePullSecrets", "nodeName", "nodeSelector", "overhead"),
    *("preemptionPolicy", "priority", "priorityClassName", "readinessGates", "restartPolicy", "runtimeClassName"),
    *("schedulerName", "securityContext", "serviceAccount", "serviceAccountName", "shareProcessNamespace"),
    *("subdomain", "terminationGracePeriodSeconds", "volumes"),
)
_VOLUME_SOURCES = (
    *("awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc", "flexVolume", "flocker"),
    *("gcePersistentDisk", "glusterfs", "hostPath", "iscsi", "local", "nfs", "photonPersistentDisk"),
    *("portworxVolume", "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume"),
)
_STATEFUL = ("podManagementPolicy", "revisionHistoryLimit", "selector", "serviceName", "volumeClaimTemplates")

_FIELDS: dict[str, frozenset[str]] = {
    "apps/v1/DaemonSet": frozenset({"spec.selector"}),
    "apps/v1/Deployment": frozenset({"spec.selector"}),
    "apps/v1/StatefulSet": frozenset(f"spec.{field}" for field in _STATEFUL),
    "batch/v1/Job": frozenset({"spec.completions", "spec.parallelism", "spec.selector", "spec.template"}),
    "rbac.authorization.k8s.io/v1/ClusterRoleBinding": frozenset({"roleRef"}),
    "rbac.authorization.k8s.io/v1/RoleBinding": frozenset({"roleRef"}),
    "storage.k8s.io/v1/StorageClass": frozenset({"parameters", "provisioner"}),
    "v1/PersistentVolume": frozenset(f"spec.{source}" for source in _VOLUME_SOURCES),
    "v1/PersistentVolumeClaim": frozenset(
        f"spec.{field}" for field in ("accessModes", "selector", "storageClassName", "volumeName")
    ),
    "v1/Pod": frozenset(
        {
            *(f"spec.{field}" for field in _POD),
            *(f"spec.{listing}.{field}" for listing in ("containers", "initContainers") for field in _POD_CONTAINER),
        }
    ),
    "v1/ResourceQuota": frozenset({"spec.scopes"}),
    "v1/Secret": frozenset({"type"}),
    "v1/Service": frozenset({"spec.clusterIP"}),
}


def force_new(api_version: str, kind: str, mutable: bool) -> frozenset[str]:
    """Return the fields for a kind; ``mutable`` says whether a ConfigMap's or Secret's data may change in place."""
    type = f"{api_version}/{kind}"
    fields = _ALWAYS | _FIELDS.get(type, frozenset())
    if not mutable and type == "v1/Secret":
        fields |= {"type", "data", "stringData"}
    if not mutable and type == "v1/ConfigMap":
        fields |= {"data", "binaryData"}
    return fields
