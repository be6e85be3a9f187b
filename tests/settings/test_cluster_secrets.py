"""Passwords of registries and proxies: keys of their own, asked for where the settings name a user."""

import json
from collections.abc import Iterator
from typing import Any

import pulumi
import pytest
from documents import HERE, read_good

from stacks.secrets import read_secrets, secret_problems

SETTINGS = read_good(HERE / "good" / "cluster-closed-site.yaml").settings
HOST = "mirror.example.com:5000"
PASSWORD = "registry-password-MARKER"


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    pulumi.runtime.set_all_config({})


def config(**values: Any) -> pulumi.Config:
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    pulumi.runtime.set_all_config({f"hybrid-talos:{key}": text for key, text in texts.items()}, list(texts))
    return pulumi.Config("hybrid-talos")


def test_both_are_asked_for_where_a_user_is_named() -> None:
    problems = secret_problems(config(), "cluster", SETTINGS)
    assert [problem.split(":")[1] for problem in problems] == ["registryPasswords", "proxyPassword"]
    # A stack that joins a cluster configures no machine of the site.
    assert not [p for p in secret_problems(config(), "azure-burst", SETTINGS) if "registry" in p or "proxy" in p]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("no json", "must be a JSON object"),
        ([PASSWORD], "must be a JSON object"),
        ({HOST: 5}, "must be a JSON object"),
        ({"other.example.com": PASSWORD}, f"has no password for {HOST}"),
        ({HOST: " "}, f"has no password for {HOST}"),
    ],
)
def test_what_is_no_password_for_each_host_is_refused_without_any(given: Any, words: str) -> None:
    (problem,) = secret_problems(config(registryPasswords=given, proxyPassword="x"), "hybrid", SETTINGS)
    assert words in problem
    assert PASSWORD not in problem


def test_what_is_read_is_secret() -> None:
    read = config(registryPasswords={HOST: PASSWORD}, proxyPassword="proxy")
    assert secret_problems(read, "cluster", SETTINGS) == []
    secrets = read_secrets(read, "cluster", SETTINGS)
    assert list(secrets.registry_passwords) == [HOST]
    assert PASSWORD not in repr(secrets)

    async def look() -> None:
        assert await secrets.registry_passwords[HOST].is_secret()
        assert await secrets.registry_passwords[HOST].future() == PASSWORD
        assert secrets.proxy_password is not None
        assert await secrets.proxy_password.is_secret()

    pulumi.runtime.test(lambda: pulumi.Output.from_input(look()))()


@pytest.mark.parametrize("document", [None, [], {"cluster": []}, {"cluster": {"registries": [], "site": {"proxy": 5}}}])
def test_settings_that_are_no_mappings_ask_for_nothing(document: Any) -> None:
    assert secret_problems(config(), "cluster", document) == []
