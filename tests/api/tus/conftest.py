import pytest

from ..gateways import Gateway
from .client import Tus


@pytest.fixture
def tus(gateway: Gateway) -> Tus:
    return Tus(gateway)
