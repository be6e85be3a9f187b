"""The look at the endpoint's name: what is waited for, what is refused, and who is asked."""

import socket
import threading
from collections.abc import Iterator
from typing import Any

import dnslib
import pytest
from hybrid_talos import endpoint_check
from hybrid_talos.endpoint_check import check, diff, look, resolve
from hybrid_talos.work_provider import WorkError

HOST = "k8s.demo.example.com"
MEMBERS = [
    {"name": "cp-1", "addresses": ["192.0.2.11", "203.0.113.11"]},
    {"name": "cp-2", "addresses": ["192.0.2.12"]},
    {"name": "cp-3", "addresses": ["192.0.2.13"]},
]


def props(**changes: Any) -> dict[str, Any]:
    return {"host": HOST, "kind": "dns", "members": MEMBERS, "nameserver": None, "record": None, "minutes": 1} | changes


class Names:
    """A name whose addresses change from look to look, and a clock that only sleep moves."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.now = 0.0
        self.said: list[str] = []
        self.warned: list[str] = []

    def resolve(self, host: str, nameserver: str | None) -> list[str]:
        assert host == HOST
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def look(self, **changes: Any) -> None:
        look(
            props(**changes),
            resolve=self.resolve,
            clock=lambda: self.now,
            sleep=self.sleep,
            say=self.said.append,
            warn=self.warned.append,
        )


ALL = ["192.0.2.11", "192.0.2.12", "192.0.2.13"]


@pytest.mark.parametrize("found", [ALL, ["203.0.113.11", "192.0.2.12", "192.0.2.13"]])
def test_a_name_with_each_member_by_any_of_its_addresses_is_right(found: list[str]) -> None:
    names = Names(found)
    names.look()
    assert names.now == 0
    assert not names.warned


def test_a_member_that_the_record_lacks_is_no_reason_to_stop_but_is_told() -> None:
    names = Names(["192.0.2.11"])
    names.look()
    assert names.warned == [f"{HOST} has no address of cp-2, cp-3: without the others, the cluster is not reached"]


def test_an_address_of_nobody_is_refused_with_the_record_that_it_should_be() -> None:
    names = Names([*ALL, "192.0.2.99"])
    with pytest.raises(WorkError) as refusal:
        names.look()
    assert "resolves to 192.0.2.99, no address of a control plane" in str(refusal.value)
    assert f"{HOST} A 192.0.2.11, {HOST} A 192.0.2.12" in str(refusal.value)
    assert "checkDns" in str(refusal.value)
    assert names.now >= 60


def test_a_name_that_does_not_resolve_says_which_records_to_make() -> None:
    with pytest.raises(WorkError, match=f"does not resolve from here: make these records: {HOST} A 192.0.2.11"):
        Names([]).look()
    with pytest.raises(WorkError, match="at the name server 192.0.2.53: make a record for the load balancer"):
        Names([]).look(kind="loadBalancer", nameserver="192.0.2.53")


def test_a_name_that_comes_late_is_waited_for() -> None:
    names = Names([], [], ALL)
    names.look()
    assert names.now == 2 * endpoint_check.PAUSE
    assert "does not resolve" in names.said[0]


def test_a_record_of_the_programs_own_is_waited_for_until_it_has_everybody() -> None:
    names = Names(["192.0.2.11", "192.0.2.99"], ["192.0.2.11"], ALL)
    names.look(record="/subscriptions/x")
    assert names.now == 2 * endpoint_check.PAUSE
    assert not names.warned


def test_any_address_will_do_for_a_load_balancer() -> None:
    names = Names(["198.51.100.7"])
    names.look(kind="loadBalancer")
    assert not names.warned


def test_only_what_the_name_should_say_is_a_change() -> None:
    assert not diff(props(), props(minutes=9, nameserver="192.0.2.1")).changes
    for key, value in (("host", "b"), ("kind", "loadBalancer"), ("members", MEMBERS[:1]), ("record", "x")):
        assert diff(props(), props(**{key: value})).changes


@pytest.mark.parametrize("server", ["ns.example.com", "192.0.2.1:", "192.0.2.1:x", "192.0.2.1:0", "192.0.2.1:70000"])
def test_what_is_no_name_server_is_refused(server: str) -> None:
    assert "must be the IPv4 address" in check(props(nameserver=server))["nameserver"]
    assert not check(props(nameserver="192.0.2.1:53"))


@pytest.fixture
def server() -> Iterator[str]:
    """Run a name server on loopback that knows one name, and has no answer for another."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as port:
        port.bind(("127.0.0.1", 0))
        port.settimeout(30)

        def serve() -> None:
            while True:
                try:
                    data, client = port.recvfrom(4096)
                except OSError:
                    return
                request = dnslib.DNSRecord.parse(data)
                reply = request.reply()
                if str(request.q.qname) == f"{HOST}.":
                    reply.add_answer(dnslib.RR(HOST, dnslib.QTYPE.CNAME, rdata=dnslib.CNAME("lb.example.net"), ttl=1))
                    for address in ("192.0.2.12", "192.0.2.11"):
                        reply.add_answer(dnslib.RR("lb.example.net", dnslib.QTYPE.A, rdata=dnslib.A(address), ttl=1))
                else:
                    reply.header.rcode = dnslib.RCODE.NXDOMAIN
                port.sendto(reply.pack(), client)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{port.getsockname()[1]}"


def test_a_name_server_is_asked_and_aliases_are_followed(server: str) -> None:
    assert resolve(HOST, server) == ["192.0.2.11", "192.0.2.12"]
    assert resolve("other.example.com", server) == []


def test_this_machines_own_resolver_is_asked_otherwise() -> None:
    assert resolve("localhost", None) == ["127.0.0.1"]
    assert resolve("no-such-name.invalid", None) == []
