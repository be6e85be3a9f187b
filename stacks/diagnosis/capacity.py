"""Findings about room to grow: bounds, quota, stock, and whether the cloud would change the group at all."""

from .facts import Group, Pool
from .finding import Finding, Level, few


def capacity_findings(pool: Pool, group: Group) -> list[Finding]:
    """Return what keeps a group from growing to its largest size."""
    found: list[Finding] = []

    def say(level: Level, topic: str, what: str, why: str = "", do: str = "") -> None:
        found.append(Finding(level, topic, what, why, do, pool.name))

    if group.trouble:
        say(
            Level.STOPS,
            "group",
            group.trouble,
            "the cloud refuses to change the group's size",
            "wait, or look at the group in the cloud's console",
        )
    for key, mine, theirs in (("minSize", pool.least, group.least), ("maxSize", pool.most, group.most)):
        if theirs is not None and mine != theirs:
            say(
                Level.STOPS if key == "maxSize" and theirs < mine else Level.HINDERS,
                "bounds",
                f"the group's own {key} is {theirs}, and the pool's is {mine}",
                "the cloud or the autoscaler goes by the group's own",
                "`pulumi up --refresh`",
            )
    if pool.fixed:
        fine = group.size == pool.most
        what = f"{group.size} machines, as many as it always has" if fine else f"{group.size} of {pool.most} machines"
        say(
            Level.FINE if fine else Level.HINDERS,
            "size",
            what,
            *(() if fine else ("gateways do not scale, and nobody else makes them", "`pulumi up --refresh`")),
        )
    elif group.size == pool.least == pool.most:
        say(Level.FINE, "size", f"{group.size} machines, as many as it always has")
    elif group.size >= pool.most:
        say(
            Level.STOPS,
            "size",
            f"{group.size} machines, and maxSize is {pool.most}",
            "the autoscaler makes no more",
            "raise maxSize, if pods wait for the pool",
        )
    elif group.size < pool.least:
        say(
            Level.HINDERS,
            "size",
            f"{group.size} machines, and minSize is {pool.least}",
            "the autoscaler grows it by itself, unless enforcing the minimum is switched off",
            "look for a finding that stops it",
        )
    else:
        at = ", its smallest size" if group.size == pool.least else ""
        say(Level.FINE, "size", f"{group.size} machines{at}; {pool.most - group.size} more may come")
    found += _quota(pool, group)
    found += _stock(pool, group)
    for note in group.notes:
        say(Level.UNKNOWN, "group", note, "it may stop the pool", "give this identity the right to read it")
    return found


def _stock(pool: Pool, group: Group) -> list[Finding]:
    found: list[Finding] = []

    def say(level: Level, topic: str, what: str, why: str = "", do: str = "") -> None:
        found.append(Finding(level, topic, what, why, do, pool.name))

    out = sorted(place for place, state in group.stock.items() if state == "sold out")
    low = sorted(place for place, state in group.stock.items() if state == "low")
    if out:
        all_out = len(out) == len(group.stock)
        say(
            Level.STOPS if all_out else Level.HINDERS,
            "stock",
            f"sold out: {few(out)}",
            "no machine can be bought anywhere" if all_out else "machines come from the other zones and types alone",
            "add a zone or an instance type of the same size",
        )
    if low:
        say(
            Level.HINDERS,
            "stock",
            f"stock is low: {few(low)}",
            "some machines may not come",
            "add a zone or an instance type of the same size",
        )
    if group.stock and not out and not low:
        say(Level.FINE, "stock", "every type is in stock in every zone")
    return found


def _quota(pool: Pool, group: Group) -> list[Finding]:
    found: list[Finding] = []
    more = max(pool.most - group.size, 0)
    for quota in group.quotas:
        room = max(quota.limit - quota.used, 0)
        if not quota.each or room >= more * quota.each:
            continue
        none = room < quota.each
        found.append(
            Finding(
                Level.STOPS if none else Level.HINDERS,
                "quota",
                f"{quota.what}: {quota.used} of {quota.limit} used, and {more} more machines need {more * quota.each}",
                "not one more machine fits" if none else f"{room // quota.each} more machines fit, not {more}",
                "ask the cloud for more quota, or lower maxSize",
                pool.name,
            )
        )
    if group.quotas and not found:
        found.append(Finding(Level.FINE, "quota", "the quota is enough for maxSize", pool=pool.name))
    return found
