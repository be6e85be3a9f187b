"""Rules about how machines of an older image or configuration give way to new ones."""

from collections.abc import Iterable, Iterator

from .settings_aliyun import AliyunPool
from .settings_azure import AzurePool
from .settings_base import part
from .settings_errors import Problem
from .settings_tree import Tree


def rules(tree: Tree) -> Iterator[Iterable[Problem]]:
    """Return the rules, each to be asked on its own."""
    if tree.azure is not None:
        for index, pool in enumerate(part(tree.azure, lambda a: a.pools) or ()):
            yield _rolling(f"azure.pools[{index}]", "azure", pool)
    if tree.aliyun is not None:
        for index, group in enumerate(part(tree.aliyun, lambda a: a.pools) or ()):
            yield _rolling(f"aliyun.pools[{index}]", "aliyun", group)


def _rolling(path: str, cloud: str, pool: AzurePool | AliyunPool) -> Iterator[Problem]:
    rolling = pool.rolling
    if rolling is None:
        return
    if rolling.max_surge + rolling.max_unavailable == 0:
        yield Problem(
            f"{path}.rolling.maxSurge",
            "is 0 and so is maxUnavailable, so no machine could ever be replaced: set one of them to 1 or more",
        )
    elif pool.min_size == pool.max_size and cloud == "aliyun":
        yield Problem(
            f"{path}.rolling",
            f"needs a maxSize above minSize: with {pool.min_size} for both, Auto Scaling neither adds a machine nor "
            "takes one away",
        )
    elif pool.min_size == pool.max_size and rolling.max_unavailable == 0:
        yield Problem(
            f"{path}.rolling.maxUnavailable",
            f"is 0, and with {pool.max_size} for both minSize and maxSize there is no room for a new machine before "
            "an old one goes: set it to 1, or raise maxSize",
        )
