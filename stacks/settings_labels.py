"""Labels and taints of nodes in the settings, and the tags of cloud resources."""

from collections.abc import Mapping
from typing import Annotated

from hybrid_talos.autoscaler_tags import alibaba_tag_problems, azure_tag_problems
from hybrid_talos.node_template import POOL_LABEL, TEMPLATE_LABEL, TaintEffect, label_problem
from pydantic import AfterValidator

from .settings_base import Section


def _labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    problems = []
    for key, value in labels.items():
        if key == POOL_LABEL:
            problems.append(f"{key} is set by the program itself, so that every pool can be told from all others")
        elif key == TEMPLATE_LABEL:
            problems.append(f"{key} is set by the program itself, to a hash of what a pool's machines are made of")
        elif problem := label_problem(key, value):
            problems.append(f"{key}: {problem}")
    if problems:
        raise ValueError("; ".join(problems))
    return labels


def _taint_key(key: str) -> str:
    problem = label_problem(key, "")
    domain = key.rpartition("/")[0]
    if f".{domain}".endswith((".kubernetes.io", ".k8s.io")):
        problem = "must not be of the domain kubernetes.io or k8s.io, which is Kubernetes' own"
    if problem:
        raise ValueError(problem)
    return key


def _taint_value(value: str) -> str:
    problem = label_problem("value", value)
    if problem:
        raise ValueError(problem)
    return value


def _azure_tags(tags: Mapping[str, str]) -> Mapping[str, str]:
    return _or_refuse(tags, azure_tag_problems(tags))


def _aliyun_tags(tags: Mapping[str, str]) -> Mapping[str, str]:
    return _or_refuse(tags, alibaba_tag_problems(tags))


def _or_refuse(tags: Mapping[str, str], problems: list[str]) -> Mapping[str, str]:
    if problems:
        raise ValueError("; ".join(problem.removeprefix("tags: ") for problem in problems))
    return tags


Labels = Annotated[Mapping[str, str], AfterValidator(_labels)]
"""Labels that a node sets on itself when it registers."""
AzureTags = Annotated[Mapping[str, str], AfterValidator(_azure_tags)]
"""Tags that Azure accepts."""
AliyunTags = Annotated[Mapping[str, str], AfterValidator(_aliyun_tags)]
"""Tags that Alibaba Cloud accepts."""


class Taint(Section):
    """A taint that every node of a pool registers with."""

    key: Annotated[str, AfterValidator(_taint_key)]
    """Key, with a domain of your own."""
    value: Annotated[str, AfterValidator(_taint_value)] = ""
    """Value; may be empty."""
    effect: TaintEffect
    """NoSchedule, PreferNoSchedule or NoExecute."""
