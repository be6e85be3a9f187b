"""A simulated provider: the provider protocol on one side, rules and the world on the other.

The engine attaches to it as it would to a provider started for debugging, so everything above this line is the real
thing. One server answers for every instance of its package in a program; they are told apart by their connection.
"""

import json
import traceback
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, ClassVar, NoReturn

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from . import sdk_schema, wire
from .sdk_schema import UNKNOWN, Problem
from .wire import Secret
from .world import CloudError, LostAnswer, World

_DISTRIBUTIONS = {
    "azure-native": "pulumi-azure-native",
    "alicloud": "pulumi-alicloud",
    "kubernetes": "pulumi-kubernetes",
    "talos": "pulumiverse-talos",
}


@dataclass
class Call:
    """One call of the engine: where it happens and with which provider settings."""

    world: World
    config: Mapping[str, Any]
    urn: str = ""
    preview: bool = False

    @property
    def name(self) -> str:
        """The resource's name in the program."""
        return self.urn.rsplit("::", 1)[-1]


class Kind:
    """The rules of one resource type. Subclasses say what the real provider and its cloud do.

    Inputs and outputs are camelCase dictionaries without secret marks. In a preview an input may be ``UNKNOWN``.
    """

    token: ClassVar[str]
    """The type token, such as ``azure-native:compute:VirtualMachineScaleSet``."""
    replace_on: ClassVar[frozenset[str]] = frozenset()
    """Inputs whose change makes the provider replace the resource: names, or dotted paths without list indexes."""
    secret_outputs: ClassVar[frozenset[str]] = frozenset()
    """Outputs that the real provider itself marks as secret."""
    delete_before_replace: ClassVar[bool] = False
    """True where the old thing must go first, because two cannot exist at once under one name."""

    def comparable(self, call: Call, inputs: dict[str, Any]) -> dict[str, Any]:
        """Return inputs in the form in which the provider compares them; spellings that mean the same become equal."""
        return inputs

    def prior(self, call: Call, inputs: dict[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
        """Return what new inputs are compared with: the last inputs, and what else of the state the provider compares.

        Bridged providers compare with all of the state: a value there that the program never gave is planned away,
        unless the cloud fills it in or the program ignores its changes.
        """
        return inputs

    def replaces(self, call: Call, old: dict[str, Any], new: dict[str, Any], changed: Iterable[str]) -> list[str]:
        """Return those of the ``changed`` paths for which the provider replaces the resource."""
        return [path for path in changed if within(path, self.replace_on)]

    def goes_first(self, call: Call, old: dict[str, Any], new: dict[str, Any]) -> bool:
        """Say whether a resource that is replaced must be gone before the new one is made."""
        return self.delete_before_replace

    def marked(self, outputs: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return outputs with the provider's own secret marks.

        ``inputs`` carry the program's marks when the package keeps secrets; otherwise the engine itself marks
        outputs that are named like secret inputs.
        """
        return {
            key: Secret(value) if key in self.secret_outputs and value is not None else value
            for key, value in outputs.items()
        }

    def defaults(self, call: Call, inputs: dict[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
        """Return inputs that the provider fills in, such as generated names; ``old`` holds the last inputs."""
        return {}

    def check(self, call: Call, inputs: dict[str, Any]) -> Iterable[Problem]:
        """Return what the provider refuses before the cloud is asked; this also happens in a preview."""
        return ()

    def preview(self, call: Call, inputs: dict[str, Any], outputs: frozenset[str]) -> dict[str, Any]:
        """Return the outputs that the provider knows in a preview: the inputs; all else is unknown."""
        return {name: UNKNOWN for name in outputs} | inputs

    def preview_update(self, call: Call, state: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
        """Return the outputs that the provider knows before an update."""
        return state | self.preview(call, inputs, frozenset())

    def create(self, call: Call, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Make the thing in the world; return its id and all its outputs. Raise CloudError to refuse."""
        raise NotImplementedError

    def read(self, call: Call, id: str, state: dict[str, Any]) -> dict[str, Any] | None:
        """Return the thing's outputs as they are now, or None when it is gone."""
        raise NotImplementedError

    def imported(self, call: Call, id: str) -> tuple[str, dict[str, Any] | None]:
        """Return the id and outputs of a thing that a program imports by ``id``, the outputs None when there is none.

        Some providers import by something else than the id, such as a path.
        """
        return id, self.read(call, id, {})

    def imported_inputs(self, call: Call, id: str, outputs: dict[str, Any]) -> dict[str, Any]:
        """Return the inputs of a thing that is imported: the outputs that are inputs too."""
        schema = sdk_schema.resource(self.token)
        known = schema.inputs if schema else {}
        return {key: value for key, value in outputs.items() if key in known}

    def update(self, call: Call, id: str, state: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
        """Change the thing in place; return all its outputs."""
        raise NotImplementedError

    def delete(self, call: Call, id: str, state: dict[str, Any]) -> None:
        """Remove the thing. One that is gone already is no error."""
        raise NotImplementedError


Function = Callable[[Call, dict[str, Any]], dict[str, Any]]
"""An invoke: from arguments to results, or CloudError."""


@dataclass(frozen=True)
class Package:
    """What a simulated provider serves: its types, its functions and its own settings."""

    name: str
    kinds: Mapping[str, Kind]
    functions: Mapping[str, Function] = field(default_factory=dict)
    fallback: Kind | None = None
    """Rules for types that have none of their own (Kubernetes custom resources)."""
    check_config: Callable[[dict[str, Any]], Iterable[Problem]] = lambda config: ()
    configure: Callable[[World, dict[str, Any]], None] = lambda world, config: None
    replace_config: frozenset[str] = frozenset()
    """Provider settings whose change replaces everything made through the provider."""
    diff_config: Callable[[Mapping[str, Any], Mapping[str, Any]], Iterable[str]] | None = None
    """In place of ``replace_config``: from old and new settings to those that replace everything."""
    keeps_secrets: bool = False
    """True where the real provider takes secrets with their marks and puts marks on outputs itself. From all others the
    engine hides the marks, and marks every output that is named like a secret input."""


class SimulatedProvider(provider_pb2_grpc.ResourceProviderServicer):
    """The provider protocol over a Package and a World."""

    def __init__(self, package: Package, world: World) -> None:
        self.package = package
        self.world = world
        self.configs: dict[str, dict[str, Any]] = {}

    # -- the provider itself ----------------------------------------------------------------------------------

    def Attach(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: D102
        return empty_pb2.Empty()

    def Cancel(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: D102
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: D102
        return plugin_pb2.PluginInfo(version=metadata.version(_DISTRIBUTIONS[self.package.name]))

    def CheckConfig(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: D102
        config = _config(wire.plain(wire.decode(request.news)))
        failures = [
            provider_pb2.CheckFailure(property=p.path, reason=p.reason) for p in self.package.check_config(config)
        ]
        return provider_pb2.CheckResponse(inputs=request.news, failures=failures)

    def DiffConfig(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: D102
        old = _config(wire.plain(wire.decode(request.old_inputs or request.olds)))
        new = _config(wire.plain(wire.decode(request.news)))
        changed = sorted(wire.changed_paths(old, new))
        if self.package.diff_config:
            replaces = list(self.package.diff_config(old, new)) if changed else []
        else:
            replaces = [path for path in changed if path.split(".")[0] in self.package.replace_config]
        changes = provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(changes=changes, diffs=changed, replaces=replaces)

    def Configure(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: D102
        config = _config(wire.plain(wire.decode(request.args)))
        self.configs[context.peer()] = config
        try:
            self.package.configure(self.world, config)
        except CloudError as error:
            _refuse(context, grpc.StatusCode.UNKNOWN, str(error))
        return provider_pb2.ConfigureResponse(
            acceptSecrets=self.package.keeps_secrets, acceptResources=False, acceptOutputs=False, supportsPreview=True
        )

    # -- resources --------------------------------------------------------------------------------------------

    def Check(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: D102
        token = _token(request.urn)
        marked = wire.decode(request.news)
        kind = self._kind(token, context)
        call = self._call(context, request.urn, preview=True)

        def work() -> tuple[dict[str, Any], list[Problem]]:
            filled = wire.fill(marked, kind.defaults(call, wire.plain(marked), wire.plain(wire.decode(request.olds))))
            inputs = wire.plain(filled)
            schema = sdk_schema.resource(token)
            found = list(sdk_schema.problems(schema, inputs)) if schema else []
            return filled, found or list(kind.check(call, inputs))

        checked, found = self._guard(context, None, token, work)
        failures = [provider_pb2.CheckFailure(property=p.path, reason=p.reason) for p in found]
        return provider_pb2.CheckResponse(inputs=wire.encode(checked), failures=failures)

    def Diff(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: D102
        token = _token(request.urn)
        kind = self._kind(token, context)
        return self._guard(context, None, token, lambda: self._diff(request, context, kind))

    def _diff(self, request: Any, context: grpc.ServicerContext, kind: Kind) -> Any:
        call = self._call(context, request.urn, preview=True)
        state = wire.plain(wire.decode(request.olds))
        old = kind.comparable(call, kind.prior(call, wire.plain(wire.decode(request.old_inputs)), state))
        new = kind.comparable(call, wire.plain(wire.decode(request.news)))
        changed = wire.changed_paths(old, new)
        ignored = tuple(request.ignoreChanges)
        changed = {path: how for path, how in changed.items() if not within(path, ignored)}
        replaces = kind.replaces(call, old, new, changed)
        detailed = {}
        for path, how in changed.items():
            name = f"{how}_replace" if path in replaces else how
            detailed[path] = provider_pb2.PropertyDiff(
                kind=provider_pb2.PropertyDiff.Kind.Value(name.upper()), inputDiff=True
            )
        changes = provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(
            changes=changes,
            replaces=replaces,
            diffs=sorted({path.split(".")[0].split("[")[0] for path in changed}),
            detailedDiff=detailed,
            hasDetailedDiff=True,
            deleteBeforeReplace=bool(replaces) and kind.goes_first(call, old, new),
        )

    def Create(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: D102
        token = _token(request.urn)
        kind = self._kind(token, context)
        call = self._call(context, request.urn, preview=request.preview)
        given = wire.decode(request.properties)
        inputs = wire.plain(given)
        if request.preview:
            outputs = self._guard(context, None, token, lambda: kind.preview(call, inputs, self._outputs(token)))
            return provider_pb2.CreateResponse(id="", properties=wire.encode(kind.marked(outputs, given)))

        def work() -> tuple[str, dict[str, Any]]:
            id, outputs = kind.create(call, inputs)
            self.world.event(self.package.name, "create", token, id, call.name)
            return id, outputs

        id, outputs = self._guard(context, "create", token, work)
        return provider_pb2.CreateResponse(id=id, properties=wire.encode(kind.marked(outputs, given)))

    def Read(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: D102
        token = _token(request.urn)
        kind = self._kind(token, context)
        call = self._call(context, request.urn)
        before = wire.plain(wire.decode(request.properties))
        inputs = wire.decode(request.inputs)

        def work() -> tuple[str, dict[str, Any] | None]:
            # An import: nothing is known but the id.
            if not before and not inputs:
                return kind.imported(call, request.id)
            return request.id, kind.read(call, request.id, before)

        id, outputs = self._guard(context, "read", token, work)
        if outputs is None:
            return provider_pb2.ReadResponse(id="")
        if not request.inputs.fields:
            inputs = kind.imported_inputs(call, id, outputs)
        return provider_pb2.ReadResponse(
            id=id,
            properties=wire.encode(kind.marked(outputs, inputs)),
            inputs=wire.encode(wire.overlay(inputs, before, outputs)),
        )

    def Update(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: D102
        token = _token(request.urn)
        kind = self._kind(token, context)
        call = self._call(context, request.urn, preview=request.preview)
        state = wire.plain(wire.decode(request.olds))
        given = wire.decode(request.news)
        inputs = wire.plain(given)
        if request.preview:
            outputs = self._guard(context, None, token, lambda: kind.preview_update(call, state, inputs))
            return provider_pb2.UpdateResponse(properties=wire.encode(kind.marked(outputs, given)))

        def work() -> dict[str, Any]:
            outputs = kind.update(call, request.id, state, inputs)
            self.world.event(self.package.name, "update", token, request.id, call.name)
            return outputs

        outputs = self._guard(context, "update", token, work)
        return provider_pb2.UpdateResponse(properties=wire.encode(kind.marked(outputs, given)))

    def Delete(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: D102
        token = _token(request.urn)
        kind = self._kind(token, context)
        call = self._call(context, request.urn)
        state = wire.plain(wire.decode(request.properties))

        def work() -> None:
            kind.delete(call, request.id, state)
            self.world.event(self.package.name, "delete", token, request.id, call.name)

        self._guard(context, "delete", token, work)
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: D102
        function = self.package.functions.get(request.tok)
        if function is None:
            _refuse(context, grpc.StatusCode.UNIMPLEMENTED, f"the lab does not simulate the function {request.tok}")
        call = self._call(context)
        arguments = wire.plain(wire.decode(request.args))
        result = self._guard(context, "invoke", request.tok, lambda: function(call, arguments))
        return provider_pb2.InvokeResponse(**{"return": wire.encode(result)})

    # -- helpers ----------------------------------------------------------------------------------------------

    def _kind(self, token: str, context: grpc.ServicerContext) -> Kind:
        kind = self.package.kinds.get(token) or self.package.fallback
        if kind is None:
            _refuse(context, grpc.StatusCode.UNIMPLEMENTED, f"the lab does not simulate {token}")
        return kind

    def _call(self, context: grpc.ServicerContext, urn: str = "", preview: bool = False) -> Call:
        return Call(self.world, self.configs.get(context.peer(), {}), urn, preview)

    def _outputs(self, token: str) -> frozenset[str]:
        schema = sdk_schema.resource(token)
        return schema.outputs if schema else frozenset()

    def _guard(self, context: grpc.ServicerContext, op: str | None, token: str, work: Callable[[], Any]) -> Any:
        try:
            lost = op is not None and self.world.strike(op, token)
            result = work()
            if lost:
                raise LostAnswer
        except CloudError as error:
            _refuse(context, grpc.StatusCode.UNKNOWN, str(error))
        except LostAnswer:
            _refuse(context, grpc.StatusCode.UNAVAILABLE, "the connection broke before the answer came")
        except Exception as error:  # a fault of the lab itself: say where, never the inputs
            where = traceback.extract_tb(error.__traceback__)[-1]
            _refuse(
                context,
                grpc.StatusCode.INTERNAL,
                f"the lab's simulation of {token} failed: {type(error).__name__} in {where.name}, line {where.lineno}",
            )
        else:
            return result


def _refuse(context: grpc.ServicerContext, code: Any, message: str) -> NoReturn:
    context.abort(code, message)
    raise AssertionError("abort returns never")


def _token(urn: str) -> str:
    return urn.split("::")[2].rsplit("$", 1)[-1]


def _config(values: dict[str, Any]) -> dict[str, Any]:
    """Return provider settings as values: the engine hands over anything but text as JSON in a string."""
    result = {}
    for key, value in values.items():
        if isinstance(value, str) and value[:1] in ("{", "["):
            try:
                result[key] = json.loads(value)
                continue
            except ValueError:
                pass
        result[key] = value
    return result


def within(path: str, roots: Iterable[str]) -> bool:
    """Say whether a path lies in or under one of ``roots``; list indexes may be left out of a root."""
    bare = "".join(part.split("]")[-1] if "]" in part else part for part in path.split("["))
    return any(
        candidate == root or candidate.startswith((f"{root}.", f"{root}["))
        for root in roots
        for candidate in (path, bare)
    )


def serve(packages: Iterable[Package], world: World) -> tuple[dict[str, int], Callable[[], None]]:
    """Serve each package on a loopback port; return the ports by package name, and how to stop."""
    servers, ports = [], {}
    limit = [("grpc.max_receive_message_length", 400 << 20), ("grpc.max_send_message_length", 400 << 20)]
    for package in packages:
        server = grpc.server(ThreadPoolExecutor(max_workers=32, thread_name_prefix=package.name), options=limit)
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(SimulatedProvider(package, world), server)
        ports[package.name] = server.add_insecure_port("127.0.0.1:0")
        server.start()
        servers.append(server)

    def stop() -> None:
        for stopped in [server.stop(grace=1) for server in servers]:
            stopped.wait()

    return ports, stop
