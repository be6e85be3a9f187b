"""How the Cluster Autoscaler is told, in tags, what the nodes of a pool without machines would look like.

Pure functions. Each cloud has its own way; what it cannot express is refused with the reason.
"""

import re
from collections.abc import Mapping

from .node_template import NodeTemplate

# Azure: tags of the scale set

AZURE_TAG_PREFIX = "k8s.io_cluster-autoscaler_node-template_"
_AZURE_MOST_TAGS = 50
_AZURE_MOST_NAME = 512
_AZURE_MOST_VALUE = 256


def azure_tags(template: NodeTemplate, min_size: int, max_size: int, own: Mapping[str, str]) -> dict[str, str]:
    """Return the tags of a scale set: bounds and node template for the autoscaler, and the user's ``own`` tags.

    Tag names cannot hold a slash, so the autoscaler reads `_` as `/` and `~2` as `_`
    (kubernetes/autoscaler `cloudprovider/azure/azure_template.go`). ValueError when something cannot be said in tags.
    """
    keys = [taint.key for taint in template.taints]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise ValueError(
            f"taints: {', '.join(twice)} has several effects, and the Azure autoscaler's tags hold one for each key"
        )
    ours = {
        "min": str(min_size),
        "max": str(max_size),
        **{f"{AZURE_TAG_PREFIX}label_{_azure_name(key)}": value for key, value in template.all_labels.items()},
        **{
            f"{AZURE_TAG_PREFIX}taint_{_azure_name(taint.key)}": f"{taint.value}:{taint.effect}"
            for taint in template.taints
        },
    }
    tags = {**own, **ours}
    problems = azure_tag_problems(own)
    problems += [
        f"tags: {name} is read by the autoscaler, and set by the pool"
        for name in sorted(own)
        if name.lower() in ("min", "max") or name.lower().startswith("k8s.io_cluster-autoscaler_")
    ]
    lowered = [name.lower() for name in tags]
    problems += [
        f"{name}: differs from another tag only in upper and lower case, which Azure does not tell apart"
        for name in sorted(tags)
        if lowered.count(name.lower()) > 1
    ]
    if len(tags) > _AZURE_MOST_TAGS:
        problems.append(
            f"labels, taints and tags: make {len(tags)} tags of the scale set, and Azure takes {_AZURE_MOST_TAGS}"
        )
    if problems:
        raise ValueError("; ".join(problems))
    return dict(sorted(tags.items()))


def azure_tag_problems(tags: Mapping[str, str]) -> list[str]:
    """Return what Azure would refuse in ``tags`` (learn.microsoft.com, "Use tags to organize your Azure resources")."""
    problems: list[str] = []
    for name in sorted(tags):
        if not 1 <= len(name) <= _AZURE_MOST_NAME or set(name) & set("<>%&\\?/"):
            problems.append(f"tags: {name[:40]} must have 1 to {_AZURE_MOST_NAME} characters and none of <>%&\\?/")
        elif name.lower().startswith(("microsoft", "azure", "windows")):
            problems.append(f"tags: {name} begins with a word that Azure keeps for itself")
        if len(tags[name]) > _AZURE_MOST_VALUE:
            problems.append(f"tags: the value of {name[:40]} has more than {_AZURE_MOST_VALUE} characters")
    return problems


def _azure_name(key: str) -> str:
    return key.replace("_", "~2").replace("/", "_")


_DISCOVERY_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)


def discovery_problems(tags: Mapping[str, str]) -> list[str]:
    """Return why scale sets cannot be found by ``tags``, or nothing.

    The autoscaler splits its flag at colons, commas and equal signs, and takes `min` and `max` for bounds
    (kubernetes/autoscaler `cloudprovider/azure/azure_autodiscovery.go`).
    """
    found = [] if tags else ["must name at least one tag"]
    for name, value in sorted(tags.items()):
        if not _DISCOVERY_WORD.fullmatch(name) or not _DISCOVERY_WORD.fullmatch(value):
            found.append(f"{name[:40]}: name and value must hold only letters, digits, dots, hyphens and underscores")
        elif name.lower() in ("min", "max"):
            found.append(f"{name}: is the tag with a bound of the pool: use another name")
    return found


def discovery_flag(tags: Mapping[str, str]) -> str:
    """Return the definition by which the autoscaler finds scale sets that carry all of ``tags``."""
    return "label:" + ",".join(f"{name}={value}" for name, value in sorted(tags.items()))


# Alibaba Cloud: tags of the scaling configuration

_ALIBABA_MOST_TAGS = 20
_ALIBABA_MOST_KEY = 64
_ALIBABA_MOST_VALUE = 128


def alibaba_template_tags(template: NodeTemplate, min_size: int) -> dict[str, str]:
    """Return the tags of a scaling configuration: each becomes a label in the autoscaler's template, as it is.

    ValueError when something cannot be said: a label too long for a tag, or a taint of a pool that may be empty, since
    the template has no taints (kubernetes/autoscaler `cloudprovider/alicloud/alicloud_manager.go`) and pods that do not
    tolerate it would grow the pool in vain.
    """
    problems = alibaba_tag_problems(template.all_labels, "labels")
    if template.taints and min_size == 0:
        problems.append(
            "taints: a pool with min_size 0 cannot have taints on Alibaba Cloud, because the autoscaler takes an empty "
            "pool there for untainted and would grow it for pods that do not tolerate them: set min_size to at least "
            "1, or use a label and node selectors"
        )
    if problems:
        raise ValueError("; ".join(problems))
    return template.all_labels


def alibaba_tag_problems(tags: Mapping[str, str], owner: str = "tags") -> list[str]:
    """Return what Alibaba Cloud would refuse in ``tags`` (aliyun/terraform-provider-alicloud `ess_scaling_*` docs)."""
    problems: list[str] = []
    for name in sorted(tags):
        if not 1 <= len(name) <= _ALIBABA_MOST_KEY:
            problems.append(
                f"{owner}: {name[:40]} must have 1 to {_ALIBABA_MOST_KEY} characters as a tag on Alibaba Cloud"
            )
        if name.lower().startswith(("aliyun", "acs:")) or "://" in name:
            problems.append(f"{owner}: {name[:40]} begins as Alibaba Cloud's own tags do")
        value = tags[name].lower()
        if len(value) > _ALIBABA_MOST_VALUE or value.startswith(("aliyun", "acs:", "http:", "https:")):
            problems.append(
                f"{owner}: the value of {name[:40]} must have at most {_ALIBABA_MOST_VALUE} characters and not "
                "begin with aliyun, acs:, http:// or https://"
            )
    if len(tags) > _ALIBABA_MOST_TAGS:
        problems.append(f"{owner}: make {len(tags)} tags, and Alibaba Cloud takes {_ALIBABA_MOST_TAGS}")
    return problems
