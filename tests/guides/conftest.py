"""A gateway for the examples of the guides, and the examples themselves."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..gateways import Gateway

DOCS = Path(__file__).parents[2] / "docs"


class Guide:
    """The pages of docs/, with this gateway and its user in place of those that they show."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.password = gateway.password
        properties = (gateway.home / "application.properties").read_text()
        found = dict(re.findall(r"^security\.client-(id|secret)=(.*)$", properties, re.MULTILINE))
        self._known = {
            "https://files.example.com": gateway.url,
            "client-id:client-secret": f"{found['id']}:{found['secret']}",
            '"client-id", "client-secret"': f'"{found["id"]}", "{found["secret"]}"',
            "alice": "web",
            '"secret"': f'"{self.password}"',
            "=secret": f"={self.password}",
        }

    def examples(self, page: str, language: str) -> list[str]:
        pattern = rf"^```{language}\n(.*?)^```"
        found = re.findall(pattern, (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
        assert found, f"{page} has no examples in {language}"
        return [self._real(example) for example in found]

    def _real(self, example: str) -> str:
        for shown, real in self._known.items():
            example = example.replace(shown, real)
        return example


@pytest.fixture(scope="package")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path_factory.mktemp("gateway") / "home", "--workers", "1")
    gateway.start()
    yield gateway
    gateway.stop()


@pytest.fixture(scope="package")
def guide(gateway: Gateway) -> Guide:
    return Guide(gateway)


@pytest.fixture
def root(gateway: Gateway) -> Path:
    """The user's root on the gateway's disk, empty."""
    return gateway.empty_root()
