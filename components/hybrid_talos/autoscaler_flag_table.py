# ruff: noqa: E501
"""The flags of each supported Cluster Autoscaler: name, kind, first and last minor version, help.

Written by `python -m lab.autoscaler_flags`; do not edit. Source: kubernetes/autoscaler `cluster-autoscaler/main.go` and
`config/flags/flags.go` at the tags 1.28.7, 1.29.5, 1.30.7, 1.31.5, 1.32.7, 1.33.4, 1.34.5, 1.35.2, 1.36.1;
component-base (leader election, logging, feature gates) and klog for the others.
"""

FLAGS = """\
add-dir-header|bool|1.28|1.36|Of the libraries within it: leader election, logging, feature gates.
address|text|1.28|1.36|The address to expose prometheus metrics.
allowed-scheduler-names|list|1.35|1.36|If set to non-empty value, CA will proceed only with pods targeting schedulers in the list, from the list of unschedulable and scheduler unprocessed pods
alsologtostderr|bool|1.28|1.36|Of the libraries within it: leader election, logging, feature gates.
async-node-groups|bool|1.31|1.36|Whether clusterautoscaler creates and deletes node groups asynchronously. Experimental: requires cloud provider supporting async node group operations, enable at your own risk.
aws-use-static-instance-list|bool|1.28|1.36|Should CA fetch instance types in runtime or use a static list. AWS only
balance-similar-node-groups|bool|1.28|1.36|Detect similar node groups and balance the number of nodes between them
balancing-ignore-label|list|1.28|1.36|Specifies a label to ignore in addition to the basic and cloud-provider set of labels when comparing if two node groups are similar
balancing-label|list|1.28|1.36|Specifies a label to use for comparing if two node groups are similar, rather than the built in heuristics. Setting this flag disables all other comparison logic, and cannot be combined with --balancing-ignore-label.
blocking-system-pod-distruption-timeout|duration|1.33|1.36|The timeout after which CA will evict non-pdb-assigned blocking system pods, applicable only when --skip-nodes-with-system-pods is set to true
bulk-mig-instances-listing-enabled|bool|1.31|1.36|Fetch GCE mig instances in bulk instead of per mig
bypassed-scheduler-names|list|1.29|1.36|Names of schedulers to bypass. If set to non-empty value, CA will not wait for pods to reach a certain age before triggering a scale-up.
capacity-buffer-controller-enabled|bool|1.34|1.36|Whether to enable the default controller for capacity buffers or not
capacity-buffer-pod-dry-run-enabled|bool|1.36|1.36|Whether to use server dry run to build managed pod templates for capacity buffers. That ensures that the buffers' fake pods will more reliably resemble real pods by going through the pod defaulting, mutating and validating webhooks. No-op if --capacity-buffer-controller-enabled is false. Note: requires "create" permission on pods to call server dry run. No real pods will be created.
capacity-buffer-pod-injection-enabled|bool|1.34|1.36|Whether to enable pod list processor that processes ready capacity buffers and injects fake pods accordingly
capacity-quotas-enabled|bool|1.36|1.36|Whether to enable CapacityQuota CRD support.
check-capacity-batch-processing|bool|1.32|1.36|Whether to enable batch processing for check capacity requests.
check-capacity-processor-instance|text|1.33|1.36|Name of the processor instance. Only ProvisioningRequests that define this name in their parameters with the key "processorInstance" will be processed by this CA instance. It only refers to check capacity ProvisioningRequests, but if not empty, best-effort atomic ProvisioningRequests processing is disabled in this instance. Not recommended: Until CA 1.35, ProvisioningRequests with this name as prefix in their class will be also processed.
check-capacity-provisioning-request-batch-timebox|duration|1.32|1.36|Maximum time to process a batch of provisioning requests.
check-capacity-provisioning-request-max-batch-size|int|1.32|1.36|Maximum number of provisioning requests to process in a single batch.
cloud-config|text|1.28|1.36|The path to the cloud provider configuration file. Empty string for no configuration file.
cloud-provider|text|1.28|1.36|Cloud provider type. Available values: [,]
cluster-name|text|1.28|1.36|Autoscaled cluster name, if available
cluster-snapshot-parallelism|int|1.33|1.36|Maximum parallelism of cluster snapshot creation (Deprecated, use predicate-parallelism instead)
clusterapi-cloud-config-authoritative|bool|1.28|1.36|Treat the cloud-config flag authoritatively (do not fallback to using kubeconfig flag). ClusterAPI only
cordon-node-before-terminating|bool|1.28|1.36|Should CA cordon nodes before terminating during downscale process
cores-total|text|1.28|1.36|Minimum and maximum number of cores in cluster, in the format <min>:<max>. Cluster autoscaler will not scale the cluster beyond these numbers.
daemonset-eviction-for-empty-nodes|bool|1.28|1.36|DaemonSet pods will be gracefully terminated from empty nodes
daemonset-eviction-for-occupied-nodes|bool|1.28|1.36|DaemonSet pods will be gracefully terminated from non-empty nodes
debugging-snapshot-enabled|bool|1.28|1.36|Whether the debugging snapshot of cluster autoscaler feature is enabled
drain-priority-config|text|1.29|1.36|List of ',' separated pairs (priority:terminationGracePeriodSeconds) of integers separated by ':' enables priority evictor. Priority evictor groups pods into priority groups based on pod priority and evict pods in the ascending order of group priorities--max-graceful-termination-sec flag should not be set when this flag is set. Not setting this flag will use unordered evictor by default.Priority evictor reuses the concepts of drain logic in kubelet(https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/2712-pod-priority-based-graceful-node-shutdown#migration-from-the-node-graceful-shutdown-feature).Eg. flag usage: '10000:20,1000:100,0:60'
dynamic-node-delete-delay-after-taint-enabled|bool|1.29|1.36|Enables dynamic adjustment of NodeDeleteDelayAfterTaint based of the latency between CA and api-server
emit-per-nodegroup-metrics|bool|1.28|1.36|If true, emit per node group metrics.
enable-csi-node-aware-scheduling|bool|1.35|1.36|Whether logic for handling CSINode objects is enabled.
enable-dynamic-resource-allocation|bool|1.32|1.36|Handle DRA (Dynamic Resource Allocation) objects, locked to true.
enable-proactive-scaleup|bool|1.31|1.36|Whether to enable/disable proactive scale-ups, defaults to false
enable-provisioning-requests|bool|1.30|1.36|Whether the clusterautoscaler will be handling the ProvisioningRequest CRs.
enforce-node-group-min-size|bool|1.28|1.36|Should CA scale up the node group to the configured min size if needed.
estimator|text|1.28|1.36|Type of resource estimator to be used in scale up. Available values: [,]
expander|text|1.28|1.36|Type of node group expander to be used in scale up. Available values: [,]. Specifying multiple values separated by commas will call the expanders in succession until there is only one option remaining. Ties still existing after this process are broken randomly.
expendable-pods-priority-cutoff|int|1.28|1.36|Pods with priority below cutoff will be expendable. They can be killed without any consideration during scale down and they don't cause scale up. Pods with null priority (PodPriority disabled) are non expendable.
fastpath-binpacking-enabled|bool|1.36|1.36|Whether to use fastpath binpacking algorithm to optimize scale-ups.
feature-gates|text|1.28|1.36|Of the libraries within it: leader election, logging, feature gates.
force-delete-failed-nodes|bool|1.31|1.36|Whether to enable force deletion of failed nodes, regardless of the min size of the node group the belong to.
force-delete-unregistered-nodes|bool|1.32|1.36|Whether to enable force deletion of long unregistered nodes, regardless of the min size of the node group the belong to.
force-ds|bool|1.28|1.36|Blocks scale-up of node groups too small for all suitable Daemon Sets pods.
frequent-loops-enabled|bool|1.30|1.36|Whether clusterautoscaler triggers new iterations more frequently when it's needed
gce-concurrent-refreshes|int|1.28|1.36|Maximum number of concurrent refreshes per cloud object type.
gce-expander-ephemeral-storage-support|bool|1.28|1.32|Whether scale-up takes ephemeral storage resources into account for GCE cloud provider (Deprecated, to be removed in 1.30+)
gce-mig-instances-min-refresh-wait-time|duration|1.28|1.36|The minimum time which needs to pass before GCE MIG instances from a given MIG can be refreshed.
gpu-total|list|1.28|1.36|Minimum and maximum number of different GPUs in cluster, in the format <gpu_type>:<min>:<max>. Cluster autoscaler will not scale the cluster beyond these numbers. Can be passed multiple times. CURRENTLY THIS FLAG ONLY WORKS ON GKE.
grpc-expander-cert|text|1.28|1.36|Path to cert used by gRPC server over TLS
grpc-expander-url|text|1.28|1.36|URL to reach gRPC expander server.
ignore-daemonsets-utilization|bool|1.28|1.36|Should CA ignore DaemonSet pods when calculating resource utilization for scaling down
ignore-mirror-pods-utilization|bool|1.28|1.36|Should CA ignore Mirror pods when calculating resource utilization for scaling down
ignore-taint|list|1.28|1.36|Specifies a taint to ignore in node templates when considering to scale a node group (Deprecated, use startup-taints instead)
initial-node-group-backoff-duration|duration|1.28|1.36|initialNodeGroupBackoffDuration is the duration of first backoff after a new node failed to start.
kube-api-content-type|text|1.29|1.36|Content type of requests sent to apiserver.
kube-client-burst|int|1.28|1.36|Burst value for kubernetes client.
kube-client-qps|float|1.28|1.36|QPS value for kubernetes client.
kubeconfig|text|1.28|1.36|Path to kubeconfig file with authorization and master location information.
kubernetes|text|1.28|1.36|Kubernetes master location. Leave blank for default
leader-elect|bool|1.28|1.36|Of the libraries within it: leader election, logging, feature gates.
leader-elect-lease-duration|duration|1.28|1.36|Of the libraries within it: leader election, logging, feature gates.
leader-elect-renew-deadline|duration|1.28|1.36|Of the libraries within it: leader election, logging, feature gates.
leader-elect-resource-lock|text|1.28|1.36|Of the libraries within it: leader election, logging, feature gates.
leader-elect-resource-name|text|1.28|1.36|Of the libraries within it: leader election, logging, feature gates.
leader-elect-resource-namespace|text|1.28|1.36|Of the libraries within it: leader election, logging, feature gates.
leader-elect-retry-period|duration|1.28|1.36|Of the libraries within it: leader election, logging, feature gates.
legacy-stderr-threshold-behavior|bool|1.36|1.36|Of the libraries within it: leader election, logging, feature gates.
log-backtrace-at|text|1.28|1.36|Of the libraries within it: leader election, logging, feature gates.
log-dir|text|1.28|1.36|Of the libraries within it: leader election, logging, feature gates.
log-file|text|1.28|1.36|Of the libraries within it: leader election, logging, feature gates.
log-file-max-size|int|1.28|1.36|Of the libraries within it: leader election, logging, feature gates.
log-flush-frequency|duration|1.28|1.36|Of the libraries within it: leader election, logging, feature gates.
logging-format|text|1.28|1.36|Of the libraries within it: leader election, logging, feature gates.
logtostderr|bool|1.28|1.36|Of the libraries within it: leader election, logging, feature gates.
max-allocatable-difference-ratio|float|1.28|1.36|Maximum difference in allocatable resources between two similar node groups to be considered for balancing. Value is a ratio of the smaller node group's allocatable resource.
max-autoprovisioned-node-group-count|int|1.28|1.32|The maximum number of autoprovisioned groups in the cluster.This flag is deprecated and will be removed in future releases.
max-binpacking-time|duration|1.31|1.36|Maximum time spend on binpacking for a single scale-up. If binpacking is limited by this, scale-up will continue with the already calculated scale-up options.
max-bulk-soft-taint-count|int|1.28|1.36|Maximum number of nodes that can be tainted/untainted PreferNoSchedule at the same time. Set to 0 to turn off such tainting.
max-bulk-soft-taint-time|duration|1.28|1.36|Maximum duration of tainting/untainting nodes as PreferNoSchedule at the same time.
max-drain-parallelism|int|1.28|1.36|Maximum number of nodes needing drain, that can be drained and deleted in parallel.
max-empty-bulk-delete|int|1.28|1.32|Maximum number of empty nodes that can be deleted at the same time. DEPRECATED: Use --max-scale-down-parallelism instead.
max-failing-time|duration|1.28|1.36|Maximum time from last recorded successful autoscaler run before automatic restart
max-free-difference-ratio|float|1.28|1.36|Maximum difference in free resources between two similar node groups to be considered for balancing. Value is a ratio of the smaller node group's free resource.
max-graceful-termination-sec|int|1.28|1.36|Maximum number of seconds CA waits for pod termination when trying to scale down a node. This flag is mutually exclusion with drain-priority-config flag which allows more configuration options.
max-inactivity|duration|1.28|1.36|Maximum time from last recorded autoscaler activity before automatic restart
max-node-group-backoff-duration|duration|1.28|1.36|maxNodeGroupBackoffDuration is the maximum backoff duration for a NodeGroup after new nodes failed to start.
max-node-provision-time|duration|1.28|1.36|The default maximum time CA waits for node to be provisioned - the value can be overridden per node group
max-node-skip-eval-time-tracker-enabled|bool|1.35|1.36|Whether to enable the tracking of the maximum time of node being skipped during ScaleDown
max-node-startup-time|duration|1.35|1.36|The maximum time from the moment the node is registered to the time the node is ready - the value can be overridden per node group
max-nodegroup-binpacking-duration|duration|1.28|1.36|Maximum time that will be spent in binpacking simulation for each NodeGroup.
max-nodes-per-scaleup|int|1.28|1.36|Max nodes added in a single scale-up. This is intended strictly for optimizing CA algorithm latency and not a tool to rate-limit scale-up throughput.
max-nodes-total|int|1.28|1.36|Maximum number of nodes in all node groups. Cluster autoscaler will not grow the cluster beyond this number.
max-pod-eviction-time|duration|1.28|1.36|Maximum time CA tries to evict a pod before giving up
max-scale-down-parallelism|int|1.28|1.36|Maximum number of nodes (both empty and needing drain) that can be deleted in parallel.
max-startup-time|duration|1.36|1.36|Maximum time until first recorded successful autoscaler run before automatic restart
max-total-unready-percentage|float|1.28|1.36|Maximum percentage of unready nodes in the cluster. After this is exceeded, CA halts operations
memory-difference-ratio|float|1.28|1.36|Maximum difference in memory capacity between two similar node groups to be considered for balancing. Value is a ratio of the smaller node group's memory capacity.
memory-total|text|1.28|1.36|Minimum and maximum number of gigabytes of memory in cluster, in the format <min>:<max>. Cluster autoscaler will not scale the cluster beyond these numbers.
min-replica-count|int|1.28|1.36|Minimum number or replicas that a replica set or replication controller should have to allow their pods deletion in scale down
namespace|text|1.28|1.36|Namespace in which cluster-autoscaler run.
new-pod-scale-up-delay|duration|1.28|1.36|Pods less than this old will not be considered for scale-up. Can be increased for individual pods through annotation 'cluster-autoscaler.kubernetes.io/pod-scale-up-delay'.
node-autoprovisioning-enabled|bool|1.28|1.32|Should CA autoprovision node groups when needed.This flag is deprecated and will be removed in future releases.
node-delete-delay-after-taint|duration|1.28|1.36|How long to wait before deleting a node after tainting it
node-deletion-batcher-interval|duration|1.28|1.36|How long CA ScaleDown gather nodes to delete them in batch.
node-deletion-candidate-ttl|duration|1.34|1.36|Maximum time a node can be marked as removable before the marking becomes stale. This sets the TTL of Cluster-Autoscaler's state if the Cluste-Autoscaler deployment becomes inactive
node-deletion-delay-timeout|duration|1.28|1.36|Maximum time CA waits for removing delay-deletion.cluster-autoscaler.kubernetes.io/ annotations before deleting the node.
node-group-auto-discovery|list|1.28|1.36|One or more definition(s) of node group auto-discovery. A definition is expressed `<name of discoverer>:[<key>[=<value>]]`. The `aws`, `gce`, and `azure` cloud providers are currently supported. AWS matches by ASG tags, e.g. `asg:tag=tagKey,anotherTagKey`. GCE matches by IG name prefix, and requires you to specify min and max nodes per IG, e.g. `mig:namePrefix=pfx,min=0,max=10` Azure matches by VMSS tags, similar to AWS. And you can optionally specify a default min and max size, e.g. `label:tag=tagKey,anotherTagKey=bar,min=0,max=600`. Can be used multiple times.
node-group-backoff-reset-timeout|duration|1.28|1.36|nodeGroupBackoffResetTimeout is the time after last failed scale-up when the backoff duration is reset.
node-info-cache-expire-time|duration|1.28|1.36|Node Info cache expire time for each item. Default value is 10 years.
node-removal-latency-tracking-enabled|bool|1.35|1.36|Whether to track latency from when an unneeded node is eligible for scale down until it is removed or needed again.
nodes|list|1.28|1.36|sets min,max size and other configuration data for a node group in a format accepted by cloud provider. Can be used multiple times. Format: <min>:<max>:<other...>
ok-total-unready-count|int|1.28|1.36|Number of allowed unready nodes, irrespective of max-total-unready-percentage
one-output|bool|1.28|1.36|Of the libraries within it: leader election, logging, feature gates.
parallel-drain|bool|1.28|1.31|Whether to allow parallel drain of nodes. This flag is deprecated and will be removed in future releases.
parallel-scale-up|bool|1.28|1.36|Whether to allow parallel node groups scale up. Experimental: may not work on some cloud providers, enable at your own risk.
pod-injection-limit|int|1.31|1.36|Limits total number of pods while injecting fake pods. If unschedulable pods already exceeds the limit, pod injection is disabled but pods are not truncated.
predicate-parallelism|int|1.35|1.36|Maximum parallelism of scheduler predicate checking.
profiling|bool|1.28|1.36|Is debug/pprof endpoint enabled
provisioning-request-initial-backoff-time|duration|1.32|1.36|Initial backoff time for ProvisioningRequest retry after failed ScaleUp.
provisioning-request-max-backoff-cache-size|int|1.32|1.36|Max size for ProvisioningRequest cache size used for retry backoff mechanism.
provisioning-request-max-backoff-time|duration|1.32|1.36|Max backoff time for ProvisioningRequest retry after failed ScaleUp.
record-duplicated-events|bool|1.28|1.36|enable duplication of similar events within a 5 minute window.
regional|bool|1.28|1.36|Cluster is regional.
salvo-scale-up|bool|1.36|1.36|Whether to allow multiple scale-ups in a single CA loop.
salvo-scale-up-budget|duration|1.36|1.36|Maximum time CA spends on subsequent scale ups in a single CA loop. Requires salvo-scale-up flag to be enabled.
scale-down-candidates-pool-min-count|int|1.28|1.36|Minimum number of nodes that are considered as additional non empty candidatesfor scale down when some candidates from previous iteration are no longer valid.When calculating the pool size for additional candidates we takemax(#nodes * scale-down-candidates-pool-ratio, scale-down-candidates-pool-min-count).
scale-down-candidates-pool-ratio|float|1.28|1.36|A ratio of nodes that are considered as additional non empty candidates forscale down when some candidates from previous iteration are no longer valid.Lower value means better CA responsiveness but possible slower scale down latency.Higher value can affect CA performance with big clusters (hundreds of nodes).Set to 1.0 to turn this heuristics off - CA will take all nodes as additional candidates.
scale-down-delay-after-add|duration|1.28|1.36|How long after scale up that scale down evaluation resumes
scale-down-delay-after-delete|duration|1.28|1.36|How long after node deletion that scale down evaluation resumes
scale-down-delay-after-failure|duration|1.28|1.36|How long after scale down failure that scale down evaluation resumes
scale-down-delay-type-local|bool|1.29|1.36|Should --scale-down-delay-after-* flags be applied locally per nodegroup or globally across all nodegroups
scale-down-enabled|bool|1.28|1.36|[Deprecated] Should CA scale down the cluster
scale-down-gpu-utilization-threshold|float|1.28|1.36|Sum of gpu requests of all pods running on the node divided by node's allocatable resource, below which a node can be considered for scale down.Utilization calculation only cares about gpu resource for accelerator node. cpu and memory utilization will be ignored.
scale-down-non-empty-candidates-count|int|1.28|1.36|Maximum number of non empty nodes considered in one iteration as candidates for scale down with drain.Lower value means better CA responsiveness but possible slower scale down latency.Higher value can affect CA performance with big clusters (hundreds of nodes).Set to non positive value to turn this heuristic off - CA will not limit the number of nodes it considers.
scale-down-simulation-timeout|duration|1.28|1.36|How long should we run scale down simulation.
scale-down-unneeded-time|duration|1.28|1.36|How long a node should be unneeded before it is eligible for scale down
scale-down-unready-enabled|bool|1.28|1.36|Should CA scale down unready nodes of the cluster
scale-down-unready-time|duration|1.28|1.36|How long an unready node should be unneeded before it is eligible for scale down
scale-down-utilization-threshold|float|1.28|1.36|The maximum value between the sum of cpu requests and sum of memory requests of all pods running on the node divided by node's corresponding allocatable resource, below which a node can be considered for scale down
scale-from-unschedulable|bool|1.35|1.36|Specifies that the CA should ignore a node's .spec.unschedulable field in node templates when considering to scale a node group.
scale-up-from-zero|bool|1.28|1.36|Should CA scale up when there are 0 ready nodes.
scaleup-simulation-for-skipped-node-groups-enabled|bool|1.36|1.36|Whether to enable the scale up simulation for skipped node groups.
scan-interval|duration|1.28|1.36|How often cluster is reevaluated for scale up or down
scheduler-config-file|text|1.28|1.36|scheduler-config allows changing configuration of in-tree scheduler plugins acting on PreFilter and Filter extension points
skip-headers|bool|1.28|1.36|Of the libraries within it: leader election, logging, feature gates.
skip-log-headers|bool|1.28|1.36|Of the libraries within it: leader election, logging, feature gates.
skip-nodes-with-custom-controller-pods|bool|1.28|1.36|If true cluster autoscaler will never delete nodes with pods owned by custom controllers
skip-nodes-with-local-storage|bool|1.28|1.36|If true cluster autoscaler will never delete nodes with pods with local storage, e.g. EmptyDir or HostPath
skip-nodes-with-system-pods|bool|1.28|1.36|If true cluster autoscaler will wait for --blocking-system-pod-distruption-timeout before deleting nodes with pods from kube-system (except for DaemonSet or mirror pods)
startup-taint|list|1.29|1.36|Specifies a taint to ignore in node templates when considering to scale a node group (Equivalent to ignore-taint)
startup-taint-prefix|list|1.36|1.36|Specifies a taint key prefix. Any taint whose key starts with this prefix will be treated as a startup taint (in addition to the built-in prefixes). Can be used multiple times.
status-config-map-name|text|1.28|1.36|Status configmap name
status-taint|list|1.29|1.36|Specifies a taint to ignore in node templates when considering to scale a node group but nodes will not be treated as unready
stderrthreshold|text|1.28|1.36|Of the libraries within it: leader election, logging, feature gates.
unremovable-node-recheck-timeout|duration|1.28|1.36|The timeout before we check again a node that couldn't be removed before
user-agent|text|1.28|1.36|User agent used for HTTP calls.
v|int|1.28|1.36|Of the libraries within it: leader election, logging, feature gates.
vmodule|text|1.28|1.36|Of the libraries within it: leader election, logging, feature gates.
write-status-configmap|bool|1.28|1.36|Should CA write status information to a configmap
"""
