"""KubernetesReady: the shell as state sees it, and its work against a TLS server on loopback."""

import base64
import pickletools
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import trustme
from hybrid_talos import kubernetes_api
from hybrid_talos.kubernetes_ready import KubernetesReadyProvider
from hybrid_talos.work_provider import WorkError
from pulumi.dynamic.dynamic import serialize_provider
from pulumi.output import Unknown

HOST = "k8s.demo.example.com"
SERVER = f"https://{HOST}:6443"
STARTING = (500, "[+]ping ok\n[-]etcd failed: reason withheld\n[-]poststarthook/rbac failed: reason withheld\n")
READY = (200, "[+]ping ok\nreadyz check passed\n")
CREDENTIALS = (401, '{"kind":"Status","code":401}')
CLOSED = (0, "")

Answer = tuple[int, str]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@contextmanager
def api(certificate: trustme.LeafCert, answers: list[Answer]) -> Iterator[tuple[str, list[str]]]:
    """Serve TLS on loopback with one answer after the other, the last of them again and again."""
    asked: list[str] = []
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.headers['Host']} {self.path}")
            status, text = left.pop(0) if len(left) > 1 else left[0]
            if status:
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Clients that refuse the certificate are what is tested."""

    server = Server(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()


def inputs(authority: trustme.CA, connect_to: str | None, server: str = SERVER) -> dict[str, Any]:
    # A number comes back from the engine as a float.
    return {
        "server": server,
        "authority": authority.cert_pem.bytes().decode(),
        "connect_to": connect_to,
        "minutes": 15.0,
    }


def wait(props: dict[str, Any]) -> list[str]:
    """Ask without a pause until it is ready; return what was shown."""
    shown: list[str] = []
    kubernetes_api.wait_until_ready(props, pause=0, send=shown.append)
    return shown


def refusal(props: dict[str, Any]) -> str:
    """Return the message of a wait that is over after its first try."""
    with pytest.raises(WorkError) as error:
        kubernetes_api.wait_until_ready(props, seconds=0, pause=0, send=lambda _: None)
    assert error.value.__suppress_context__
    return str(error.value)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# -- the shell ----------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="a later pickle protocol writes other bytes")
def test_the_state_holds_the_same_text_for_ever() -> None:
    assert (
        serialize_provider(KubernetesReadyProvider())
        == "gASVQAAAAAAAAACMHWh5YnJpZF90YWxvcy5rdWJlcm5ldGVzX3JlYWR5lIwXS3ViZXJuZXRlc1JlYWR5UHJvdmlkZXKUk5QpgZQu"
    )


def test_the_state_holds_names_and_no_code() -> None:
    pickled = base64.b64decode(serialize_provider(KubernetesReadyProvider()))
    words = [arg for _, arg, _ in pickletools.genops(pickled) if isinstance(arg, str)]
    assert words == ["hybrid_talos.kubernetes_ready", "KubernetesReadyProvider"]


def test_the_shell_imports_no_sdk_of_a_cloud() -> None:
    script = "import sys, hybrid_talos.kubernetes_ready; print(*sys.modules, sep='\\n')"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in run.stdout.split()}
    assert "hybrid_talos" in loaded
    assert not loaded & {"pulumi_azure_native", "pulumi_alicloud", "pulumi_kubernetes", "azure", "kubernetes"}


def test_unknown_inputs_of_a_preview_are_left_alone(authority: trustme.CA) -> None:
    news = dict.fromkeys(("server", "authority", "connect_to", "minutes"), Unknown())
    result = KubernetesReadyProvider().check({}, news)
    assert result.inputs is news
    assert result.failures == []
    difference = KubernetesReadyProvider().diff("id", inputs(authority, None), news)
    assert (difference.changes, difference.replaces) == (True, [])


def test_inputs_that_cannot_work_are_named(authority: trustme.CA) -> None:
    news = {**inputs(authority, "http://127.0.0.1:1"), "authority": "no certificate"}
    failures = KubernetesReadyProvider().check({}, news).failures
    assert {failure.property for failure in failures} == {"connect_to", "authority"}
    assert KubernetesReadyProvider().check({}, inputs(authority, None)).failures == []


@pytest.mark.parametrize(
    ("change", "changes"),
    [
        ({"server": "https://new.example.com:6443"}, True),
        ({"authority": "another"}, True),
        ({"connect_to": "https://127.0.0.1:2"}, False),
        ({"minutes": 3.0}, False),
        ({"__provider": "other text"}, False),
        ({}, False),
    ],
)
def test_only_another_api_is_asked_again(authority: trustme.CA, change: dict[str, Any], changes: bool) -> None:
    olds = inputs(authority, "https://127.0.0.1:1")
    difference = KubernetesReadyProvider().diff("id", olds, {**olds, **change})
    assert (difference.changes, difference.replaces) == (changes, [])


def test_an_api_that_is_down_loses_nothing_on_refresh_or_destroy(authority: trustme.CA) -> None:
    props = inputs(authority, f"https://127.0.0.1:{free_port()}")
    read = KubernetesReadyProvider().read("kubernetes-api", props)
    assert (read.id, read.outs) == ("kubernetes-api", props)
    KubernetesReadyProvider().delete("kubernetes-api", props)


@pytest.mark.parametrize("operation", ["create", "update"])
def test_create_and_update_ask_and_record_their_inputs(authority: trustme.CA, operation: str) -> None:
    with api(authority.issue_cert(HOST), [READY]) as (url, asked):
        props = inputs(authority, url)
        provider = KubernetesReadyProvider()
        if operation == "create":
            created = provider.create(props)
            assert (created.id, created.outs) == ("kubernetes-api", props)
        else:
            assert (
                provider.update("kubernetes-api", {**props, "server": "https://old.example.com"}, props).outs == props
            )
        assert [path.split()[1] for path in asked] == ["/readyz?verbose"]


# -- the waiting --------------------------------------------------------------------------------------------


def test_waits_through_failing_checks_and_closed_connections(authority: trustme.CA) -> None:
    answers = [(503, ""), STARTING, CLOSED, STARTING, READY]
    with api(authority.issue_cert(HOST), answers) as (url, asked):
        shown = wait(inputs(authority, url))
        assert len(asked) == 5
    assert [line.split(" s: ", 1)[1] for line in shown] == [
        "HTTP 503, without the names of checks",
        "HTTP 500, checks that fail: etcd, poststarthook/rbac",
        f"{url.removeprefix('https://')} closes the connection or does not answer the request",
        "HTTP 500, checks that fail: etcd, poststarthook/rbac",
    ]
    assert all(line.startswith(f"waiting for {SERVER}, ") for line in shown)


def test_waits_for_a_server_that_starts_later(authority: trustme.CA) -> None:
    """Nothing listens at first; the server starts once the wait has said so."""
    port, started = free_port(), threading.Event()
    stack: list[Any] = []

    def start(line: str) -> None:
        assert "refuses the connection" in line
        if not started.is_set():
            started.set()
            server = ThreadingHTTPServer(("127.0.0.1", port), _Ok)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            authority.issue_cert(HOST).configure_cert(context)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            stack.append(server)

    try:
        kubernetes_api.wait_until_ready(inputs(authority, f"https://127.0.0.1:{port}"), pause=0, send=start)
        assert started.is_set()
    finally:
        for server in stack:
            server.shutdown()
            server.server_close()


class _Ok(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_an_api_that_wants_credentials_is_ready_when_it_says_so_three_times_in_a_row(authority: trustme.CA) -> None:
    """As Talos sets it up: kube-apiserver runs with --anonymous-auth=false."""
    answers = [CREDENTIALS, CREDENTIALS, STARTING, CREDENTIALS, CLOSED, CREDENTIALS]
    with api(authority.issue_cert(HOST), answers) as (url, asked):
        wait(inputs(authority, url))
        assert len(asked) == 8
    with api(authority.issue_cert(HOST), [CREDENTIALS]) as (url, _):
        assert "HTTP 401, it takes requests with credentials (1 of 3" in refusal(inputs(authority, url))


def test_an_answer_that_stays_the_same_is_not_shown_each_time(authority: trustme.CA) -> None:
    with api(authority.issue_cert(HOST), [*[STARTING] * 31, READY]) as (url, _):
        assert len(wait(inputs(authority, url))) == 3


def test_an_address_as_endpoint_needs_it_in_the_certificate(authority: trustme.CA) -> None:
    with api(authority.issue_cert("192.0.2.100"), [READY]) as (url, _):
        wait(inputs(authority, url, "https://192.0.2.100:6443"))
        assert "not valid for the host 192.0.2.101" in refusal(inputs(authority, url, "https://192.0.2.101:6443"))


# -- the limit ----------------------------------------------------------------------------------------------


def test_the_limit_says_which_checks_fail_and_what_to_do(authority: trustme.CA) -> None:
    with api(authority.issue_cert(HOST), [STARTING]) as (url, _):
        text = refusal(inputs(authority, url))
    assert f"the Kubernetes API at {SERVER} (asked at {url}) was not ready within 15 minutes" in text
    assert "checks that fail: etcd, poststarthook/rbac" in text
    assert "talosctl service" in text
    assert "pulumi up" in text


def test_the_limit_ends_with_the_last_answer_and_not_the_first(authority: trustme.CA) -> None:
    ticks = iter([(503, ""), STARTING])
    seen: list[str] = []

    def ask(self: Any) -> None:
        status, _ = next(ticks)
        seen.append(str(status))
        raise kubernetes_api.NotReady(f"HTTP {status}", "wait")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kubernetes_api._Api, "ask", ask)  # noqa: SLF001
        patch.setattr(kubernetes_api, "stop_after_delay", lambda _: lambda state: state.attempt_number == 2)
        text = refusal(inputs(authority, None))
    assert seen == ["503", "500"]
    assert "its last answer: HTTP 500" in text


def test_nothing_listens(authority: trustme.CA) -> None:
    text = refusal(inputs(authority, f"https://127.0.0.1:{free_port()}"))
    assert "refuses the connection: nothing listens there" in text
    assert "load balancer" in text


def test_a_certificate_for_another_host(authority: trustme.CA) -> None:
    with api(authority.issue_cert("other.example.com"), [READY]) as (url, asked):
        text = refusal(inputs(authority, url))
        assert asked == []
    assert f"the certificate is not valid for the host {HOST}" in text
    assert "cert_sans" in text


def test_the_address_that_is_connected_to_is_not_what_the_certificate_must_be_for(authority: trustme.CA) -> None:
    with api(authority.issue_cert("127.0.0.1"), [READY]) as (url, _):
        assert f"not valid for the host {HOST}" in refusal(inputs(authority, url))


def test_a_certificate_of_another_authority(authority: trustme.CA) -> None:
    with api(trustme.CA().issue_cert(HOST), [READY]) as (url, asked):
        text = refusal(inputs(authority, url))
        assert asked == []
    assert "the certificate is not of this cluster's authority" in text


def test_public_authorities_are_not_trusted(
    authority: trustme.CA, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """What the variables name that other clients take their authorities from does not count here."""
    other = trustme.CA()
    other.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    for variable in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.setenv(variable, str(tmp_path / "ca.pem"))
    with api(other.issue_cert(HOST), [READY]) as (url, _):
        assert "not of this cluster's authority" in refusal(inputs(authority, url))


def test_a_name_that_is_not_resolved(authority: trustme.CA) -> None:
    text = refusal(inputs(authority, None, "https://k8s.invalid:6443"))
    assert "the name k8s.invalid is not resolved" in text
    assert "make a record for k8s.invalid" in text


def test_a_proxy_that_is_not_there_is_named_and_loopback_needs_none(
    authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert "put k8s.demo.example.com into NO_PROXY" in refusal(inputs(authority, None))
    with api(authority.issue_cert(HOST), [READY]) as (url, _):
        wait(inputs(authority, url))


def test_what_speaks_no_tls_is_told_apart(authority: trustme.CA) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            client, _ = server.accept()
            client.recv(1)
            client.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
            client.close()

        threading.Thread(target=answer, daemon=True).start()
        text = refusal(inputs(authority, f"https://127.0.0.1:{server.getsockname()[1]}"))
    assert "does not complete the TLS handshake" in text
