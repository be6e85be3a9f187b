"""What can be done to any of the lab's clouds behind Pulumi's back."""

from collections.abc import Callable

from .world import CloudError, World

Action = Callable[[World, list[str]], str]


def delete_from(package: str) -> Action:
    """Return an action that deletes one thing of a cloud, as a person does in its portal."""

    def delete(world: World, words: list[str]) -> str:
        if len(words) != 1:
            raise CloudError("Usage", "delete ID (`python -m lab cloud ls` shows them)")
        found = [record for record in world.find(package) if words[0] in (record.id, record.id.rpartition("/")[2])]
        if len(found) != 1:
            raise CloudError("NotFound", f"{len(found)} things are called {words[0]}; give the whole id of one")
        world.remove(package, found[0].kind, found[0].id)
        world.event(package, "delete", found[0].kind, found[0].id)
        return f"{found[0].kind} {found[0].id} was deleted"

    return delete
